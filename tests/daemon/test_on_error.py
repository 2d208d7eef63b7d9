"""Datums that fail: what on_error, max_failed and on_new make of them, and what is kept."""

import pytest

from conftest import Gate, sh

FAILS = 'case "$(cat "$PL_INPUT_IN")" in bad*) echo no luck >&2; exit 3;; esac; cp "$PL_INPUT_IN" "$PL_OUT/"'


def datums(run, stage="s"):
    d = run["job"][stage]["datums"]
    return {k: d.get(k, 0) for k in ("total", "reused", "done", "failed", "recovered")}


def test_skip_leaves_failed_datums_out_and_runs_them_again(project):
    project.repo("in").stages(sh("s", FAILS, glob="/*", on_error="skip"), sh("t", 'ls "$PL_INPUT_S" >"$PL_OUT/list"', "s"))
    run = project.run("in", {"a": "1", "b": "bad", "c": "3"})
    assert datums(run) == {"total": 3, "reused": 0, "done": 2, "failed": 1, "recovered": 0}
    assert run["job"]["s"]["reason"] == "1 of 3 datums failed and is left out"
    assert project.contents("s") == {"a": b"1", "c": b"3"} and project.contents("t") == {"list": b"a\nc\n"}
    run = project.run("in", {"d": "4"})
    assert datums(run) == {"total": 4, "reused": 2, "done": 1, "failed": 1, "recovered": 0}  # b again
    run = project.run("in", {"b": "2"})
    assert datums(run) == {"total": 4, "reused": 3, "done": 1, "failed": 0, "recovered": 0}
    assert sorted(project.contents("s")) == ["a", "b", "c", "d"]


def test_a_failed_datums_old_output_is_not_kept(project):
    project.repo("in").stages(sh("s", FAILS, glob="/*", on_error="skip"))
    project.run("in", {"a": "1", "b": "2"})
    project.run("in", {"b": "bad"})
    assert project.contents("s") == {"a": b"1"}


@pytest.mark.parametrize("limit, state", [(2, "success"), (1, "failure"), ("50%", "success"), ("49%", "failure"), ("0%", "failure")])
def test_more_failures_than_allowed_fail_the_job(project, limit, state):
    project.repo("in").stages(sh("s", FAILS, glob="/*", on_error="skip", max_failed=limit))
    run = project.run("in", {"a": "bad a", "b": "bad b", "c": "3", "d": "4"}, state=state)
    if state == "failure":
        assert "of 4 datums failed; the first: datum in=/a: exit code 3: no luck" in run["job"]["s"]["reason"]


def test_max_failed_ends_the_job_at_once(project, gate):
    fails = Gate()
    script = f'if test "$(basename "$PL_INPUT_IN")" = b; then {fails.wait}; exit 1; fi; {gate.wait}'
    project.repo("in").stages(sh("s", script, glob="/*", workers=2, max_failed=0))
    run = project.commit("in", {"a": "1", "b": "2", "c": "3"})["run"]
    gate.arrived(1)
    fails.arrived(1)
    fails.leave_open()
    run = project.wait(run)
    assert run["job"]["s"]["state"] == "failure" and run["job"]["s"]["datums"]["done"] == 0


def test_the_command_of_on_error_recovers_a_datum(project):
    handler = ["sh", "-c", 'echo handled "$PL_PARAM_K" $(cat "$PL_INPUT_IN"); echo junk >"$PL_OUT/junk"; test "$(cat "$PL_INPUT_IN")" = "bad one"']
    stage = {"name": "s", "input": {"cross": [{"repo": "in", "glob": "/*"}, {"params": {"k": ["x"]}}]}, "on_error": {"run": handler},
             "run": ["sh", "-ec", FAILS]}
    project.repo("in").stages(stage)
    run = project.run("in", {"a": "1", "b": "bad one"})
    assert datums(run) == {"total": 2, "reused": 0, "done": 1, "failed": 0, "recovered": 1}
    assert project.contents("s") == {"a": b"1"}
    failed, = [a for a in project.datums("s", run["id"]) if a["state"] == "failed"]
    assert failed["exit_code"] == 3 and failed["tail"] == "no luck\nhandled x bad one\n"
    run = project.run("in", {"c": "3"})
    assert datums(run) == {"total": 3, "reused": 1, "done": 1, "failed": 0, "recovered": 1}  # b is tried again
    run = project.run("in", {"b": "bad two"}, state="failure")
    assert datums(run)["failed"] == 1 and run["job"]["s"]["reason"].startswith("1 of 3 datums failed; the first: datum in=/b, params=")


def test_restart_stops_what_runs_and_keeps_what_it_finished(project, gate):
    project.repo("in").stages(sh("s", f'if test "$(cat "$PL_INPUT_IN")" = stop; then {gate.wait}; fi; cp "$PL_INPUT_IN" "$PL_OUT/"', glob="/*", on_new="restart"))
    first = project.commit("in", {"a": "1", "b": "stop"})["run"]
    gate.arrived()
    second = project.run("in", {"b": "2"})
    assert project.wait(first)["job"]["s"]["reason"] == f"superseded by run {second['id'][:8]}"
    assert datums(second) == {"total": 2, "reused": 1, "done": 1, "failed": 0, "recovered": 0}
    assert project.contents("s") == {"a": b"1", "b": b"2"}
