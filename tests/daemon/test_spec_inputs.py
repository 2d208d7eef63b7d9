"""Inputs beyond one repo: union, params, reference."""

import json

from conftest import sh


def total(run, stage="s"):
    """What was to do, and what was done, of a stage's job."""
    datums = run["job"][stage]["datums"]
    return datums["total"], datums["reused"], datums["done"]


def test_a_union_gives_the_datums_of_each_of_its_inputs(project):
    project.repo("a", "b").stages(
        {"name": "s", "input": {"union": [{"repo": "a", "name": "x", "glob": "/*"}, {"repo": "b", "name": "x", "glob": "/*"}]},
         "output": {"prefix": "${x.stem}/"}, "run": ["sh", "-ec", 'cp "$PL_INPUT_X" "$PL_OUT/f"; test ! -e "$PL_OUT/../x/none"']})
    assert total(project.run("a", {"one": "1"})) == (1, 0, 1)  # nothing is in b yet
    assert total(project.run("b", {"two": "2", "three": "3"})) == (3, 1, 2)
    assert project.contents("s") == {"one/f": b"1", "two/f": b"2", "three/f": b"3"}
    project.run("b", {}, ["two"])
    assert project.contents("s") == {"one/f": b"1", "three/f": b"3"}


def test_a_datum_of_a_union_has_no_input_of_the_other_branch(project):
    project.repo("a", "b").commit("a", {"f": "1"})
    project.stages({"name": "s", "input": {"union": [{"repo": "a"}, {"cross": [{"repo": "b"}, {"params": {"k": [1]}}]}]}, "output": {"prefix": "${datum}/"},
                    "run": ["sh", "-ec", 'ls "$PL_OUT/.." >"$PL_OUT/list"; env | grep -c "^PL_INPUT_A=\\|^PL_INPUT_B=" >"$PL_OUT/n"; echo "${PL_PARAM_K-none}" >"$PL_OUT/k"']})
    project.run("b", {"f": "2"})
    got = project.contents("s")
    assert sorted(v for k, v in got.items() if k.endswith("/list")) == [b"a\nout\n", b"b\nout\nparams\n"]
    assert sorted(v for k, v in got.items() if k.endswith("/k")) == [b"1\n", b"none\n"]
    assert {v for k, v in got.items() if k.endswith("/n")} == {b"1\n"}


def test_each_combination_of_params_is_a_datum(project):
    def stages(lr):
        return {"name": "s", "input": {"cross": [{"repo": "in"}, {"params": {"lr": lr, "name": ["x y"]}}]}, "env": {"TAG": "t-${params.lr}-${HOME}"},
                "output": {"prefix": "lr=${params.lr}/"},
                "run": ["sh", "-ec", 'cp "$params" "$PL_OUT/p"; echo "$1|$PL_PARAM_LR|$PL_PARAM_NAME|$TAG" >"$PL_OUT/seen"', "sh", "--lr=${params.lr} ${params.name} ${HOME}"]}

    project.repo("in").stages(stages([0.1, 0.03]))
    run = project.run("in", {"f": "1"})
    assert total(run) == (2, 0, 2)
    assert json.loads(project.read("s", "lr=0.03/p")) == {"lr": 0.03, "name": "x y"}
    assert project.read("s", "lr=0.1/seen") == b"--lr=0.1 x y ${HOME}|0.1|x y|t-0.1-${HOME}\n"
    assert [i["name"] for i in run["job"]["s"]["inputs"]] == ["in", "params"]
    new = project.wait(project.stages(stages([0.1, 0.03, 5]), update=True)["run"])
    assert total(new) == (3, 2, 1)  # only the new combination ran
    project.stages(stages([5]), update=True)
    assert total(project.run("in", {"f": "2"})) == (1, 0, 1)


def test_params_alone_run_when_the_pipeline_is_made(project):
    run = project.wait(project.stages({"name": "s", "input": {"params": [{"n": 1}, {"n": 2}]}, "output": {"prefix": "${params.n}-"},
                                       "run": ["sh", "-ec", 'echo "$PL_PARAM_N" >"$PL_OUT/f"']})["run"])
    assert total(run) == (2, 0, 2)
    assert project.contents("s") == {"1-f": b"1\n", "2-f": b"2\n"}


def test_a_reference_is_read_anew_and_runs_nothing_again(project):
    project.repo("in", "model").commit("model", {"m": "1"})
    project.stages({"name": "s", "input": {"cross": [{"repo": "in", "glob": "/*"}, {"repo": "model", "reference": True}]}, "output": {"prefix": "${in.stem}/"},
                    "run": ["sh", "-ec", 'cat "$PL_INPUT_MODEL/m" >"$PL_OUT/m"']})
    assert total(project.run("in", {"a": "a"})) == (1, 0, 1)
    assert total(project.run("model", {"m": "2"})) == (1, 1, 0)
    assert total(project.run("in", {"b": "b"})) == (2, 1, 1)
    assert project.contents("s") == {"a/m": b"1", "b/m": b"2"}


def test_why_names_the_combination_that_made_a_file(project):
    project.repo("in").stages({"name": "s", "input": {"cross": [{"repo": "in"}, {"params": {"k": [1, 2]}}]}, "output": {"prefix": "${params.k}/"},
                               "run": ["sh", "-ec", 'echo >"$PL_OUT/f"']})
    project.run("in", {"f": "1"})
    inputs = project.d.get(f"/why/{project.name}/s/master/2/f")["inputs"]
    assert [(i["input"], i["path"]) for i in inputs] == [("in", ""), ("params", '{"k":2}')]


def test_a_failed_combination_is_named(project):
    project.repo("in").stages({"name": "s", "input": {"params": {"k": [1, 2]}}, "output": {"prefix": "${datum}/"}, "run": ["sh", "-c", "exit ${params.k}"]},
                              sh("t", "true", "s"))
    run = project.wait(project.d.get("/runs", limit=1)["runs"][0]["id"])
    assert run["job"]["s"]["reason"].startswith('2 of 2 datums failed; the first: datum params={"k":1}: exit code 1')
    assert run["job"]["t"]["state"] == "unrunnable"
