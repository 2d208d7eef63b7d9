"""The gateway of a store whose disk is full: what brings something gets S3's own error for it, and the rest goes on."""
import http.client
import os
import socket
import subprocess

import botocore.exceptions
import pytest

from conftest import wait_until
from gateway import Gateway

MIB = 1 << 20


@pytest.fixture
def disk(request, tmp_path):
    """A filesystem of 64 MiB, or as many as the test says, of which an eighth stays free."""
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={getattr(request, 'param', 64)}m", "none", path], check=True)
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


def free(disk):
    return os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize


@pytest.fixture
def full(make_daemon, disk):
    """A daemon whose folder and store are on that disk."""
    daemon = make_daemon("--s3-listen", "127.0.0.1:0")
    daemon.dir = str(disk / "data")
    daemon.start()
    Gateway(daemon).ask("PUT", "/b")
    return daemon


def test_what_would_not_fit_is_refused_before_it_comes(full, disk):
    """It lies in the daemon's folder until it is whole, and then in packs as well."""
    gate = Gateway(full)
    length = (free(disk) - 8 * MIB) // 2 + MIB
    for path in ("/b/f", "/b/g"):
        headers = {**gate.signed("PUT", path, payload="UNSIGNED-PAYLOAD"), "Content-Length": str(length), "Expect": "100-continue"}
        answer = gate.send("PUT", path, headers=headers)
        assert (answer.status, answer.code) == (507, "InsufficientStorage") and "8.0 MiB stay reserved" in answer.message, answer.body
    host, _, port = full.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as c:
        c.sendall(f"PUT /api/v1/repos/default/b/branches/master/files/f HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {full.token}\r\n"
                  f"Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n".encode())
        assert c.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 507"
    assert gate.ask("PUT", "/b/f", body=os.urandom(MIB)).status == 200


@pytest.mark.parametrize("disk", [256], indirect=True)
def test_many_bodies_at_a_time_leave_the_disk_its_room(full, disk):
    """None of them is too much; what they are together shows as they come."""
    gate, least, refused = Gateway(full), free(disk), set()
    host, _, port = gate.host.partition(":")
    length = ((free(disk) - 32 * MIB) // 2 // MIB - 2) * MIB
    headers = {**gate.signed("PUT", "/b/f", payload="UNSIGNED-PAYLOAD"), "Content-Length": str(length)}
    bodies = [socket.create_connection((host, int(port)), timeout=60) for _ in range(5)]
    for body in bodies:
        body.sendall(("PUT /b/f HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n").encode())
    for _ in range(length // MIB):
        for body in bodies:
            try:
                body.sendall(bytes(MIB))
            except ConnectionError:
                refused.add(body)
            least = min(least, free(disk))
    for body in bodies:
        try:
            if body.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 507":
                refused.add(body)
        except ConnectionError:
            refused.add(body)
        body.close()
    assert refused and least >= 32 * MIB - len(bodies) * 4 * MIB, (len(refused), least / MIB)
    wait_until(lambda: gate.ask("PUT", "/b/small", body=b"there is room for that").status == 200, "the last body's room, which is freed after its answer")


def test_a_body_whose_length_nobody_knows_leaves_the_disk_its_room(full, disk):
    least = []

    def pieces():
        for _ in range(200):
            least.append(free(disk))
            yield bytes(MIB)

    connection = http.client.HTTPConnection(full.url.removeprefix("http://"), timeout=60)
    try:
        connection.request("PUT", "/api/v1/repos/default/b/branches/master/files/f", body=pieces(), encode_chunked=True,
                           headers={"Authorization": f"Bearer {full.token}", "Transfer-Encoding": "chunked"})
    except ConnectionError:
        pass  # it has answered already
    answer = connection.getresponse()
    assert answer.status == 507 and b"8.0 MiB" in answer.read()
    assert min(least) >= 4 * MIB
