"""A daemon whose store is a bucket of a real server: by Signature V2 too; beside another daemon; and while the server dies."""
import json
import os
import threading

import pytest
import servers
from conftest import HttpError, client, everything, sh, wait_until


@pytest.fixture
def over(make_daemon, server, bucket, tmp_path):
    """Makes a daemon over the bucket; more keys of its store's configuration."""
    made = []

    def make(**store):
        path = tmp_path / f"config-{len(made)}.json"
        path.write_text(json.dumps({"store": {"url": f"s3://{bucket}/the/store", "endpoint": server.endpoint, "region": server.region,
                                              "access_key": server.access_key, "secret_key": server.secret_key, **store}}))
        made.append(make_daemon("--config", str(path), name=f"d{len(made)}"))
        return made[-1]
    return make


def work(d):
    """Data in, through a stage, and out again."""
    p = d.default.repo("in")
    p.stages(sh("s", 'cat "$PL_INPUT_IN" "$PL_INPUT_IN" >"$PL_OUT/f"', glob="/*", output={"prefix": "${in.stem}/"}))
    p.run("in", {"a": "1", "b": "2"})
    assert p.contents("s") == {"a/f": b"11", "b/f": b"22"}
    return p


def test_by_signature_v2_it_works_as_well(over, server, bucket):
    if not server.signature_v2:
        d = over(driver="libs3", exclusive=True).start(expect_failure=True)
        assert d.process.returncode == 1 and "store s3://" in d.log(), d.log()
        d.process = None
        return
    d = over(driver="libs3").start(expect_failure=True)
    assert "set store.exclusive to true" in d.log(), d.log()
    d.process = None
    d = over(driver="libs3", exclusive=True).start()
    p = work(d).repo("other")
    big = os.urandom(3_000_000)
    p.push("other", "big", big)
    d.write("tree/x", os.urandom(300_000))
    d.ctl("put", "file", "other@tree", "-r", "-f", os.path.join(d.root, "tree"))
    d.ctl("get", "file", "other@tree:/", "-r", "-o", os.path.join(d.root, "back"))
    packs = d.get("/status")["packs"]
    assert packs["urls_get"] == packs["urls_put"] == 0 < packs["bytes_offered"], packs  # it signs nothing for others
    before = everything(d)
    assert d.post("/fsck?full=1")["ok"]
    assert d.stop() == 0
    d.start()
    assert everything(d) == before
    assert p.read("other", "big") == big
    env = {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
    assert d.stop() == 0
    said = d.ctl("recover", "--store", f"s3://{bucket}/the/store", "--data", os.path.join(d.root, "recovered"), "--endpoint", server.endpoint, "--driver",
                 "libs3", "--json", env=env).json
    assert said["log_seq"] > 0, said


def test_of_two_daemons_the_older_is_fenced(over):
    old = over().start()
    p = work(old)
    made = p.contents("s")
    new = over().start()  # from now on the older one may end at any time
    assert new.default.contents("s") == made
    with pytest.raises((HttpError, OSError)) as refused:  # an OSError: it has looked at the log by itself, and has ended
        p.push("in", "late", "never acknowledged")
    assert getattr(refused.value, "status", 503) == 503, refused.value
    assert old.process.wait(timeout=60) == 75
    assert "another daemon" in old.log()
    old.process = None
    new.default.push("in", "next", "acknowledged once")
    assert "late" not in new.default.files("in")
    assert new.post("/fsck?full=1")["ok"]


def test_two_daemons_that_write_at_once_never_both_have_it_done(over):
    """Two start and push again and again; whoever is fenced starts anew and so fences the other. What was acknowledged is there, in order."""
    names, acknowledged = "ab", {"a": [], "b": []}
    daemons = {name: over() for name in names}
    daemons["a"].start()
    daemons["a"].default.repo("in")
    turns = 0
    while turns < 4:
        name = names[(turns + 1) % 2]
        d = daemons[name].start()
        for i in range(3):
            d.default.push("in", f"{name}-{turns}-{i}", f"{name} {turns} {i}")
            acknowledged[name].append(f"{name}-{turns}-{i}")
        other = daemons[names[turns % 2]]
        with pytest.raises((HttpError, OSError)):
            other.default.push("in", f"lost-{turns}", "by who is fenced")
        assert other.process.wait(timeout=60) == 75
        other.process = None
        turns += 1
    last = daemons[names[turns % 2]]
    assert sorted(last.default.files("in")) == sorted(acknowledged["a"] + acknowledged["b"])
    assert last.post("/fsck?full=1")["ok"]


class Pusher(threading.Thread):
    """Pushes one file after the other until it is told to stop; knows of each what it was told."""

    def __init__(self, daemon, name):
        super().__init__(daemon=True)
        self.project, self.name = daemon.default, name
        self.acknowledged, self.refused, self.unknown = {}, set(), {}
        self.ending = threading.Event()
        self.start()

    def run(self):
        number = 0
        while not self.ending.is_set():
            number += 1
            path, content = f"{self.name}/{number}", os.urandom(2000).hex()
            try:
                self.project.push("in", path, content)
                self.acknowledged[path] = content.encode()
            except HttpError:
                self.refused.add(path)
            except OSError:
                self.unknown[path] = content.encode()


def kill_and_restart(server):
    """kill -9 of what answers requests; of radosgw the objects are in another process' memory, and stay."""
    if isinstance(server, servers.Radosgw):
        gateway = server.processes.pop()
        gateway.kill()
        gateway.wait()
        server.spawn("radosgw", "-c", server.folder / "ceph.conf", "-n", "client.rgw.a", "-f")
    else:
        server.kill()
        server.launch()
    server.until("answer", lambda: servers.answers(server.endpoint))


def test_a_server_that_is_killed_loses_nothing_that_was_acknowledged(over, server):
    d = over().start()
    d.default.repo("in")
    pushers = [Pusher(d, f"p{i}") for i in range(3)]
    for _ in range(3):
        seen = [len(p.acknowledged) for p in pushers]
        wait_until(lambda seen=seen: all(len(p.acknowledged) >= n + 4 for p, n in zip(pushers, seen)), "pushes to go on", 180)
        kill_and_restart(server)
    for p in pushers:
        p.ending.set()
    for p in pushers:
        p.join(timeout=200)
        assert not p.is_alive()
    assert not any(p.unknown for p in pushers), "the daemon itself was not killed"
    want = {path: content for p in pushers for path, content in p.acknowledged.items()}
    assert d.default.contents("in") == want
    before = everything(d)
    assert d.post("/fsck?full=1")["ok"]
    d.kill()
    again = over().start()  # with another folder: from the bucket alone
    assert everything(again) == before
    assert again.default.contents("in") == want
    assert again.post("/fsck?full=1")["ok"]


def test_a_server_that_goes_between_two_daemons_and_comes_back_knows_one(over, server):
    """The older one's put is under way when the server dies; by the time that it answers again another daemon has begun its epoch."""
    old = over().start()
    old.default.repo("in")
    pusher = Pusher(old, "p")
    wait_until(lambda: len(pusher.acknowledged) >= 3, "pushes")
    kill_and_restart(server)
    new = over().start()
    assert old.process.wait(timeout=120) == 75
    old.process = None
    pusher.ending.set()
    pusher.join(timeout=200)
    got = new.default.contents("in")
    for path, content in pusher.acknowledged.items():
        assert got.pop(path) == content, path
    assert set(got) <= set(pusher.unknown), got
    assert not set(got) & pusher.refused
    assert new.post("/fsck?full=1")["ok"]
    assert client(server)  # it is up for the tests that follow
