"""A store moves from a folder into a bucket and back; in the bucket it is checked, and recovered from, without a daemon."""
import glob
import os
import subprocess

import pytest

from conftest import BIN, NAMES, client, everything, runs_end, sh, wait_until


def environment(server):
    return {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key, "AWS_REGION": server.region,
            "AWS_ENDPOINT_URL": server.endpoint}


def history(d):
    """A store with several packs, a deleted branch, runs and a large file."""
    p = d.default.repo("in", "other")
    p.stages(sh("s", 'cat "$PL_INPUT_IN" >"$PL_OUT/f"', glob="/*", output={"prefix": "${in.stem}/"}))
    for i in range(5):
        p.run("in", {f"f{i}": str(i)})
    p.push("other", "big", os.urandom(3_000_000))


def test_into_a_bucket_and_back(make_daemon, server, bucket, tmp_path):
    d = make_daemon("--checkpoint-every", "5").start()
    history(d)
    wait_until(lambda: glob.glob(os.path.join(d.dir, "store", "ckpt", "*")), "a checkpoint")
    runs_end(d)
    folder, place, env = f"file://{d.dir}/store", f"s3://{bucket}/deep/prefix", environment(server)
    moved = d.ctl("mirror", folder, place, "--json", env=env).json
    assert moved["ok"] and moved["packs"] > 5 and moved["checkpoints"] >= 1, moved
    d.default.push("other", "later", b"after the first mirror")
    before, contents = everything(d), d.default.contents("other")
    again = d.ctl("mirror", folder, place, "--json", env=env).json
    assert again["packs"] <= 3 and again["there"] == moved["packs"], again
    assert d.stop() == 0

    assert d.ctl("fsck", "--full", "--store", place, "--json", env=env).json["ok"]
    said = d.ctl("recover", "--store", place, "--data", tmp_path / "recovered", "--json", env=env).json
    assert said["checkpoint"] > 0 and said["log_seq"] >= again["log_seq"], said

    back = d.ctl("mirror", place, f"file://{d.root}/back", "--json", env=env).json
    assert back["ok"] and back["packs"] == moved["packs"] + again["packs"], back
    twin = make_daemon("--store", f"file://{d.root}/back", name="twin").start()
    assert everything(twin) == before
    assert twin.default.contents("other") == contents


@pytest.mark.parametrize("server", NAMES[-1:], indirect=True)
def test_a_mirror_that_is_killed_recovers_as_far_as_it_came_and_goes_on(make_daemon, server, bucket):
    d = make_daemon().start()
    p = d.default.repo("in")
    for i in range(30):
        p.push("in", f"f{i:02}", os.urandom(150_000))
    folder, place, env = f"file://{d.dir}/store", f"s3://{bucket}/copy", environment(server)
    keys = lambda prefix: client(server).list_objects_v2(Bucket=bucket, Prefix=f"copy/{prefix}")["KeyCount"]
    process = subprocess.Popen([os.path.join(BIN, "pipelinectl"), "mirror", folder, place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, **env})
    wait_until(lambda: keys("p/") >= 3 or process.poll() is not None, "some packs in the bucket")
    process.kill()
    process.wait()
    if keys("log/"):  # else there is nothing to recover yet
        half = d.ctl("recover", "--store", place, "--data", f"{d.root}/half", "--json", env=env).json
        assert half["commits"] <= 30
    again = d.ctl("mirror", folder, place, "--json", env=env).json
    assert again["ok"] and again["there"] >= 3 and again["there"] + again["packs"] == len(list(packs_of(d))), again
    assert d.ctl("fsck", "--full", "--store", place, "--json", env=env).json["ok"]
    whole = d.ctl("recover", "--store", place, "--data", f"{d.root}/whole", "--json", env=env).json
    assert whole["commits"] == 30, whole


def packs_of(daemon):
    for _, _, names in os.walk(os.path.join(daemon.dir, "store", "p")):
        yield from names


def test_a_target_that_is_no_bucket_of_ours_is_refused(make_daemon, server, bucket):
    d = make_daemon().start()
    client(server).put_object(Bucket=bucket, Key="photos/cat.jpg", Body=b"meow")
    refused = d.ctl("mirror", f"file://{d.dir}/store", f"s3://{bucket}/photos", ok=False, env=environment(server))
    assert refused.code != 0 and "cat.jpg" in refused.err, refused.err
    refused = d.ctl("fsck", "--store", f"s3://{bucket}/nothing", ok=False, env=environment(server))
    assert refused.code == 3 and "marker" in refused.err, refused.err
    refused = d.ctl("fsck", "--store", f"s3://{bucket}/nothing", ok=False, env={**environment(server), "AWS_SECRET_ACCESS_KEY": "wrong"})
    assert refused.code != 0 and ("SignatureDoesNotMatch" in refused.err or "403" in refused.err), refused.err
