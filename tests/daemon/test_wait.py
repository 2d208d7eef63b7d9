"""Waiting for the end of a run: answered by what happens, or when its time or the daemon's is over."""
import http.client
import json
import threading
import time

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
