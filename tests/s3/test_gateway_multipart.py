"""Uploads in parts: what comes of them is the file in one piece, they outlive the daemon, and what does not fit together is refused."""
import base64
import concurrent.futures
import hashlib
import os
import random

import boto3.s3.transfer
import botocore.exceptions
import pytest

from conftest import finished
from gateway import Gateway, checksum

OPTIONS = ["--s3-listen", "127.0.0.1:0"]
DAEMON_OPTIONS = OPTIONS
MIB = 1 << 20
BUCKET = "parts"


@pytest.fixture(scope="module")
def s3(shared):
    s3 = Gateway(shared).client()
    s3.create_bucket(Bucket=BUCKET)
    return s3


def code_of(call, *args, **kwargs):
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        call(*args, **kwargs)
    return refused.value.response["Error"]["Code"]


def begin(s3, key, **more):
    return {"Bucket": BUCKET, "Key": key, "UploadId": s3.create_multipart_upload(Bucket=BUCKET, Key=key, **more)["UploadId"]}


def put(s3, upload, number, body):
    return {"PartNumber": number, "ETag": s3.upload_part(**upload, PartNumber=number, Body=body)["ETag"]}


def complete(s3, upload, parts):
    return s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})


def content_id(daemon, repo, path):
    return next(f["id"] for f in daemon.get(f"/repos/default/{repo}/refs/master/list", recursive=1, limit=1000)["files"] if f["path"] == path)


def test_parts_are_the_file_in_one_piece(shared, s3):
    rng = random.Random(7)
    data = rng.randbytes(23 * MIB + 12345)
    cuts = [0, 5 * MIB, 5 * MIB + 6 * MIB + 777, 18 * MIB, len(data)]
    upload = begin(s3, "big", ContentType="a/b", Metadata={"m": "1"})
    parts = [put(s3, upload, n * 10, data[a:b]) for n, (a, b) in enumerate(zip(cuts, cuts[1:]), 1)]
    etag = hashlib.md5(b"".join(hashlib.md5(data[a:b]).digest() for a, b in zip(cuts, cuts[1:]))).hexdigest() + "-4"
    answer = complete(s3, upload, parts)
    assert (answer["ETag"], answer["Bucket"], answer["Key"]) == (f'"{etag}"', BUCKET, "big")
    got = s3.get_object(Bucket=BUCKET, Key="big")
    assert got["Body"].read() == data
    assert (got["ETag"], got["ContentType"], got["Metadata"], got["VersionId"]) == (answer["ETag"], "a/b", {"m": "1"}, answer["VersionId"])
    version = s3.put_object(Bucket=BUCKET, Key="whole", Body=data)["VersionId"]
    finished(shared, BUCKET, version)
    assert content_id(shared, BUCKET, "big") == content_id(shared, BUCKET, "whole")
    assert code_of(s3.list_parts, **upload) == "NoSuchUpload"
    assert complete(s3, upload, parts)["ETag"] == answer["ETag"]  # the answer was lost, and it is asked for again
    assert code_of(put, s3, upload, 1, b"x") == "NoSuchUpload"


def test_parts_in_any_order_and_again(s3):
    one, two, three = (os.urandom(5 * MIB) for _ in range(3))
    upload = begin(s3, "again")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        later = pool.submit(put, s3, upload, 7, three)
        put(s3, upload, 2, b"wrong")
        parts = [put(s3, upload, 1, one), put(s3, upload, 2, two), later.result()]
    complete(s3, upload, [parts[0], parts[1], parts[2]])
    assert s3.get_object(Bucket=BUCKET, Key="again")["Body"].read() == one + two + three


def test_one_part_and_parts_that_are_left_out(s3):
    upload = begin(s3, "one")
    parts = [put(s3, upload, 1, b"tiny"), put(s3, upload, 2, b"left out")]
    complete(s3, upload, parts[:1])
    assert s3.get_object(Bucket=BUCKET, Key="one")["Body"].read() == b"tiny"
    upload = begin(s3, "empty")
    complete(s3, upload, [put(s3, upload, 1, b"")])
    assert s3.get_object(Bucket=BUCKET, Key="empty")["Body"].read() == b""


def test_what_does_not_fit_together_is_refused(shared, s3):
    upload = begin(s3, "bad")
    one, two, three = put(s3, upload, 1, os.urandom(5 * MIB)), put(s3, upload, 2, b"small"), put(s3, upload, 3, b"last")
    refused = lambda parts: code_of(complete, s3, upload, parts)
    assert refused([two, one]) == "InvalidPartOrder"
    assert refused([one, one]) == "InvalidPartOrder"
    assert refused([one, {"PartNumber": 2, "ETag": one["ETag"]}]) == "InvalidPart"
    assert refused([one, {"PartNumber": 4, "ETag": one["ETag"]}]) == "InvalidPart"
    assert refused([one, {"PartNumber": 2, "ETag": "*"}]) == "InvalidPart"
    assert refused([one, two, three]) == "EntityTooSmall"
    assert refused([{"PartNumber": 0, "ETag": one["ETag"]}]) == "InvalidArgument"
    gate = Gateway(shared)
    ask = lambda body: gate.ask("POST", f"/{BUCKET}/bad", {"uploadId": upload["UploadId"]}, body=body).code
    assert ask(b"<CompleteMultipartUpload/>") == ask(b"") == ask(b"<Part/>") == "MalformedXML"
    entries = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{one['ETag']}</ETag></Part>" for n in range(1, 10002))
    assert ask(f"<CompleteMultipartUpload>{entries}</CompleteMultipartUpload>".encode()) == "InvalidArgument"
    part = f"<CompleteMultipartUpload><Part><PartNumber>3</PartNumber><ETag>{three['ETag']}</ETag></Part></CompleteMultipartUpload>".encode()
    for size in ("5", "4x", "-4", "0x4", "99999999999999999999"):
        assert gate.ask("POST", f"/{BUCKET}/bad", {"uploadId": upload["UploadId"]}, {"x-amz-mp-object-size": size}, part).code == "InvalidRequest", size
    complete(s3, upload, [one, three])


def test_numbers_go_from_1_to_10000(s3):
    upload = begin(s3, "numbers")
    for number in (0, 10001, -1):
        assert code_of(put, s3, upload, number, b"x") == "InvalidArgument"
    complete(s3, upload, [put(s3, upload, 10000, b"x")])


def test_uploads_that_are_not_there(s3):
    upload = begin(s3, "there")
    for wrong in ({"UploadId": "0" * 32}, {"UploadId": "x"}, {"Key": "another"}):
        assert code_of(put, s3, {**upload, **wrong}, 1, b"x") == "NoSuchUpload"
        assert code_of(s3.list_parts, **{**upload, **wrong}) == "NoSuchUpload"
        assert code_of(s3.abort_multipart_upload, **{**upload, **wrong}) == "NoSuchUpload"
    s3.abort_multipart_upload(**upload)
    assert code_of(s3.abort_multipart_upload, **upload) == "NoSuchUpload"
    assert code_of(complete, s3, upload, [{"PartNumber": 1, "ETag": "x"}]) == "NoSuchUpload"


def test_lists_of_parts_and_uploads(s3):
    s3.create_bucket(Bucket="lists")
    ids = {}
    for key in ("b", "a/1", "a/2", "b"):
        ids.setdefault(key, []).append(s3.create_multipart_upload(Bucket="lists", Key=key)["UploadId"])
    answer = s3.list_multipart_uploads(Bucket="lists")
    assert [(u["Key"], u["UploadId"]) for u in answer["Uploads"]] == [(k, i) for k in sorted(ids) for i in sorted(ids[k])]
    found, place = [], {}
    while True:
        answer = s3.list_multipart_uploads(Bucket="lists", MaxUploads=1, **place)
        found += [u["Key"] for u in answer["Uploads"]]
        if not answer["IsTruncated"]:
            break
        place = {"KeyMarker": answer["NextKeyMarker"], "UploadIdMarker": answer["NextUploadIdMarker"]}
    assert found == ["a/1", "a/2", "b", "b"]
    answer = s3.list_multipart_uploads(Bucket="lists", Delimiter="/")
    assert ([p["Prefix"] for p in answer["CommonPrefixes"]], [u["Key"] for u in answer["Uploads"]]) == (["a/"], ["b", "b"])
    assert [u["Key"] for u in s3.list_multipart_uploads(Bucket="lists", Prefix="a/")["Uploads"]] == ["a/1", "a/2"]
    upload = {"Bucket": "lists", "Key": "b", "UploadId": ids["b"][0]}
    for number in (3, 1, 2, 9):
        put(s3, upload, number, b"x" * number)
    numbers, place = [], {}
    while True:
        answer = s3.list_parts(**upload, MaxParts=3, **place)
        numbers += [(p["PartNumber"], p["Size"]) for p in answer["Parts"]]
        if not answer["IsTruncated"]:
            break
        place = {"PartNumberMarker": answer["NextPartNumberMarker"]}
    assert numbers == [(1, 1), (2, 2), (3, 3), (9, 9)]


def test_parts_that_are_copies(shared, s3):
    data = os.urandom(12 * MIB)
    s3.put_object(Bucket=BUCKET, Key="source", Body=data)
    upload = begin(s3, "copied")
    parts = []
    for number, (first, last) in enumerate([(0, 5 * MIB - 1), (6 * MIB, 12 * MIB - 1)], 1):
        answer = s3.upload_part_copy(**upload, PartNumber=number, CopySource=f"{BUCKET}/source", CopySourceRange=f"bytes={first}-{last}")
        assert answer["CopyPartResult"]["ETag"] == f'"{hashlib.md5(data[first:last + 1]).hexdigest()}"'
        parts.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})
    answer = s3.upload_part_copy(**upload, PartNumber=3, CopySource=f"{BUCKET}/source")
    parts.append({"PartNumber": 3, "ETag": answer["CopyPartResult"]["ETag"]})
    complete(s3, upload, parts)
    assert s3.get_object(Bucket=BUCKET, Key="copied")["Body"].read() == data[:5 * MIB] + data[6 * MIB:] + data
    upload = begin(s3, "copied", ChecksumAlgorithm="SHA256")
    answer = s3.upload_part_copy(**upload, PartNumber=1, CopySource=f"{BUCKET}/source", CopySourceRange="bytes=0-9")
    assert answer["CopyPartResult"]["ChecksumSHA256"] == checksum("sha256", data[:10])
    upload = begin(s3, "bad copy")
    for text, code in (("bytes=9-5", "InvalidArgument"), ("bytes=0-", "InvalidArgument"), ("5-9", "InvalidArgument"), (f"bytes=0-{12 * MIB}", "InvalidRange")):
        assert code_of(s3.upload_part_copy, **upload, PartNumber=1, CopySource=f"{BUCKET}/source", CopySourceRange=text) == code, text
    assert code_of(s3.upload_part_copy, **upload, PartNumber=1, CopySource=f"{BUCKET}/none") == "NoSuchKey"


@pytest.mark.parametrize("name,kind", [("crc32", "COMPOSITE"), ("crc32", "FULL_OBJECT"), ("crc32c", "FULL_OBJECT"), ("crc64nvme", "FULL_OBJECT"),
                                       ("sha1", "COMPOSITE"), ("sha256", "COMPOSITE"), ("sha512", "COMPOSITE"), ("md5", "COMPOSITE")])
def test_checksums_of_parts_and_of_the_whole(shared, s3, name, kind):
    gate, path, header = Gateway(shared), f"/{BUCKET}/{name}-{kind}", f"x-amz-checksum-{name}"
    created = gate.ask("POST", path, {"uploads": ""}, {"x-amz-checksum-algorithm": name.upper(), "x-amz-checksum-type": kind})
    assert created.headers["x-amz-checksum-type"] == kind
    upload = created.body.partition(b"<UploadId>")[2].partition(b"</UploadId>")[0].decode()
    bodies = [os.urandom(5 * MIB), os.urandom(100001)]
    xml = ""
    for number, body in enumerate(bodies, 1):
        query, said = {"uploadId": upload, "partNumber": str(number)}, checksum(name, body) if len(body) < MIB else ""
        answer = gate.ask("PUT", path, query, {header: said} if said else {}, body)  # where the client says none, one is made
        assert answer.status == 200 and (not said or answer.headers[header] == said)
        xml += f"<Part><PartNumber>{number}</PartNumber><ETag>{answer.headers['etag']}</ETag></Part>"
        sums = answer.headers[header]
        bodies[number - 1] = (body, sums)
    other = "sha1" if name != "sha1" else "sha256"
    assert gate.ask("PUT", path, {"uploadId": upload, "partNumber": "3"}, {f"x-amz-checksum-{other}": checksum(other, b"x")}, b"x").code == "InvalidRequest"
    whole = b"".join(body for body, _ in bodies)
    if kind == "COMPOSITE":
        want = checksum(name, b"".join(base64.b64decode(said) for _, said in bodies)) + "-2"
    else:
        want = checksum(name, whole)
    xml = f"<CompleteMultipartUpload>{xml}</CompleteMultipartUpload>".encode()
    wrong = gate.ask("POST", path, {"uploadId": upload}, {header: checksum(name, b"wrong"), "x-amz-checksum-type": kind}, xml)
    assert wrong.code == "BadDigest"
    done = gate.ask("POST", path, {"uploadId": upload}, {header: want, "x-amz-mp-object-size": str(len(whole))}, xml)
    assert f"<Checksum{name.upper()}>{want}</Checksum{name.upper()}>".encode() in done.body
    got = gate.ask("HEAD", path, headers={"x-amz-checksum-mode": "ENABLED"})
    assert (got.headers[header], got.headers["x-amz-checksum-type"]) == (want, kind)


def test_kinds_of_checksums_that_do_not_go(shared, s3):
    gate = Gateway(shared)
    for name, kind in (("CRC64NVME", "COMPOSITE"), ("SHA256", "FULL_OBJECT"), ("CRC32", "HALF"), ("MD4", "COMPOSITE"), ("XXHASH64", "COMPOSITE"), ("SHA512", "FULL_OBJECT")):
        answer = gate.ask("POST", f"/{BUCKET}/f", {"uploads": ""}, {"x-amz-checksum-algorithm": name, "x-amz-checksum-type": kind})
        assert answer.code == "InvalidRequest", name


class Sums:
    """An upload by requests that state checksums as the test likes."""

    def __init__(self, gate, key, *headers):
        self.gate, self.path = gate, f"/{BUCKET}/{key}"
        created = gate.ask("POST", self.path, {"uploads": ""}, dict(headers))
        self.query = {"uploadId": created.body.partition(b"<UploadId>")[2].partition(b"</UploadId>")[0].decode()}

    def put(self, number, body, name=""):
        headers = {f"x-amz-checksum-{name}": checksum(name, body)} if name else {}
        return self.gate.ask("PUT", self.path, {**self.query, "partNumber": str(number)}, headers, body).headers["etag"]

    def complete(self, *parts, headers=None):
        """Each part: its number, its ETag, and elements that state checksums."""
        xml = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{etag}</ETag>{''.join(f'<{k}>{v}</{k}>' for k, v in said.items())}</Part>" for n, etag, said in parts)
        return self.gate.ask("POST", self.path, self.query, headers, f"<CompleteMultipartUpload>{xml}</CompleteMultipartUpload>".encode())


def test_checksums_of_parts_count_also_if_the_upload_has_no_algorithm(shared, s3):
    """Each part is compared by the checksum that came with it; what cannot be compared is refused."""
    bodies = [b"1" * (5 * MIB), b"2" * (5 * MIB), b"3"]
    up = Sums(Gateway(shared), "no-algorithm")
    etags = [up.put(n, body, name) for (n, body), name in zip(enumerate(bodies, 1), ("crc32", "sha256", ""))]
    right = [{"ChecksumCRC32": checksum("crc32", bodies[0])}, {"ChecksumSHA256": checksum("sha256", bodies[1])}, {}]
    for n, said, code in ((1, {"ChecksumCRC32": checksum("crc32", b"x")}, "InvalidPart"), (2, {"ChecksumSHA256": "x"}, "InvalidPart"),
                          (1, {"ChecksumSHA1": checksum("sha1", bodies[0])}, "InvalidRequest"), (3, {"ChecksumCRC32": checksum("crc32", bodies[2])}, "InvalidRequest"),
                          (1, {**right[0], "ChecksumXXHASH64": "AAAAAAAAAAA="}, "InvalidRequest")):
        parts = [(i, etag, said if i == n else right[i - 1]) for i, etag in enumerate(etags, 1)]
        assert up.complete(*parts).code == code, (n, said)
    parts = [(i, etag, right[i - 1]) for i, etag in enumerate(etags, 1)]
    for header in ({"x-amz-checksum-crc32": checksum("crc32", b"".join(bodies))}, {"x-amz-checksum-crc32": checksum("crc32", b"x")}, {"x-amz-checksum-type": "COMPOSITE"}):
        assert up.complete(*parts, headers=header).code == "InvalidRequest", header
    assert s3.list_parts(Bucket=BUCKET, Key="no-algorithm", UploadId=up.query["uploadId"])["Parts"]
    assert up.complete(*parts).status == 200
    assert s3.get_object(Bucket=BUCKET, Key="no-algorithm")["Body"].read() == b"".join(bodies)


@pytest.mark.parametrize("kind", ["COMPOSITE", "FULL_OBJECT"])
def test_checksums_of_another_kind_than_the_uploads_are_refused(shared, s3, kind):
    up = Sums(Gateway(shared), f"other-{kind}", ("x-amz-checksum-algorithm", "CRC32"), ("x-amz-checksum-type", kind))
    etag = up.put(1, b"bytes", "crc32")
    right = {"ChecksumCRC32": checksum("crc32", b"bytes")}
    other = {"COMPOSITE": "FULL_OBJECT", "FULL_OBJECT": "COMPOSITE"}[kind]
    assert up.complete((1, etag, {"ChecksumSHA256": checksum("sha256", b"bytes")})).code == "InvalidRequest"
    for header in ({"x-amz-checksum-sha256": checksum("sha256", b"bytes")}, {"x-amz-checksum-type": other}):
        assert up.complete((1, etag, right), headers=header).code == "InvalidRequest", header
    whole = right["ChecksumCRC32"] if kind == "FULL_OBJECT" else checksum("crc32", base64.b64decode(right["ChecksumCRC32"]))
    assert up.complete((1, etag, right), headers={"x-amz-checksum-crc32": whole + "-2"}).code == "BadDigest"
    # the number of parts may be left out, and an empty element says nothing
    assert up.complete((1, etag, {**right, "ChecksumSHA256": ""}), headers={"x-amz-checksum-type": kind, "x-amz-checksum-crc32": whole}).status == 200


@pytest.mark.parametrize("name", ["", "SHA256", "SHA1"])
def test_parts_are_given_back_one_by_one(shared, s3, name):
    """By number with get and head, and as attributes; before and after the commit, and of a copy."""
    key, sizes = f"parts{name}", [5 * MIB, 5 * MIB, 77]
    bodies = [os.urandom(size) for size in sizes]
    said = {"ChecksumAlgorithm": name} if name else {}
    upload = {"Bucket": BUCKET, "Key": key, "UploadId": s3.create_multipart_upload(Bucket=BUCKET, Key=key, **said)["UploadId"]}
    parts = []
    for n, body in enumerate(bodies, 1):
        answer = s3.upload_part(**upload, PartNumber=n, Body=body, **said)
        parts.append({"PartNumber": n, "ETag": answer["ETag"], **({f"Checksum{name}": answer[f"Checksum{name}"]} if name else {})})
    done = complete(s3, upload, parts)
    s3.copy_object(Bucket=BUCKET, Key=key + "-copy", CopySource=f"{BUCKET}/{key}", MetadataDirective="REPLACE")
    for where in (key, key + "-copy"):
        for n, body in enumerate(bodies, 1):
            for got in (s3.get_object(Bucket=BUCKET, Key=where, PartNumber=n, ChecksumMode="ENABLED"), s3.head_object(Bucket=BUCKET, Key=where, PartNumber=n, ChecksumMode="ENABLED")):
                assert (got["PartsCount"], got["ContentLength"], got["ETag"]) == (3, len(body), done["ETag"])
                if "Body" in got:
                    assert got["Body"].read() == body
                if name:
                    assert got[f"Checksum{name}"] == checksum(name.lower(), body)
                    assert got["ResponseMetadata"]["HTTPHeaders"]["x-amz-checksum-type"] == "COMPOSITE"
        assert code_of(s3.get_object, Bucket=BUCKET, Key=where, PartNumber=4) == "InvalidPartNumber"
        told = s3.get_object_attributes(Bucket=BUCKET, Key=where, ObjectAttributes=["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"])
        assert (told["ETag"], told["ObjectSize"], told["StorageClass"]) == (done["ETag"].strip('"'), sum(sizes), "STANDARD")
        want = [{"PartNumber": n, "Size": len(body), **({f"Checksum{name}": checksum(name.lower(), body)} if name else {})} for n, body in enumerate(bodies, 1)]
        assert told["ObjectParts"]["Parts"] == want and told["ObjectParts"]["TotalPartsCount"] == 3
        if name:
            assert told["Checksum"][f"Checksum{name}"] == done[f"Checksum{name}"]
    page = s3.get_object_attributes(Bucket=BUCKET, Key=key, ObjectAttributes=["ObjectParts"], MaxParts=1, PartNumberMarker=1)["ObjectParts"]
    assert (page["IsTruncated"], page["NextPartNumberMarker"], [p["PartNumber"] for p in page["Parts"]]) == (True, 2, [2])
    finished(shared, BUCKET, done["VersionId"])
    assert s3.head_object(Bucket=BUCKET, Key=key, PartNumber=3)["ContentLength"] == 77


def test_attributes_of_what_came_in_one_piece(shared, s3):
    body = b"attributes"
    s3.put_object(Bucket=BUCKET, Key="one-piece", Body=body, ChecksumAlgorithm="SHA1")
    told = s3.get_object_attributes(Bucket=BUCKET, Key="one-piece", ObjectAttributes=["Checksum", "ObjectParts", "ObjectSize"])
    assert (told["Checksum"]["ChecksumSHA1"], told["ObjectSize"]) == (checksum("sha1", body), len(body))
    assert "ObjectParts" not in told and "ETag" not in told
    gate = Gateway(shared)
    for header, code in (({}, "InvalidRequest"), ({"x-amz-object-attributes": "ETag,Size"}, "InvalidArgument"),
                         ({"x-amz-object-attributes": "ObjectParts", "x-amz-max-parts": "x"}, "InvalidArgument")):
        assert gate.ask("GET", f"/{BUCKET}/one-piece", {"attributes": ""}, header).code == code
    assert code_of(s3.get_object_attributes, Bucket=BUCKET, Key="none", ObjectAttributes=["ETag"]) == "NoSuchKey"


def test_parts_that_do_not_fit_beside_the_metadata_are_left_out(s3):
    """A file's attributes have at most 4,000 bytes: first the parts' checksums go, then the parts; the file stays as it is."""
    upload = {"Bucket": BUCKET, "Key": "much", "UploadId": s3.create_multipart_upload(
        Bucket=BUCKET, Key="much", ChecksumAlgorithm="SHA256", Metadata={"a": "x" * 2047}, ContentDisposition="y" * 1740)["UploadId"]}
    bodies = [b"a" * (5 * MIB), b"b" * (5 * MIB + 1), b"c"]
    parts = []
    for n, body in enumerate(bodies, 1):
        answer = s3.upload_part(**upload, PartNumber=n, Body=body, ChecksumAlgorithm="SHA256")
        parts.append({"PartNumber": n, "ETag": answer["ETag"], "ChecksumSHA256": answer["ChecksumSHA256"]})
    complete(s3, upload, parts)
    got = s3.get_object(Bucket=BUCKET, Key="much", PartNumber=2, ChecksumMode="ENABLED")
    assert (got["Body"].read(), got["PartsCount"]) == (bodies[1], 3)
    assert "ChecksumSHA256" not in got and "ChecksumSHA256" in s3.head_object(Bucket=BUCKET, Key="much", ChecksumMode="ENABLED")


def test_conditions_of_completing(shared, s3):
    gate = Gateway(shared)
    s3.put_object(Bucket=BUCKET, Key="cond", Body=b"first")
    upload = begin(s3, "cond")
    part = put(s3, upload, 1, b"second")
    xml = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{part['ETag']}</ETag></Part></CompleteMultipartUpload>".encode()
    assert gate.ask("POST", f"/{BUCKET}/cond", {"uploadId": upload["UploadId"]}, {"If-None-Match": "*"}, xml).code == "PreconditionFailed"
    assert s3.get_object(Bucket=BUCKET, Key="cond")["Body"].read() == b"first"
    s3.delete_object(Bucket=BUCKET, Key="cond")
    assert gate.ask("POST", f"/{BUCKET}/cond", {"uploadId": upload["UploadId"]}, {"If-None-Match": "*"}, xml).status == 200
    assert s3.get_object(Bucket=BUCKET, Key="cond")["Body"].read() == b"second"


def test_boto_uploads_and_downloads_large_files(shared, s3, tmp_path):
    data = os.urandom(40 * MIB + 17)
    (tmp_path / "up").write_bytes(data)
    config = boto3.s3.transfer.TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=8 * MIB, max_concurrency=8)
    s3.upload_file(str(tmp_path / "up"), BUCKET, "transfer", Config=config)
    s3.download_file(BUCKET, "transfer", str(tmp_path / "down"), Config=config)
    assert (tmp_path / "down").read_bytes() == data


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_an_upload_outlives_the_daemon(make_daemon, how):
    daemon = make_daemon(*OPTIONS).start()
    s3 = Gateway(daemon).client()
    s3.create_bucket(Bucket=BUCKET)
    one, two = os.urandom(5 * MIB), os.urandom(300000)
    upload = begin(s3, "f", ContentType="x/y")
    sums = Sums(Gateway(daemon), "sums")
    etag = sums.put(1, b"bytes", "sha1")
    small = s3.put_object(Bucket=BUCKET, Key="answered", Body=b"small")["VersionId"]
    parts = [put(s3, upload, 1, one), put(s3, upload, 2, b"old"), put(s3, upload, 2, two)][::2]
    getattr(daemon, how)()
    daemon.start()
    s3 = Gateway(daemon).client()
    assert s3.get_object(Bucket=BUCKET, Key="answered")["Body"].read() == b"small"
    finished(daemon, BUCKET, small)
    assert [p["Size"] for p in s3.list_parts(**upload)["Parts"]] == [len(one), len(two)]
    sums.gate = Gateway(daemon)
    assert sums.complete((1, etag, {"ChecksumSHA1": checksum("sha1", b"x")})).code == "InvalidPart"
    s3.abort_multipart_upload(Bucket=BUCKET, Key="sums", UploadId=sums.query["uploadId"])
    answer = complete(s3, upload, parts)
    got = s3.get_object(Bucket=BUCKET, Key="f")
    assert (got["Body"].read(), got["ContentType"]) == (one + two, "x/y")
    assert os.listdir(f"{daemon.dir}/uploads") == [f"{upload['UploadId']}.ended"]
    getattr(daemon, how)()
    daemon.start()
    again = complete(Gateway(daemon).client(), upload, parts)  # the answer was lost
    same = [k for k in answer if k not in ("ResponseMetadata", "Location")]
    assert {"ETag", "VersionId"} < set(same) and {k: again.get(k) for k in same} == {k: answer[k] for k in same}


def test_a_line_that_is_torn_is_cut_off_and_a_damaged_file_is_set_aside(make_daemon):
    daemon = make_daemon(*OPTIONS).start()
    s3 = Gateway(daemon).client()
    s3.create_bucket(Bucket=BUCKET)
    torn, damaged = begin(s3, "torn"), begin(s3, "damaged")
    for upload in (torn, damaged):
        put(s3, upload, 1, b"one")
        put(s3, upload, 2, b"two")
    daemon.stop()
    path = f"{daemon.dir}/uploads/{torn['UploadId']}.upload"
    with open(path, "rb+") as f:
        f.truncate(os.path.getsize(path) - 10)
    path = f"{daemon.dir}/uploads/{damaged['UploadId']}.upload"
    with open(path, "rb+") as f:
        f.seek(30)
        f.write(b"\xff")
    daemon.start()
    s3 = Gateway(daemon).client()
    assert [p["PartNumber"] for p in s3.list_parts(**torn)["Parts"]] == [1]
    complete(s3, torn, [put(s3, torn, 2, b"two again")])
    assert code_of(s3.list_parts, **damaged) == "NoSuchUpload"
    assert os.path.exists(path + ".damaged")
