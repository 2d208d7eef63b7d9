"""Garbage collection of a running daemon: space comes back, nothing that is needed goes, whoever writes or computes is waited for."""

import json
import os
import random
import sqlite3

import pytest
from conftest import HttpError, logs_are_sealed, sh, wait_until
from slow_request import SlowRequest
from test_clock import Clock, library  # noqa: F401 (a fixture)

DAEMON_OPTIONS = ["--gc-every", "0s", "--linger", "0s"]


def store_bytes(d):
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(os.path.join(d.dir, "store", "p")) for name in names)


def noise(n, seed=1):
    return random.Random(seed).randbytes(n)


def collect(d):
    return d.ctl("--json", "gc").json


def assert_whole(d):
    assert d.ctl("--json", "fsck", "--full").json["ok"]


@pytest.fixture
def daemon(make_daemon):
    return make_daemon(*DAEMON_OPTIONS).start()


def test_a_deleted_repo_gives_its_space_back_and_can_be_put_anew(daemon):
    d = daemon
    folder = d.write("files/a.bin", noise(3_000_000))
    d.write("files/sub/b.bin", noise(100_000, 2))
    for repo in ("gone", "kept"):
        d.ctl("create", "repo", repo)
    d.push("kept", "x", noise(200_000, 3))
    d.ctl("put", "file", "gone@master", "-r", "-f", os.path.dirname(folder))
    before = store_bytes(d)
    assert before > 3_300_000
    d.ctl("delete", "repo", "gone")

    foreseen = d.ctl("gc", "--dry-run").out
    assert "would be freed" in foreseen and "deleted history:" in foreseen and "gone" in foreseen and "kept" not in foreseen
    assert store_bytes(d) == before

    said = d.ctl("gc").out
    assert "freed" in said and "will be freed when" not in said
    assert store_bytes(d) < 250_000
    assert d.read("kept", "x") == noise(200_000, 3)
    assert_whole(d)

    # this client remembers that it has brought these files once
    d.ctl("create", "repo", "gone")
    d.ctl("put", "file", "gone@master", "-r", "-f", os.path.dirname(folder))
    assert d.read("gone", "a.bin") == noise(3_000_000)
    assert_whole(d)


def test_what_pipelines_need_stays(daemon):
    d = daemon
    p = d.default.repo("in")
    p.stages(sh("double", 'cat "$PL_INPUT_IN" "$PL_INPUT_IN" > "$PL_OUT/${PL_INPUT_IN##*/}"', glob="/*"))
    for i in range(4):
        d.default.wait(p.push("in", f"f{i}", noise(70_000, i))["run"])
    collect(d)
    for i in range(4):
        assert d.read("double", f"f{i}") == noise(70_000, i) * 2
    assert_whole(d)
    d.stop()
    d.start()
    run = d.default.wait(p.push("in", "f9", noise(70_000, 9))["run"])
    assert run["state"] == "success"
    assert run["job"]["double"]["datums"]["reused"] == 4
    assert d.read("double", "f9") == noise(70_000, 9) * 2
    assert_whole(d)


def test_nothing_is_left_of_a_deleted_project(daemon):
    """Neither logs nor results of its failed jobs nor code are of use to anybody then."""
    d = daemon
    d.default.repo("kept")
    d.push("kept", "x", noise(1000))
    p = d.project("gone")
    p.repo("in")
    p.stages(sh("s", 'head -c 99999 /dev/urandom | tee "$PL_OUT/${PL_INPUT_IN##*/}" | base64; ! grep -q bad "$PL_INPUT_IN"', glob="/*"))
    run = p.run("in", {"a": "good", "b": "bad"}, state="failure")
    assert len(p.logs("s", run=run["id"])) > 200_000
    logs_are_sealed(d)
    assert collect(d)["freed_packs"] == 0
    d.http("DELETE", "/api/v1/pipelines/gone/p")
    d.http("DELETE", "/api/v1/repos/gone/in")
    d.http("DELETE", "/api/v1/projects/gone")
    wait_until(lambda: collect(d)["waiting_packs"] == 0, "nobody to be left")
    assert not [name for _, _, names in os.walk(os.path.join(d.dir, "store", "p", "gone")) for name in names]
    assert d.read("kept", "x") == noise(1000)
    assert_whole(d)


def test_a_task_that_runs_is_waited_for(daemon, gate):
    d = daemon
    p = d.default.repo("in", "old")
    d.push("old", "x", noise(300_000))
    p.stages(sh("slow", gate.wait + '; cp "$PL_INPUT_IN/f" "$PL_OUT/f"'))
    run = p.push("in", "f", noise(300_000))["run"]
    gate.arrived()
    d.ctl("delete", "repo", "old")
    d.push("in", "g", noise(50_000, 5))
    first = collect(d)
    assert first["freed_packs"] == 0
    gate.open()
    assert d.wait(run)["state"] == "success"
    wait_until(lambda: collect(d)["waiting_packs"] == 0, "nobody to be left")
    assert d.read("slow", "f") == noise(300_000)
    assert_whole(d)


def test_a_task_that_runs_for_long_holds_up_what_it_was_told_alone(make_daemon, gate, library, tmp_path):  # noqa: F811
    clock = Clock(library, tmp_path / "jump")
    d = make_daemon(*DAEMON_OPTIONS).start(env=clock.env)
    p = d.default.repo("in", "old")
    d.push("old", "x", noise(300_000))
    d.push("old", "y", noise(200_000, 2))
    p.stages(sh("slow", 'cp "$PL_INPUT_IN/f" "$PL_OUT/f"; ' + gate.wait))
    run = p.push("in", "f", noise(300_000))["run"]
    gate.arrived()
    d.ctl("delete", "repo", "old")
    first = collect(d)
    assert first["freed_packs"] == 0 and first["waiting_packs"] > 0
    with sqlite3.connect(os.path.join(d.dir, "pipelined.db")) as db:
        (task, worker, fence), = db.execute("SELECT task, worker, fence FROM lease")
        session = db.execute("SELECT id FROM session WHERE kind = 'write'").fetchone() or [""]
    for minutes in (6, 12):  # it renews every ten seconds; of what it says then every five minutes count
        clock.set(minutes * 60)
        d.post("/worker/renew", {"worker": str(worker), "tasks": [{"task": task, "fence": fence, "session": session[0]}]})
    wait_until(lambda: collect(d)["waiting_packs"] == 0, "the task to be waited for no longer")
    assert store_bytes(d) < 450_000 and d.get(f"/runs/{run}")["state"] == "running"
    gate.open()
    assert d.wait(run)["state"] == "success"
    assert d.read("slow", "f") == noise(300_000)
    assert_whole(d)


def test_a_daemon_that_is_killed_goes_on_with_what_it_had_condemned(daemon):
    d = daemon
    d.ctl("create", "repo", "in")
    d.push("in", "x", noise(500_000))
    session = d.post("/sessions", {"project": "default"})["session"]
    d.ctl("delete", "repo", "in")
    report = collect(d)
    assert report["freed_packs"] == 0 and report["waiting_packs"] > 0
    d.kill()
    d.start()
    assert collect(d)["waiting_packs"] > 0
    d.http("DELETE", f"/api/v1/sessions/{session}?project=default")
    report = collect(d)
    assert report["freed_bytes"] > 500_000 and report["waiting_packs"] == 0
    assert store_bytes(d) == 0


def test_a_session_that_ends_while_a_pack_comes_takes_none(make_daemon, library, tmp_path):  # noqa: F811
    clock = Clock(library, tmp_path / "jump")
    d = make_daemon(*DAEMON_OPTIONS).start(env=clock.env)
    answers = []
    for later in (0, 3600):
        session = d.post("/sessions", {"project": "default"})["session"]
        path = f"/api/v1/projects/default/packs/{'ab' * 32}?session={session}"
        request = SlowRequest(d.url, "PUT", path, {"Authorization": f"Bearer {d.token}"}, 100)
        clock.set(later)
        status, body = request.end(bytes(100))
        answers.append((status, json.loads(body)["error"]["code"]))
    assert answers[0][1] == "protocol" and answers[1][1] == "retry", answers


def test_its_routes_refuse_what_they_cannot_do(daemon):
    d = daemon
    with pytest.raises(HttpError) as e:
        d.post("/gc", {"dryrun": True})
    assert e.value.status == 400
    with pytest.raises(HttpError) as e:
        d.http("GET", "/api/v1/gc?wait_ms=1000000")
    assert e.value.status == 400
    assert d.http("DELETE", "/api/v1/gc")["running"] is False


def test_what_a_job_of_another_project_reads_stays_until_it_has_read_it(daemon, gate):
    """The commit and its repo are gone, but a datum that waits for its turn reads of it."""
    d = daemon
    other, mine = d.project("other").repo("data"), d.project("mine")
    files = d.write("files/f0", noise(300_000, 5))
    d.write("files/f1", noise(300_000, 6))
    d.ctl("put", "file", "other/data@hold", "-r", "-f", os.path.dirname(files))
    mine.stages(sh("s", f'{gate.wait}; cat "$PL_INPUT_DATA" > "$PL_OUT/$(basename "$PL_INPUT_DATA")"', "other/data@hold", "/*"))
    run = next(r["id"] for r in d.get("/runs", limit=5)["runs"] if r["cause"] == "pipeline")
    gate.arrived()
    d.ctl("delete", "repo", "other/data", "--force", "--yes")
    collect(d)
    gate.leave_open()
    assert d.wait(run)["state"] == "success"
    assert mine.read("s", "f0") == noise(300_000, 5) and mine.read("s", "f1") == noise(300_000, 6)
    assert_whole(d)
