"""A disk that is full while stages run: nothing is told to have ended that is not written, and room again is enough to go on."""

import os
import subprocess

import pytest

from conftest import HttpError, sh, wait_until
from test_follow import Stream

WAIT = 'while ! test -e {0}; do sleep 0.05; done; '


@pytest.fixture
def small(make_daemon, tmp_path):
    """A daemon whose folder is a filesystem of 24 MiB of its own."""
    daemon = make_daemon(sandbox="none")
    os.makedirs(daemon.dir)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", daemon.dir], check=True)
    daemon.start()
    yield daemon
    daemon.stop()
    subprocess.run(["umount", "-l", daemon.dir], check=True)


def fill(daemon):
    """Takes all room; the file that holds it."""
    path = os.path.join(daemon.dir, "filler")
    with open(path, "wb", buffering=0) as f:
        for size in (1 << 20, 4096, 1):
            try:
                while f.write(bytes(size)) == size:
                    pass
            except OSError:
                pass
    return path


@pytest.mark.parametrize("end, state", [("exit 1", "failure"), ("sleep 600", "killed")])
def test_the_end_of_a_job_is_written_when_there_is_room_again(small, tmp_path, end, state):
    go = tmp_path / "go"
    small.default.repo("in").stages(sh("s", "echo here; " + WAIT.format(go) + end))
    run = small.default.commit("in", {"f": "1"})["run"]
    small.wait_job(run, "s", lambda j: j["state"] == "running", "to run")
    with Stream(small, f"/logs/default/s?follow=1&run={run}") as log:
        wait_until(lambda: "here" in log.text, "the command, whose folder was made while there was room")
        held = fill(small)
        go.write_text("")
        if state == "killed":
            small.post(f"/runs/{run}/stop")
        wait_until(lambda: "will retry" in small.log(), small.log)
        assert small.get(f"/runs/{run}")["state"] == "running"
        assert not log.ended
        os.unlink(held)
        ended = small.default.wait(run)
        assert (ended["state"], ended["job"]["s"]["state"]) == (state, state)
        wait_until(lambda: log.ended, "the end of its log", timeout=20)


def test_a_commit_on_a_full_disk_fails_its_job_and_the_next_run_does_the_rest(small, tmp_path):
    go = tmp_path / "go"
    small.default.repo("in").stages(sh("s", WAIT.format(go) + 'cp "$PL_INPUT_IN/f" "$PL_OUT/f"'))
    run = small.default.commit("in", {"f": "1"})["run"]
    small.wait_job(run, "s", lambda j: j["state"] == "running", "to run")
    held = fill(small)
    go.write_text("")
    wait_until(lambda: "No space left" in small.log() or "full" in small.log(), small.log)
    os.unlink(held)
    ended = small.default.wait(run)
    if ended["state"] != "success":
        assert "disk" in ended["job"]["s"]["reason"] or "space" in ended["job"]["s"]["reason"], ended["job"]["s"]["reason"]
        ended = small.default.run("in", {"f": "2"})
    assert small.default.read("s", "f") in (b"1", b"2")
    assert small.post("/fsck?full=1")["ok"]


PAGE = 4096
KEPT = 1024  # pages: PL_DISK_SPACE_LOG_BYTES
ROOMS = [*range(20), 32, 64, 256, *range(KEPT - 2, KEPT + 40, 2), KEPT + 64, KEPT + 256]  # pages left free: the first that is enough lies between


def leave(path, pages):
    """Gives so many pages of the filler back."""
    with open(path, "r+b") as f:
        f.truncate(max(0, os.path.getsize(path) - pages * PAGE))


def attempt(call):
    """What it answers; None where the disk was full, which it says."""
    try:
        return call()
    except HttpError as e:
        assert (e.status, e.error["code"]) == (507, "disk_full"), e
        return None


def test_a_disk_that_fills_at_every_step_of_a_commit(small):
    """A push, a put into an open commit and its finish, each with a little more room: all or nothing of it, and what was answered stays."""
    p = small.default.repo("in")
    p.push("in", "first", b"first")
    files, full, done = {"first": b"first"}, 0, 0
    for n, pages in enumerate(ROOMS):
        # an open commit is begun while there is room: it is the put and the end that meet the full disk
        commit = small.post("/repos/default/in/branches/master/open", {})["id"]
        held = fill(small)
        leave(held, pages)
        push, put = os.urandom(30_000), os.urandom(20_000)
        pushed = attempt(lambda: p.push("in", f"p{n % 4}", push))
        if pushed:
            files[f"p{n % 4}"] = push
        assert p.contents("in") == files
        kept = attempt(lambda: small.http("PUT", f"/api/v1/repos/default/in/open/{commit}/files/o{n % 4}", put))
        finished = attempt(lambda: small.post(f"/repos/default/in/open/{commit}/finish", {}))
        if kept and finished:
            files[f"o{n % 4}"] = put
        assert p.contents("in") == files
        os.unlink(held)
        if not finished:  # room again is enough
            small.post(f"/repos/default/in/open/{commit}/finish", {})
            if kept:
                files[f"o{n % 4}"] = put
        assert p.contents("in") == files
        full += sum(x is None for x in (pushed, kept, finished))
        done += sum(x is not None for x in (pushed, kept, finished))
    assert full > 10 and done > 10, (full, done)
    assert small.post("/fsck?full=1")["ok"]
    assert not os.listdir(os.path.join(small.dir, "open"))
    assert small.stop() == 0
    small.start()
    assert p.contents("in") == files
