"""fsck over a real daemon and without one: what it looks at, how it goes on, what it leaves alone."""

import json
import os
import signal
import subprocess

from conftest import BIN, logs_are_sealed, runs_end, sh, wait_until
from test_restart import busy, checkpoints, flip_bit, packs


def whole(path):
    """Every file of a folder with its bytes."""
    found = {}
    for folder, _, names in os.walk(path):
        for name in names:
            with open(os.path.join(folder, name), "rb") as f:
                found[os.path.join(folder, name)] = f.read()
    return found


def test_a_check_looks_at_everything_and_says_how_far_it_is(make_daemon):
    d = make_daemon("--checkpoint-every", "10").start()
    busy(d)
    wait_until(lambda: checkpoints(os.path.join(d.dir, "store")), "a checkpoint")
    report = d.post("/fsck?full=1")
    assert report["ok"], report
    assert report["blobs"] >= 4 and report["log_objects"] > 10 and report["checkpoints"] >= 1 and report["earlier"] == 0
    state = d.get("/fsck")
    assert (state["running"], state["full"], state["found"]) == (False, True, 0)
    told = [e for e in d.http("GET", "/api/v1/events?limit=1000", headers={"Accept": "application/json"})["events"] if e["type"] == "fsck"]
    assert [e["data"]["running"] for e in told] == [True, False], told
    assert "log objects checked" in d.ctl("fsck", "--full").out


def test_a_check_without_a_daemon_finds_the_same_and_touches_nothing(make_daemon):
    d = make_daemon().start()
    p = busy(d)
    p.push("in", "hurt/data.bin", os.urandom(100_000))
    runs_end(d)
    logs_are_sealed(d)
    store = os.path.join(d.dir, "store")
    assert d.ctl("fsck", "--store", f"file://{store}", "--full", "--json").json["ok"], "beside the daemon"
    good = d.post("/fsck?full=1")
    assert d.stop() == 0
    before = whole(store)
    offline = d.ctl("fsck", "--store", f"file://{store}", "--full", "--json").json
    for key in ("ok", "packs", "commits", "files", "records"):
        assert offline[key] == good[key], key
    assert whole(store) == before

    flip_bit(max(packs(d), key=os.path.getsize), 50_000)
    said = d.ctl("fsck", "--store", f"file://{store}", "--full", ok=False)
    assert said.code == 1 and "hurt/data.bin" in said.out, said.out + said.err
    d.start()
    found = d.post("/fsck?full=1")["findings"]
    assert [f["path"] for f in found if f["path"]] == ["hurt/data.bin"], found


def test_a_log_that_cannot_be_replayed_is_checked_by_itself(make_daemon):
    d = make_daemon().start()
    d.default.repo("in")
    d.default.commit("in", {"f": "1"})
    d.stop()
    log = os.path.join(d.dir, "store", "log")
    name = sorted(os.listdir(log))[1]
    os.unlink(os.path.join(log, name))
    said = d.ctl("fsck", "--store", f"file://{d.dir}/store", "--json", ok=False)
    assert said.code == 1
    assert [f["object"] for f in json.loads(said.out)["findings"]] == [f"log/{name}"]
    d.ctl("fsck", "--store", f"file://{d.root}/nothing", ok=False)


def test_a_check_that_is_interrupted_goes_on(make_daemon, tmp_path):
    d = make_daemon().start()
    d.default.repo("in")
    for i in range(40):
        d.default.push("in", f"f{i}", os.urandom(300_000))
    n = d.post("/fsck")["packs"]
    d.stop()
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}

    def interrupted_at_work():
        """It may have been at its end before the signal came."""
        process = subprocess.Popen([os.path.join(BIN, "pipelinectl"), "fsck", "--full", "--anew", "--store", f"file://{d.dir}/store"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **env})
        wait_until(lambda: list(tmp_path.glob("pipelined-fsck-*/index/default")) or process.poll() is not None, "the check to begin")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0 or b"run the same command again to continue" in err, out + err
        return process.returncode != 0

    wait_until(interrupted_at_work, "a check that is interrupted")
    assert not list(tmp_path.glob("pipelined-fsck-*")), "its scratch folder goes"
    report = d.ctl("fsck", "--full", "--store", f"file://{d.dir}/store", "--json", env=env).json
    assert report["ok"] and report["packs"] + report["earlier"] == n, report
    report = d.ctl("fsck", "--full", "--store", f"file://{d.dir}/store", "--json", env=env).json
    assert report["earlier"] == 0, "a check that came to its end is over"
