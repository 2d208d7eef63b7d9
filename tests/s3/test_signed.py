"""What real servers hold to of a request that was signed for others: the range, the bytes, one write, and the time."""
import hashlib
import http.client
import json
import os
import re
import subprocess
import urllib.parse

import servers
from conftest import BIN, client, wait_until

SIGNED_GET, SIGNED_PUT, SIGNED_PUT_ABSENT = 4, 8, 16  # storage/object/object.h
KEY = "p/default/ab/pack"


def try_to_sign(server, bucket, *words):
    env = {**os.environ, "AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
    return subprocess.run([f"{BIN}/pl-sign-url", f"s3://{bucket}/store", server.endpoint, *map(str, words)], capture_output=True, text=True,
                          env=env, timeout=60, check=False)


def sign(server, bucket, *words):
    """-> {"caps", "url", "headers": {…}}."""
    done = try_to_sign(server, bucket, *words)
    assert done.returncode == 0, done.stderr
    signed = json.loads(done.stdout)
    signed["headers"] = dict(line.split(": ", 1) for line in signed["headers"])
    return signed


def gives_no_urls_to_put(server, bucket):
    """versitygw takes no presigned PUT that names the hash of its bytes: that is found out, and packs go through the daemon."""
    if not isinstance(server, servers.Versitygw):
        return False
    done = try_to_sign(server, bucket, "put", KEY, 4, hashlib.sha256(b"body").hexdigest(), 300)
    assert done.returncode == 1 and "cannot presign writes" in done.stderr
    return True


def play(signed, method, body=None, **instead):
    """Makes the request with other headers in the place of its own, None: without that one -> status, body; of a refusal S3's code."""
    url = urllib.parse.urlsplit(signed["url"])
    connection = http.client.HTTPConnection(url.netloc, timeout=30)
    headers = {name: value for name, value in {**signed["headers"], **instead}.items() if value is not None}
    try:
        connection.request(method, f"{url.path}?{url.query}", body=body, headers=headers)
        answer = connection.getresponse()
        said = answer.read()
        return answer.status, said if answer.status < 300 else re.search(rb"<Code>(\w+)</Code>", said)[1].decode()
    finally:
        connection.close()


def put(server, bucket, body, seconds=300):
    return sign(server, bucket, "put", KEY, len(body), hashlib.sha256(body).hexdigest(), seconds)


def tampered(signed):
    """Its signature ends with another digit."""
    name, signature = signed["url"].rsplit("X-Amz-Signature=", 1)
    other = "0" if signature[0] != "0" else "1"
    return {**signed, "url": f"{name}X-Amz-Signature={other}{signature[1:]}"}


def longer(signed):
    """It says that it lives longer than was signed."""
    return {**signed, "url": signed["url"].replace("X-Amz-Expires=300", "X-Amz-Expires=3000")}


def moved(signed):
    """It leads to another pack."""
    return {**signed, "url": signed["url"].replace(KEY, "p/default/ab/other")}


def of_a_missing_header(server):
    """What a server says when a header is not there that was signed."""
    return (400, "AccessDenied") if isinstance(server, servers.Minio) else (403, "SignatureDoesNotMatch")


def test_a_signed_put_takes_its_own_bytes_once(server, bucket):
    if gives_no_urls_to_put(server, bucket):
        return
    body, other = b"what was signed " * 1000, b"something else! " * 1000
    signed = put(server, bucket, body)
    assert signed["caps"] & (SIGNED_PUT | SIGNED_PUT_ABSENT) == SIGNED_PUT | SIGNED_PUT_ABSENT
    refused = {"other bytes": play(signed, "PUT", other), "fewer bytes": play(signed, "PUT", body[:-1]), "another signature": play(tampered(signed), "PUT", body),
               "another way": play(signed, "DELETE"), "longer life": play(longer(signed), "PUT", body), "another key": play(moved(signed), "PUT", body),
               "replacing": play(signed, "PUT", body, **{"if-none-match": None})}
    assert refused == {**dict.fromkeys(refused, (403, "SignatureDoesNotMatch")), "other bytes": (400, "XAmzContentSHA256Mismatch"),
                       "replacing": of_a_missing_header(server)}
    assert "Contents" not in client(server).list_objects_v2(Bucket=bucket, Prefix="store/p/")
    assert play(signed, "PUT", body)[0] == 200
    assert play(signed, "PUT", body) == (412, "PreconditionFailed")  # replayed
    assert play(put(server, bucket, other), "PUT", other) == (412, "PreconditionFailed")
    assert client(server).get_object(Bucket=bucket, Key=f"store/{KEY}")["Body"].read() == body


def test_a_signed_get_gives_its_own_range(server, bucket):
    body = bytes(range(256)) * 16
    client(server).put_object(Bucket=bucket, Key=f"store/{KEY}", Body=body)
    signed = sign(server, bucket, "get", KEY, 100, 50, 300)
    assert signed["caps"] & SIGNED_GET
    assert play(signed, "GET") == (206, body[100:150])
    client(server).put_object(Bucket=bucket, Key="store/p/default/ab/other", Body=body)
    refused = {"a wider range": play(signed, "GET", **{"range": "bytes=0-4095"}), "all of it": play(signed, "GET", range=None),
               "another way": play(signed, "PUT", b"x"), "another signature": play(tampered(signed), "GET"), "another key": play(moved(signed), "GET"),
               "longer life": play(longer(signed), "GET")}
    assert refused == {**dict.fromkeys(refused, (403, "SignatureDoesNotMatch")), "all of it": of_a_missing_header(server)}
    assert client(server).get_object(Bucket=bucket, Key=f"store/{KEY}")["Body"].read() == body


def test_what_was_signed_expires(server, bucket):
    body = b"too late"
    client(server).put_object(Bucket=bucket, Key="store/p/default/ab/there", Body=body)
    read = sign(server, bucket, "get", "p/default/ab/there", 0, 8, 1)
    write = None if gives_no_urls_to_put(server, bucket) else put(server, bucket, body, seconds=1)
    wait_until(lambda: play(read, "GET") == (403, "AccessDenied"), "the URL to read by to expire")
    if write:
        wait_until(lambda: play(write, "PUT", b"not this") == (403, "AccessDenied"), "the URL to write by to expire")
        assert play(write, "PUT", body) == (403, "AccessDenied")
    assert "Contents" not in client(server).list_objects_v2(Bucket=bucket, Prefix=f"store/{KEY}")
