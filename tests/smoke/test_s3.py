"""S3 on both sides of the daemon: its store is a bucket of the mock, and a client pushes and reads by the S3 gateway."""
import json

import pytest
from conftest import kit
from gateway import Gateway
from s3_mock_server import S3Mock


@pytest.fixture
def bucket():
    """The configuration of a store in the mock's bucket. The mock must have found nothing to complain of."""
    mock = S3Mock()
    yield mock.store
    mock.close()


def test_a_client_pushes_a_stage_runs_and_its_output_is_read(make_daemon, bucket, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"store": bucket}))
    daemon = make_daemon("--config", config, "--s3-listen", "127.0.0.1:0").start()
    daemon.default.repo("in").stages(kit.sh("upper", 'tr a-z A-Z <"$PL_INPUT_IN/letters" >"$PL_OUT/letters"'))
    gateway = Gateway(daemon)

    def ask(method, path, body=b""):
        return gateway.send(method, path, headers=gateway.signed(method, path, body=body), body=body)

    assert ask("PUT", "/in/letters", b"some letters").status == 200
    commit = json.loads(daemon.ctl("--json", "finish", "commit", "in@master").out)
    assert daemon.wait(commit["run"])["state"] == "success"
    answer = ask("GET", "/upper/letters")
    assert (answer.status, answer.body) == (200, b"SOME LETTERS")
    assert answer.headers["content-security-policy"] == "sandbox"
    assert ask("GET", "/upper/none").code == "NoSuchKey"


def test_the_bucket_alone_gives_it_back(make_daemon, bucket, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"store": bucket}))
    daemon = make_daemon("--config", config).start()
    daemon.default.repo("in")
    daemon.push("in", "f", "kept in the bucket")
    assert daemon.stop() == 0
    second = make_daemon("--config", config).start()
    assert second.read("in", "f") == b"kept in the bucket"
