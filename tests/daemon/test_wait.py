"""Waiting for the end of a run: answered by what happens, or when its time or the daemon's is over."""
import http.client
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from by_path import load
from conftest import HttpError, sh, wait_until

servers = load("s3_servers", "s3/servers.py")


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


# ---- pipelinectl COMMAND --wait

def spec_file(project, *stages, name="p"):
    return project.d.write(f"{project.name}-{name}.json", json.dumps({"project": project.name, "pipeline": name, "stages": list(stages)}))


def test_what_a_command_starts_is_waited_for_by_that_command(project):
    """By each that starts a run: its result is printed, and with --json it is the one document."""
    d = project.d
    ctl = lambda *args, **more: d.ctl("--project", project.name, *args, "--wait", **more)
    x, y = d.write("x", "1"), d.write("y", "2")
    project.repo("in")
    spec = spec_file(project, sh("s", 'cat "$PL_INPUT_IN"/* > "$PL_OUT/all"'))
    assert "put file" in ctl("create", "pipeline", "-f", spec).out  # there is no data yet, so nothing to wait for
    said = ctl("put", "file", "in@master:/x", "-f", x).out
    assert "commit " in said and ": success in " in said and "next:" not in said
    assert project.contents("s") == {"all": b"1"}
    again = ctl("put", "file", "in@master:/x", "-f", x).out  # whoever repeats a put waits for the run of the first one
    assert "nothing changed" in again and ": success in " in again
    commit = d.post(f"/repos/{project.name}/in/branches/master/open", {})["id"]
    assert "added to open commit" in ctl("put", "file", f"in@{commit}:/y", "-f", y).out
    assert ": success in " in ctl("finish", "commit", f"in@{commit}").out
    run = ctl("--json", "delete", "file", "in@master:/x").json
    assert run["state"] == "success" and [j["stage"] for j in run["jobs"]] == ["s"] and project.contents("s") == {"all": b"2"}
    assert ctl("--json", "run", "pipeline", "p", "--force").json["state"] == "success"
    assert "would have 1 stage" in ctl("run", "pipeline", "p", "--dry-run").out
    assert ": success in " in ctl("rerun", run["id"][:8]).out
    spec_file(project, sh("s", 'cat "$PL_INPUT_IN"/* "$PL_INPUT_IN"/* > "$PL_OUT/all"'))
    assert ": success in " in ctl("update", "pipeline", "-f", spec).out and project.contents("s") == {"all": b"22"}
    d.ctl("--project", project.name, "stop", "pipeline", "p")
    assert ": success in " in ctl("start", "pipeline", "p").out


def test_who_waits_for_a_run_that_fails_is_told_why(project):
    d = project.d
    x = d.write("x", "1")
    project.repo("in").stages(sh("s", 'echo "no such thing" >&2; exit 3'))
    failed = d.ctl("--project", project.name, "put", "file", "in@master:/x", "-f", x, "--wait", ok=False)
    assert failed.code == 1 and ": failure: " in failed.err and "no such thing" in failed.err
    assert "next:" not in failed.out


def test_all_pipelines_of_a_file_are_made_before_one_is_waited_for(project, gate):
    d = project.d
    project.repo("in")
    project.commit("in", {"n": "1"})
    first = {"project": project.name, "pipeline": "a", "stages": [sh("s", f'{gate.wait}; cp "$PL_INPUT_IN/n" "$PL_OUT/"')]}
    second = {"project": project.name, "pipeline": "b", "stages": [sh("t", 'cp "$PL_INPUT_S/n" "$PL_OUT/"', "s")]}
    spec = d.write("two.json", json.dumps(first) + "\n" + json.dumps(second))
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(d.ctl, "--project", project.name, "create", "pipeline", "-f", spec, "--wait")
        gate.arrived()
        wait_until(lambda: {p["name"] for p in d.get("/pipelines", project=project.name)["pipelines"]} == {"a", "b"}, "both pipelines")
        gate.open()
        assert ": success in " in waiting.result().out


def test_the_other_pipelines_of_a_file_are_waited_for_after_one_failed(project):
    d = project.d
    project.repo("in")
    project.commit("in", {"n": "1"})
    spec = d.write("three.json", "\n".join(json.dumps({"project": project.name, "pipeline": name, "stages": [sh(stage, run)]}) for name, stage, run in (
        ("a", "s", "exit 1"), ("b", "t", 'cp "$PL_INPUT_IN/n" "$PL_OUT/"'))))
    said = d.ctl("--project", project.name, "create", "pipeline", "-f", spec, "--wait", ok=False)
    assert said.code == 1 and said.out.count(": failure in ") == 1 and said.out.count(": success in ") == 1


def test_puts_that_gather_are_finished_by_who_waits_for_them(project):
    d = project.d
    x = d.write("x", "1")
    d.post("/repos", {"project": project.name, "name": "in", "commit_window": "60s"})
    project.stages(sh("s", 'cp "$PL_INPUT_IN/x" "$PL_OUT/"'))
    said = d.ctl("--project", project.name, "put", "file", "in@master:/x", "-f", x, "--wait").out
    assert ": success in " in said and project.contents("s") == {"x": b"1"}


def test_a_restart_of_the_daemon_does_not_end_the_waiting(make_daemon, gate):
    d = make_daemon("--listen", f"127.0.0.1:{servers.free_port()}").start()
    d.default.repo("in").stages(sh("s", f'{gate.wait}; cp "$PL_INPUT_IN/x" "$PL_OUT/"'))
    for says, command in ((": success in ", ["put", "file", "in@master:/x", "-f", d.write("x", "1"), "--wait"]), ("wrote the same files as run", ["rerun", "s@master", "--compare"])):
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(d.ctl, *command)
            gate.arrived()
            d.kill()
            d.start()
            gate.open()
            assert says in waiting.result().out
