"""A gateway over a store in a bucket that fails: clients learn that the daemon's store failed, not what its server said."""
import json

import botocore.exceptions
import pytest

from gateway import Gateway
from s3_mock_server import S3Mock


@pytest.fixture
def mock():
    one = S3Mock()
    yield one
    one.close()


@pytest.mark.parametrize("kind", ["403"])
def test_what_the_stores_bucket_says_does_not_reach_clients(make_daemon, tmp_path, mock, kind):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"store": mock.store}))
    daemon = make_daemon("--config", str(config), "--s3-listen", "127.0.0.1:0").start()
    s3 = Gateway(daemon).client()
    s3.create_bucket(Bucket="b")
    daemon.http("PATCH", "/api/v1/repos/default/b", {"durable": "bucket"})
    s3.put_object(Bucket="b", Key="f", Body=b"x")
    mock.fault(kind, "PUT", times=1000)
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        s3.put_object(Bucket="b", Key="g", Body=b"y")
    error, status = refused.value.response["Error"], refused.value.response["ResponseMetadata"]["HTTPStatusCode"]
    assert status >= 500 and error["Code"] in ("ServiceUnavailable", "InternalError", "SlowDown"), error
    assert "the/prefix" not in error["Message"] and "AccessDenied" not in error["Message"], error
    assert s3.get_object(Bucket="b", Key="f")["Body"].read() == b"x"
    mock.fault("none")
    daemon.stop()
