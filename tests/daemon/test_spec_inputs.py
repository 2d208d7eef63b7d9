"""Inputs beyond one repo: union, params, reference."""

import json

import pytest
from conftest import HttpError, sh


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


def test_escaped_variables_reach_the_command_as_text(project):
    """Also of a batch command, and of a stage without parameters; what names nothing is refused before it runs."""
    say = {"run": ["sh", "-ec", 'echo "$1|$TAG" >"$PL_OUT/seen"', "sh", "$${params.lr} $${HOME}"], "env": {"TAG": "$${in.stem}"}}
    batch = {"run": ["sh", "-ec", 'pl-next; echo "$1|$TAG" >"$PL_OUT/seen"; pl-next || true', "sh", "$${params.lr} $${HOME}"], "env": {"TAG": "$${in.stem}"}, "datum": {"batch": True}}
    project.repo("in").stages({"name": "s", "input": {"repo": "in"}, **say}, {"name": "b", "input": {"repo": "in"}, **batch})
    project.run("in", {"f": "1"})
    assert project.read("s", "seen") == project.read("b", "seen") == b"${params.lr} ${HOME}|${in.stem}\n"
    for field in ({"run": ["echo", "${params.lr}"]}, {"run": ["true"], "env": {"A": "${param.lr}"}}, {"run": ["echo", "${in.stem}"]}):
        with pytest.raises(HttpError, match="the literal text"):
            project.stages({"name": "t", "input": {"repo": "in"}, **field}, pipeline="q")


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


def test_a_writable_input_is_a_copy_for_each_datum(project):
    project.repo("in", "more").commit("more", {"d/x": "x", "d/y": "y"})
    project.stages({"name": "s", "input": {"cross": [{"repo": "in", "glob": "/*"}, {"repo": "more", "writable": True}]}, "output": {"prefix": "${in.stem}/"},
                    "run": ["sh", "-ec", 'cd "$PL_INPUT_MORE"; cat d/x >"$PL_OUT/before"; echo changed >>d/x; rm d/y; mkdir new; echo 1 >new/f; cp d/x "$PL_OUT/after"; ls -R >"$PL_OUT/list"']})
    project.run("in", {"a": "1", "b": "2"})
    got = project.contents("s")
    assert got["a/before"] == got["b/before"] == b"x" and got["a/after"] == got["b/after"] == b"xchanged\n"
    assert got["a/list"] == got["b/list"] and b"y" not in got["a/list"].split()
    assert project.contents("more") == {"d/x": b"x", "d/y": b"y"}
    project.run("more", {"d/x": "z"})
    assert project.read("s", "a/before") == b"z"


def test_a_writable_file_may_be_changed_and_others_stay_read_only(project):
    project.repo("in", "fixed").commit("fixed", {"f": "f"})
    project.stages({"name": "s", "input": {"cross": [{"repo": "in", "glob": "/*", "writable": True}, {"repo": "fixed"}]}, "output": {"prefix": "${in.stem}/"},
                    "run": ["sh", "-c", 'echo more >>"$PL_INPUT_IN" && cp "$PL_INPUT_IN" "$PL_OUT/f"; ls "$(dirname "$PL_INPUT_IN")" >"$PL_OUT/list"']})
    project.run("in", {"a": "1", "b": "2"})
    assert project.contents("s") == {"a/f": b"1more\n", "a/list": b"a\n", "b/f": b"2more\n", "b/list": b"b\n"}


def test_a_link_into_a_writable_input_is_refused(project):
    project.repo("in").stages({"name": "s", "input": {"repo": "in", "writable": True}, "run": ["sh", "-c", 'ln -s "$PL_INPUT_IN/f" "$PL_OUT/f"']})
    run = project.run("in", {"f": "1"}, state="failure")
    assert "is a link into the input in, which is writable: copy the file" in run["job"]["s"]["reason"]


def test_a_stage_reads_its_previous_output(project):
    project.repo("in").stages({"name": "s", "input": {"cross": [{"repo": "in"}, {"repo": "s", "name": "last", "previous": True}]},
                               "run": ["sh", "-ec", 'cat "$PL_INPUT_LAST/all" >"$PL_OUT/all" 2>/dev/null || true; cat "$PL_INPUT_IN/f" >>"$PL_OUT/all"']},
                              sh("t", 'cp "$PL_INPUT_S/all" "$PL_OUT/"', "s"))
    first = project.run("in", {"f": "1"})
    assert project.contents("s") == {"all": b"1"}
    second = project.run("in", {"f": "2"})
    assert project.contents("s") == project.contents("t") == {"all": b"12"}
    assert {i["name"]: i["commit"] for i in second["job"]["s"]["inputs"]} == {"in": second["id"], "last": first["id"]}
    assert ("s", first["id"]) in {(p["repo"], p["commit"]) for p in project.d.get(f"/repos/{project.name}/s/commits/{second['id']}")["provenance"]}
    third = project.run("in", {"g": "other"})  # nothing is reused: the last output counts
    assert total(third) == (1, 0, 1) and project.contents("s") == {"all": b"122"}
    runs = {r["id"] for r in project.d.get("/runs", limit=50)["runs"]}
    assert {first["id"], second["id"], third["id"]} <= runs and len({c["id"] for c in project.commits("s")}) == 3  # it never started itself
    assert project.d.get(f"/why/{project.name}/s/master/all")["inputs"]


def test_previous_after_a_failure_is_the_last_good_output(project):
    project.repo("in").stages({"name": "s", "input": {"cross": [{"repo": "in"}, {"repo": "s", "name": "last", "previous": True}]},
                               "run": ["sh", "-ec", 'cat "$PL_INPUT_IN/f" | tee "$PL_OUT/f"; ls "$PL_INPUT_LAST" >"$PL_OUT/seen"; test "$(cat "$PL_INPUT_IN/f")" != bad']})
    project.run("in", {"f": "good"})
    project.run("in", {"f": "bad"}, state="failure")
    project.run("in", {"f": "fine"})
    assert project.contents("s") == {"f": b"fine", "seen": b"f\nseen\n"}


def test_a_batch_command_has_the_params_and_inputs_of_each_datum(project):
    code = "import pl\nfor d in pl.datums():\n    open(f'{d.out}/f', 'w').write(f\"{d.params['k']} {open(d['in'] + '/f').read()} {d.env['PL_PARAM_K']}\")\n"
    project.repo("in").stages({"name": "s", "input": {"cross": [{"repo": "in", "writable": True}, {"params": {"k": [1, 2, 3]}}]}, "datum": {"batch": True},
                               "output": {"prefix": "${params.k}/"}, "run": ["/usr/bin/python3", "-c", code]})
    project.run("in", {"f": "x"})
    assert project.contents("s") == {f"{k}/f": f"{k} x {k}".encode() for k in (1, 2, 3)}


def test_plan_and_try_know_unions_params_and_the_previous_output(project):
    spec = {"pipeline": "p", "project": project.name, "stages": [
        {"name": "s", "input": {"cross": [{"union": [{"repo": "a", "glob": "/*"}, {"repo": "b"}]}, {"params": {"k": [2, 1]}}, {"repo": "s", "name": "last", "previous": True}]},
         "run": ["sh", "-ec", 'echo "$1 $PL_PARAM_K $(ls "$PL_INPUT_LAST")" | tee "$PL_OUT/f"', "sh", "${params.k}"], "checkpoint": True}]}
    path = project.d.write("union/spec.json", json.dumps(spec))
    project.d.write("union/a/x", "1"), project.d.write("union/b/y", "2")
    folders = ["--input", f"a={project.d.root}/union/a", "--input", f"b={project.d.root}/union/b"]
    rows = [json.loads(line)["inputs"] for line in project.d.ctl("plan", "-f", path, "s", *folders).out.splitlines()]
    assert rows == [{"a": "/x", "params": {"k": 1}, "last": "/"}, {"a": "/x", "params": {"k": 2}, "last": "/"}, {"b": "/", "params": {"k": 1}, "last": "/"}, {"b": "/", "params": {"k": 2}, "last": "/"}]
    got = project.d.ctl("try", "-f", path, "s", *folders, "--input", f"s={project.d.write('union/last/.keep', '').rsplit('/', 1)[0]}", "--datum", "3", "-o", f"{project.d.root}/union/out")
    with open(f"{project.d.root}/union/out/f", encoding="utf-8") as f:
        assert f.read().split() == ["2", "2"], got.out
