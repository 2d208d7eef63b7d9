"""A daemon over a real server's bucket: bytes go between its clients, its workers and the bucket; what the server does not hold to goes
through the daemon."""
import json
import os

import pytest

import servers
from conftest import client, sh, wait_until


def over(make_daemon, server, bucket, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"store": {"url": f"s3://{bucket}/store", "endpoint": server.endpoint, "region": server.region,
                                          "access_key": server.access_key, "secret_key": server.secret_key}}))
    return make_daemon("--config", str(path)).start()


def packs(daemon):
    return daemon.get("/status")["packs"]


@pytest.mark.parametrize("offered", [False, True])
def test_bytes_go_past_the_daemon(server, bucket, make_daemon, tmp_path, offered):
    daemon = over(make_daemon, server, bucket, tmp_path)
    if not offered:  # as if all clients were on other machines
        os.chmod(os.path.join(daemon.dir, "tmp"), 0o770)
    files = {f"f{i:02}": os.urandom(200_000) for i in range(12)}
    for name, content in files.items():
        daemon.write(f"in/{name}", content)
    project = daemon.default.repo("in")
    project.stages(sh("copy", 'cp "$PL_INPUT_IN" "$PL_OUT/"; head -c 100000 /dev/urandom >>"$PL_OUT/$(basename "$PL_INPUT_IN")"', glob="/*"))
    daemon.ctl("put", "file", "in@master", "-r", "-f", os.path.join(daemon.root, "in"))
    daemon.ctl("wait", "run", "in@master", "--timeout", "120s")
    daemon.ctl("get", "file", "copy@master:/", "-r", "-o", os.path.join(daemon.root, "out"))
    for name, content in files.items():
        with open(os.path.join(daemon.root, "out", name), "rb") as f:
            assert f.read()[:len(content)] == content
    wait_until(lambda: packs(daemon)["unread"] == 0, "all packs to be read back")
    moved = packs(daemon)
    assert moved["bytes_out"] == 0 and moved["urls_get"] > 0 and moved["quarantined"] == 0, moved
    if offered:
        assert moved["bytes_in"] == moved["urls_put"] == 0 < moved["bytes_offered"], moved
    elif isinstance(server, servers.Versitygw):
        assert moved["bytes_in"] > 0 and moved["urls_put"] == 0, moved
    else:
        assert moved["bytes_in"] == 0 and moved["urls_put"] > 1 and moved["read_back"] == moved["urls_put"], moved
    assert client(server).list_objects_v2(Bucket=bucket, Prefix="store/q/")["KeyCount"] == 0
    daemon.ctl("fsck", "--full")
