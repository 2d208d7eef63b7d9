"""What real servers hold to of a request that was signed for others: the range, the bytes, one write, and the time."""
import hashlib
import http.client
import json
import os
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
    assert done.returncode == 1 and "no URLs for writing" in done.stderr
    return True


def play(signed, method, body=None, **instead):
    """Makes the request with other headers in the place of its own -> status, body."""
    url = urllib.parse.urlsplit(signed["url"])
    connection = http.client.HTTPConnection(url.netloc, timeout=30)
    try:
        connection.request(method, f"{url.path}?{url.query}", body=body, headers={**signed["headers"], **instead})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (BrokenPipeError, ConnectionResetError):  # refused before all of the body was there
        return 400, b""
    finally:
        connection.close()


def put(server, bucket, body, seconds=300):
    return sign(server, bucket, "put", KEY, len(body), hashlib.sha256(body).hexdigest(), seconds)


def tampered(signed):
    """Its signature ends with another digit."""
    name, signature = signed["url"].rsplit("X-Amz-Signature=", 1)
    other = "0" if signature[0] != "0" else "1"
    return {**signed, "url": f"{name}X-Amz-Signature={other}{signature[1:]}"}


def test_a_signed_put_takes_its_own_bytes_once(server, bucket):
    if gives_no_urls_to_put(server, bucket):
        return
    body, other = b"what was signed " * 1000, b"something else! " * 1000
    signed = put(server, bucket, body)
    assert signed["caps"] & (SIGNED_PUT | SIGNED_PUT_ABSENT) == SIGNED_PUT | SIGNED_PUT_ABSENT
    assert play(signed, "PUT", other)[0] >= 400
    assert play(signed, "PUT", body[:-1])[0] >= 400
    assert play(tampered(signed), "PUT", body)[0] == 403
    assert "Contents" not in client(server).list_objects_v2(Bucket=bucket, Prefix="store/p/")
    assert play(signed, "PUT", body)[0] == 200
    assert play(signed, "PUT", body)[0] == 412
    assert play(put(server, bucket, other), "PUT", other)[0] == 412
    assert client(server).get_object(Bucket=bucket, Key=f"store/{KEY}")["Body"].read() == body


def test_a_signed_get_gives_its_own_range(server, bucket):
    body = bytes(range(256)) * 16
    client(server).put_object(Bucket=bucket, Key=f"store/{KEY}", Body=body)
    signed = sign(server, bucket, "get", KEY, 100, 50, 300)
    assert signed["caps"] & SIGNED_GET
    assert play(signed, "GET") == (206, body[100:150])
    assert play(signed, "GET", **{"range": "bytes=0-4095"})[0] == 403
    assert play(signed, "PUT", b"x")[0] == 403
    assert play(tampered(signed), "GET")[0] == 403
    moved = {**signed, "url": signed["url"].replace(KEY, "p/default/ab/other")}
    client(server).put_object(Bucket=bucket, Key="store/p/default/ab/other", Body=body)
    assert play(moved, "GET")[0] == 403


def test_what_was_signed_expires(server, bucket):
    body = b"too late"
    client(server).put_object(Bucket=bucket, Key="store/p/default/ab/there", Body=body)
    read = sign(server, bucket, "get", "p/default/ab/there", 0, 8, 1)
    write = None if gives_no_urls_to_put(server, bucket) else put(server, bucket, body, seconds=1)
    wait_until(lambda: play(read, "GET")[0] == 403, "the URL to read by to expire")
    if write:
        wait_until(lambda: play(write, "PUT", b"not this")[0] == 403, "the URL to write by to expire")
        assert play(write, "PUT", body)[0] == 403
    assert "Contents" not in client(server).list_objects_v2(Bucket=bucket, Prefix=f"store/{KEY}")
