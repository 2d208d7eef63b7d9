"""Transfers that cannot fit are refused before the first byte: a put by the space of the store's disk, a get by that of the own disk.

Each test has small disks of its own (tmpfs); an eighth of the store's stays free (policy/disk_space.h)."""

import os
import subprocess

import pytest

MIB = 1 << 20


@pytest.fixture
def disks(tmp_path):
    """Makes disks of a given size in MiB."""
    made = []

    def make(name, mib):
        path = tmp_path / name
        path.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "none", path], check=False, capture_output=True, text=True)
        if mounted.returncode:
            pytest.skip(f"this machine mounts no tmpfs: {mounted.stderr.strip()}")
        made.append(path)
        return path

    yield make
    for path in made:
        subprocess.run(["umount", "-l", path], check=True)


def free(path):
    s = os.statvfs(path)
    return s.f_bavail * s.f_frsize


@pytest.fixture
def store(make_daemon, disks):
    """A daemon whose store is on a disk of 64 MiB, with a repo; and that disk."""
    disk = disks("store", 64)
    daemon = make_daemon("--store", f"file://{disk}/store").start()
    daemon.default.repo("in")
    return daemon, disk


def refused(daemon, *words):
    """That there is no space for it: exit code 1 and what is said."""
    done = daemon.ctl(*words, ok=False)
    assert done.code == 1, (done.out, done.err)
    return done.err


def folder(tmp_path, name, files):
    path = tmp_path / name
    path.mkdir()
    for file, data in files.items():
        (path / file).write_bytes(data)
    return path


@pytest.mark.parametrize("one", [True, False], ids=["one file", "a folder"])
def test_a_put_that_does_not_fit_is_refused_before_it_begins(store, tmp_path, one):
    daemon, disk = store
    many = folder(tmp_path, "many", {f"{i}": os.urandom(20 * MIB) for i in range(4)})
    large = tmp_path / "large"
    large.write_bytes(os.urandom(80 * MIB))
    before = free(disk)
    what = ["in@master:/large", "-f", large] if one else ["-r", "in@master:/", "-f", many]
    said = refused(daemon, "put", "file", *what)
    assert str(disk) in said and "80.0 MiB more" in said and "8.0 MiB stay reserved" in said and "nothing was sent" in said
    assert free(disk) > before - MIB
    assert daemon.get("/repos/default/in/branches")["branches"] == []
    # told to try, it stops at the reserve, and the store goes on
    said = refused(daemon, "put", "file", "--no-space-check", *what)
    assert str(disk) in said and free(disk) > 7 * MIB
    assert daemon.get("/repos/default/in/branches")["branches"] == []


def test_a_full_disk_is_not_advised_to_skip_the_check(store, tmp_path):
    daemon, disk = store
    small = folder(tmp_path, "small", {"a": os.urandom(MIB), "b": os.urandom(MIB)})
    (disk / "filler").write_bytes(os.urandom(free(disk) - 4 * MIB))
    for words in [[], ["--no-space-check"]]:
        said = refused(daemon, "put", "file", *words, "-r", "in@master:/", "-f", small)
        assert str(disk) in said and "--no-space-check" not in said, said
    # with space for less than all of it, it may be put in part
    (disk / "filler").unlink()
    (disk / "filler").write_bytes(os.urandom(free(disk) - 9 * MIB))
    assert "--no-space-check" in refused(daemon, "put", "file", "-r", "in@master:/", "-f", small)


def test_standard_input_stops_at_the_reserve(store):
    daemon, disk = store
    done = daemon.ctl("put", "file", "in@master:/large", "-f", "-", stdin=os.urandom(80 * MIB), ok=False)
    assert done.code == 1 and str(disk) in done.err and "reserved" in done.err, done.err
    assert free(disk) > 7 * MIB
    assert daemon.get("/repos/default/in/branches")["branches"] == []


def test_what_compresses_or_is_there_already_is_put(store, tmp_path):
    daemon, _ = store
    zeros = tmp_path / "zeros"
    zeros.write_bytes(bytes(80 * MIB))
    refused(daemon, "put", "file", "in@master:/zeros", "-f", zeros)
    daemon.ctl("put", "file", "--no-space-check", "in@master:/zeros", "-f", zeros)
    assert daemon.default.files("in") == {"zeros": "file"}
    noise = folder(tmp_path, "noise", {"a": os.urandom(16 * MIB), "b": os.urandom(16 * MIB)})
    daemon.default.repo("again")
    daemon.ctl("put", "file", "-r", "again@master:/", "-f", noise)
    # the second time there is space for half of it, but the branch has it already
    said = daemon.ctl("put", "file", "-r", "--no-cache", "again@master:/", "-f", noise).out
    assert "nothing changed" in said


def test_a_get_that_does_not_fit_is_refused_before_it_begins(store, disks, tmp_path):
    daemon, _ = store
    data = {"a": os.urandom(6 * MIB), "b": os.urandom(6 * MIB)}
    daemon.ctl("put", "file", "-r", "in@master:/", "-f", folder(tmp_path, "put", data))
    small = disks("small", 8)
    said = refused(daemon, "get", "file", "-r", "in@master:/", "-o", small / "deep" / "out")
    assert str(small) in said and "8.0 MiB free" in said and "2 files of 12.0 MiB" in said and "nothing was written" in said
    assert os.listdir(small) == []
    daemon.ctl("get", "file", "in@master:/a", "-o", small / "a")
    said = refused(daemon, "get", "file", "in@master:/b", "-o", small / "a")
    assert "2.0 MiB free" in said and "1 file of 6.0 MiB" in said
    assert os.listdir(small) == ["a"] and (small / "a").read_bytes() == data["a"]
    assert "--no-space-check" in said
    # nothing is written to a full disk, whatever is not checked
    (small / "filler").write_bytes(bytes(free(small)))
    said = refused(daemon, "get", "file", "in@master:/b", "-o", small / "b")
    assert "0 B free" in said and "--no-space-check" not in said


def test_files_that_a_get_replaces_count_as_free(store, disks, tmp_path):
    daemon, _ = store
    data = {"a": os.urandom(3 * MIB), "b": os.urandom(3 * MIB)}
    daemon.ctl("put", "file", "-r", "in@master:/", "-f", folder(tmp_path, "put", data))
    small = disks("small", 8)
    for _ in range(2):
        daemon.ctl("get", "file", "-r", "in@master:/", "-o", small / "out")
    assert {name: (small / "out" / name).read_bytes() for name in os.listdir(small / "out")} == data
