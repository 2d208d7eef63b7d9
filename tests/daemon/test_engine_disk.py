"""A disk that is full while stages run: nothing is told to have ended that is not written, and room again is enough to go on."""

import os
import subprocess

import pytest

from conftest import sh, wait_until
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
    small.default.repo("in").stages(sh("s", WAIT.format(go) + end))
    run = small.default.commit("in", {"f": "1"})["run"]
    small.wait_job(run, "s", lambda j: j["state"] == "running", "to run")
    with Stream(small, f"/logs/default/s?follow=1&run={run}") as log:
        held = fill(small)
        go.write_text("")
        if state == "killed":
            small.post(f"/runs/{run}/stop")
        wait_until(lambda: "to be written again" in small.log(), small.log)
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
