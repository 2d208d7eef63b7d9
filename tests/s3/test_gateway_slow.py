"""The gateway and clients who take their time with a body: nobody waits for them, and what changed meanwhile counts."""
import random

import botocore.exceptions
import pytest

from gateway import Gateway, refusals_of
from slow_request import SlowRequest

DAEMON_OPTIONS = ["--s3-listen", "127.0.0.1:0", "--gc-every", "0s", "--linger", "0s"]
BUCKET = "slow"
UPLOADS_MAX = 2500  # of one user


@pytest.fixture
def gate(shared):
    gate = Gateway(shared)
    gate.ask("PUT", f"/{BUCKET}")
    return gate


def begin(gate, path, length, method="PUT"):
    return SlowRequest(gate.url, method, path, gate.signed(method, path, payload="UNSIGNED-PAYLOAD"), length)


def key_of(shared, gate, name, **roles):
    """A gateway for a new user with these roles over repos of the project default."""
    shared.post("/users", {"name": name, "roles": [{"scope": f"default/{repo}", "role": role} for repo, role in roles.items()]})
    key, own = shared.post("/s3-keys", {"user": name}), Gateway(shared)
    own.access_key, own.secret = key["access_key"], key["secret_key"]
    return own


def refused(answer, code):
    status, body = answer
    assert status == 403 and f"<Code>{code}</Code>".encode() in body, answer


def test_garbage_is_collected_while_a_body_comes(shared, gate):
    gate.ask("PUT", "/garbage")
    shared.push("garbage", "f", random.Random(1).randbytes(300_000))
    slow = begin(gate, f"/{BUCKET}/f", 4)
    slow.send(b"slo")
    shared.ctl("delete", "repo", "garbage")
    report = shared.ctl("--json", "gc").json
    assert report["freed_bytes"] >= 300_000 and report["waiting_packs"] == 0, report
    assert slow.end(b"w")[0] == 200
    assert gate.ask("GET", f"/{BUCKET}/f").body == b"slow"


def test_a_key_that_is_deleted_while_a_body_comes_puts_nothing(shared, gate):
    own = key_of(shared, gate, "left-in-the-middle", slow="writer")
    slow = begin(own, f"/{BUCKET}/left", 4)
    shared.http("DELETE", f"/api/v1/s3-keys/{own.access_key}")
    refused(slow.end(b"left"), "InvalidAccessKeyId")
    assert gate.ask("GET", f"/{BUCKET}/left").code == "NoSuchKey"


def test_a_role_that_is_taken_away_while_a_body_comes(shared, gate):
    own = key_of(shared, gate, "demoted-in-the-middle", slow="writer")
    slow, kept = begin(own, f"/{BUCKET}/demoted", 4), begin(own, f"/{BUCKET}/kept", 4)
    shared.http("PATCH", "/api/v1/users/demoted-in-the-middle", {"roles": [{"scope": "default/other", "role": "reader"}]})
    assert kept.end(b"kept")[0] == 200  # one more takes nothing away
    shared.http("PATCH", "/api/v1/users/demoted-in-the-middle", {"roles": [{"scope": "default/slow", "role": "reader"}]})
    refused(slow.end(b"late"), "AccessDenied")
    assert gate.ask("GET", f"/{BUCKET}/demoted").code == "NoSuchKey"


def test_a_bucket_that_goes_while_a_body_comes(shared, gate):
    gate.ask("PUT", "/going")
    slow = begin(gate, "/going/f", 4)
    assert gate.ask("DELETE", "/going").status == 204
    status, body = slow.end(b"late")
    assert status == 404 and b"<Code>NoSuchBucket</Code>" in body


def test_parts_of_an_upload_go_with_their_repo(shared, gate):
    gate.ask("PUT", "/unfinished")
    s3 = gate.client()
    upload = {"Bucket": "unfinished", "Key": "f", "UploadId": s3.create_multipart_upload(Bucket="unfinished", Key="f")["UploadId"]}
    s3.upload_part(**upload, PartNumber=1, Body=random.Random(2).randbytes(300_000))
    assert shared.ctl("--json", "gc").json["freed_bytes"] == 0
    shared.ctl("delete", "repo", "unfinished")
    assert shared.ctl("--json", "gc").json["freed_bytes"] >= 300_000
    gate.ask("PUT", "/unfinished")
    with pytest.raises(botocore.exceptions.ClientError, match="NoSuchUpload"):
        s3.upload_part(**upload, PartNumber=2, Body=b"x")


@pytest.mark.timeout(900)
def test_a_client_at_the_limit_of_uploads_succeeds_when_one_ends(shared, gate):
    gate.ask("PUT", "/many")
    own = key_of(shared, gate, "uploader", many="writer")
    s3 = own.client()
    first = s3.create_multipart_upload(Bucket="many", Key="first")["UploadId"]
    for i in range(UPLOADS_MAX - 1):
        s3.create_multipart_upload(Bucket="many", Key=f"more/{i}")
    refusals = refusals_of(s3, "CreateMultipartUpload", lambda: s3.abort_multipart_upload(Bucket="many", Key="first", UploadId=first))
    last = s3.create_multipart_upload(Bucket="many", Key="last")
    assert refusals == [("SlowDown", 503)] and last["ResponseMetadata"]["RetryAttempts"] == 1
    s3.upload_part(Bucket="many", Key="last", UploadId=last["UploadId"], PartNumber=1, Body=b"x")
    shared.ctl("delete", "repo", "many")  # its uploads end with it
