"""What can be watched while it happens: logs, metrics, events, and a wait for the end."""

import http.client
import json
import os
import subprocess
import threading
import urllib.parse

import pytest

from conftest import BIN, HttpError, sh, wait_until


class Stream:
    """An answer that comes bit by bit, read by a thread of its own."""

    def __init__(self, daemon, path, headers=None):
        host = urllib.parse.urlparse(daemon.url).netloc
        self.connection = http.client.HTTPConnection(host, timeout=60)
        self.connection.request("GET", "/api/v1" + path, headers={"Authorization": "Bearer " + daemon.token, **(headers or {})})
        self.reply = self.connection.getresponse()
        assert self.reply.status == 200, self.reply.read()
        self.text = ""
        self.ended = False
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            while piece := self.reply.read1(65536):
                self.text += piece.decode()
            self.ended = True
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            pass

    def close(self):
        self.connection.sock and self.connection.sock.shutdown(2)
        self.thread.join()
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def events(self):
        """[(id, type, data)] of a stream of events."""
        out = []
        for block in self.text.split("\n\n")[:-1]:
            fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
            if "event" in fields and "data" in fields and "id" in fields:
                out.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
        return out


def test_the_log_of_a_job_is_whole(project):
    project.repo("in").stages(sh("s", "seq 1 20000; echo err >&2"))
    run = project.run("in", {"f": "1"})
    assert project.logs("s") == "".join(f"{i}\n" for i in range(1, 20001)) + "err\n"
    assert project.logs("s", run=run["id"]) == project.logs("s", run=run["id"][:8])


def test_the_log_of_one_datum_can_be_had(project):
    project.repo("in").stages(sh("s", 'echo "I am $(basename $PL_INPUT_IN)"', glob="/*"))
    run = project.run("in", {"a": "1", "b": "2"})
    assert sorted(project.logs("s").splitlines()) == ["I am a", "I am b"]
    for attempt in project.datums("s", run["id"]):
        name = attempt["paths"].rsplit("/", 1)[1]
        assert project.logs("s", datum=attempt["id"]) == f"I am {name}\n"
        assert project.logs("s", datum=attempt["id"][:12]) == f"I am {name}\n"
        assert project.logs("s", datum=attempt["paths"]) == f"I am {name}\n"


@pytest.mark.parametrize("text", ["x", "no newline at the end", "a\nb"])
def test_what_a_very_short_command_prints_is_not_lost(project, text):
    project.repo("in").stages(sh("s", f"printf %s '{text}'"))
    for i in range(5):
        run = project.run("in", {"f": str(i)})
        assert project.logs("s", run=run["id"]) == text


def test_every_try_is_in_the_log(project):
    project.repo("in").stages(sh("s", "echo said; exit 1", datum={"tries": 3}))
    project.run("in", {"f": "1"}, state="failure")
    assert project.logs("s") == "said\n" * 3


def test_a_log_is_followed_as_it_comes_and_ends_with_the_job(project, gate):
    project.repo("in").stages(sh("s", f"echo first; {gate.wait}; echo last"))
    run = project.commit("in", {"f": "1"})["run"]
    gate.arrived()
    with Stream(project.d, f"/logs/{project.name}/s?follow=1&run={run}") as log:
        wait_until(lambda: log.text == "first\n", "the first line, while the command stands")
        assert not log.ended
        gate.open()
        project.wait(run)
        wait_until(lambda: log.ended, "the end of the log")
        assert log.text == "first\nlast\n"


@pytest.mark.parametrize("state", ["failure", "killed"])
def test_following_ends_with_a_job_that_does_not_end_well(project, gate, state):
    project.repo("in").stages(sh("s", f"echo first; {gate.wait}; exit 1", datum={"tries": 1}))
    run = project.commit("in", {"f": "1"})["run"]
    gate.arrived()
    with Stream(project.d, f"/logs/{project.name}/s?follow=1&run={run}") as log:
        wait_until(lambda: log.text == "first\n", "the first line, while the command stands")
        if state == "killed":
            project.d.post(f"/runs/{run}/stop")
        else:
            gate.open()
        assert project.wait(run)["state"] == state
        wait_until(lambda: log.ended, "the end of the log")


def test_following_a_job_that_has_ended_gives_its_log_and_ends(project):
    project.repo("in").stages(sh("s", "echo said"))
    run = project.run("in", {"f": "1"})
    with Stream(project.d, f"/logs/{project.name}/s?follow=1&run={run['id']}") as log:
        wait_until(lambda: log.ended, "the end of the log")
        assert log.text == "said\n"


def test_the_log_of_what_is_not_there_is_refused_by_name(project):
    project.repo("in").stages(sh("s", "true"))
    for stage, query, what in (("no", "", "no"), ("s", "", "s")):
        with pytest.raises(HttpError, match="404") as e:
            project.logs(stage)
        assert f'"{what}"' in e.value.error["message"]


def test_metrics_are_kept_and_told_while_the_command_runs(project, gate):
    lines = [{"step": i, "loss": 1 / (i + 1)} for i in range(3)]
    write = "".join(f"""echo '{json.dumps(line)}' >>$PL_OUT/metrics.jsonl\n""" for line in lines[:2])
    project.repo("in").stages(sh("s", write + f"{gate.wait}\necho '{json.dumps(lines[2])}' >>$PL_OUT/metrics.jsonl"))
    with Stream(project.d, "/events") as stream:
        told = lambda: [d["line"] for _, t, d in stream.events if t == "metric" and d["project"] == project.name]
        run = project.commit("in", {"f": "1"})["run"]
        wait_until(lambda: told() == lines[:2], lambda: f"two metrics: {told()}")
        gate.arrived()
        gate.open()
        project.wait(run)
        wait_until(lambda: told() == lines, lambda: f"three metrics: {told()}")
    rows = project.d.get(f"/metrics/{project.name}/s")["metrics"]
    assert [r["line"] for r in rows] == lines
    assert project.read("s", "metrics.jsonl").decode().splitlines() == [json.dumps(line) for line in lines]


def test_metrics_that_are_no_json_do_no_harm(project):
    project.repo("in").stages(sh("s", """printf '%s\\n' 'not json' '[1]' '{"ok": 1}' '{"cut": ' >$PL_OUT/metrics.jsonl"""))
    project.run("in", {"f": "1"})
    assert [r["line"] for r in project.d.get(f"/metrics/{project.name}/s")["metrics"]] == [{"ok": 1}]


def test_events_tell_of_commits_runs_and_jobs(project):
    project.repo("in").stages(sh("s", "echo >$PL_OUT/f"))
    with Stream(project.d, "/events") as stream:
        run = project.run("in", {"f": "1"})["id"]
        ended = lambda kind, key: any(t == kind and d[key] == run and d["state"] == "success" for _, t, d in stream.events)
        wait_until(lambda: ended("run", "id") and ended("job", "run"), lambda: f"the end of the run and its job: {stream.events}")
        mine = [(t, d) for _, t, d in stream.events]
    assert {(d["repo"], d["commit"]) for t, d in mine if t == "commit" and d.get("project") == project.name} == {("in", run), ("s", run)}
    states = [d["state"] for t, d in mine if t == "job" and d["run"] == run]
    assert states[-1] == "success" and "running" in states
    ids = [i for i, _, _ in stream.events]
    assert ids == sorted(set(ids))


def test_events_go_on_behind_the_last_one_seen(project):
    project.repo("in")
    with Stream(project.d, "/events") as stream:
        project.commit("in", {"f": "1"})
        wait_until(lambda: stream.events, "an event")
        last = stream.events[-1][0]
    project.commit("in", {"f": "2"})
    third = project.commit("in", {"f": "3"})["commit"]
    with Stream(project.d, "/events", {"Last-Event-ID": str(last)}) as stream:
        wait_until(lambda: [d for _, t, d in stream.events if t == "commit" and d["commit"] == third], "the missed events")
        ids = [i for i, _, _ in stream.events]
    assert ids == list(range(last + 1, last + 1 + len(ids)))
    page = project.d.http("GET", f"/api/v1/events?since={last}&limit=1000", headers={"Accept": "application/json"})
    assert [e["id"] for e in page["events"]][:len(ids)] == ids


def test_a_wait_answers_at_once_when_the_run_ends(project):
    project.repo("in").stages(sh("s", "echo >$PL_OUT/f"))
    run = project.commit("in", {"f": "1"})["run"]
    assert project.d.get(f"/runs/{run}/wait", timeout_ms=20000)["done"] is True
    assert project.d.get(f"/runs/{run[:6]}/wait")["state"] == "success"


def test_a_wait_that_is_cut_short_says_that_it_is_not_done(project):
    project.repo("in").stages(sh("s", "sleep 600"))
    run = project.commit("in", {"f": "1"})["run"]
    assert project.d.get(f"/runs/{run}/wait", timeout_ms=10)["done"] is False
    project.d.post(f"/runs/{run}/stop")
    project.wait(run)


def test_many_followers_are_served_at_once(project):
    project.repo("in").stages(sh("s", "echo said"))
    streams = [Stream(project.d, "/events") for _ in range(40)]
    try:
        run = project.run("in", {"f": "1"})["id"]
        for stream in streams:
            wait_until(lambda s=stream: any(t == "run" and d["id"] == run and d["state"] == "success" for _, t, d in s.events), "the end of the run")
    finally:
        for stream in streams:
            stream.close()


def test_metrics_are_followed_at_the_command_line(shared, project, gate):
    project.repo("in").stages(sh("s", 'echo \'{"step": 1, "loss": 0.1}\' >"$PL_OUT/metrics.jsonl"; ' + gate.wait + '; echo \'{"step": 2}\' >>"$PL_OUT/metrics.jsonl"'))
    run = project.commit("in", {"f": "1"})["run"]
    gate.arrived()
    followed = subprocess.Popen([os.path.join(BIN, "pipelinectl"), "--data", shared.dir, "metrics", f"{project.name}/s", "-f"], stdout=subprocess.PIPE, text=True)
    first = followed.stdout.readline()
    gate.open()
    rest = followed.communicate(timeout=60)[0]
    assert followed.returncode == 0
    datum, = {a["id"] for a in project.datums("s", project.wait(run)["id"])}
    assert first + rest == f'{datum[:8]}  {{"step":1,"loss":0.1}}\n{datum[:8]}  {{"step":2}}\n'
    shown = shared.ctl("metrics", f"{project.name}/s@{run[:8]}", "--datum", datum[:12])
    assert shown.out == '{"step":1,"loss":0.1}\n{"step":2}\n'
    assert [json.loads(line)["line"]["step"] for line in shared.ctl("--json", "metrics", f"{project.name}/s", "--lines").out.splitlines()] == [1, 2]
    none = shared.ctl("metrics", f"{project.name}/s", "--datum", "none")
    assert none.out == "" and f"stage s, run {run[:8]}: no metrics of datum none." in none.err and "$PL_OUT/metrics.jsonl" in none.err
    assert shared.ctl("metrics", f"{project.name}/s", "--datum", "none", "-q").err == ""


def test_on_one_machine_there_are_no_containers_to_read(project):
    project.repo("in").stages(sh("s", "true"))
    project.run("in", {"f": "f"})
    said = project.d.ctl("--project", project.name, "logs", "s", "--container", "agent", ok=False)
    assert said.code == 5 and "processes of the daemon's machine" in said.err, (said.code, said.err)
