"""The keys "f" and "f/" are one path: a file and an empty folder never replace or delete each other."""
import secrets

import botocore.exceptions
import pytest

from conftest import flushed

DAEMON_OPTIONS = ["--s3-listen", "127.0.0.1:0"]


@pytest.fixture
def bucket(shared, s3):
    """Its puts gather for a minute, unless the test ends that."""
    name = f"folders{secrets.token_hex(4)}"
    s3.create_bucket(Bucket=name)
    shared.http("PATCH", f"/api/v1/repos/default/{name}", {"commit_window": "60s"})
    return name


def refusal(call, **more):
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        call(**more)
    response = refused.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Message"]


def complete(s3, bucket, key):
    upload = {"Bucket": bucket, "Key": key, "UploadId": s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]}
    etag = s3.upload_part(**upload, PartNumber=1, Body=b"parts")["ETag"]
    return lambda: s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})


@pytest.mark.parametrize("committed", [False, True])
def test_a_folder_does_not_replace_a_file(shared, gate, s3, bucket, committed):
    etag = s3.put_object(Bucket=bucket, Key="f", Body=b"x")["ETag"]
    version = s3.put_object(Bucket=bucket, Key="marker/", Body=b"")["VersionId"]
    if committed:
        flushed(shared, bucket, version)
    for call, more in ((s3.put_object, {"Body": b""}), (s3.copy_object, {"CopySource": f"{bucket}/marker/"})):
        code, status, words = refusal(call, Bucket=bucket, Key="f/", **more)
        assert (code, status) == ("InvalidRequest", 400) and "both a file and a folder" in words and '"f/"' in words, more
    for header in ({"If-Match": etag}, {"If-None-Match": "*"}):
        assert gate.ask("PUT", f"/{bucket}/f/", headers=header).code == "InvalidRequest", header
    assert s3.get_object(Bucket=bucket, Key="f")["Body"].read() == b"x"
    assert [item["Key"] for item in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["f", "marker/"]


@pytest.mark.parametrize("committed", [False, True])
def test_a_file_does_not_replace_an_empty_folder(shared, s3, bucket, committed):
    s3.put_object(Bucket=bucket, Key="f", Body=b"x")
    version = s3.put_object(Bucket=bucket, Key="marker/", Body=b"")["VersionId"]
    if committed:
        flushed(shared, bucket, version)
    for call, more in ((s3.put_object, {"Body": b"y"}), (s3.put_object, {"Body": b""}), (s3.copy_object, {"CopySource": f"{bucket}/f"})):
        code, status, words = refusal(call, Bucket=bucket, Key="marker", **more)
        assert (code, status) == ("InvalidRequest", 400) and "both a file and a folder" in words and '"marker/"' in words, more
    assert refusal(complete(s3, bucket, "marker"))[:2] == ("InvalidRequest", 400)
    assert s3.head_object(Bucket=bucket, Key="marker/")["ContentLength"] == 0
    s3.put_object(Bucket=bucket, Key="marker/", Body=b"")  # the same again is no mistake
    s3.delete_object(Bucket=bucket, Key="marker/")
    complete(s3, bucket, "marker")()
    assert s3.get_object(Bucket=bucket, Key="marker")["Body"].read() == b"parts"


def test_a_delete_of_one_leaves_the_other(s3, bucket):
    s3.put_object(Bucket=bucket, Key="f", Body=b"x")
    s3.put_object(Bucket=bucket, Key="marker/", Body=b"")
    for key in ("f/", "marker"):
        s3.delete_object(Bucket=bucket, Key=key)
    assert "Errors" not in s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "f/"}, {"Key": "marker"}]})
    assert [item["Key"] for item in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["f", "marker/"]
