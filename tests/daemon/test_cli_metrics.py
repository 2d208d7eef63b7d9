"""pipelinectl metrics: results of a params input as a table, sorted; two runs against each other."""

import json

import pytest

from conftest import sh

USAGE, NOT_FOUND = 2, 3

WRITE = r"""/usr/bin/python3 - <<'END'
import json, os
lr, k = float(os.environ["PL_PARAM_LR"]), int(os.environ["PL_PARAM_K"])
add = float(open(os.environ["PL_INPUT_IN"] + "/add").read())
with open(os.environ["PL_OUT"] + "/metrics.jsonl", "w") as f:
    for step in (1, 2):
        f.write(json.dumps({"step": step, "accuracy": add + lr * k * step, "val.loss": 1 / k}) + "\n")
END"""


def sweep(**params):
    return {"name": "train", "input": {"cross": [{"repo": "in"}, {"params": params}]}, "run": ["sh", "-ec", WRITE],
            "output": {"prefix": "${params.lr}-${params.k}/"}, "env": {"DEPTH": "3"}}


@pytest.fixture
def swept(project):
    """Two runs of four combinations each; their ids."""
    project.repo("in").stages(sweep(lr=[0.5, 0.25], k=[1, 2]), sh("plain", 'echo "{\\"loss\\": $(cat $PL_INPUT_IN/add)}" >"$PL_OUT/metrics.jsonl"'), sh("quiet", "true"))
    return [project.run("in", {"add": add})["id"] for add in ("0", "10")]


def metrics(project, *args, stage="train", **more):
    return project.d.ctl("metrics", f"{project.name}/{stage}", *args, **more)


def rows(said):
    """A printed table: its titles, and its rows as words."""
    titles, *lines = said.out.splitlines()
    return titles.split(), [line.split() for line in lines]


def lines(said):
    return [json.loads(line) for line in said.out.splitlines()]


def test_the_newest_runs_come_with_their_parameters_and_last_values(project, swept):
    titles, table = rows(metrics(project))
    assert titles == ["RUN", "CREATED", "DATUM", "k", "lr", "accuracy", "val.loss"], "DEPTH is the same everywhere; a name may have a dot"
    assert [row[0] for row in table] == [swept[1][:8]] * 4 + [swept[0][:8]] * 4
    values = {(row[-3], row[-4]): (row[-2], row[-1]) for row in table[4:]}
    assert values == {("0.5", "1"): ("1", "1"), ("0.5", "2"): ("2", "0.5"), ("0.25", "1"): ("0.5", "1"), ("0.25", "2"): ("1", "0.5")}
    assert {row[0] for row in rows(metrics(project, "--runs", "1"))[1]} == {swept[1][:8]}
    assert {row[0] for row in rows(project.d.ctl("metrics", f"{project.name}/train@{swept[0][:8]}"))[1]} == {swept[0][:8]}


def test_a_metrics_json_counts_where_there_are_no_lines(project):
    project.repo("in").stages(sh("end", """printf '{\\n  "loss": 0.5,\\n  "name": "a"\\n}\\n' >"$PL_OUT/metrics.json\""""))
    project.run("in", {"f": "1"})
    titles, table = rows(metrics(project, stage="end"))
    assert (titles[-1], [row[-1] for row in table]) == ("loss", ["0.5"])


@pytest.mark.parametrize("sort, column, expected", [
    ("accuracy", "accuracy", [0.5, 1, 1, 2]), ("-accuracy", "accuracy", [2, 1, 1, 0.5]), ("lr", "lr", [0.25, 0.25, 0.5, 0.5]), ("-k", "k", [2, 2, 1, 1])])
def test_any_metric_or_parameter_sorts(project, swept, sort, column, expected):
    titles, table = rows(project.d.ctl("metrics", f"{project.name}/train@{swept[0]}", "--sort", sort))
    assert [float(row[titles.index(column) - len(titles)]) for row in table] == expected


def test_a_name_that_does_not_exist_is_refused_with_those_that_do(project, swept):
    refused = metrics(project, "--sort", "-acuracy", ok=False)
    assert refused.code == USAGE and "there is no such metric or parameter: there are accuracy, val.loss, k, lr" in refused.err


def test_json_gives_one_line_for_each_result(project, swept):
    got = lines(project.d.ctl("--json", "metrics", f"{project.name}/train", "--sort", "-accuracy", "--runs", "1"))
    assert [one["metrics"] for one in got][0] == {"accuracy": 12, "val.loss": 0.5} and len(got) == 4
    assert got[0]["params"] == {"DEPTH": "3", "lr": 0.5, "k": 2} and got[0]["run"] == swept[1] and len(got[0]["datum"]) == 64


def test_two_runs_are_compared_by_combination(project, swept):
    titles, table = rows(metrics(project, "--diff", swept[0][:8], swept[1][:10]))
    assert titles == ["k", "lr", "METRIC", swept[0][:8], swept[1][:8], "DIFFERENCE"] and len(table) == 8
    assert ["2", "0.5", "accuracy", "2", "12", "10"] in table and ["2", "0.5", "val.loss", "0.5", "0.5", "0"] in table
    got = lines(project.d.ctl("--json", "metrics", f"{project.name}/train", "--diff", *swept))
    assert {one["difference"] for one in got if one["metric"] == "accuracy"} == {10}
    titles, table = rows(metrics(project, "--diff", *swept, stage="plain"))
    assert titles[1:] == ["METRIC", swept[0][:8], swept[1][:8], "DIFFERENCE"] and table[0][1:] == ["loss", "0", "10", "10"]


def test_a_new_combination_alone_is_in_the_newest_run(project, swept):
    run = project.wait(project.stages(sweep(lr=[0.5, 0.25], k=[1, 2, 4]), update=True)["run"])["id"]
    got = lines(project.d.ctl("--json", "metrics", f"{project.name}/train", "--runs", "1"))
    assert {(one["params"]["lr"], one["params"]["k"]) for one in got} == {(0.5, 4), (0.25, 4)} and {one["run"] for one in got} == {run}
    got = lines(project.d.ctl("--json", "metrics", f"{project.name}/train", "--diff", swept[1], run))
    assert {(one["a"] is None, one["b"] is None, one["difference"]) for one in got} == {(False, True, None), (True, False, None)}


def test_what_was_typed_wrong_is_named(project, swept):
    for args, says in ((["--diff", swept[0]], "--diff takes two runs"), ([swept[0]], "metrics takes one stage"), (["--lines", "--sort", "lr"], "--lines prints lines as they were written, --sort a table"),
                       (["--runs", "0"], "--runs")):
        refused = metrics(project, *args, ok=False)
        assert refused.code == USAGE and says in refused.err, refused.err
    refused = project.d.ctl("metrics", f"{project.name}/train@{swept[0][:8]}", "--diff", *swept, ok=False)
    assert refused.code == USAGE and "give the stage alone" in refused.err
    missing = metrics(project, "--diff", swept[0], "f" * 32, ok=False)
    assert missing.code == NOT_FOUND
    none = metrics(project, "--diff", *swept, stage="quiet", ok=False)
    assert none.code == NOT_FOUND and "no metrics" in none.err


def test_a_stage_without_metrics_says_so(project, swept):
    none = metrics(project, stage="quiet")
    assert none.out == "" and "no metrics" in none.err and "$PL_OUT/metrics.jsonl" in none.err
    assert metrics(project, "--sort", "x", stage="quiet").code == 0
    assert project.d.ctl("--json", "metrics", f"{project.name}/quiet").out == ""
    assert metrics(project, "--lines").out.count("accuracy") == 8
