"""Waiting for the end of a run: answered by what happens, or when its time or the daemon's is over."""
import http.client
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import HttpError, sh


class Waiting(threading.Thread):
    """One GET /runs/RUN/wait, in a thread: .answer, .seconds."""

    def __init__(self, daemon, run, timeout_ms=20000):
        super().__init__(daemon=True)
        self.ask = lambda: daemon.get(f"/runs/{run}/wait", timeout_ms=timeout_ms)
        self.answer, self.seconds = None, None
        self.start()

    def run(self):
        began = time.monotonic()
        self.answer = self.ask()
        self.seconds = time.monotonic() - began

    def result(self):
        self.join(30)
        assert not self.is_alive(), "it still waits"
        return self.answer


def held(project):
    """A run that does not end by itself."""
    project.repo("in").stages(sh("s", "sleep 600"))
    run = project.commit("in", {"n": "1"})["run"]
    project.d.wait_job(run, "s", lambda j: j["state"] == "running", "to run")
    return run


def test_all_who_wait_are_told_when_the_run_ends(project):
    run = held(project)
    waiting = [Waiting(project.d, run) for _ in range(8)]
    assert project.d.get(f"/runs/{run}/wait", timeout_ms=1)["done"] is False
    project.d.post(f"/runs/{run}/stop")
    for one in waiting:
        assert one.result()["done"] is True
        assert one.answer["state"] == "killed"
        assert one.seconds < 15, "told by its time, not by the end of the run"


def test_a_run_that_has_ended_is_not_waited_for(project):
    run = held(project)
    project.d.post(f"/runs/{run}/stop")
    project.wait(run)
    one = Waiting(project.d, run)
    assert one.result()["done"] is True
    assert one.seconds < 10


def test_its_time_is_over_before_the_run_is(project):
    run = held(project)
    one = Waiting(project.d, run, timeout_ms=200)
    assert one.result()["done"] is False
    assert one.answer["state"] == "running"
    assert one.seconds >= 0.19
    project.d.post(f"/runs/{run}/stop")


def test_an_unknown_run_is_an_error(project):
    with pytest.raises(HttpError) as e:
        project.d.get("/runs/ffffffff/wait")
    assert e.value.status == 404


def test_a_daemon_that_stops_answers_those_who_wait(make_daemon):
    d = make_daemon().start()
    run = held(d.default)
    waiting = http.client.HTTPConnection(d.url.removeprefix("http://"), timeout=60)
    waiting.request("GET", f"/api/v1/runs/{run}/wait", headers={"Authorization": f"Bearer {d.token}"})
    d.get("/status")  # connections are taken in order: the one before has come
    assert d.stop() == 0
    assert json.loads(waiting.getresponse().read())["done"] is False


def test_a_stages_branch_is_waited_for_until_it_has_what_was_begun(project, gate):
    """Not the run of its newest commit when another one is at it: after a push, an update, on a branch aside."""
    ctl = lambda *args: project.d.ctl("--project", project.name, *args)
    waited = lambda where: ctl("--json", "wait", "run", where).json["id"]
    project.repo("in").stages(sh("s", 'cp "$PL_INPUT_IN/n" "$PL_OUT/"'), sh("t", 'cp "$PL_INPUT_S/n" "$PL_OUT/"', "s"))
    for n in range(5):
        run = project.commit("in", {"n": str(n)})["run"]
        assert waited("t@master") == run
    assert waited("s@master") == run and waited("in@master") == run
    run = project.stages(sh("s", f'{gate.wait}; cp "$PL_INPUT_IN/n" "$PL_OUT/"'), sh("t", 'cp "$PL_INPUT_S/n" "$PL_OUT/"', "s"), update=True)["run"]
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(waited, "t@master")
        gate.arrived()
        gate.open()
        assert waiting.result() == run and waited(f"t@{run[:8]}") == run
        aside = ctl("--json", "rerun", run, "--as", "x").json["run"]
        gate.arrived()
        assert waited("t@master") == run
        waiting = pool.submit(waited, "t@x")
        gate.open()
        assert waiting.result() == aside
