"""Who may come in by S3: signatures in header and query, their time, what they cover; and bodies whose framing lies."""
import hashlib
import io
import json
import os
import pwd
import socket

import boto3
import botocore.client
import botocore.exceptions
import pytest

from conftest import wait_until
from gateway import Gateway, checksum, now
from tls_kit import Authority

DAEMON_OPTIONS = ["--s3-listen", "127.0.0.1:0", "--s3-domain", "s3.example"]
BUCKET = "auth"


@pytest.fixture
def gate(shared):
    gate = Gateway(shared)
    gate.ask("PUT", f"/{BUCKET}")
    return gate


def refused(answer, code, status):
    assert (answer.code, answer.status) == (code, status), answer.body


# ---- in the head

def test_unsigned_requests_are_refused(gate):
    for path in ("/", f"/{BUCKET}", f"/{BUCKET}/f", "/no/such"):
        refused(gate.send("GET", path), "AccessDenied", 403)
    refused(gate.send("PUT", f"/{BUCKET}/f", body=b"x"), "AccessDenied", 403)


def test_a_key_that_nobody_has_and_a_wrong_secret(gate):
    gate.access_key = "somebody"
    refused(gate.ask("GET", "/"), "InvalidAccessKeyId", 403)
    gate.access_key, gate.secret = "pipelined", "wrong"
    refused(gate.ask("GET", "/"), "SignatureDoesNotMatch", 403)


def test_version_2_is_refused_with_a_clear_error(gate):
    answer = gate.send("GET", f"/{BUCKET}", headers={"Authorization": "AWS pipelined:frJIUN8DYpKDtOLCwo//yllqDzg=", "Date": "Tue, 27 Mar 2007 19:36:42 +0000"})
    refused(answer, "InvalidRequest", 400)
    assert "Version 2" in answer.message and "AWS4-HMAC-SHA256" in answer.message
    refused(gate.send("GET", f"/{BUCKET}", {"AWSAccessKeyId": "pipelined", "Expires": "9999999999", "Signature": "x="}), "InvalidRequest", 400)


@pytest.mark.parametrize("method", ["get_object", "put_object"])
def test_with_the_region_of_s3_env_boto_presigns_urls_that_work(gate, shared, method):
    """Without a signature version in its config: botocore then chooses one by the region."""
    env = json.loads(shared.ctl("s3", "env", "--json").out)
    s3 = boto3.client("s3", endpoint_url=gate.url, aws_access_key_id=env["AWS_ACCESS_KEY_ID"], aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
                      region_name=env["AWS_DEFAULT_REGION"], config=botocore.client.Config(s3={"addressing_style": "path"}))
    s3.put_object(Bucket=BUCKET, Key="presigned-by-boto", Body=b"x")
    url = s3.generate_presigned_url(method, Params={"Bucket": BUCKET, "Key": "presigned-by-boto"})
    answer = gate.send("GET" if method == "get_object" else "PUT", "", target=url.removeprefix(gate.url))
    assert (answer.status, answer.body) == (200, b"x" if method == "get_object" else b"")


@pytest.mark.parametrize("offset,code", [(-14 * 60, ""), (14 * 60, ""), (-16 * 60, "RequestTimeTooSkewed"), (16 * 60, "RequestTimeTooSkewed"),
                                         (-86400 * 365, "RequestTimeTooSkewed")])
def test_clocks_may_differ_by_15_minutes(gate, offset, code):
    assert gate.ask("GET", f"/{BUCKET}", time=now(offset)).code == code


def test_any_region_will_do_but_only_for_s3(gate):
    gate.region = "mars-north-7"
    assert gate.ask("GET", f"/{BUCKET}").status == 200
    headers = gate.signed("GET", f"/{BUCKET}", service="iam")
    refused(gate.send("GET", f"/{BUCKET}", headers=headers), "AuthorizationHeaderMalformed", 400)


def test_what_is_signed_cannot_be_changed(gate):
    good = gate.signed("PUT", f"/{BUCKET}/f", {"a": "1"}, {"x-amz-meta-m": "v"}, b"body")
    assert gate.send("PUT", f"/{BUCKET}/f", {"a": "1"}, good, b"body").status == 200
    send = lambda method="PUT", path=f"/{BUCKET}/f", query=None, headers=None, body=b"body": gate.send(method, path, query or {"a": "1"}, {**good, **(headers or {})}, body)
    refused(send(method="DELETE", body=b""), "SignatureDoesNotMatch", 403)
    refused(send(path=f"/{BUCKET}/g"), "SignatureDoesNotMatch", 403)
    refused(send(query={"a": "2"}), "SignatureDoesNotMatch", 403)
    refused(send(query={"a": "1", "versionId": ""}), "SignatureDoesNotMatch", 403)
    refused(send(headers={"x-amz-meta-m": "w"}), "SignatureDoesNotMatch", 403)
    refused(send(headers={"Host": "other.example"}), "SignatureDoesNotMatch", 403)
    refused(send(headers={"x-amz-meta-more": "v"}), "AccessDenied", 403)  # such headers are signed, or not there
    refused(send(body=b"evil"), "XAmzContentSHA256Mismatch", 400)
    refused(send(headers={"x-amz-content-sha256": hashlib.sha256(b"evil").hexdigest()}, body=b"evil"), "SignatureDoesNotMatch", 403)
    signature = good["Authorization"]
    refused(send(headers={"Authorization": signature[:-1] + ("0" if signature[-1] != "0" else "1")}), "SignatureDoesNotMatch", 403)
    refused(send(headers={"Authorization": signature[:-1]}), "AuthorizationHeaderMalformed", 400)
    assert gate.ask("GET", f"/{BUCKET}/f").body == b"body"


def test_a_signature_is_of_no_use_later(gate):
    """Within its time a request can come again, and does the same again; then it is refused."""
    old = gate.signed("PUT", f"/{BUCKET}/again", body=b"1", time=now(-14 * 60))
    for _ in range(2):
        assert gate.send("PUT", f"/{BUCKET}/again", headers=old, body=b"1").status == 200
    refused(gate.send("PUT", f"/{BUCKET}/other", headers=old, body=b"1"), "SignatureDoesNotMatch", 403)
    refused(gate.send("PUT", f"/{BUCKET}/again", headers=gate.signed("PUT", f"/{BUCKET}/again", body=b"1", time=now(-15 * 60 - 5)), body=b"1"),
            "RequestTimeTooSkewed", 403)


@pytest.mark.parametrize("change", [lambda a: a.replace("Credential=", "Credentials="), lambda a: a.replace("/s3/aws4_request", "/s3/aws5_request"),
                                    lambda a: a.replace("SignedHeaders=", "X="), lambda a: a.partition(", Signature")[0],
                                    lambda a: a.replace("/us-east-1/", "/"), lambda a: a + ", " + a.rpartition(", ")[2],
                                    lambda a: "AWS4-HMAC-SHA256 " + "x" * 9000])
def test_headers_that_say_nothing_are_malformed(gate, change):
    headers = gate.signed("GET", f"/{BUCKET}")
    headers["Authorization"] = change(headers["Authorization"])
    refused(gate.send("GET", f"/{BUCKET}", headers=headers), "AuthorizationHeaderMalformed", 400)


def test_a_body_says_what_it_is(gate):
    headers = gate.signed("GET", f"/{BUCKET}")
    del headers["x-amz-content-sha256"]
    assert gate.send("GET", f"/{BUCKET}", headers=headers).code in ("InvalidRequest", "SignatureDoesNotMatch")
    refused(gate.ask("PUT", f"/{BUCKET}/f", payload="STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", body=b"x"), "NotImplemented", 501)


def test_who_guesses_is_told_to_come_later_and_who_knows_is_not(make_daemon):
    gate = Gateway(make_daemon(*DAEMON_OPTIONS).start())
    gate.ask("PUT", f"/{BUCKET}")
    right, answers = gate.secret, []
    while "SlowDown" not in answers and len(answers) < 2000:
        gate.secret = f"guess {len(answers)}"
        answers.append(gate.ask("GET", "/").code)
    assert set(answers[:-1]) == {"SignatureDoesNotMatch"} and len(answers) > 200
    gate.secret = right
    assert gate.ask("GET", f"/{BUCKET}").status == 200


def test_over_tls_with_a_ca_of_ones_own(make_daemon, tmp_path):
    authority = Authority(tmp_path / "ca")
    cert, key = authority.vouch()
    d = make_daemon(*DAEMON_OPTIONS, "--tls-cert", cert, "--tls-key", key).start()
    client = lambda ca: boto3.client("s3", endpoint_url=d.get("/status")["s3_url"], aws_access_key_id="pipelined", aws_secret_access_key=d.token,
                                     region_name="us-east-1", verify=ca, config=botocore.client.Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}))
    trusting, body = client(authority.ca), os.urandom(9 << 20)
    trusting.create_bucket(Bucket=BUCKET)
    trusting.upload_fileobj(io.BytesIO(body), BUCKET, "parts/of/it")  # more than 8 MiB: in parts
    assert trusting.get_object(Bucket=BUCKET, Key="parts/of/it")["Body"].read() == body
    upload = {"Bucket": BUCKET, "Key": "one", "UploadId": trusting.create_multipart_upload(Bucket=BUCKET, Key="one")["UploadId"]}
    parts = [{"PartNumber": 1, "ETag": trusting.upload_part(**upload, PartNumber=1, Body=b"1")["ETag"]}]
    made = trusting.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert made["Location"] == f"{d.get('/status')['s3_url']}/{BUCKET}/one"
    with pytest.raises(botocore.exceptions.SSLError):
        client(Authority(tmp_path / "other").ca).list_buckets()


# ---- in the query

def test_presigned_urls(gate):
    query = gate.presigned("PUT", f"/{BUCKET}/presigned")
    assert gate.send("PUT", f"/{BUCKET}/presigned", query, body=b"by url").status == 200
    got = gate.presigned("GET", f"/{BUCKET}/presigned", {"response-content-type": "a/b"})
    answer = gate.send("GET", f"/{BUCKET}/presigned", got)
    assert (answer.body, answer.headers["content-type"]) == (b"by url", "a/b")
    assert gate.client().generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "presigned"}).startswith(gate.url)


def test_a_presigned_url_has_headers_in_its_query(gate):
    """Clients that sign a URL move x-amz-* headers there; nobody who uses the URL sends them."""
    path, said = f"/{BUCKET}/hoisted", {"x-amz-meta-One": "1", "X-Amz-Meta-two": "a b", "x-amz-tagging": "k=v", "x-amz-acl": "private", "x-amz-storage-class": "STANDARD",
                                        "x-amz-expected-bucket-owner": "pipelined", "x-amz-checksum-sha256": checksum("sha256", b"body")}
    assert gate.send("PUT", path, gate.presigned("PUT", path, said), body=b"body").status == 200
    got = gate.send("GET", path, gate.presigned("GET", path, {"x-amz-checksum-mode": "ENABLED"}))
    told = {name: got.headers[name] for name in ("x-amz-meta-one", "x-amz-meta-two", "x-amz-tagging-count", "x-amz-checksum-sha256")}
    assert told == {"x-amz-meta-one": "1", "x-amz-meta-two": "a b", "x-amz-tagging-count": "1", "x-amz-checksum-sha256": checksum("sha256", b"body")}
    copy = gate.presigned("PUT", path + "-copy", {"x-amz-copy-source": f"{BUCKET}/hoisted"})
    assert b"CopyObjectResult" in gate.send("PUT", path + "-copy", copy).body
    assert gate.ask("GET", path + "-copy").body == b"body"
    both = gate.presigned("PUT", path, {"x-amz-meta-one": "query"}, headers={"x-amz-meta-one": "header"})
    assert gate.send("PUT", path, both, {"x-amz-meta-one": "header"}, b"body").status == 200
    assert gate.ask("HEAD", path).headers["x-amz-meta-one"] == "header"
    assert gate.ask("PUT", path, {"x-amz-meta-one": "1"}, body=b"signed in its head").status == 200
    assert "x-amz-meta-one" not in gate.ask("HEAD", path).headers


@pytest.mark.parametrize("name,value,code", [
    ("x-amz-acl", "public-read", "AccessControlListNotSupported"), ("x-amz-storage-class", "GLACIER", "InvalidStorageClass"),
    ("X-Amz-Server-Side-Encryption", "AES256", "NotImplemented"), ("x-amz-object-lock-mode", "GOVERNANCE", "NotImplemented"),
    ("x-amz-expected-bucket-owner", "111122223333", "AccessDenied"), ("x-amz-checksum-sha256", checksum("sha256", b"other"), "BadDigest"),
    ("x-amz-checksum-xxhash64", "AAAAAAAAAAA=", "NotImplemented"), ("x-amz-meta-a: b", "1", "InvalidArgument"), ("x-amz-meta-a", "1\r\nb: c", "InvalidArgument"),
    ("x-amz-copy-source", f"{BUCKET}/none", "NoSuchKey"), ("x-amz-meta-a", "x" * 2048, "MetadataTooLarge"), ("X-Amz-If-Match-Size", "1", "NotImplemented")])
def test_what_a_presigned_url_asks_for_is_refused_not_dropped(gate, name, value, code):
    path = f"/{BUCKET}/hoisted-refused"
    assert gate.send("PUT", path, gate.presigned("PUT", path, {name: value}), body=b"body").code == code
    assert gate.ask("HEAD", path).status == 404


@pytest.mark.parametrize("name", ["crc32", "sha256"])
def test_a_presigned_url_may_have_the_checksum_of_no_bytes(gate, name):
    """SDKs put it there that sign a URL while there is no body yet. As in S3, it says nothing of the body that comes."""
    path, header = f"/{BUCKET}/{name}-of-nothing", f"x-amz-checksum-{name}"
    url = gate.presigned("PUT", path, {header: checksum(name, b""), "x-amz-sdk-checksum-algorithm": name.upper()})
    assert gate.send("PUT", path, url, body=b"body").status == 200
    assert gate.ask("GET", path).body == b"body"
    assert gate.ask("PUT", path, headers={header: checksum(name, b"")}, body=b"other").code == "BadDigest"


def test_presigned_urls_are_for_what_they_say_and_as_long(gate):
    path = f"/{BUCKET}/presigned"
    good = gate.presigned("GET", path)
    refused(gate.send("PUT", path, good, body=b"evil"), "SignatureDoesNotMatch", 403)
    refused(gate.send("GET", path + "2", good), "SignatureDoesNotMatch", 403)
    refused(gate.send("GET", path, {**good, "X-Amz-Expires": "600"}), "SignatureDoesNotMatch", 403)
    refused(gate.send("GET", path, {**good, "versionId": "0" * 32}), "SignatureDoesNotMatch", 403)
    expired = gate.send("GET", path, gate.presigned("GET", path, expires=60, time=now(-61)))
    refused(expired, "AccessDenied", 403)
    assert "expired" in expired.message
    refused(gate.send("GET", path, gate.presigned("GET", path, time=now(16 * 60))), "RequestTimeTooSkewed", 403)
    for expires in (0, 604801, -1):
        refused(gate.send("GET", path, gate.presigned("GET", path, expires=expires)), "AuthorizationQueryParametersError", 400)
    for gone in ("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders"):
        answer = gate.send("GET", path, {k: v for k, v in good.items() if k != gone})
        assert answer.code in ("AuthorizationQueryParametersError", "AccessDenied"), gone
    refused(gate.send("GET", path, good, headers=gate.signed("GET", path, good)), "InvalidArgument", 400)


# ---- bucket in the host

def test_buckets_as_hosts(gate):
    gate.ask("PUT", f"/{BUCKET}/in-path", body=b"x")
    gate.host, address = f"{BUCKET}.s3.example", gate.host
    headers = gate.signed("GET", "/in-path")
    gate.host = address
    assert gate.send("GET", "/in-path", headers=headers).body == b"x"


# ---- aws-chunked

CHUNKS = [os.urandom(8192), os.urandom(8192), b"end"]


@pytest.mark.parametrize("sign", [True, False])
@pytest.mark.parametrize("name", ["", "crc32", "crc32c", "crc64nvme", "sha1", "sha256"])
def test_chunked_bodies(gate, sign, name):
    data = b"".join(CHUNKS)
    trailers = {f"x-amz-checksum-{name}": checksum(name, data)} if name else None
    answer = gate.chunked(f"/{BUCKET}/chunked", CHUNKS, trailers, sign)
    assert answer.status == 200, answer.body
    got = gate.ask("GET", f"/{BUCKET}/chunked", headers={"x-amz-checksum-mode": "ENABLED"})
    assert got.body == data
    assert "content-encoding" not in got.headers
    if name:
        assert answer.headers[f"x-amz-checksum-{name}"] == got.headers[f"x-amz-checksum-{name}"] == trailers[f"x-amz-checksum-{name}"]


def test_no_chunks_and_one_chunk(gate):
    assert gate.chunked(f"/{BUCKET}/none", []).status == 200
    assert gate.ask("GET", f"/{BUCKET}/none").body == b""
    assert gate.chunked(f"/{BUCKET}/one", [b"1"]).status == 200


@pytest.mark.parametrize("what,lie,code", [
    ("a byte of a chunk", lambda b: b.replace(b"end", b"eNd"), "SignatureDoesNotMatch"),
    ("a chunk's signature", lambda b: b.replace(b"3;chunk-signature=", b"3;chunk-signature=0")[:-1], "InvalidRequest"),
    ("a signature left out", lambda b: b[b.index(b"\r\n"):].join([b"2000", b""]), "SignatureDoesNotMatch"),
    ("no length", lambda b: b"zz" + b, "InvalidRequest"),
    ("a length that is none", lambda b: b"10000000000000000000" + b, "InvalidRequest"),
    ("chunks swapped", lambda b: swap(b), "SignatureDoesNotMatch"),
    ("a chunk left out", lambda b: b[b.index(b"\r\n2000;") + 2:], "SignatureDoesNotMatch"),
    ("the end left out", lambda b: b[:b.rindex(b"0;chunk")], "IncompleteBody"),
    ("bytes behind the end", lambda b: b + b"more", "InvalidRequest"),
    ("a chunk longer than it says", lambda b: b.replace(b"end\r\n", b"ends\r\n"), "SignatureDoesNotMatch"),
])
def test_framing_that_lies_is_refused(gate, what, lie, code):
    path = f"/{BUCKET}/lies"
    gate.ask("DELETE", path)
    answer = gate.chunked(path, CHUNKS, lie=lie)
    assert answer.code in (code, "InvalidRequest"), (what, answer.body)
    assert answer.status >= 400
    assert gate.ask("GET", path).code == "NoSuchKey"


def swap(body):
    """The first two chunks of 8192 bytes with their heads the other way round."""
    one = body.index(b"\r\n") + 2 + 8192 + 2
    return body[one:2 * one] + body[:one] + body[2 * one:]


def test_lengths_that_lie_are_refused(gate):
    path = f"/{BUCKET}/lies"
    size = sum(map(len, CHUNKS))
    for decoded, code in ((size - 1, "IncompleteBody"), (size + 1, "IncompleteBody"), ("x", "InvalidArgument"), (6 << 30, "EntityTooLarge"),
                          ("99999999999999999999999", "InvalidArgument")):
        assert gate.chunked(path, CHUNKS, decoded=decoded).code == code, decoded


def test_trailers_that_lie_are_refused(gate):
    path, data = f"/{BUCKET}/lies", b"".join(CHUNKS)
    good = {"x-amz-checksum-crc32": checksum("crc32", data)}
    assert gate.chunked(path, CHUNKS, {"x-amz-checksum-crc32": checksum("crc32", b"other")}).code == "BadDigest"
    assert gate.chunked(path, CHUNKS, {"x-amz-checksum-crc32": "???"}).code == "MalformedTrailerError"
    assert gate.chunked(path, CHUNKS, good, checksum_header="x-amz-checksum-sha1").code == "MalformedTrailerError"
    assert gate.chunked(path, CHUNKS, good, checksum_header="x-amz-nothing").code == "InvalidRequest"
    tampered = checksum("crc32", b"tampered").encode()
    assert gate.chunked(path, CHUNKS, good, lie=lambda b: b.replace(good["x-amz-checksum-crc32"].encode(), tampered)).code == "SignatureDoesNotMatch"
    late = f"x-amz-checksum-crc32:{good['x-amz-checksum-crc32']}\r\n"
    assert gate.chunked(path, CHUNKS, {"x-amz-checksum-crc32": ""}, behind=late).code == "MalformedTrailerError", "nobody signed it"
    assert gate.chunked(path, CHUNKS, good, sign=False, lie=lambda b: b[:b.index(b"x-amz-checksum")] + b"\r\n").code == "MalformedTrailerError"
    assert gate.chunked(path, CHUNKS, good, sign=False, lie=lambda b: b.replace(b"x-amz-checksum-crc32:", b"x" * 5000)).code == "MalformedTrailerError"


# ---- lengths and lines

def raw(gate, text):
    """Bytes on the wire; the answer's first line, or b"" when the connection just ends."""
    host, _, port = gate.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(text)
        connection.settimeout(60)
        try:
            return connection.recv(4096)
        except ConnectionResetError:
            return b""


def test_absurd_lengths_are_refused_before_a_byte_comes(gate):
    path = f"/{BUCKET}/f"
    for length, code in (("9" * 18, b"EntityTooLarge"), (str((5 << 30) + 1), b"EntityTooLarge"), ("9" * 30, b""), ("-5", b""), ("0x10", b"")):
        headers = {**gate.signed("PUT", path, payload="UNSIGNED-PAYLOAD"), "Content-Length": length, "Expect": "100-continue"}
        head = f"PUT {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
        answer = raw(gate, head.encode())
        assert answer.startswith(b"HTTP/1.1 4") and code in answer, (length, answer)


def test_a_body_without_a_length_is_refused(gate):
    headers = {**gate.signed("PUT", f"/{BUCKET}/f", payload="UNSIGNED-PAYLOAD"), "Transfer-Encoding": "chunked"}
    refused(gate.send("PUT", f"/{BUCKET}/f", headers=headers, body=b"1\r\nx\r\n0\r\n\r\n"), "MissingContentLength", 411)


def test_a_client_that_leaves_in_the_middle_leaves_nothing(gate):
    path = f"/{BUCKET}/half"
    headers = {**gate.signed("PUT", path, payload="UNSIGNED-PAYLOAD"), "Content-Length": "1000000"}
    head = f"PUT {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
    host, _, port = gate.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(head.encode() + b"x" * 300000)
    assert gate.ask("GET", path).code == "NoSuchKey"


def test_bodies_that_take_the_memory_and_do_not_come_take_it_from_nobody(gate):
    """More of them than memory is given to: those that come are kept in files."""
    path, data = f"/{BUCKET}/large", os.urandom(3 << 20)
    headers = {**gate.signed("PUT", path, payload="UNSIGNED-PAYLOAD"), "Content-Length": str(16 << 20)}
    head = f"PUT {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
    host, _, port = gate.url.removeprefix("http://").partition(":")
    waiting = [socket.create_connection((host, int(port)), timeout=60) for _ in range(12)]
    for connection in waiting:
        connection.sendall(head.encode() + b"x")
    assert gate.ask("PUT", path, body=data).status == 200
    for connection in waiting:
        connection.close()
    assert gate.ask("PUT", path, body=data[1:]).status == 200
    assert gate.ask("GET", path).body == data[1:]


# ---- XML

@pytest.mark.parametrize("body", [
    b'<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]><Delete><Object><Key>&x;</Key></Object></Delete>',
    b'<!DOCTYPE d [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><Delete><Object><Key>&b;</Key></Object></Delete>',
    b"<Delete><Object><Key>a</Key></Object>", b"<Delete/>", b"", b"not xml", b"<Delete><Object><Key/></Object></Delete>", b"<Other><Object><Key>a</Key></Object></Other>",
    b"<Delete>" + b"<a>" * 100 + b"</a>" * 100 + b"</Delete>", b"<Delete><Object><Key>\xff\xfe</Key></Object></Delete>"])
def test_xml_that_is_none_or_too_clever_is_refused(gate, body):
    gate.ask("PUT", f"/{BUCKET}/a", body=b"still here")
    refused(gate.ask("POST", f"/{BUCKET}", {"delete": ""}, body=body), "MalformedXML", 400)
    assert gate.ask("GET", f"/{BUCKET}/a").body == b"still here"


def test_a_body_that_is_too_long_for_xml_is_refused(gate):
    refused(gate.ask("POST", f"/{BUCKET}", {"delete": ""}, body=b" " * ((2 << 20) + 1)), "EntityTooLarge", 400)


def test_errors_are_documents_with_ids(gate):
    answer = gate.ask("GET", f"/{BUCKET}/absent")
    assert answer.headers["content-type"] == "application/xml"
    assert f"<Resource>/{BUCKET}/absent</Resource>".encode() in answer.body
    assert answer.headers["x-amz-request-id"].encode() in answer.body
    assert gate.ask("HEAD", f"/{BUCKET}/absent").body == b""


# ---- users

def key_of(shared, gate, name, roles, **limit):
    """A user with these roles, and the gateway with a key of theirs."""
    shared.post("/users", {"name": name, "roles": [{"scope": scope, "role": role} for scope, role in roles.items()]})
    key = shared.post("/s3-keys", {"user": name, **limit})
    own = Gateway(shared)
    own.access_key, own.secret = key["access_key"], key["secret_key"]
    return own


def test_users_do_what_their_roles_allow(shared, gate):
    shared.project("others")
    for bucket in ("mine", "yours", "master.theirs.others"):
        gate.ask("PUT", f"/{bucket}")
        gate.ask("PUT", f"/{bucket}/f", body=b"1")
    reader = key_of(shared, gate, "reader", {"default/mine": "reader"})
    writer = key_of(shared, gate, "writer", {"default/mine": "writer", "others": "admin"})
    assert b"<Name>mine</Name>" in reader.ask("GET", "/").body
    assert b"<Name>yours</Name>" not in reader.ask("GET", "/").body
    assert reader.ask("GET", "/mine/f").body == b"1"
    for method, path in (("PUT", "/mine/g"), ("DELETE", "/mine/f"), ("GET", "/yours/f"), ("GET", "/yours"), ("GET", "/nobody"), ("PUT", "/new"),
                         ("DELETE", "/mine"), ("GET", "/master.theirs.others/f")):
        refused(reader.ask(method, path), "AccessDenied", 403)
    assert reader.ask("PUT", "/mine/copy", headers={"x-amz-copy-source": "/mine/f"}).code == "AccessDenied"
    assert writer.ask("PUT", "/mine/g", body=b"2").status == 200
    assert writer.ask("GET", "/master.theirs.others/f").body == b"1"
    refused(writer.ask("PUT", "/mine/stolen", headers={"x-amz-copy-source": "/yours/f"}), "AccessDenied", 403)
    refused(writer.ask("DELETE", "/mine"), "AccessDenied", 403)
    assert writer.ask("PUT", "/master.more.others").status == 200
    refused(writer.ask("PUT", "/more"), "AccessDenied", 403)
    assert writer.ask("DELETE", "/master.more.others").status == 204


def test_a_key_that_is_deleted_opens_nothing(shared, gate):
    gate.ask("PUT", "/left")
    left = key_of(shared, gate, "left", {"": "admin"}, role="reader")
    assert left.ask("GET", "/left").status == 200
    refused(left.ask("PUT", "/left/f", body=b"x"), "AccessDenied", 403)  # the key may less than its user
    query = left.presigned("GET", "/left")
    shared.http("DELETE", f"/api/v1/s3-keys/{left.access_key}")
    refused(left.ask("GET", "/left"), "InvalidAccessKeyId", 403)
    refused(left.send("GET", "/left", query), "InvalidAccessKeyId", 403)


# ---- the audit

def test_the_audit_tells_who_wrote_by_s3_and_is_not_filled_by_it(gate, shared):
    assert gate.ask("PUT", "/told").status == 200
    for i in range(30):
        assert gate.ask("PUT", f"/told/f{i:02}", body=b"x").status == 200
    assert gate.ask("DELETE", "/told/f00").status == 204
    told = lambda: [(a["who"], a["peer"], a["verb"], a["target"]) for a in shared.get("/audit", limit=1000)["audit"] if "/told/" in a["target"]]
    me = ("daemon", f"127.0.0.1, user {pwd.getpwuid(os.geteuid()).pw_name}", "write")
    wait_until(lambda: any("and more that are not listed" in a[3] for a in told()), lambda: f"the audit to say that there were more: {told()}")
    wait_until(lambda: {(*me, f"S3 PUT /told/f{i:02}") for i in range(20)} <= set(told()), lambda: f"the audit: {told()}")
    assert len(told()) <= 24, "20 at once and 6 a minute"
