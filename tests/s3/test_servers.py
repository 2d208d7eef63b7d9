"""What we rely on in the servers that judge us: they check signatures, and of writers who must be first one wins."""
import concurrent.futures

import botocore.exceptions
import pytest

from conftest import client


def put_first(server, bucket, body):
    """Whether `body` became the object "one" because nobody's was there."""
    s3 = client(server)
    s3.meta.events.register("before-sign.s3.PutObject", lambda request, **_: request.headers.add_header("If-None-Match", "*"))
    try:
        s3.put_object(Bucket=bucket, Key="one", Body=body)
    except botocore.exceptions.ClientError as error:
        assert error.response["ResponseMetadata"]["HTTPStatusCode"] in (409, 412)
        return False
    return True


def test_a_wrong_secret_is_refused(server, bucket):
    stranger = client(server)
    stranger._request_signer._credentials.secret_key = "another"
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        stranger.list_objects_v2(Bucket=bucket)
    assert refused.value.response["Error"]["Code"] == "SignatureDoesNotMatch"


def test_of_sixteen_who_want_to_be_first_one_is(server, bucket):
    bodies = [b"%d" % i for i in range(16)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        won = list(pool.map(lambda body: put_first(server, bucket, body), bodies))
    assert won.count(True) == 1
    assert client(server).get_object(Bucket=bucket, Key="one")["Body"].read() == bodies[won.index(True)]


def test_bytes_other_than_those_signed_for_are_refused(server, bucket):
    s3 = client(server)
    s3.meta.events.register("before-send.s3.PutObject", lambda request, **_: setattr(request, "body", b"evil!"))
    with pytest.raises(botocore.exceptions.ClientError):
        s3.put_object(Bucket=bucket, Key="one", Body=b"good!")
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
