"""A daemon that is restarted, perhaps with a newer version, and the agents that run: they attach anew, and those of the last minor version work."""

import os
import pathlib
import signal

import pytest
from conftest import BIN, sh, wait_until, workers_of
from last_agent import folder_with
from people import leases, status_of, worker_token

WAIT = "while ! test -e {0}; do sleep 0.05; done; "


def agents_log(daemon):
    return pathlib.Path(daemon.dir, "logs", "workers.log").read_text(encoding="utf-8")


def attached(daemon):
    return [w["attached"] for w in daemon.get("/status")["live"]["workers"]]


def restart(daemon):
    daemon.kill()
    daemon.start()


def test_running_agents_attach_anew_after_a_restart_of_the_daemon(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    go, ran = tmp_path / "go", tmp_path / "ran"
    daemon.default.repo("in").stages(sh("s", f"echo x >>{ran}; echo one; {WAIT.format(go)} echo two"))
    run = daemon.default.commit("in", {"f": "1"})["run"]
    daemon.wait_job(run, "s", lambda j: j["state"] == "running", "to run")
    wait_until(lambda: "one" in daemon.default.logs("s", run=run), "the command to run")
    for n in (1, 2):
        restart(daemon)
        wait_until(lambda: agents_log(daemon).count("attached again") == n, lambda: f"the agent to attach: {agents_log(daemon)}")
        wait_until(lambda: attached(daemon) == [True], "the daemon to know it")
    go.write_text("")
    assert daemon.wait(run)["state"] == "success"
    assert ran.read_text() == "x\n" and daemon.default.logs("s", run=run) == "one\ntwo\n"


def test_an_agent_of_another_version_is_refused_after_a_restart_of_the_daemon(make_daemon, gate):
    """It can do nothing before it has attached, and it cannot attach."""
    daemon = make_daemon(sandbox="none").start()
    project = daemon.default.repo("in").stages(sh("s", f"{gate.wait}; echo done >$PL_OUT/f")) and daemon.default
    run = project.commit("in", {"x": "1"})["run"]
    gate.arrived()
    worker, = [w["id"] for w in daemon.get("/status")["live"]["workers"]]
    wait_until(lambda: worker in leases(daemon), "its lease")
    (task, fence), (agent,), own = leases(daemon)[worker], workers_of(daemon), worker_token(daemon, worker)
    me = {"worker": str(worker), "incarnation": own.split("_")[2]}
    held = [{"task": task, "fence": fence}]
    calls = (("/worker/renew", {**me, "tasks": held}), ("/worker/next", {**me, "results": [], "wait_ms": 0}))
    os.kill(agent, signal.SIGSTOP)
    try:
        restart(daemon)
        wait_until(lambda: status_of(daemon, "POST", *calls[0], token=own) == 404, "the daemon to know its workers")
        for _ in range(2):
            assert [status_of(daemon, "POST", *call, token=own) for call in calls] == [404, 404]
            with pytest.raises(Exception, match="is 2; this daemon speaks 1"):
                daemon.http("POST", "/api/v1/worker/attach", {**me, "protocol": 2, "exchange": True, "held": held}, token=own)
        assert leases(daemon)[worker] == (task, fence)
    finally:
        os.kill(agent, signal.SIGCONT)
    gate.open()
    assert project.wait(run)["state"] == "success" and project.datums("s", run)[0]["attempt"] == 1


def test_an_agent_of_the_last_version_works_and_attaches_anew(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none")
    daemon.bin = folder_with(tmp_path / "bin", BIN)
    daemon.start()
    go, ran = tmp_path / "go", tmp_path / "ran"
    daemon.default.repo("in").stages(sh("s", f"echo x >>{ran}; echo one; {WAIT.format(go)} echo two"))
    run = daemon.default.commit("in", {"f": "1"})["run"]
    daemon.wait_job(run, "s", lambda j: j["state"] == "running", "to run")
    wait_until(lambda: "one" in daemon.default.logs("s", run=run), "the command to run")
    restart(daemon)
    wait_until(lambda: "attached, holding 1" in agents_log(daemon), lambda: f"the agent to attach: {agents_log(daemon)}")
    go.write_text("")
    job = daemon.default.wait(run)["job"]["s"]
    assert job["state"] == "success", job
    assert ran.read_text() == "x\n" and daemon.default.logs("s", run=run) == "one\ntwo\n"


def test_output_of_lost_agents_of_the_last_version_is_kept(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none")
    daemon.bin = folder_with(tmp_path / "bin", BIN)
    daemon.start()
    ran = tmp_path / "ran"
    daemon.default.repo("in").stages(sh("s", f"if test -e {ran}; then echo short; else >{ran}; echo a longer text; sleep 600; fi"))
    run = daemon.default.commit("in", {"f": "1"})["run"]
    daemon.wait_job(run, "s", lambda j: j["state"] == "running", "to run")
    wait_until(lambda: "longer" in daemon.default.logs("s", run=run), "the command to run")
    os.kill(*workers_of(daemon), signal.SIGKILL)
    assert daemon.wait(run)["state"] == "success"
    first, lost, second = daemon.default.logs("s", run=run).splitlines()
    assert (first, second) == ("a longer text", "short") and lost.startswith("worker lost: ")
