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


def asker(daemon):
    """Sends signed requests to the daemon's gateway."""
    gateway = Gateway(daemon)
    return lambda method, path, body=b"": gateway.send(method, path, headers=gateway.signed(method, path, body=body), body=body)


def test_a_client_pushes_a_stage_runs_and_its_output_is_read(make_daemon, bucket, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"store": bucket}))
    daemon = make_daemon("--config", config, "--s3-listen", "127.0.0.1:0").start()
    daemon.default.repo("in").stages(kit.sh("upper", 'tr a-z A-Z <"$PL_INPUT_IN/letters" >"$PL_OUT/letters"'))
    ask = asker(daemon)
    put = ask("PUT", "/in/letters", b"some letters")
    assert put.status == 200
    # by its id, which its clock may have finished already
    commit = json.loads(daemon.ctl("--json", "finish", "commit", f"in@{put.headers['x-amz-version-id']}").out)
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


def test_a_put_to_a_daemon_that_was_taken_over_is_not_acknowledged(make_daemon, bucket, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"store": bucket}))
    old = make_daemon("--config", config, "--s3-listen", "127.0.0.1:0").start()
    old.default.repo("in")
    ask = asker(old)
    assert ask("PUT", "/in/a", b"gathers").status == 200
    new = make_daemon("--config", config, "--s3-listen", "127.0.0.1:0").start()
    try:
        answer = ask("PUT", "/in/late", b"never acknowledged")
    except OSError:  # it has looked at the log by itself, and has ended
        pass
    else:
        assert answer.status == 503, answer
    assert old.process.wait(timeout=60) == 75 and "another daemon" in old.log()
    old.process = None
    ask = asker(new)
    put = ask("PUT", "/in/next", b"acknowledged")
    assert put.status == 200
    new.ctl("finish", "commit", f"in@{put.headers['x-amz-version-id']}")
    assert "late" not in new.default.files("in") and new.read("in", "next") == b"acknowledged"
