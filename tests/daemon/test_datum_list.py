"""The list of a job's datums: attempts, then the datums whose results come from earlier runs; and the values of a `params` input."""

import json
import sqlite3
import urllib.parse

import pytest
from conftest import HttpError, sh

def listed(project, run, stage="a", **query):
    """All pages of the list; each has at most `limit`."""
    out, after = [], None
    while True:
        words = {**query, **({"after": after} if after else {})}
        page = project.d.get(f"/jobs/{project.name}/{stage}/{run}/datums" + ("?" + "&".join(f"{k}={v}" for k, v in words.items()) if words else ""))
        assert len(page["datums"]) <= query.get("limit", 1000)
        out += page["datums"]
        after = page.get("next")
        if not after:
            return out


def names(datums):
    return [d["paths"] for d in datums]


@pytest.fixture
def grown(project):
    return grow(project)


def grow(project):
    """A stage that ran over four files, and then over a fifth; the two runs."""
    project.repo("in").stages(sh("a", 'cp "$PL_INPUT_IN" "$PL_OUT/"', glob="/*"))
    first = project.commit("in", {f"f{i}": str(i) for i in range(4)})["run"]
    assert project.d.wait(first)["state"] == "success"
    second = project.commit("in", {"g": "new"})["run"]
    assert project.d.wait(second)["state"] == "success"
    return project, first, second


def test_reused_datums_follow_the_attempts_and_name_their_run(grown):
    project, first, second = grown
    assert [d["state"] for d in listed(project, first)] == ["success"] * 4
    datums = listed(project, second)
    assert [(d["state"], d["paths"]) for d in datums] == [("success", "in=/g")] + [("reused", f"in=/f{i}") for i in range(4)]
    reused = datums[1:]
    assert {d["run"] for d in reused} == {first} and {d["reason"] for d in reused} == {f"result of run {first[:8]}"}
    # the id is the one that the attempt of that run has
    assert {d["paths"]: d["id"] for d in reused} == {d["paths"]: d["id"] for d in listed(project, first)}
    assert project.d.job(second, "a")["datums"]["reused"] == len(reused)


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_pages_are_bounded_and_complete(grown, limit):
    project, _, second = grown
    assert listed(project, second, limit=limit) == listed(project, second)
    assert listed(project, second, limit=limit, state="reused") == listed(project, second)[1:]


def test_states_are_filtered_and_unknown_ones_refused(grown):
    project, _, second = grown
    assert names(listed(project, second, state="success")) == ["in=/g"]
    assert names(listed(project, second, state="reused")) == [f"in=/f{i}" for i in range(4)]
    assert listed(project, second, state="failed") == listed(project, second, state="lost") == []
    for query, field in [({"state": "cached"}, "state"), ({"after": "reused/0"}, "after"), ({"after": "reused/zz"}, "after"), ({"after": "reused/" + "00" * 1001}, "after")]:
        with pytest.raises(HttpError) as e:
            listed(project, second, **query)
        assert e.value.status == 400 and e.value.error["field"] == field, e.value
        assert field != "state" or "success, failed, lost, reused" in e.value.error["message"]


def inspected(project, run, text):
    return project.d.get(f"/jobs/{project.name}/a/{run}/datums/{urllib.parse.quote(text, safe='')}")


def test_a_reused_datum_is_found_with_the_attempts_of_the_run_that_computed_it(grown):
    project, first, second = grown
    for datum in listed(project, second, state="reused"):
        for text in (datum["id"], datum["id"][:16].upper(), datum["paths"]):
            found = inspected(project, second, text)
            assert (found["id"], found["run"]) == (datum["id"], first)
            assert [(a["state"], a["run"], a["paths"]) for a in found["attempts"]] == [("success", first, datum["paths"])]
            assert f"--at {second[:8]} --datum {datum['id'][:12]}" in found["try"]
    assert "run" not in inspected(project, second, "in=/g")
    for text in ("in=/none", "in=/f", "0" * 64, ""):
        with pytest.raises(HttpError) as e:
            inspected(project, second, text)
        assert e.value.status == 404
    # a third run reuses the results of both
    third = project.commit("in", {"h": "3"})["run"]
    assert project.d.wait(third)["state"] == "success"
    assert (inspected(project, third, "in=/f1")["run"], inspected(project, third, "in=/g")["run"]) == (first, second)


def test_a_reused_datum_without_its_attempts_is_told_as_it_is_listed(make_daemon):
    project, first, second = grow(make_daemon().start().default)
    (datum,) = [d for d in listed(project, second) if d["paths"] == "in=/f1"]
    project.d.stop()
    with sqlite3.connect(project.d.dir + "/pipelined.db") as db:
        db.execute("DELETE FROM attempt WHERE job = (SELECT id FROM job WHERE run = ?)", (first,))
    project.d.start()
    found = inspected(project, second, "in=/f1")
    assert found["attempts"] == [datum] and (found["run"], found["id"]) == (first, datum["id"])
    said = project.d.ctl("inspect", "datum", f"a@{second[:8]}", "in=/f1").out
    assert f"reused from run {first[:8]}, whose attempts are not kept" in said and "try it here" not in said


def test_the_command_line_says_where_a_reused_datum_comes_from(grown):
    project, first, second = grown
    job = f"{project.name}/a@{second[:8]}"
    said = project.d.ctl("inspect", "datum", job, "in=/f2").out
    assert f"reused from run {first[:8]}, whose attempts these are" in said and "success" in said and "try it here" not in said
    assert "reused" not in project.d.ctl("inspect", "datum", job, "in=/g").out
    assert project.d.ctl("inspect", "datum", job, "in=/none", ok=False).code == 3


def test_the_command_line_lists_them(grown):
    project, first, second = grown
    job = f"{project.name}/a@{second[:8]}"
    out = project.d.ctl("list", "datum", job).out
    assert out.count("reused") == 4 and out.count(f"result of run {first[:8]}") == 4 and "PARAMS" not in out, out
    assert project.d.ctl("list", "datum", job, "--state", "reused", "-n", "2").out.count("reused") == 2
    said = project.d.ctl("list", "datum", job, "--state", "cached", ok=False)
    assert said.code == 5 and "reused" in said.err


def test_the_command_line_stops_after_a_hundred_and_says_so(project):
    stage = {"name": "a", "run": ["true"], "input": {"cross": [{"params": {"k": list(range(101))}}, {"repo": "in", "glob": "/"}]}}
    project.repo("in").stages(stage)
    run = project.commit("in", {"f": "1"})["run"]
    assert project.d.wait(run)["state"] == "success"
    job = f"{project.name}/a@{run[:8]}"
    for words, shown, more in [([], 100, True), (["-n", "7"], 7, False), (["--all"], 101, False), (["-n", "101"], 101, False), (["-q"], 100, False)]:
        table, listing = (project.d.ctl("list", "datum", job, *words, *form) for form in ([], ["--json"]))
        assert table.out.count("success") == len(json.loads(listing.out)["datums"]) == shown
        for said in (table.err, listing.err):
            assert ("more than these 100" in said and "--all" in said) if more else said == "", said


def test_params_are_values_of_their_own(project):
    stage = {"name": "a", "run": ["sh", "-c", 'echo "$PL_PARAM_LR" > "$PL_OUT/out"'], "output": {"prefix": "${params.lr}-${params.opt}/"},
             "input": {"cross": [{"params": {"lr": [0.1, 0.5], "opt": ["sgd"]}}, {"repo": "in", "glob": "/"}]}}
    project.repo("in").stages(stage)
    run = project.commit("in", {"f": "1"})["run"]
    assert project.d.wait(run)["state"] == "success"
    wanted = [{"lr": 0.1, "opt": "sgd"}, {"lr": 0.5, "opt": "sgd"}]
    by_lr = lambda datums: sorted((d["params"] for d in datums), key=lambda p: p["lr"])
    assert by_lr(listed(project, run)) == wanted
    job = f"{project.name}/a@{run[:8]}"
    out = project.d.ctl("list", "datum", job).out
    assert "PARAMS" in out and "lr=0.1 opt=sgd" in out and "lr=0.5 opt=sgd" in out and "params={" not in out and "in=/" in out, out
    one = listed(project, run)[0]
    assert project.d.get(f"/jobs/{project.name}/a/{run}/datums/{one['id']}")["attempts"][0]["params"] == one["params"]
    # a new value runs alone; the others are reused and have their values
    stage["input"]["cross"][0]["params"]["lr"].append(0.9)
    again = project.stages(stage, update=True)["run"]
    assert again != run and project.d.wait(again)["state"] == "success"
    assert by_lr(listed(project, again, state="reused")) == wanted
    assert by_lr(listed(project, again, state="success")) == [{"lr": 0.9, "opt": "sgd"}]
