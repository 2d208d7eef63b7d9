"""A daemon that ends, orderly or not, and starts again: nothing acknowledged is lost, nothing that was done is done again."""

import http.client
import os
import shutil
import signal
import sqlite3
import subprocess
import threading

import pytest

from conftest import HttpError, everything, processes_with, sh, wait_until, workers_of


def busy(d):
    """A daemon with some history."""
    d.post("/projects", {"name": "more"})
    p = d.default.repo("in", "other")
    d.post("/repos/default/other/branches", {"name": "dev"})
    d.post("/repos/default/other/branches", {"name": "moved"})
    p.stages(sh("s", 'echo "log of $(basename $PL_INPUT_IN)"; echo "{\\"n\\": 1}" >$PL_OUT/metrics.jsonl; cat $PL_INPUT_IN >$PL_OUT/f', glob="/*", output={"prefix": "${in.stem}/"}),
             sh("t", 'cat "$PL_INPUT_S"/*/f >"$PL_OUT/all"', "s"), repos={"made": {}})
    p.run("in", {"a": "1", "b": "2"})
    p.run("in", {"b": "3"}, deletes=["a"])
    p.push("other", "big", bytes(range(256)) * 2000, branch="dev")
    d.http("PATCH", "/api/v1/repos/default/other/branches/moved", {"head": "dev"})
    p.stages(sh("s", 'echo "log of $(basename $PL_INPUT_IN)"; exit 1', glob="/*"), pipeline="p", update=True)
    p.run("in", {"c": "4"}, state="failure")
    return p


def test_after_an_orderly_end_everything_is_there(make_daemon):
    d = make_daemon().start()
    p = busy(d)
    before, log = everything(d), p.logs("s")
    datums = {s: p.datums(s, before["runs"][0]["id"]) for s in ("s",)}
    metrics = d.get("/metrics/default/s", run=before["runs"][-1]["id"])["metrics"]
    assert d.stop() == 0
    assert not os.path.exists(os.path.join(d.dir, "pipelined.url"))
    token = d.token
    d.start()
    assert d.token == token
    assert everything(d) == before
    assert p.logs("s") == log
    assert {s: p.datums(s, before["runs"][0]["id"]) for s in ("s",)} == datums
    assert d.get("/metrics/default/s", run=before["runs"][-1]["id"])["metrics"] == metrics and metrics
    assert p.read("other", "big", "dev") == bytes(range(256)) * 2000
    p.stages(sh("s", 'cat $PL_INPUT_IN >$PL_OUT/f', glob="/*", output={"prefix": "${in.stem}/"}), update=True)
    p.run("in", {"d": "5"})
    assert p.contents("s") == {"b/f": b"3", "c/f": b"4", "d/f": b"5"}


def test_after_kill_9_everything_is_there(make_daemon):
    d = make_daemon().start()
    busy(d)
    before = everything(d)
    d.kill()
    d.start()
    assert everything(d) == before
    assert d.post("/fsck?full=1")["ok"]


def count_runs(d):
    """A stage whose command leaves a line in a file of the host; for a daemon without sandbox."""
    return os.path.join(d.root, "executions")


def lines(path):
    if not os.path.exists(path):
        return 0
    with open(path, encoding="utf-8") as f:
        return len(f.readlines())


def test_a_stage_goes_on_while_the_daemon_is_dead_and_is_not_run_again(make_daemon, gate):
    d = make_daemon(sandbox="none").start()
    d.default.repo("in").stages(sh("s", f"echo x >>{count_runs(d)}; echo first; {gate.wait}; echo last; echo done >$PL_OUT/f"))
    p = d.default
    run = p.commit("in", {"f": "1"})["run"]
    gate.arrived()
    d.kill()
    d.start()
    wait_until(lambda: any(w["attached"] for w in d.get("/status")["live"]["workers"]), "the worker to come back")
    assert d.job(run, "s")["state"] == "running"
    gate.open()
    assert p.wait(run)["state"] == "success"
    assert lines(count_runs(d)) == 1
    assert p.read("s", "f") == b"done\n"
    assert p.logs("s") == "first\nlast\n"


def test_a_stage_that_ends_while_the_daemon_is_dead_is_taken_as_done(make_daemon, gate):
    d = make_daemon(sandbox="none").start()
    d.default.repo("in").stages(sh("s", f"echo x >>{count_runs(d)}; echo first; {gate.wait}; echo last; echo done >$PL_OUT/f; touch {d.root}/ended"))
    p = d.default
    run = p.commit("in", {"f": "1"})["run"]
    gate.arrived()
    d.kill()
    gate.open()
    wait_until(lambda: os.path.exists(f"{d.root}/ended"), "the command to end")
    d.start()
    assert p.wait(run)["state"] == "success"
    assert lines(count_runs(d)) == 1
    assert p.read("s", "f") == b"done\n"
    assert p.logs("s") == "first\nlast\n"


def test_datums_that_were_done_before_the_crash_are_not_run_again(make_daemon, gate):
    d = make_daemon(sandbox="none").start()
    d.default.repo("in").stages(sh("s", f"echo x >>{count_runs(d)}; n=$(basename $PL_INPUT_IN); if test $n = z; then {gate.wait}; fi; echo $n >$PL_OUT/$n", glob="/*"),
                                sh("t", 'cat "$PL_INPUT_S"/* >$PL_OUT/all', "s"))
    p = d.default
    run = p.commit("in", {n: n for n in "abcdz"})["run"]
    gate.arrived()
    assert d.job(run, "s")["datums"]["done"] >= 1
    d.kill()
    d.start()
    gate.open()
    run = p.wait(run)
    assert (run["state"], run["job"]["s"]["datums"]["done"]) == ("success", 5)
    assert lines(count_runs(d)) == 5
    assert p.read("t", "all") == b"a\nb\nc\nd\nz\n"


def test_a_run_in_the_queue_survives_the_crash(make_daemon, gate):
    d = make_daemon().start()
    d.default.repo("in").stages(sh("s", f"{gate.wait}; cat $PL_INPUT_IN/f >$PL_OUT/f", on_new="queue"))
    p = d.default
    runs = [p.commit("in", {"f": str(i)})["run"] for i in range(3)]
    gate.arrived()
    d.kill()
    d.start()
    for i in range(3):
        if i:
            gate.arrived()
        gate.open()
        assert p.wait(runs[i])["state"] == "success"
    assert [p.read("s", "f", r) for r in runs] == [b"0", b"1", b"2"]


def test_sigterm_lets_a_short_datum_finish_and_gives_a_long_one_back(make_daemon, gate):
    d = make_daemon("--drain", "1s", sandbox="none").start()
    d.default.repo("in").stages(sh("s", f"echo x >>{count_runs(d)}; {gate.wait}; echo >$PL_OUT/f"))
    p = d.default
    run = p.commit("in", {"f": "1"})["run"]
    gate.arrived()
    assert d.stop() == 0
    assert not processes_with(d.dir), "workers end with their daemon when it is told to"
    gate.open()
    d.start()
    gate.arrived()
    gate.open()
    assert p.wait(run)["state"] == "success"
    assert lines(count_runs(d)) == 2


def test_sigterm_ends_the_daemon_while_many_ask_what_is_live(make_daemon):
    daemon = make_daemon()
    for _ in range(8):
        daemon.start()
        answered = []

        def ask():
            try:
                while True:
                    daemon.get("/status")
                    answered.append(1)
            except (OSError, HttpError, http.client.HTTPException):
                pass

        askers = [threading.Thread(target=ask) for _ in range(12)]
        for t in askers:
            t.start()
        wait_until(lambda: len(answered) > 20, "answers")
        assert daemon.stop(timeout=20) == 0
        for t in askers:
            t.join()


def test_a_killed_worker_costs_no_try(make_daemon, gate):
    d = make_daemon().start()
    d.default.repo("in").stages(sh("s", f"{gate.wait}; echo >$PL_OUT/f"))
    p = d.default
    run = p.commit("in", {"f": "1"})["run"]
    gate.arrived()
    pid, = workers_of(d)  # by its folder: other daemons' workers have the same numbers
    os.kill(pid, signal.SIGKILL)
    gate.open()
    gate.arrived()
    job = d.job(run, "s")
    assert (job["state"], job["datums"]["lost"]) == ("running", 1), job
    gate.open()
    run = p.wait(run)
    assert (run["state"], run["job"]["s"]["datums"]["failed"]) == ("success", 0)


def test_workers_of_a_daemon_whose_folder_was_taken_away_end(make_daemon, gate):
    d = make_daemon().start()
    d.default.repo("in").stages(sh("s", f"{gate.wait}; echo >$PL_OUT/f"))
    d.default.commit("in", {"f": "1"})
    gate.arrived()
    d.kill()
    assert workers_of(d)
    shutil.rmtree(d.dir)
    wait_until(lambda: not processes_with(d.dir), "agents, runners and sandboxes to end")


def test_workers_find_the_daemon_of_a_relative_folder_again(make_daemon, gate):
    """They run in other folders than the daemon does: from there its --data led nowhere, and they waited for an hour."""
    d = make_daemon("--data", "data")
    d.before = ["env", f"--chdir={d.root}"]
    d.start()
    d.default.repo("in").stages(sh("s", f"{gate.wait}; echo >$PL_OUT/f"))
    run = d.default.commit("in", {"f": "1"})["run"]
    gate.arrived()
    d.kill()
    d.start()
    gate.open()
    assert d.wait(run)["state"] == "success"
    assert d.default.datums("s", run)[0]["attempt"] == 1, "the worker that was there has done it"


# --- the store is enough

def test_an_empty_folder_and_the_store_are_the_whole_again(make_daemon):
    store = make_daemon(name="store")
    first = make_daemon("--store", f"file://{store.root}/s").start()
    busy(first)
    before, contents = everything(first), first.default.contents("in")
    assert first.stop() == 0
    second = make_daemon("--store", f"file://{store.root}/s").start()
    assert everything(second) == before
    assert second.default.contents("in") == contents
    assert second.post("/fsck?full=1")["ok"]
    second.default.stages(sh("s", 'cat $PL_INPUT_IN >$PL_OUT/f', glob="/*", output={"prefix": "${in.stem}/"}), update=True)
    second.default.run("in", {"d": "5"})
    assert second.default.contents("s") == {"b/f": b"3", "c/f": b"4", "d/f": b"5"}


def checkpoints(store):
    """Names of the log checkpoints in the store of a folder, oldest first."""
    folder = os.path.join(store, "ckpt")
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def newest(folder):
    """The last name in a folder of the store; "" as long as it has none."""
    return max(os.listdir(folder), default="") if os.path.isdir(folder) else ""


def flip_bit(path, at):
    os.chmod(path, 0o600)
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 1]))


def test_what_is_logged_while_a_checkpoint_is_written_makes_the_next_one_due(make_daemon):
    d = make_daemon("--checkpoint-every", "1").start()
    store = os.path.join(d.dir, "store")
    d.default.repo("in")
    for i in range(10):  # the commit is logged, and then its run's end
        d.default.push("in", "f", str(i))
        wait_until(lambda: checkpoints(store)[-1:] == sorted(os.listdir(os.path.join(store, "log")))[-1:], "one of all that is logged")


def test_checkpoints_are_made_and_a_recovery_begins_with_the_newest_good_one(make_daemon):
    store = os.path.join(make_daemon(name="store").root, "s")
    first = make_daemon("--store", f"file://{store}", "--checkpoint-every", "5").start()
    busy(first)
    seen, n = set(), iter(range(10_000))

    def older_ones_go():
        first.default.push("other", "later", str(next(n)))
        seen.update(checkpoints(store))
        return len(seen) > 3 and len(checkpoints(store)) == 3

    wait_until(older_ones_go, lambda: f"the fourth checkpoint: {seen}")
    before, failed = everything(first), first.get("/runs", state="failure")["runs"][0]["id"]
    datums = first.default.datums("s", failed)
    assert first.stop() == 0
    kept = checkpoints(store)

    second = make_daemon("--store", f"file://{store}").start()
    assert f"recovered from checkpoint {int(kept[-1], 16)} and the log up to" in second.log()
    assert "created new: DIR/token" in second.log()
    assert everything(second) == before
    assert second.default.datums("s", failed) == datums, "attempts, which the log does not have, are the checkpoint's"
    assert second.post("/fsck?full=1")["ok"]
    assert second.stop() == 0

    flip_bit(os.path.join(store, "ckpt", kept[-1]), 500)
    third = make_daemon(name="third")
    said = third.ctl("recover", "--store", f"file://{store}", "--data", third.dir, "--json").json
    assert (said["checkpoint"], said["passed_over"]) == (int(kept[-2], 16), 1), said
    assert kept[-1] in said["why"]
    assert any("DIR/token" in text for text in said["anew"])
    third.options = ["--store", f"file://{store}"]
    third.start()
    assert everything(third) == before
    third.default.push("other", "more", b"it goes on")


def test_an_object_missing_from_the_log_is_named_and_nothing_is_made(make_daemon):
    d = make_daemon().start()
    d.default.repo("in")
    d.default.commit("in", {"f": "1"})
    d.stop()
    store, new = os.path.join(d.dir, "store"), os.path.join(d.root, "new")
    missing = sorted(os.listdir(os.path.join(store, "log")))[1]
    os.rename(os.path.join(store, "log", missing), os.path.join(d.root, missing))
    refused = d.ctl("recover", "--store", f"file://{store}", "--data", new, ok=False)
    assert refused.code == 1 and f"log/{missing} is missing" in refused.err, refused.err
    assert not os.path.exists(os.path.join(new, "pipelined.db"))
    os.rename(os.path.join(d.root, missing), os.path.join(store, "log", missing))
    assert "recovered 1 repos" in d.ctl("recover", "--store", f"file://{store}", "--data", new).out


def test_a_run_that_was_under_way_goes_on_after_recovery(make_daemon, gate):
    store = make_daemon(name="store")
    first = make_daemon("--store", f"file://{store.root}/s", "--drain", "100ms").start()
    first.default.repo("in").stages(sh("s", f"{gate.wait}; echo >$PL_OUT/f"))
    run = first.default.commit("in", {"f": "1"})["run"]
    gate.arrived()
    first.stop()
    gate.open()
    second = make_daemon("--store", f"file://{store.root}/s").start()
    gate.arrived()
    gate.open()
    assert second.default.wait(run)["state"] == "success"


def test_a_stale_daemon_is_fenced_and_ends(make_daemon):
    store = make_daemon(name="store")
    first = make_daemon("--store", f"file://{store.root}/s").start()
    first.default.repo("in").commit("in", {"f": "1"})
    second = make_daemon("--store", f"file://{store.root}/s").start()
    with pytest.raises((HttpError, OSError)):
        first.default.commit("in", {"f": "from the stale one"})
    assert first.process.wait(timeout=60) == 75
    assert "another daemon" in first.log()
    first.process = None
    assert second.default.contents("in") == {"f": b"1"}
    second.default.commit("in", {"f": "2"})
    assert second.default.contents("in") == {"f": b"2"}


# --- what is broken is noticed

def start_refused(d):
    d.start(expect_failure=True)
    code, d.process = d.process.returncode, None
    assert code == 1
    return d.log()


def database(d):
    return sqlite3.connect(os.path.join(d.dir, "pipelined.db"))


def test_a_database_newer_than_the_program_is_refused(make_daemon):
    d = make_daemon().start()
    d.stop()
    with database(d) as db:
        db.execute("PRAGMA user_version = 99")
    assert "99" in start_refused(d) and "newer" in d.log()


def test_a_database_of_another_log_is_refused(make_daemon):
    one, two = make_daemon().start(), make_daemon().start()
    one.default.repo("in")
    one.stop()
    two.stop()
    os.rename(os.path.join(two.dir, "store"), os.path.join(two.dir, "own-store"))
    os.rename(os.path.join(one.dir, "store"), os.path.join(two.dir, "store"))
    assert "store" in start_refused(two)


def test_a_database_ahead_of_its_log_is_refused(make_daemon):
    d = make_daemon().start()
    d.default.repo("in")
    d.default.commit("in", {"f": "1"})
    d.stop()
    log = os.path.join(d.dir, "store", "log")
    os.unlink(os.path.join(log, sorted(os.listdir(log))[-1]))
    assert "log" in start_refused(d)


def test_a_damaged_log_object_is_refused_by_name(make_daemon):
    d = make_daemon().start()
    d.default.repo("in")
    d.default.commit("in", {"f": "1"})
    d.stop()
    for name in ("pipelined.db", "pipelined.db-wal", "pipelined.db-shm"):
        path = os.path.join(d.dir, name)
        if os.path.exists(path):
            os.unlink(path)
    log = os.path.join(d.dir, "store", "log")
    name = sorted(os.listdir(log))[1]
    os.chmod(os.path.join(log, name), 0o600)
    with open(os.path.join(log, name), "r+b") as f:
        f.seek(-3, 2)
        f.write(b"\xff\xff\xff")
    assert name in start_refused(d)


def packs(d):
    for folder, _, names in os.walk(os.path.join(d.dir, "store", "p")):
        for name in names:
            yield os.path.join(folder, name)


def test_fsck_names_the_files_that_a_damaged_pack_hurts(make_daemon):
    d = make_daemon().start()
    p = d.default.repo("in")
    p.push("in", "good", os.urandom(100_000))
    before = set(packs(d))
    p.push("in", "hurt/data.bin", os.urandom(100_000))
    assert d.post("/fsck?full=1")["ok"]
    victim = max(set(packs(d)) - before, key=os.path.getsize)
    d.stop()
    os.chmod(victim, 0o600)
    with open(victim, "r+b") as f:
        f.seek(20_000)
        f.write(b"damage")
    d.start()
    report = d.post("/fsck?full=1")
    assert not report["ok"]
    assert any(f["path"] and "hurt/data.bin" in f["path"] for f in report["findings"]), report
    assert not any(f["path"] and "good" in f["path"] for f in report["findings"]), report
    assert any(f["pack"] == os.path.basename(victim) for f in report["findings"]), report
    with pytest.raises((HttpError, http.client.IncompleteRead)):
        p.read("in", "hurt/data.bin")
    assert len(p.read("in", "good")) == 100_000


def test_fsck_notices_a_pack_that_is_gone(make_daemon):
    d = make_daemon().start()
    p = d.default.repo("in")
    before = set(packs(d))
    p.push("in", "hurt.bin", os.urandom(100_000))
    victim = max(set(packs(d)) - before, key=os.path.getsize)
    d.stop()
    os.unlink(victim)
    d.start()
    report = d.post("/fsck")
    assert not report["ok"] and report["found"] > 0


# --- a full disk

@pytest.fixture
def small_disk(tmp_path):
    """A filesystem of 24 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    if os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", path], check=False).returncode == 0:
        yield str(path)
        subprocess.run(["umount", "-l", path], check=True)
    else:
        yield None


def test_a_full_disk_fails_the_push_and_nothing_else(make_daemon, small_disk):
    if small_disk is None:  # nobody may mount here: the same by injected failures of every write from some point on
        d = make_daemon().start(env={"PL_FAULT": "write=400,errno=28"})
    else:
        d = make_daemon("--store", f"file://{small_disk}/store").start()
    p = d.default.repo("in")
    p.push("in", "kept", b"before")
    with pytest.raises(HttpError) as e:
        for i in range(40):
            p.push("in", f"f{i}", os.urandom(1 << 20))
    assert (e.value.status, e.value.error["code"]) == (507, "disk_full"), e.value
    assert p.read("in", "kept") == b"before"
    files = p.files("in")
    if small_disk:  # room again: what others of this disk give back
        d.stop()
        subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
        d.start()
    assert p.files("in") == files
    p.push("in", "after", b"after")
    assert p.read("in", "after") == b"after"
    assert d.post("/fsck?full=1")["ok"]


def test_a_full_disk_is_got_over_without_a_restart(make_daemon, small_disk):
    if small_disk is None:
        pytest.fail("this test needs to mount a small filesystem: run it as root")
    d = make_daemon("--store", f"file://{small_disk}/store").start()
    p = d.default.repo("in")
    p.stages(sh("s", 'wc -c <$PL_INPUT_IN/f >$PL_OUT/f'))
    filler = os.path.join(small_disk, "filler")
    with open(filler, "wb") as f:
        try:
            while True:
                f.write(bytes(1 << 16))
                f.flush()
        except OSError:
            pass
    for i in range(5):
        with pytest.raises(HttpError) as e:
            p.push("in", "f", os.urandom(1 << 20))
        assert (e.value.status, e.value.error["code"]) == (507, "disk_full"), e.value
    assert d.get("/status")["disk"], "it lives and says how it stands"
    os.unlink(filler)
    assert p.wait(p.push("in", "f", os.urandom(1 << 20))["run"])["state"] == "success"
    assert p.read("s", "f").strip() == b"1048576"
    assert not [n for n in os.listdir(os.path.join(small_disk, "store", "tmp"))], "no leftovers of what failed"


def test_a_stage_that_fills_its_disk_fails_and_the_next_one_does_not(make_daemon, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", disk], check=False).returncode == 0:
        mounted, fill = True, "head -c 100000000 /dev/zero >$PL_OUT/big"
    else:  # a limit on the size of a file gives the same error to the command
        mounted, fill = False, "ulimit -f 1000; trap '' XFSZ; head -c 100000000 /dev/zero >$PL_OUT/big"
    d = make_daemon("--store", f"file://{tmp_path}/store")
    os.makedirs(d.dir)
    if mounted:
        os.mkdir(disk / "work")
        os.symlink(disk / "work", os.path.join(d.dir, "work"))
    try:
        d.start()
        p = d.default.repo("in")
        p.stages(sh("s", f'if test -e $PL_INPUT_IN/fill; then {fill}; fi; echo ok >$PL_OUT/f'))
        run = p.run("in", {"fill": "1"}, state="failure")
        assert "No space left" in p.datums("s", run["id"])[0]["tail"] or "File too large" in p.datums("s", run["id"])[0]["tail"]
        p.run("in", {"f": "1"}, deletes=["fill"])
        assert p.contents("s") == {"f": b"ok\n"}
    finally:
        d.stop()
        if mounted:
            subprocess.run(["umount", "-l", disk], check=True)
