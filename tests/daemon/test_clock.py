"""A wall clock that jumps, back and forth, under the daemon and its workers: nothing that waits waits longer or shorter, what was answered
is kept, and what comes later stands later in every list."""

import json
import os
import struct
import subprocess
import threading

import pytest

from conftest import HttpError, all_pages, sh, wait_until
from test_open_commit import finish, put, spools, start

DAY = 24 * 3600
JUMPS = (2 * DAY, -2 * DAY, 400 * DAY, -3600, 0, 30, -400 * DAY, 90)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("clock") / "clock_jump.so"
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clock_jump.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", path, source], check=True)
    return path


class Clock:
    """Of one daemon: `env` starts it with this clock."""

    def __init__(self, library, path):
        self.path = path
        self.set(0)
        options = os.environ.get("ASAN_OPTIONS", "")
        self.env = {"LD_PRELOAD": str(library), "CLOCK_JUMP": str(path), "ASAN_OPTIONS": options + ":verify_asan_link_order=0"}

    def set(self, seconds):
        with open(self.path, "r+b" if self.path.exists() else "wb") as f:
            f.write(struct.pack("<q", seconds))


@pytest.fixture
def clock(library, tmp_path):
    return Clock(library, tmp_path / "jump")


class Jumping(threading.Thread):
    def __init__(self, clock):
        super().__init__(daemon=True)
        self.clock, self.end, self.jumps = clock, threading.Event(), 0

    def run(self):
        while not self.end.wait(0.02):
            self.clock.set(JUMPS[self.jumps % len(JUMPS)])
            self.jumps += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        self.join()


def test_stages_run_once_and_to_their_end(make_daemon, clock):
    d = make_daemon().start(env=clock.env)
    d.default.repo("in").stages(sh("s", 'echo begun; sleep 0.3; cp "$PL_INPUT_IN" "$PL_OUT/$(basename "$PL_INPUT_IN")"; echo ended', glob="/*", workers=2,
                                   datum={"timeout": "20s", "tries": 1}, timeout="60s"))
    with Jumping(clock) as jumping:
        runs = [d.default.run("in", {f"f{i}": f"{i}"})["id"] for i in range(4)]
    assert jumping.jumps > 20
    assert d.default.contents("s") == {f"f{i}": b"%d" % i for i in range(4)}
    for run in runs:
        attempts = d.default.datums("s", run)
        assert [a["attempt"] for a in attempts] in ([], [1]), attempts
        assert d.default.logs("s", run=run) == "begun\nended\n"
    assert [r["id"] for r in all_pages(d, "/runs", "runs") if r["id"] in runs] == runs[::-1], "the newest first, whatever their ids say"
    commits = [c["id"] for c in d.default.commits("in")]
    assert commits == runs[::-1] and len(set(commits)) == 4
    assert d.post("/fsck?full=1")["ok"]


def test_a_daemon_whose_clock_went_back_goes_on_where_it_was(make_daemon, clock):
    d = make_daemon().start(env=clock.env)
    d.default.repo("in").stages(sh("s", 'cp "$PL_INPUT_IN/f" "$PL_OUT/f"'))
    clock.set(400 * DAY)
    first = d.default.run("in", {"f": "1"})["id"]
    assert d.stop() == 0
    clock.set(-400 * DAY)
    d.start(env=clock.env)
    second = d.default.run("in", {"f": "2"})["id"]
    assert d.default.read("s", "f") == b"2"
    assert [c["id"] for c in d.default.commits("in")] == [second, first]
    assert d.default.read("in", "f", "master^1") == b"1"
    d.kill()
    clock.set(0)
    d.start(env=clock.env)
    assert [c["id"] for c in d.default.commits("s")] == [second, first]


def test_a_commit_that_is_open_outlives_jumps_of_days(make_daemon, clock):
    d = make_daemon().start(env=clock.env)
    d.default.repo("in")
    commit = start(d)
    put(d, commit, "a", "1")
    with Jumping(clock) as jumping:
        others = [start(d) for _ in range(8)]
        wait_until(lambda: jumping.jumps > 30, "the clock to jump")
        put(d, commit, "b", "2")
    assert len(spools(d)) == 9, "those that were started with another clock are there too"
    for other in others:
        finish(d, other)
    clock.set(3 * DAY)
    put(d, commit, "c", "3")
    assert len(spools(d)) == 1
    assert json.dumps(d.get(f"/repos/default/in/commits/{commit}")["operations"]) == "3"
    finish(d, commit)
    assert d.default.contents("in") == {"a": b"1", "b": b"2", "c": b"3"}


def test_a_clock_that_is_ahead_drops_nothing(make_daemon, clock):
    d = make_daemon("--gc-every", "0s").start(env=clock.env)
    p = d.default.repo("in")
    d.http("PATCH", "/api/v1/repos/default/in", {"keep": {"days": 30}})
    first = d.push("in", "f", "1")["commit"]
    second = d.push("in", "f", "2")["commit"]
    opened = start(d)
    put(d, opened, "mine", "mine")

    def refused():
        with pytest.raises(HttpError) as e:
            d.post("/keep")
        assert e.value.error["code"] == "not_confirmed" and "the machine's clock says" in e.value.error["message"]
        assert d.get("/status")["clock"]["doubted"] and "CLOCK DOUBTED" in d.ctl("status").out
        assert "far ahead of the log" in d.ctl("doctor", ok=False).out
        assert [c["id"] for c in p.commits("in")][-2:] == [second, first]

    clock.set(40 * DAY)
    refused()
    third = d.push("in", "g", "3")["commit"]  # the newest record is of the wrong time now
    for _ in range(2):
        assert d.stop() == 0
        d.start(env=clock.env)
        refused()
        assert len(spools(d)) == 1, "it was not left idle for a day"
    clock.set(-40 * DAY)
    d.post("/keep")
    assert [c["id"] for c in p.commits("in")] == [third, second, first]
    clock.set(0)
    assert not d.get("/status")["clock"]["doubted"]
    d.post("/keep")
    assert [c["id"] for c in p.commits("in")] == [third, second, first]
    finish(d, opened)
    clock.set(80 * DAY)
    refused()
    d.ctl("keep", "--trust-clock")
    assert first not in [c["id"] for c in p.commits("in")], "somebody says that the clock is right"
