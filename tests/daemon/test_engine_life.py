"""The engine over its whole life: pipelines that come, go and come again, repos that vanish, ends that free what they held."""

import contextlib
import json
import os
import signal
import sqlite3

import pytest

from conftest import HttpError, logs_are_sealed, sh, wait_until, workers_of


def write(text):
    return f'printf %s "{text}" >"$PL_OUT/out"'


def delete_pipeline(project, name="p", **query):
    flags = "&".join(f"{k}={v}" for k, v in query.items())
    return project.d.http("DELETE", f"/api/v1/pipelines/{project.name}/{name}?{flags}")


def test_a_pipeline_made_again_under_its_name_runs_what_it_says_now(project):
    project.repo("in").stages(sh("s", write("old")))
    project.run("in", {"f": "1"})
    assert project.read("s", "out") == b"old"
    delete_pipeline(project)
    made = project.stages(sh("s", write("new")))
    assert project.wait(made["run"])["state"] == "success"
    assert project.read("s", "out") == b"new"


def test_the_log_of_a_job_that_succeeded_is_sealed_and_its_file_goes(project):
    project.repo("in").stages(sh("s", "echo hello"))
    run = project.run("in", {"f": "1"})
    assert project.logs("s", run=run["id"]) == "hello\n"
    folder = os.path.join(project.d.dir, "logs")
    logs_are_sealed(project.d)
    assert project.logs("s", run=run["id"]) == "hello\n"
    held = []
    for fd in os.listdir(f"/proc/{project.d.process.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            held.append(os.readlink(f"/proc/{project.d.process.pid}/fd/{fd}"))
    assert not [f for f in held if f.startswith(folder)], held


def test_a_collision_of_long_odd_paths_ends_the_job_with_its_reason(project):
    project.repo("in").stages(sh("s", write("x"), glob="/*"))
    name = "ab" + "é" * 120
    run = project.run("in", {name + "1": "1", name + "2": "2"}, state="failure")
    assert "was written by two datums" in run["job"]["s"]["reason"]


def test_a_failed_datum_with_a_long_odd_path_keeps_its_attempt(project):
    project.repo("in", "b").stages({"name": "s", "input": {"cross": [{"repo": "in", "glob": "/*/*/*/*"}, {"repo": "b", "glob": "/*/*/*/*"}]}, "run": ["false"]})
    path = "/".join(["x" + "é" * 120] * 4)
    project.commit("b", {path: "1"})
    run = project.run("in", {path: "1"}, state="failure")
    attempt, = project.datums("s", run["id"])
    assert attempt["exit_code"] == 1 and attempt["paths"].startswith("in=/x")


def test_a_stage_whose_input_repo_was_taken_away_says_so_and_others_go_on(project):
    project.repo("in", "gone").stages(sh("a", write("a"), "gone"), pipeline="pa")
    project.stages(sh("b", write("b")), pipeline="pb")
    project.d.http("DELETE", f"/api/v1/repos/{project.name}/gone?force=1")
    project.stages(sh("c", write("c")), pipeline="pc")
    run = project.run("in", {"f": "1"})
    assert {k: j["state"] for k, j in run["job"].items()} == {"b": "success", "c": "success"}
    project.repo("gone")
    run = project.run("gone", {"f": "1"})
    assert run["job"]["a"]["state"] == "success"


def test_an_update_may_turn_the_order_of_two_stages_round(project):
    cat = 'cat "$PL_INPUT_{0}"/* >"$PL_OUT/out"; printf {1} >>"$PL_OUT/out"'
    project.repo("in").stages(sh("a", cat.format("IN", "a")), sh("b", cat.format("A", "b"), "a"))
    project.run("in", {"f": "1"})
    assert project.read("b", "out") == b"1ab"
    made = project.stages(sh("a", cat.format("B", "a"), "b"), sh("b", cat.format("IN", "b")), update=True)
    assert project.wait(made["run"])["state"] == "success"
    assert project.read("a", "out") == b"1ba"
    project.run("in", {"f": "2"})
    assert project.read("a", "out") == b"2ba"


def test_a_cycle_through_two_pipelines_is_refused(project):
    project.repo("in").stages(sh("a", write("a")), pipeline="pa")
    project.stages(sh("b", write("b"), "a"), pipeline="pb")
    with pytest.raises(HttpError) as e:
        project.stages(sh("a", write("a"), "b"), pipeline="pa", update=True)
    assert e.value.status == 400 and "circle: " in e.value.error["message"] and "b reads a" in e.value.error["message"], e.value.error
    run = project.run("in", {"f": "1"})
    assert sorted(run["job"]) == ["a", "b"]


def test_deleting_a_pipeline_ends_its_jobs_and_their_processes(project):
    project.repo("in").stages(sh("s", "echo begun; sleep 600"))
    run = project.commit("in", {"f": "1"})["run"]
    wait_until(lambda: project.d.job(run, "s") and project.logs("s") == "begun\n", "the stage to begin")
    delete_pipeline(project)
    ended = project.wait(run)
    assert ended["state"] == "killed" and ended["job"]["s"]["state"] == "killed", ended
    wait_until(lambda: not [w for w in project.d.get("/status")["live"]["workers"] if w["project"] == project.name], "its worker to go")
    with pytest.raises(HttpError) as e:
        project.files("s")
    assert e.value.status == 404


def test_an_update_while_the_old_version_runs_lets_it_end_and_then_runs_the_new(project):
    project.repo("in").stages(sh("s", 'while ! test -e "$PL_INPUT_IN/go"; do sleep 0.05; done', on_new="queue"))
    first = project.commit("in", {"f": "1"})["run"]
    project.d.wait_job(first, "s", lambda j: j["state"] == "running", "to run")
    made = project.stages(sh("s", write("new")), update=True)
    project.d.wait_job(made["run"], "s", lambda j: "its turn" in j["reason"], "to wait for its turn")
    project.d.post(f"/runs/{first}/stop")
    assert project.wait(first)["state"] == "killed"
    assert project.wait(made["run"])["state"] == "success"
    assert project.read("s", "out") == b"new"


def test_what_a_stopped_job_had_done_is_not_done_again(project):
    script = 'n=$(cat "$PL_INPUT_IN"); test $n -lt 9 || sleep 600; cp "$PL_INPUT_IN" "$PL_OUT/$n"'
    project.repo("in").stages(sh("s", script, glob="/*", workers=1))
    first = project.commit("in", {"a": "1", "b": "9"})["run"]
    project.d.wait_job(first, "s", lambda j: j["datums"]["done"] == 1, "to have done one")
    project.d.post(f"/runs/{first}/stop")
    assert project.wait(first)["job"]["s"]["state"] == "killed"
    second = project.run("in", {"b": "2"})
    assert second["job"]["s"]["datums"] | {} == {"total": 2, "reused": 1, "done": 1, "failed": 0}
    assert project.contents("s") == {"1": b"1", "2": b"2"}


def test_a_job_that_has_ended_is_let_go_of_before_its_run_ends(project):
    project.repo("in").stages(sh("a", write("a")), sh("b", "sleep 600", "a"))
    run = project.commit("in", {"f": "1"})["run"]
    project.d.wait_job(run, "b", lambda j: j["state"] == "running", "to run: a's end, which the database has first, is known to the scheduler")
    with pytest.raises(HttpError) as e:
        project.d.post(f"/jobs/{project.name}/a/{run}/stop")
    assert e.value.status == 404 and "no unfinished job" in e.value.error["message"], e.value.error
    project.d.post(f"/runs/{run}/stop")
    assert project.wait(run)["job"]["a"]["state"] == "success"


def test_a_worker_that_names_a_lease_which_is_not_its_own_takes_it_from_nobody(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    go, ran = tmp_path / "go", tmp_path / "ran"
    daemon.default.repo("in").stages(sh("s", f"echo x >>{ran}; while ! test -e {go}; do sleep 0.05; done"))
    run = daemon.default.commit("in", {"f": "1"})["run"]
    wait_until(ran.exists, "the stage to begin")
    with sqlite3.connect(os.path.join(daemon.dir, "pipelined.db")) as db:
        (task, worker, fence), = db.execute("SELECT task, worker, fence FROM lease")
    body = {"worker": str(worker), "tasks": [{"task": task, "fence": fence - 1}]}
    answer = daemon.http("POST", "/api/v1/worker/renew", body)
    assert [lost["task"] for lost in answer["lost"]] == [task]
    go.write_text("")
    assert daemon.wait(run)["state"] == "success"
    assert ran.read_text() == "x\n"


def test_what_a_failed_job_had_done_is_not_done_again_by_the_one_that_waited_for_its_end(project, gate):
    script = f'n=$(cat "$PL_INPUT_IN"); test $n -lt 9 || {{ {gate.wait}; exit 1; }}; cp "$PL_INPUT_IN" "$PL_OUT/$n"'
    project.repo("in").stages(sh("s", script, glob="/*", workers=1, on_new="queue", datum={"tries": 1}))
    puts = {str(n): str(n) for n in range(5)}
    first = project.commit("in", puts | {"z": "9"})["run"]
    gate.arrived()
    second = project.commit("in", {"z": "6"})["run"]
    project.d.wait_job(second, "s", lambda j: "its turn" in j["reason"], "to wait for its turn")
    gate.open()
    assert project.wait(first)["job"]["s"]["state"] == "failure"
    assert project.wait(second)["job"]["s"]["datums"] | {} == {"total": 6, "reused": 5, "done": 1, "failed": 0}


def test_a_daemon_that_drains_is_alive_but_not_ready(make_daemon, gate):
    d = make_daemon().start()
    d.default.repo("in").stages(sh("s", gate.wait))
    d.default.commit("in", {"a": "1"})
    gate.arrived()
    d.process.send_signal(signal.SIGTERM)

    def not_ready():
        try:
            d.http("GET", "/readyz", token=False, raw=True)
        except HttpError as e:
            return e.status == 503 and e.error["code"] == "stopping"
        return False

    wait_until(not_ready, "/readyz to say that it stops")
    assert d.http("GET", "/healthz", token=False, raw=True) == b"ok\n"
    gate.open()
    assert d.process.wait(timeout=60) == 0


def test_the_daemon_and_its_agents_leave_no_core(project, gate):
    """They hold tokens: neither a file nor, by PR_SET_DUMPABLE (tests/unit/storage/base/test_base.c), a handler of the kernel's gets their memory."""
    project.repo("in").stages(sh("s", gate.wait))
    run = project.push("in", "f", "1")["run"]
    gate.arrived()
    for pid in (project.d.process.pid, *workers_of(project.d)):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/limits", encoding="ascii") as limits:  # one of an earlier test may end
            assert [line.split()[4:6] for line in limits if line.startswith("Max core")] == [["0", "0"]], pid
    gate.open()
    assert project.wait(run)["state"] == "success"
