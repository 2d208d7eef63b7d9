"""The daemon over a bucket: a strict S3 server (tests/support/s3_server) that can be told to fail."""

import json
import os
import shutil
import subprocess
import time

import pytest

from conftest import BIN, HttpError, everything, sh
from s3_mock_server import S3Mock

WATCH_S = 3  # a daemon looks at its log this often (PL_LOG_WATCH_MS)


@pytest.fixture
def mock(request):
    m = S3Mock(*getattr(request, "param", []))
    yield m
    m.close()


@pytest.fixture
def over(make_daemon, tmp_path):
    """Makes a daemon over the bucket of a mock; more keys of its store's configuration."""
    made = []

    def make(mock, **store):
        made.append(make_daemon())
        path = tmp_path / f"config-{len(made)}.json"
        path.write_text(json.dumps({"store": {**mock.store, **store}}))
        made[-1].options += ["--config", str(path)]
        return made[-1]
    return make


def work(d):
    """Data in, through a stage, and out again."""
    p = d.default.repo("in")
    p.stages(sh("s", 'cat "$PL_INPUT_IN" "$PL_INPUT_IN" >"$PL_OUT/f"', glob="/*", output={"prefix": "${in.stem}/"}))
    p.run("in", {"a": "1", "b": "2"})
    assert p.contents("s") == {"a/f": b"11", "b/f": b"22"}
    return p


def test_push_stage_get_and_restart(mock, over):
    d = over(mock).start()
    p = work(d).repo("other")
    big = bytes(range(256)) * 40000
    p.push("other", "big", big)
    tree = os.path.join(d.root, "tree")
    os.makedirs(tree)
    for i in range(200):
        d.write(f"tree/{i}", f"file {i} " * (i * 20))
    d.ctl("put", "file", "other@b", "-f", tree, "-r")
    assert p.read("other", "big") == big
    d.ctl("get", "file", "other@b:/", "-r", "-o", os.path.join(d.root, "back"))
    assert subprocess.run(["diff", "-r", tree, os.path.join(d.root, "back")], check=False).returncode == 0
    before = everything(d)
    assert d.post("/fsck?full=1")["ok"]
    assert d.stop() == 0
    d.start()
    assert everything(d) == before
    assert p.read("other", "big") == big
    d.kill()
    shutil.rmtree(os.path.join(d.dir, "cache"))
    shutil.rmtree(os.path.join(d.dir, "index"))
    d.start()
    assert everything(d) == before
    p.run("in", {"c": "3"})
    assert p.contents("s")["c/f"] == b"33"
    assert not os.path.exists(os.path.join(d.dir, "store"))


def test_what_is_read_soon_comes_by_few_requests(mock, over):
    """Nothing is cached: a folder is one range; files that lie apart are one each, at most, and what lies between is not read. Twice as many requests are
    accepted: on a machine with other work a range may be asked for in parts."""
    d = over(mock).start()
    d.default.repo("many")
    for i in range(3):  # 9 MB, of random bytes, between one folder and the next
        for k in range(300):
            d.write(f"many/d{i}/{k:03d}", os.urandom(30000))
    d.ctl("put", "file", "many@master:/", "-f", os.path.join(d.root, "many"), "-r")
    assert d.stop() == 0
    shutil.rmtree(os.path.join(d.dir, "cache"))
    d.start()
    began = time.monotonic()

    def watches():
        return int((time.monotonic() - began) / WATCH_S) + 1  # the daemon looks at the log meanwhile, too

    before = mock.requests("GET")
    d.ctl("get", "file", "many@master:/d1", "-r", "-o", os.path.join(d.root, "one"))
    assert mock.requests("GET") - before <= 2 * 11 + watches()
    assert subprocess.run(["diff", "-r", os.path.join(d.root, "many/d1"), os.path.join(d.root, "one")], check=False).returncode == 0
    before, began = mock.requests("GET"), time.monotonic()
    d.ctl("get", "file", "many@master", "--files-from", "-", "-o", os.path.join(d.root, "some"), stdin=b"d0/000\nd0/200\nd2/150\nd2/151\n")
    assert mock.requests("GET") - before <= 2 * 4 + watches()
    for name in ("d0/000", "d0/200", "d2/150", "d2/151"):
        assert open(os.path.join(d.root, "some", name), "rb").read() == open(os.path.join(d.root, "many", name), "rb").read()


@pytest.mark.parametrize("mock", [["--tls"]], indirect=True)
def test_over_tls_with_a_certificate_of_its_own(mock, over):
    d = over(mock, ca=mock.ca).start()
    work(d)
    assert d.stop() == 0
    d = over(mock).start(expect_failure=True)  # nobody vouches for it
    assert d.process.returncode == 1
    assert "certificate" in d.log().lower()
    d.process = None


def test_faults_on_the_way_are_not_seen(mock, over):
    d = over(mock).start()
    mock.order("chaos", 7, 20)
    p = work(d).repo("other")
    for i in range(20):
        p.push("other", f"f{i}", f"content {i}")
    mock.order("chaos", 0, 0)
    assert p.contents("other") == {f"f{i}": f"content {i}".encode() for i in range(20)}
    before = everything(d)
    d.stop()
    d.start()
    assert everything(d) == before
    assert d.post("/fsck?full=1")["ok"]


def test_a_start_beside_faults_waits_for_the_bucket(mock, over):
    """Each request of what a start tries out is sent once: one fault among them ended the daemon, or was taken for a server without conditions."""
    for seed in range(8):
        mock.order("chaos", seed, 10)
        d = over(mock).start()
        mock.order("chaos", 0, 0)
        assert d.stop() == 0


def test_of_two_daemons_on_one_bucket_the_older_is_fenced(mock, over):
    old = over(mock).start()
    p = work(old)
    kept = p.contents("s")  # read first: the old daemon ends by itself when it looks at the log
    new = over(mock).start()
    assert new.default.contents("s") == kept
    with pytest.raises((HttpError, OSError)) as refused:  # an OSError: it has looked at the log by itself, and has ended
        p.push("in", "late", "never acknowledged")
    assert getattr(refused.value, "status", 503) == 503, refused.value
    assert old.process.wait(timeout=60) == 75
    assert "another daemon" in old.log()
    old.process = None
    new.default.push("in", "next", "acknowledged once")
    assert new.default.read("in", "next") == b"acknowledged once"
    assert "late" not in new.default.files("in")
    assert new.post("/fsck?full=1")["ok"]


def test_a_bucket_that_refuses_is_said_to(mock, over):
    d = over(mock).start()
    p = work(d).repo("other")
    mock.fault("403", "PUT", times=1)
    with pytest.raises(HttpError) as refused:
        p.push("other", "x", os.urandom(100000))
    assert refused.value.error["code"] == "forbidden" and "AccessDenied" in refused.value.error["message"]
    p.push("other", "x", "next time")
    assert p.read("other", "x") == b"next time"


@pytest.mark.parametrize("mock", [["--ignores-conditions"]], indirect=True)
def test_without_put_if_absent_a_store_must_be_said_to_be_ours(mock, over):
    d = over(mock).start(expect_failure=True)
    assert d.process.returncode == 1
    assert "store.exclusive" in d.log()
    d.process = None
    d = over(mock, exclusive=True).start()
    work(d)
    before = everything(d)
    assert d.stop() == 0
    d.start()
    assert everything(d) == before


def test_what_is_wrong_with_a_bucket_is_named(mock, over):
    for store, words in (({"url": "s3://no-such-bucket/x"}, "NoSuchBucket"), ({"access_key": "nobody"}, "InvalidAccessKeyId"),
                         ({"style": "hosted"}, "style is \"hosted\""), ({"access_key": ""}, "store.access_key")):
        d = over(mock, **store).start(expect_failure=True)
        assert d.process.returncode == 1
        assert words in d.log(), d.log()
        d.process = None


def test_the_driver_of_a_store_is_one_that_is_there(mock, over, tmp_path):
    for store, words in (({"driver": "libs4"}, 'driver is "libs4": accepted are s3 and libs3'),
                         ({"driver": "libs3"}, "set store.exclusive to true"),
                         ({"driver": "libs3", "exclusive": True, "ca": "/x.pem"}, "remove store.ca"),
                         ({"driver": "libs3", "url": f"file://{tmp_path}/store"}, "the store is a folder")):
        d = over(mock, **store).start(expect_failure=True)
        assert d.process.returncode == 1
        assert words in d.log(), d.log()
        d.process = None
    alone = tmp_path / "bin"  # as a package without the module would have it
    alone.mkdir()
    shutil.copy(os.path.join(BIN, "pipelined"), alone)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"store": {**mock.store, "driver": "libs3", "exclusive": True}}))
    done = subprocess.run([alone / "pipelined", "--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--config", config], capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert 'store.driver "libs3": the module cannot be loaded' in done.stderr and "libs3" in done.stderr.split("install")[1], done.stderr


def test_a_small_commit_asks_nothing(mock, over):
    """A small commit is its data, its tree and objects of the log, and nothing is asked: requests are what a bucket costs."""
    d = over(mock).start()
    p = d.default.repo("in")
    p.push("in", "first", "x" * 1000)
    before = mock.requests()
    p.push("in", "second", "y" * 1000)
    made = [mock.order("request", i) for i in range(before, mock.requests())]
    made = [r for r in made if not r.startswith("GET /bucket/the/prefix/log/")]  # the daemon's look every few seconds whether another took over
    assert len([r for r in made if r.startswith("PUT /bucket/the/prefix/p/")]) <= 2, made
    assert all(r.startswith(("PUT /bucket/the/prefix/p/", "PUT /bucket/the/prefix/log/")) for r in made), made


def test_a_stage_reads_the_bucket_of_another_project(mock, over):
    d = over(mock).start()
    other, mine = d.project("other").repo("data"), d.project("mine")
    big = bytes(range(256)) * 20000
    mine.stages(sh("s", 'cat "$PL_INPUT_DATA"/big "$PL_INPUT_DATA"/small >"$PL_OUT/f"; ln -s "$PL_INPUT_DATA/big" "$PL_OUT/l"', "other/data"))
    other.commit("data", {"small": "small"})
    assert d.wait(other.push("data", "big", big)["run"])["state"] == "success"
    assert mine.read("s", "f") == big + b"small" and mine.read("s", "l") == big
    d.stop()
    d.start()
    assert d.wait(other.commit("data", {"small": "new"})["run"])["state"] == "success"
    assert mine.read("s", "f") == big + b"new"
