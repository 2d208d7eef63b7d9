"""The gateway of a store whose disk is full: what brings something gets S3's own error for it, and the rest goes on."""
import os
import subprocess

import botocore.exceptions
import pytest

from gateway import Gateway

MIB = 1 << 20


@pytest.fixture
def disk(tmp_path):
    """A filesystem of 64 MiB, of which an eighth stays free."""
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", path], check=True)
    yield path
    subprocess.run(["umount", "-l", path], check=True)


def refused(call, **kwargs):
    with pytest.raises(botocore.exceptions.ClientError) as e:
        call(**kwargs)
    answer = e.value.response
    assert (answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]) == ("InsufficientStorage", 507), answer
    return answer["Error"]["Message"]


def test_puts_and_parts_are_refused_and_what_is_there_is_finished(make_daemon, disk):
    daemon = make_daemon("--store", f"file://{disk}/store", "--s3-listen", "127.0.0.1:0").start()
    s3 = Gateway(daemon).client()
    s3.create_bucket(Bucket="b")
    s3.put_object(Bucket="b", Key="kept", Body=b"kept")
    s3.put_object(Bucket="b", Key="gone", Body=b"gone")
    part = os.urandom(5 * MIB)
    upload = {"Bucket": "b", "Key": "large", "UploadId": s3.create_multipart_upload(Bucket="b", Key="large")["UploadId"]}
    etag = s3.upload_part(**upload, PartNumber=1, Body=part)["ETag"]
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    with open(disk / "filler", "wb") as f:
        os.posix_fallocate(f.fileno(), 0, free - 7 * MIB)
    said = refused(s3.put_object, Bucket="b", Key="new", Body=b"new")
    assert str(disk) in said and "8.0 MiB" in said
    refused(s3.create_multipart_upload, Bucket="b", Key="other")
    refused(s3.upload_part, **upload, PartNumber=2, Body=part)
    refused(s3.upload_part_copy, **upload, PartNumber=2, CopySource="b/kept")
    refused(s3.copy_object, Bucket="b", Key="copy", CopySource="b/kept")
    assert s3.get_object(Bucket="b", Key="kept")["Body"].read() == b"kept"
    s3.delete_object(Bucket="b", Key="gone")
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    assert [o["Key"] for o in s3.list_objects_v2(Bucket="b")["Contents"]] == ["kept", "large"]
    assert s3.get_object(Bucket="b", Key="large")["Body"].read() == part
    os.unlink(disk / "filler")
    s3.put_object(Bucket="b", Key="new", Body=b"new")
    s3.copy_object(Bucket="b", Key="copy", CopySource="b/kept")
    assert s3.get_object(Bucket="b", Key="copy")["Body"].read() == b"kept"
