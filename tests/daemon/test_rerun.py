"""pipelinectl rerun: the jobs of a run again, over what they read."""

import concurrent.futures
import contextlib
import os
import signal

import pytest
from conftest import SANDBOX, HttpError, sh, wait_until, workers_of

FAILED, USAGE, NOT_FOUND, CONFLICT, INVALID = 1, 2, 3, 4, 5


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
    assert got.code == CONFLICT and f"stage two read commit {old['id'][:8]} of one@master" in got.err and f"the head is now {new['id'][:8]}" in got.err
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
    assert branches(project, "s") == {"master": run["id"], f"compare-{run['id'][:8]}": got.json["run"]}


def test_compare_leaves_what_runs_and_what_reads_alone(project, gate):
    project.repo("in").stages(sh("s", 'cat "$PL_INPUT_IN"/* >"$PL_OUT/all"; grep -q 2 "$PL_OUT/all" && ' + gate.wait + " || true"), sh("t", 'cp "$PL_INPUT_S/all" "$PL_OUT/"', "s"))
    old = project.run("in", {"a": "1"})
    runs = project.commit("in", {"a": "2"})["run"]
    gate.arrived()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        compared = pool.submit(project.d.ctl, "rerun", old["id"], "--compare")
        wait_until(lambda: project.d.get("/runs", limit=1)["runs"][0]["id"] != runs, "the run that is compared")
        assert project.d.get(f"/runs/{runs}")["state"] == "running"
        gate.open()
        assert compared.result().code == 0
    assert project.wait(runs)["state"] == "success" and project.read("t", "all") == b"2"
    assert project.d.ctl("rerun", old["id"], "--compare").code == 0, "its branch is taken again"


def test_compare_of_what_is_deterministic_finds_nothing(project):
    project.repo("in").stages(sh("s", 'echo same >"$PL_OUT/same"'))
    run = project.run("in", {"a": "1"})
    got = project.d.ctl("rerun", run["id"], "--compare")
    assert f"wrote the same files as run {run['id'][:8]}" in got.out


def test_compare_with_a_run_that_has_no_result_says_so(project, gate):
    project.repo("in").stages(sh("s", gate.wait))
    old = project.commit("in", {"a": "1"})["run"]
    gate.arrived()
    gate.open()
    assert project.wait(old)["state"] == "success"
    with concurrent.futures.ThreadPoolExecutor() as pool:
        compared = pool.submit(project.d.ctl, "rerun", old, "--compare", ok=False)
        gate.arrived()
        again = project.d.get("/runs", project=project.name, limit=1)["runs"][0]["id"]
        project.d.post(f"/runs/{again}/stop")
        said = compared.result()
    assert said.code == FAILED and f"there is nothing to compare: run {again[:8]}: killed" in said.err


# --- onto a branch of its own

COPIES = [sh("one", 'cp "$PL_INPUT_IN" "$PL_OUT/"', glob="/*"), sh("two", 'cat "$PL_INPUT_ONE"/* >"$PL_OUT/all"; cat /proc/sys/kernel/random/uuid >"$PL_OUT/id"', "one")]


def branches(project, repo):
    return {b["name"]: b["commit"] for b in project.d.get(f"/repos/{project.name}/{repo}/branches")["branches"]}


def provenance(project, repo, ref):
    sources = project.d.get(f"/repos/{project.name}/{repo}/commits/{ref}")["provenance"]
    return {s["repo"]: (s["branch"], s["commit"]) for s in sources}


def test_as_reads_what_was_read_then_and_leaves_the_stages_branch_alone(project):
    project.repo("in").stages(*COPIES, sh("below", "true", "two"))
    old = project.run("in", {"a": "1", "b": "2"})
    new = project.run("in", {"a": "3"}, deletes=["b"])
    id_before = project.read("two", "id")
    again = rerun(project, old, "--as", "again")
    assert again["state"] == "success" and reused(again) == {"one": (2, 0), "two": (1, 0), "below": (1, 0)}
    assert again["cause"] == "manual" and again["message"] == f"all jobs of run {old['id'][:8]} again, as again"
    for repo in "one", "two", "below":
        assert branches(project, repo) == {"master": new["id"], "again": again["id"]}
    assert project.read("two", "all") == b"3" and project.read("two", "all", "again") == b"12"
    assert project.read("two", "id") == id_before != project.read("two", "id", "again")
    assert provenance(project, "one", "again") == {"in": ("master", old["id"])}
    assert provenance(project, "two", "again") == {"one": ("again", again["id"])}
    later = project.run("in", {"a": "4"})
    assert project.read("two", "all") == b"4" and reused(later)["one"] == (1, 0)


def test_as_starts_nothing_that_was_not_in_the_run(project):
    project.repo("in").stages(COPIES[0])
    old = project.run("in", {"a": "1"})
    project.wait(project.stages(sh("reader", "true", "one"), pipeline="q")["run"])
    before = branches(project, "reader")
    again = rerun(project, old, "--as", "again")
    assert set(again["job"]) == {"one"} and branches(project, "reader") == before


def test_a_branch_that_an_earlier_one_made_goes_on(project):
    project.repo("in").stages(*COPIES)
    old = project.run("in", {"a": "1"})
    first = rerun(project, old, "--as", "exp")
    second = rerun(project, old, "--as", "exp")
    third = rerun(project, first, "--as", "exp")  # the rerun of a rerun reads what that read
    assert branches(project, "one")["exp"] == third["id"]
    parents = {c["id"]: c["parent"] for c in project.commits("one")}
    assert parents[third["id"]] == second["id"] and parents[second["id"]] == first["id"] and not parents[first["id"]]
    assert provenance(project, "two", "exp")["one"] == ("exp", third["id"]) and provenance(project, "one", "exp") == {"in": ("master", old["id"])}


@pytest.mark.parametrize("name, code, text", [("master", INVALID, "is the one that stage"), ("no/name", INVALID, "branch"), ("", INVALID, "branch")])
def test_names_that_cannot_be(project, name, code, text):
    project.repo("in").stages(COPIES[0])
    run = project.run("in", {"a": "1"})
    got = rerun(project, run, "--as", name, ok=False)
    assert got.code == code and text in got.err
    assert branches(project, "one") == {"master": run["id"]}


def test_failed_as_does_what_failed_over_what_the_rest_left_then(project):
    """`two` fails at one of three datums; meanwhile the input moves on, and with it what `one` wrote."""
    project.repo("in").stages(COPIES[0], sh("two", f'test "$(cat "$PL_INPUT_ONE")" != bad || exit 3; cp "$PL_INPUT_ONE" "$PL_OUT/"', "one", glob="/*"),
                              sh("three", 'cat "$PL_INPUT_TWO"/* >"$PL_OUT/all"', "two"))
    old = project.run("in", {"a": "1", "b": "bad", "c": "3"}, state="failure")
    new = project.run("in", {"a": "2", "b": "4"})
    again = rerun(project, old, "--failed", "--as", "again")
    assert set(again["job"]) == {"two", "three"} and again["message"] == f"failed jobs of run {old['id'][:8]} again, as again"
    assert again["state"] == "failure" and reused(again)["two"] == (3, 1)  # /c, which the newer commit has too
    assert [i["commit"] for i in again["job"]["two"]["inputs"]] == [old["id"]]
    assert branches(project, "one") == {"master": new["id"]} and branches(project, "two") == {"master": new["id"]}
    assert rerun(project, new, "--failed", "--as", "again", ok=False).code == NOT_FOUND


def test_failed_as_reads_what_it_makes_itself(project, gate):
    """`two` is stopped at its second datum and succeeds over other data (so what it had done is kept no more): done again aside, `three` reads
    what comes of it."""
    project.repo("in").stages(COPIES[0], sh("two", f'test "$(cat "$PL_INPUT_ONE")" != 2 || {gate.wait}; cp "$PL_INPUT_ONE" "$PL_OUT/"', "one", glob="/*"),
                              sh("three", 'cat "$PL_INPUT_TWO"/* >"$PL_OUT/all"', "two"))
    old = project.commit("in", {"a": "1", "b": "2"})["run"]
    gate.arrived()
    project.d.post(f"/jobs/{project.name}/two/{old}/stop")
    old = project.wait(old)
    new = project.run("in", {"a": "3"}, ["b"])
    again = project.d.ctl("--json", "rerun", old["id"], "--failed", "--as", "again").json["run"]
    gate.arrived()
    gate.open()
    again = project.wait(again)
    assert again["state"] == "success" and reused(again) == {"two": (2, 0), "three": (1, 0)}
    assert project.read("three", "all", "again") == b"12" and project.read("three", "all") == b"3"
    assert provenance(project, "two", "again") == {"one": ("master", old["id"])} and provenance(project, "three", "again") == {"two": ("again", again["id"])}
    assert branches(project, "one") == {"master": new["id"]}


def test_a_branch_made_so_can_be_deleted_the_stages_own_cannot(project):
    project.repo("in").stages(COPIES[0])
    run = project.run("in", {"a": "1"})
    again = rerun(project, run, "--as", "again")
    project.d.ctl("--project", project.name, "delete", "branch", "one@again")
    assert branches(project, "one") == {"master": run["id"]} and project.read("one", "a", again["id"]) == b"1"
    assert project.d.ctl("--project", project.name, "delete", "branch", "one@master", ok=False).code == INVALID


def test_as_with_compare_says_what_differs_from_then(project):
    project.repo("in").stages(*COPIES)
    old = project.run("in", {"a": "1"})
    project.run("in", {"a": "2"})
    got = project.d.ctl("--json", "rerun", old["id"], "--as", "again", "--compare", ok=False)
    assert got.code == FAILED and got.json["differ"] == [{"stage": "two", "path": "id", "change": "changed"}]


def test_jobs_that_were_never_planned_read_what_was_there_then(project, gate):
    verdict = gate.wait.replace("import socket; ", "import socket, sys; sys.exit(0 if ").replace(".recv(1)'", ".recv(1) else 3)'")
    two = {**sh("two", 'cat "$PL_INPUT_ONE"/* "$PL_INPUT_SIDE"/* >"$PL_OUT/all"'), "input": {"cross": [{"repo": "one"}, {"repo": "side"}]}}
    project.repo("in", "side").stages(sh("one", f'{verdict}; cp "$PL_INPUT_IN"/* "$PL_OUT/"', datum={"tries": 1}), two)
    side = project.run("side", {"s": "S"})
    pushed = project.commit("in", {"a": "1"})["run"]
    gate.arrived()
    gate.open()
    bad = project.wait(pushed)
    assert bad["job"]["two"]["state"] == "unrunnable"
    project.run("side", {"s": "T"})
    again = project.d.ctl("--json", "rerun", bad["id"], "--as", "again").json["run"]
    gate.arrived()
    gate.held[0].sendall(b"1")
    gate.open()
    assert project.wait(again)["state"] == "success" and project.read("two", "all", "again") == b"1S"
    assert provenance(project, "two", "again") == {"one": ("again", again), "side": ("master", side["id"])}


def test_what_a_stage_wrote_before_is_what_it_was_then(project):
    before = sh("s", 'cat "$PL_INPUT_IN"/* >"$PL_OUT/all"; if test -e "$PL_INPUT_LAST/all"; then cat "$PL_INPUT_LAST/all" >>"$PL_OUT/all"; fi')
    before["input"] = {"cross": [{"repo": "in"}, {"repo": "s", "name": "last", "previous": True}]}
    project.repo("in").stages(before)
    runs = [project.run("in", {"a": str(n)}) for n in range(3)]
    rerun(project, runs[1], "--as", "again")
    rerun(project, runs[1], "--as", "again")
    assert project.read("s", "all", "again") == b"10" and project.read("s", "all") == b"210"


def test_a_commit_that_is_gone_cannot_be_read_again(project):
    project.repo("in").stages(COPIES[0])
    project.run("in", {"a": "1"})
    old = project.run("in", {"a": "2"})
    project.d.http("DELETE", f"/api/v1/repos/{project.name}/in/commits/{old['id']}")
    got = rerun(project, old, "--as", "again", ok=False)
    assert got.code == CONFLICT and f"commit {old['id'][:8]} of in no longer exists" in got.err
    assert "diff file" not in got.err and "on the current data: pipelinectl run pipeline NAME --force" in got.err


def test_what_is_aside_is_explained_and_tried_like_any_run(project):
    project.repo("in").stages(*COPIES)
    old = project.run("in", {"a": "1"})
    project.run("in", {"a": "2"})
    again = rerun(project, old, "--as", "again")
    told = project.d.ctl("--project", project.name, "why", "two@again:/all").out
    assert old["id"][:8] in told and again["id"][:8] in told
    out = os.path.join(project.d.root, project.name)
    project.d.ctl("try", "--sandbox", SANDBOX, "--project", project.name, "two", "--at", again["id"], "-o", out)
    with open(os.path.join(out, "all"), encoding="ascii") as f:
        assert f.read() == "1"


def test_a_plain_rerun_does_not_mind_what_is_under_way_aside(project, gate):
    two = sh("two", f'if test -e "$PL_INPUT_ONE/wait"; then {gate.wait}; fi; cp "$PL_INPUT_ONE"/* "$PL_OUT/"', "one")
    project.repo("in").stages(COPIES[0], two)
    pushed = project.commit("in", {"a": "1", "wait": ""})["run"]
    gate.arrived()
    gate.open()
    old = project.wait(pushed)
    project.stages(sh("side", "true", "two"), pipeline="q")
    side = project.wait(project.d.ctl("--json", "--project", project.name, "run", "pipeline", "q").json["run"])
    aside = project.d.ctl("--json", "rerun", old["id"], "--as", "again").json["run"]
    gate.arrived()
    assert rerun(project, side)["state"] == "success"
    gate.open()
    assert project.wait(aside)["state"] == "success"


@pytest.mark.parametrize("how", ["restart", "recover"])
def test_it_goes_on_after_the_daemon_ended(make_daemon, gate, tmp_path, how):
    d = make_daemon().start()
    project = d.default
    project.repo("in").stages(sh("one", 'cp "$PL_INPUT_IN"/* "$PL_OUT/"'), sh("two", f'if test "$(cat "$PL_INPUT_ONE/a")" = 1; then {gate.wait}; fi; cp "$PL_INPUT_ONE"/* "$PL_OUT/"', "one"))
    pushed = project.commit("in", {"a": "1"})["run"]
    gate.arrived()
    gate.open()
    old = project.wait(pushed)
    project.run("in", {"a": "2"})
    new = d.ctl("--json", "rerun", old["id"], "--as", "again").json["run"]
    gate.arrived()
    d.kill()
    if how == "recover":
        store, folder = os.path.join(d.dir, "store"), str(tmp_path / "new")
        for pid in workers_of(d):  # they would wait for their daemon
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        d.ctl("recover", "--store", f"file://{store}", "--data", folder)
        d.dir = folder
        d.start("--store", f"file://{store}")
    else:
        d.start()
    if how == "recover":
        gate.arrived()  # leases are of the folder that was lost: the datum is run again
    gate.open()
    again = project.wait(new)
    assert again["state"] == "success" and again["job"]["one"]["output"] == new
    gate.socket.setblocking(False)
    with pytest.raises(BlockingIOError):  # after a restart the command that stood there went on
        gate.socket.accept()
    assert project.contents("two", "again") == {"a": b"1"} and project.contents("two") == {"a": b"2"}
    assert provenance(project, "two", "again") == {"one": ("again", new)} and provenance(project, "one", "again") == {"in": ("master", old["id"])}
