"""pipelinectl rerun: the jobs of a run again, over what they read."""

from conftest import sh

CONFLICT, FAILED, NOT_FOUND = 4, 1, 3


def rerun(project, run, *args, ok=True):
    got = project.d.ctl("--json", "rerun", run["id"], *args, ok=ok)
    return project.wait(got.json["run"]) if ok else got


def reused(run):
    return {stage: (job["datums"]["total"], job["datums"]["reused"]) for stage, job in run["job"].items()}


def test_every_datum_runs_again_over_the_same_commits(project):
    project.repo("in").stages(sh("one", 'cp "$PL_INPUT_IN" "$PL_OUT/"', glob="/*"), sh("two", 'cat "$PL_INPUT_ONE"/* >"$PL_OUT/all"', "one"))
    run = project.run("in", {"a": "1", "b": "2"})
    again = rerun(project, run)
    assert again["state"] == "success" and reused(again) == {"one": (2, 0), "two": (1, 0)}
    assert [i["commit"] for i in again["job"]["one"]["inputs"]] == [run["id"]] and again["cause"] == "manual"
    assert project.contents("two") == {"all": b"12"}


def test_failed_does_what_failed_and_keeps_what_was_finished(project):
    project.repo("in").stages(sh("one", 'test "$(cat "$PL_INPUT_IN")" != bad || exit 3; cp "$PL_INPUT_IN" "$PL_OUT/"', glob="/*"), sh("good", "true"),
                              sh("two", 'cat "$PL_INPUT_ONE"/* >"$PL_OUT/all"', "one"))
    run = project.run("in", {"a": "1", "b": "bad"}, state="failure")
    again = rerun(project, run, "--failed")
    assert again["state"] == "failure" and reused(again)["one"] == (2, 1) and set(again["job"]) == {"one", "two"}
    fine = project.run("in", {"b": "2"})
    assert rerun(project, fine, "--failed", ok=False).code == NOT_FOUND


def test_failed_reads_what_the_failed_job_read_or_nothing(project):
    project.repo("in").stages(sh("one", 'cp "$PL_INPUT_IN" "$PL_OUT/"', glob="/*"), sh("two", 'exit 3', "one"))
    old = project.run("in", {"a": "1"}, state="failure")
    again = rerun(project, old, "--failed")  # nothing has moved: the very commit
    assert set(again["job"]) == {"two"} and [i["commit"] for i in again["job"]["two"]["inputs"]] == [old["id"]]
    new = project.run("in", {"a": "2"}, state="failure")
    got = rerun(project, old, "--failed", ok=False)
    assert got.code == CONFLICT and f"stage two read commit {old['id'][:8]} of one@master" in got.err and f"now {new['id'][:8]} is there" in got.err
    again = rerun(project, new, "--failed")
    assert [i["commit"] for i in again["job"]["two"]["inputs"]] == [new["id"]]


def test_failed_does_not_read_another_previous_output(project):
    project.repo("in").stages({"name": "s", "input": {"cross": [{"repo": "s", "name": "last", "previous": True}, {"repo": "in"}]},
                               "run": ["sh", "-c", 'test "$(cat "$PL_INPUT_IN/a")" != bad || exit 3; cp "$PL_INPUT_IN/a" "$PL_OUT/"']})
    first = project.run("in", {"a": "1"})
    bad = project.run("in", {"a": "bad"}, state="failure")
    again = rerun(project, bad, "--failed")
    assert [i["commit"] for i in again["job"]["s"]["inputs"]] == [first["id"], bad["id"]]
    project.run("in", {"a": "2"})
    got = rerun(project, bad, "--failed", ok=False)
    assert got.code == CONFLICT and f"stage s read commit {first['id'][:8]} of s@master" in got.err


def test_failed_waits_for_nobody_who_may_write_what_was_read(project, gate):
    project.repo("in").stages(sh("one", f'test "$(cat "$PL_INPUT_IN")" != 2 || {{ {gate.wait}; }}; cp "$PL_INPUT_IN" "$PL_OUT/"', glob="/*"), sh("two", 'exit 3', "one"))
    old = project.run("in", {"a": "1"}, state="failure")
    new = project.commit("in", {"a": "2"})["run"]
    gate.arrived()
    got = rerun(project, old, "--failed", ok=False)
    assert got.code == CONFLICT and f"run {new[:8]} may be about to write one@master" in got.err
    gate.open()
    assert project.wait(new)["state"] == "failure"


def test_inputs_that_have_moved_are_another_computation(project):
    project.repo("in").stages(sh("s", "true"))
    old = project.run("in", {"a": "1"})
    project.run("in", {"a": "2"})
    got = rerun(project, old, ok=False)
    assert got.code == CONFLICT and f"stage s read commit {old['id'][:8]} of in@master" in got.err


def test_a_changed_stage_is_another_computation(project):
    project.repo("in").stages(sh("s", "true"))
    run = project.run("in", {"a": "1"})
    project.wait(project.stages(sh("s", ":"), update=True)["run"])
    got = rerun(project, run, ok=False)
    assert got.code == CONFLICT and "stage s was changed since run" in got.err


def test_compare_names_the_files_that_came_out_differently(project):
    project.repo("in").stages(sh("s", 'echo same >"$PL_OUT/same"; cat /proc/sys/kernel/random/uuid >"$PL_OUT/random"'), sh("t", 'cp "$PL_INPUT_S/same" "$PL_OUT/"', "s"))
    run = project.run("in", {"a": "1"})
    got = rerun(project, run, "--compare", ok=False)
    assert got.code == FAILED and got.json["differ"] == [{"stage": "s", "path": "random", "change": "changed"}]
    assert "1 file differs" in got.err


def test_compare_of_what_is_deterministic_finds_nothing(project):
    project.repo("in").stages(sh("s", 'echo same >"$PL_OUT/same"'))
    run = project.run("in", {"a": "1"})
    got = project.d.ctl("rerun", run["id"], "--compare")
    assert f"wrote what run {run['id'][:8]} did" in got.out
