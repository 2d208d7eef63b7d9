"""One bit flips in a pack of file data, and one in a pack with a tree: every way to read says so, none gives wrong bytes, and all else is
read as before. In a folder and in a bucket."""
import http.client
import json
import os
import shutil
import subprocess

import botocore.exceptions
import pytest

from conftest import BIN, NAMES, SANDBOX, HttpError, client, everything, sh
from gateway import Gateway


class Bucket:
    def __init__(self, server, bucket):
        self.s3, self.bucket, self.url = client(server), bucket, f"s3://{bucket}/store"
        self.env = {"AWS_ENDPOINT_URL": server.endpoint, "AWS_REGION": server.region, "AWS_ACCESS_KEY_ID": server.access_key,
                    "AWS_SECRET_ACCESS_KEY": server.secret_key}

    def packs(self):
        """Key → size."""
        return {o["Key"]: o["Size"] for o in self.s3.list_objects_v2(Bucket=self.bucket, Prefix="store/p/").get("Contents", [])}

    def flip(self, key, at):
        data = bytearray(self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read())
        data[at] ^= 1
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=bytes(data))


class Folder:
    env = {}

    def __init__(self, path):
        self.path, self.url = str(path), f"file://{path}"

    def packs(self):
        return {os.path.join(folder, name): os.path.getsize(os.path.join(folder, name))
                for folder, _, names in os.walk(os.path.join(self.path, "p")) for name in names}

    def flip(self, key, at):
        os.chmod(key, 0o600)
        with open(key, "r+b") as f:
            f.seek(at)
            byte = f.read(1)[0]
            f.seek(at)
            f.write(bytes([byte ^ 1]))


class Hurt:
    """A daemon: in data@master, hurt/data.bin has a flipped bit and good has none; in tree@master the tree has one, its parent none."""

    def __init__(self, daemon, store):
        self.d, self.store, self.p = daemon, store, daemon.default
        self.good, self.bytes = os.urandom(100_000), os.urandom(300_000)
        daemon.start(env=store.env)
        self.p.repo("data", "tree")
        self.p.push("data", "good", self.good)
        self.p.commit("tree", {f"good/{i:05}": "x" for i in range(300)})
        victims = [(self.newest(lambda: self.p.push("data", "hurt/data.bin", self.bytes)), lambda size: size // 3),
                   (self.newest(lambda: self.p.commit("tree", {f"hurt/{i:05}": "y" for i in range(300)})), lambda size: 120)]
        self.before = everything(daemon)
        daemon.stop()
        for key, at in victims:
            store.flip(key, at(store.packs()[key]))
        self.victims = [os.path.basename(key) for key, _ in victims]
        shutil.rmtree(os.path.join(daemon.dir, "cache"), ignore_errors=True)
        daemon.start(env=store.env)
        self.s3 = Gateway(daemon).client()

    def newest(self, change):
        """The largest pack that a change made."""
        before = self.store.packs()
        change()
        now = self.store.packs()
        return max(set(now) - set(before), key=now.get)

    def ctl(self, *words, ok=True, remote=False):
        if not remote:
            return self.d.ctl(*words, ok=ok, env=self.store.env)
        argv = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", self.store.path, os.path.join(BIN, "pipelinectl"), "--data", self.d.dir, *map(str, words)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=ok)

    def got(self, path, name, remote=False):
        """By pipelinectl get; what it says, when it says no."""
        out = os.path.join(self.d.root, name)
        said = self.ctl("get", "file", f"data@master:/{path}", "-o", out, ok=False, remote=remote)
        if getattr(said, "code", getattr(said, "returncode", 0)):
            assert not os.path.exists(out)
            raise Said(said.err if hasattr(said, "err") else said.stderr)
        with open(out, "rb") as f:
            return f.read()

    def object(self, bucket, key, **more):
        return self.s3.get_object(Bucket=bucket, Key=key, **more)["Body"].read()


class Said(Exception):
    pass


def ways(h):
    """name → (a read of what is hurt, a read of what is whole, and its answer)."""
    list_of = lambda ref: sorted(h.p.files("tree", ref))
    keys_of = lambda bucket: sorted(o["Key"] for o in h.s3.list_objects_v2(Bucket=bucket, Prefix="good/")["Contents"])
    good = [f"good/{i:05}" for i in range(300)]
    branch, commit = "data", f"{h.p.commits('tree')[1]['id']}.master.tree"
    found = {
        "GET": (lambda: h.p.read("data", "hurt/data.bin"), lambda: h.p.read("data", "good"), h.good),
        "a list": (lambda: list_of("master"), lambda: list_of("master^"), good),
        "a small file": (lambda: h.p.read("tree", "hurt/00007"), lambda: h.p.read("tree", "good/00007", "master^"), b"x"),
        "get file": (lambda: h.got("hurt/data.bin", "a"), lambda: h.got("good", "b"), h.good),
        "gateway": (lambda: h.object(branch, "hurt/data.bin"), lambda: h.object(branch, "good"), h.good),
        "gateway, a range": (lambda: h.object(branch, "hurt/data.bin", Range="bytes=10-299998"), lambda: h.object(branch, "good", Range="bytes=1-9"), h.good[1:10]),
        "gateway, a list": (lambda: keys_of("tree"), lambda: keys_of(commit), good),
    }
    if h.store.env == {} and SANDBOX == "bwrap":
        found["get file from elsewhere"] = (lambda: h.got("hurt/data.bin", "c", True), lambda: h.got("good", "d", True), h.good)
    return found


def refused(read):
    """What it said; None when it was cut off before its end."""
    with pytest.raises((HttpError, Said, http.client.HTTPException, botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError)) as e:
        read()
    if isinstance(e.value, HttpError):
        assert e.value.error["code"] == "corrupt" and "fsck" in e.value.error["hint"], e.value
        return e.value.error["message"]
    if isinstance(e.value, botocore.exceptions.ClientError):
        return e.value.response["Error"]["Message"]
    return str(e.value) if isinstance(e.value, Said) else None


@pytest.fixture
def hurt(request, server, bucket, make_daemon):
    place = request.param
    daemon = make_daemon("--s3-listen", "127.0.0.1:0")
    store = Bucket(server, bucket) if place == "bucket" else Folder(os.path.join(daemon.root, "store"))
    daemon.options += ["--store", store.url]
    return Hurt(daemon, store)


@pytest.mark.parametrize("server", NAMES[-1:], indirect=True)
@pytest.mark.parametrize("hurt", ["folder", "bucket"], indirect=True)
def test_every_way_to_read(hurt):
    for name, (bad, good, answer) in ways(hurt).items():
        for _ in range(2):  # nothing wrong is kept for the next one
            said = refused(bad)
            assert said is None or any(word in said for word in ("does not match", "damaged", "corrupt")), (name, said)
        assert good() == answer, name
    workers(hurt)
    checks(hurt)
    copies(hurt)


def workers(h):
    h.p.stages(sh("bad", 'cat "$PL_INPUT_DATA/hurt/data.bin" >"$PL_OUT/f"', "data"),
               sh("good", 'cat "$PL_INPUT_DATA" >"$PL_OUT/f"', "data", glob="/good"))
    ended = h.p.wait(h.d.get("/runs")["runs"][0]["id"])
    assert ended["job"]["bad"]["state"] == "failure" and "does not match" in json.dumps(ended["job"]["bad"]), ended
    assert h.p.read("good", "f") == h.good


def checks(h):
    def hurt_files(report):
        assert not report["ok"]
        assert {f["pack"] for f in report["findings"] if f["pack"]} == set(h.victims), report
        return sorted({f["path"] for f in report["findings"] if f["path"]})

    assert "hurt/data.bin" in hurt_files(h.d.post("/fsck?full=1"))
    said = h.ctl("fsck", "--full", "--store", h.store.url, "--json", ok=False)
    assert said.code == 1 and "hurt/data.bin" in hurt_files(said.json)


def copies(h):
    said = h.ctl("mirror", h.store.url, f"file://{h.d.root}/copy", "--json", ok=False)
    assert said.code == 1 and sorted(f["object"].split("/")[-1] for f in said.json["findings"]) == sorted(h.victims), said.out
    said = h.ctl("recover", "--store", h.store.url, "--data", f"{h.d.root}/anew", "--json").json
    assert said["commits"] >= len(h.before["commits"]["default/data"]) + len(h.before["commits"]["default/tree"]), said


@pytest.mark.parametrize("server", NAMES[-1:], indirect=True)
@pytest.mark.parametrize("hurt", ["folder", "bucket"], indirect=True)
def test_what_fsck_has_found_is_mended_by_pushing_it_again(hurt):
    """Also where nothing of the file seems new: at the same path, and by a client that knows from its last push that nothing changed."""
    path = hurt.d.write("hurt.bin", hurt.bytes)
    refused(lambda: hurt.p.read("data", "hurt/data.bin"))
    assert not hurt.d.post("/fsck?full=1")["ok"]
    hurt.ctl("put", "file", "data@master:/hurt/data.bin", "-f", path)
    for _ in range(2):
        assert hurt.p.read("data", "hurt/data.bin") == hurt.bytes
        assert hurt.object("data", "hurt/data.bin") == hurt.bytes
        assert hurt.got("hurt/data.bin", "out") == hurt.bytes
        os.unlink(os.path.join(hurt.d.root, "out"))
        hurt.d.stop()
        shutil.rmtree(os.path.join(hurt.d.dir, "index"))
        hurt.d.start(env=hurt.store.env)
        hurt.s3 = Gateway(hurt.d).client()
