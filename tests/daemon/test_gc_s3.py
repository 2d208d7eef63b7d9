"""Garbage collection of a bucket: in few requests, past failures, by one daemon alone, and recovered from in the middle."""

import random
import shutil

import pytest

from conftest import HttpError, everything, runs_end, wait_until
from test_store_s3 import mock, over  # noqa: F401  (fixtures)

QUIET = ["--gc-every", "0s", "--linger", "0s"]


def noise(n, seed):
    return random.Random(seed).randbytes(n)


def start(over, mock):
    d = over(mock)
    d.options += QUIET
    return d.start()


def objects(m):
    return int(m.order("objects"))


def all_read_back(d):
    """Packs that nobody has read since a recovery are not collected."""
    wait_until(lambda: d.get("/status")["packs"]["unread"] == 0, "all packs are read back")


def kept_and_gone(d, n=30):
    """A repo that stays, and packs of one that is deleted."""
    d.ctl("create", "repo", "gone")
    d.ctl("create", "repo", "kept")
    d.push("kept", "x", noise(200_000, 1))
    for i in range(n):
        d.push("gone", f"f{i}", noise(20_000, 100 + i))
    d.ctl("delete", "repo", "gone")


def test_a_deleted_repo_goes_from_the_bucket_in_few_requests(mock, over):
    d = start(over, mock)
    kept_and_gone(d)
    state, before = everything(d), objects(mock)  # in this order: the ends of runs are written to the bucket, too
    foreseen = d.ctl("--json", "gc", "--dry-run").json
    assert foreseen["freed_packs"] >= 30 and foreseen["repos"][0]["repo"] == "gone"
    assert objects(mock) == before and everything(d) == state
    deletes = mock.requests("DELETE")
    report = d.ctl("--json", "gc").json
    assert report["freed_packs"] >= 30 and report["waiting_packs"] == 0
    assert objects(mock) < before - 25  # the log's own objects came meanwhile
    assert mock.requests("DELETE") == deletes  # many at once, not one by one
    assert d.read("kept", "x") == noise(200_000, 1)
    assert everything(d) == state and d.post("/fsck?full=1")["ok"]


def test_what_the_bucket_does_not_remove_goes_with_the_next_one(mock, over):
    d = start(over, mock)
    kept_and_gone(d)
    before, state = objects(mock), everything(d)
    mock.fault("403", "POST", times=1)
    report = d.ctl("--json", "gc", ok=False).json
    assert report["freed_packs"] == 0 and "AccessDenied" in report["error"]
    assert d.read("kept", "x") == noise(200_000, 1) and d.post("/fsck")["ok"]
    d.kill()  # and nobody remembers that it was under way
    d.start()
    d.ctl("gc")
    assert objects(mock) < before
    assert everything(d) == state and d.post("/fsck?full=1")["ok"]


def test_recovered_from_the_bucket_in_the_middle_it_goes_on(mock, over):
    d = start(over, mock)
    kept_and_gone(d)
    d.post("/sessions", {"project": "default"})  # somebody is there, and is lost with the disk
    report = d.ctl("--json", "gc").json
    assert report["freed_packs"] == 0 and report["waiting_packs"] >= 30
    state = everything(d)
    d.kill()
    shutil.rmtree(d.dir)
    d.start()
    assert everything(d) == state
    all_read_back(d)
    report = d.ctl("--json", "gc").json
    assert report["freed_packs"] == 0 and report["waiting_packs"] >= 30  # who was there may still be
    d.push("kept", "f0", noise(20_000, 100))  # the bytes of one that is condemned
    assert d.read("kept", "f0") == noise(20_000, 100)
    assert d.post("/fsck?full=1")["ok"]


def test_a_daemon_that_was_replaced_removes_nothing(mock, over):
    old = start(over, mock)
    kept_and_gone(old)
    new = start(over, mock)
    runs_end(new)
    before = objects(mock)
    with pytest.raises((HttpError, AssertionError)):
        old.ctl("gc")
    assert old.process.wait(timeout=60) == 75
    old.process = None
    assert objects(mock) == before
    all_read_back(new)
    report = new.ctl("--json", "gc").json
    assert report["freed_packs"] + report["waiting_packs"] >= 30
    assert new.read("kept", "x") == noise(200_000, 1) and new.post("/fsck?full=1")["ok"]
