"""A gateway over a store in a bucket that fails: clients learn that the daemon's store failed, not what its server said."""
import json
import os
import shutil

import botocore.exceptions
import pytest

from gateway import Gateway, refusals_of
from s3_mock_server import S3Mock


@pytest.fixture
def mock():
    one = S3Mock()
    yield one
    one.close()


# fault of the store's bucket -> codes with which the gateway may answer a put
FAULTS = {"403": {"ServiceUnavailable"}, "bad_key": {"ServiceUnavailable"}, "no_bucket": {"ServiceUnavailable"}, "redirect": {"ServiceUnavailable"},
          "bad_region": {"ServiceUnavailable"}, "404": {"InternalError"}, "unknown_call": {"InternalError"}, "full": {"InsufficientStorage"}}
# what only the store's server says
ITS_WORDS = ("the/prefix", "as told", "s3:", "AccessDenied", "NoSuch", "PermanentRedirect", "Malformed", "InvalidAccessKeyId", "QuotaExceeded", "NotImplemented")


@pytest.fixture
def daemon(make_daemon, tmp_path, mock):
    """A gateway whose repo b has `durable: bucket`, with an object f."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"store": mock.store}))
    daemon = make_daemon("--config", str(config), "--s3-listen", "127.0.0.1:0").start()
    client = Gateway(daemon).client()
    client.create_bucket(Bucket="b")
    daemon.http("PATCH", "/api/v1/repos/default/b", {"durable": "bucket"})
    client.put_object(Bucket="b", Key="f", Body=b"x")
    yield daemon
    mock.heal()
    daemon.stop()


@pytest.fixture
def s3(daemon):
    return Gateway(daemon).client()


def refusal(call, **more):
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        call(**more)
    return refused.value.response["Error"], refused.value.response["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.parametrize("kind", FAULTS)
def test_what_the_stores_bucket_says_does_not_reach_clients(s3, mock, kind):
    mock.fault(kind, "PUT", times=1000)
    error, status = refusal(s3.put_object, Bucket="b", Key="g", Body=b"y")
    assert status >= 500 and error["Code"] in FAULTS[kind], error
    assert "daemon's store" in error["Message"] and not any(word in error["Message"] for word in ITS_WORDS), error
    assert s3.get_object(Bucket="b", Key="f")["Body"].read() == b"x"


@pytest.mark.slow
def test_a_client_that_a_busy_store_slows_down_succeeds_when_it_asks_again(daemon, mock):
    """The store's server asks for fewer requests for as long as the daemon tries; boto3 is told so, and asks again by itself."""
    daemon.post("/repos/default/b/branches/master/flush")
    daemon.ctl("wait", "run", "b@master")
    assert daemon.stop() == 0
    shutil.rmtree(os.path.join(daemon.dir, "cache"))
    daemon.start()
    s3 = Gateway(daemon).client(read_timeout=300)  # the daemon tries for half a minute, at most two
    mock.fault("503", "GET", "p/default", times=1000)
    refusals = refusals_of(s3, "GetObject", mock.heal)
    got = s3.get_object(Bucket="b", Key="f")
    assert (got["Body"].read(), got["ResponseMetadata"]["RetryAttempts"]) == (b"x", 1)
    assert refusals == [("SlowDown", 503)]
