"""A store's disk that runs full: it is said at 10 % free, and below the greater of 1 GiB and 2 % pushes are refused while running jobs finish."""

import hashlib
import json
import os
import subprocess

import pytest

from conftest import HttpError, ops_stream, sh, wait_until
from test_follow import Stream

GIB = 1 << 30
BIG = os.urandom(100_000)


class Disk:
    """A filesystem of its own, of which any part can be taken: ext4 in a sparse file, so that what is taken costs nothing."""

    def __init__(self, path, size):
        self.path, self.filler = str(path), os.path.join(path, "filler")
        image = f"{path}.img"
        os.makedirs(path)
        with open(image, "wb") as f:
            f.truncate(size)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", image], check=True)
        mounted = subprocess.run(["mount", "-o", "loop", image, self.path], capture_output=True, text=True)
        if mounted.returncode:
            pytest.skip(f"this machine mounts no file as a disk: {mounted.stderr.strip()}")

    def free(self):
        s = os.statvfs(self.path)
        return s.f_bavail * s.f_frsize

    def leave(self, free):
        """Makes it so that this much is free, within a MiB."""
        fd = os.open(self.filler, os.O_RDWR | os.O_CREAT)
        have = os.fstat(fd).st_size
        want = have + self.free() - free
        if want > have:
            os.posix_fallocate(fd, 0, want)
        else:
            os.ftruncate(fd, max(0, want))
        os.close(fd)
        assert abs(self.free() - free) < 1 << 20, (self.free(), free)

    def unmount(self):
        subprocess.run(["umount", "-l", self.path], check=True)


@pytest.fixture
def disk(tmp_path):
    disk = Disk(tmp_path / "disk", 16 * GIB)
    yield disk
    disk.unmount()


def refused(call, *args, **kwargs):
    """That there is no room for it; what is said."""
    with pytest.raises(HttpError) as e:
        call(*args, **kwargs)
    assert (e.value.status, e.value.error["code"]) == (507, "disk_full"), e.value
    return e.value.error["message"]


def states(daemon):
    return {p["of"]: p["state"] for p in daemon.get("/status")["disk"]["places"]}


def test_pushes_end_before_the_disk_does_and_running_jobs_finish(make_daemon, disk, gate):
    d = make_daemon("--store", f"file://{disk.path}/store").start()
    p = d.default.repo("in")
    p.stages(sh("s", f'cp "$PL_INPUT_IN/f" "$PL_OUT/f"; {gate.wait}'))
    store, data = d.get("/status")["disk"]["places"]
    assert (store["of"], data["of"]) == ("store", "data") and store["path"] == f"{disk.path}/store" and data["path"] == d.dir
    assert store["full_bytes"] == GIB and abs(store["low_bytes"] - disk.free() / 10) < 64 << 20
    assert states(d)["store"] == "ok"
    ops = {"Content-Type": "application/x-pl-ops"}
    into = "/api/v1/repos/default/in"

    with Stream(d, "/events") as events:
        def told():
            return [e[2] for e in events.events if e[1] == "store.low" and e[2]["of"] == "store"]

        # --- it runs low: nobody is refused, and it is said
        disk.leave(store["low_bytes"] - (4 << 20))
        run = p.push("in", "f", BIG)["run"]
        gate.arrived()
        assert wait_until(told, "the event")[-1]["state"] == "low" and told()[-1]["path"] == store["path"]
        assert states(d)["store"] == "low" and "running low" in d.log()
        assert f"disk is low: {store['path']}" in d.ctl("status").out
        disk.leave(store["low_bytes"] + (64 << 20))  # not much more
        assert states(d)["store"] == "low"
        session = d.post("/sessions", {"project": "default"})["session"]
        opened = d.post("/repos/default/in/branches/master/open", {})["id"]
        d.http("PUT", f"{into}/open/{opened}/files/o", BIG[:50_000])

        # --- it is full: whatever brings something is refused, by the time its head is there
        disk.leave(GIB - (8 << 20))
        said = refused(p.push, "in", "g", BIG)
        assert disk.path in said and "1.0 GiB" in said
        refused(p.commit, "in", {"small": b"x"})
        refused(p.commit, "in", {"small": b"x"}, ["f"])
        refused(d.http, "PUT", f"{into}/open/{opened}/files/p", BIG)
        refused(d.http, "POST", f"{into}/open/{opened}/ops", ops_stream({"p": b"x"}, []), ops)
        refused(d.post, "/repos/default/in/branches/master/open", {})
        refused(d.post, "/sessions", {"project": "default"})
        refused(d.http, "PUT", f"/api/v1/projects/default/packs/{hashlib.sha256(BIG).hexdigest()}?session={session}", BIG)
        assert d.post("/sessions", {"project": "default", "kind": "read"})["session"]
        put = d.ctl("put", "file", "in@master:/g", "-f", d.write("g", BIG), ok=False)
        assert put.code == 1 and disk.path in put.err and "Free space" in put.err
        assert states(d)["store"] == "full" and "pushes are refused" in d.log() and "DISK FULL" in d.ctl("status").out
        wait_until(lambda: told()[-1]["state"] == "full", "the event")

        # --- what goes on
        assert p.read("in", "f") == BIG
        gate.open()
        assert p.wait(run)["state"] == "success" and p.read("s", "f") == BIG
        gate.close()
        p.commit("in", {}, ["f"])  # what takes away is taken
        assert p.files("in") == {}
        d.http("POST", f"{into}/open/{opened}/ops", ops_stream({}, ["nothing"]), ops)
        d.post(f"/repos/default/in/open/{opened}/finish", {})  # what was answered is finished
        assert p.contents("in") == {"o": BIG[:50_000]}
        d.default.repo("other")
        d.http("DELETE", "/api/v1/repos/default/other")

        # --- room again: a little is not enough, then all is as before
        disk.leave(GIB + (32 << 20))
        refused(p.push, "in", "g", BIG)
        disk.leave(GIB + (160 << 20))
        p.push("in", "g", BIG)
        assert states(d)["store"] == "low"
        disk.leave(3 * GIB)
        wait_until(lambda: told()[-1]["state"] == "ok", "the event that the daemon tells by itself")
        assert [e["state"] for e in told()] == ["low", "full", "low", "ok"], told()
        assert p.read("in", "g") == BIG and d.ctl("status").out.count("disk is low") == (states(d)["data"] != "ok")
    assert d.post("/fsck?full=1")["ok"]


def test_the_daemons_folder_counts_as_well(make_daemon, disk, tmp_path):
    d = make_daemon("--store", f"file://{tmp_path}/store")
    os.symlink(disk.path, d.dir)
    d.start()
    p = d.default.repo("in")
    assert set(states(d)) == {"store", "data"}
    disk.leave(GIB // 2)
    assert d.dir in refused(p.push, "in", "f", BIG)
    assert states(d)["data"] == "full"
    os.unlink(disk.filler)
    p.push("in", "f", BIG)
    d.stop()
    # as one disk, which is full when the daemon starts
    one = make_daemon(name="one")
    one.dir = os.path.join(disk.path, "one")
    disk.leave(GIB // 2)
    one.start()
    assert states(one) == {"store, data": "full"}
    one.default.repo("in")
    refused(one.default.push, "in", "f", BIG)
    stored = json.loads(one.ctl("status", "--json").out)
    assert stored["disk"]["free_bytes"] == stored["disk"]["places"][0]["free_bytes"]
    assert one.stop() == 0
