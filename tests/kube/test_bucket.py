"""A store in a bucket, and stages in pods: their bytes go between pod and bucket by URLs that the daemon signs; nothing in a pod could sign one."""
import json
import os
import pathlib

import boto3
import botocore.client
import control_plane
import nodes
import pytest
from test_demo import kit, world  # noqa: F401  a fixture
from test_pod_faults import ONCE, names, succeeds


@pytest.fixture
def store(tmp_path):
    """A bucket on a real server: the daemon's words for it."""
    server = control_plane.servers.Minio(tmp_path / "minio").start()  # it takes URLs that say what is put
    client = boto3.client("s3", endpoint_url=server.endpoint, aws_access_key_id=server.access_key, aws_secret_access_key=server.secret_key,
                          region_name=server.region, config=botocore.client.Config(s3={"addressing_style": "path"}))
    client.create_bucket(Bucket="stages")
    path = tmp_path / "store.json"
    path.write_text(json.dumps({"store": {"url": "s3://stages/the/store", "endpoint": server.endpoint, "region": server.region,
                                          "access_key": server.access_key, "secret_key": server.secret_key}}))
    server.words = ("--config", str(path))
    yield server
    server.stop()


def environment(one, name):
    """Of all processes of the pod's containers, as the kernel has it."""
    worker, found = one.kubelet.worker_of(name), {}
    for container, process in worker.processes.items():
        if process.pid and not process.ended:
            found[container] = pathlib.Path(f"/proc/{process.pid}/environ").read_text(errors="replace")
    return found


def test_a_pod_reads_and_writes_a_bucket_and_has_no_key_to_it(world, gate, store):  # noqa: F811
    one = world([nodes.cpu("a")], options=store.words)
    big = os.urandom(3 << 20)
    script = f"{gate.wait}; env >/pfs/out/env; head -c 2000000 /dev/urandom >/pfs/out/made; cp /pfs/in/big /pfs/out/big"
    one.daemon.default.repo("in").stages(kit.sh("st", script, **ONCE))
    urls = one.daemon.get("/status")["packs"]  # the stage may be given some at once
    run = one.daemon.push("in", "big", big)["run"]
    before = one.daemon.get("/status")["packs"]
    gate.arrived()
    name, = names(one, "st")
    seen = environment(one, name)
    assert {"main", "agent"} <= set(seen), seen
    told = {**seen, "spec": json.dumps(one.kubelet.pod(name))}
    gate.open()
    succeeds(one, run)
    assert one.daemon.read("st", "big") == big and len(one.daemon.read("st", "made")) == 2000000
    told["output"] = one.daemon.read("st", "env").decode()
    told["logs"] = one.daemon.log()
    for where, text in told.items():
        assert store.secret_key not in text and store.access_key not in text and "AWS_" not in text, where
    after = one.daemon.get("/status")["packs"]
    assert after["urls_get"] > urls["urls_get"] and after["urls_put"] > urls["urls_put"], (urls, after)
    assert after["bytes_in"] == before["bytes_in"], (before, after)  # of the pod's bytes none went through the daemon


def test_a_pod_reads_the_bucket_of_another_project_by_urls_and_writes_only_into_its_own(world, gate, store):  # noqa: F811
    one = world([nodes.cpu("a")], options=store.words)
    big = os.urandom(3 << 20)
    other, mine = one.daemon.project("other").repo("data"), one.daemon.project("mine")
    mine.stages({**kit.sh("st", f"{gate.wait}; cp /pfs/data/big /pfs/out/copy; ln -s /pfs/data/big /pfs/out/link", **ONCE), "input": {"repo": "other/data", "glob": "/"}})
    urls = one.daemon.get("/status")["packs"]
    run = other.push("data", "big", big)["run"]
    before = one.daemon.get("/status")["packs"]
    gate.arrived()
    gate.open()
    succeeds(one, run)
    assert mine.read("st", "copy") == mine.read("st", "link") == big
    after = one.daemon.get("/status")["packs"]
    assert after["urls_get"] > urls["urls_get"] and after["urls_put"] > urls["urls_put"], (urls, after)
    assert after["bytes_in"] == before["bytes_in"], (before, after)


def test_a_pod_reads_the_folder_of_another_project_through_the_daemon(world, gate):  # noqa: F811
    one = world([nodes.cpu("a")])
    big = os.urandom(3 << 20)
    other, mine = one.daemon.project("other").repo("data"), one.daemon.project("mine")
    mine.stages({**kit.sh("st", f"{gate.wait}; cp /pfs/data/big /pfs/out/copy; ln -s /pfs/data/big /pfs/out/link", **ONCE), "input": {"repo": "other/data", "glob": "/"}})
    run = other.push("data", "big", big)["run"]
    gate.arrived()
    gate.open()
    succeeds(one, run)
    assert mine.read("st", "copy") == mine.read("st", "link") == big
