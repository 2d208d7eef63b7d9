"""Objects through the gateway by boto3: what was put is got, at once, and becomes a commit."""
import concurrent.futures
import datetime
import email.header
import hashlib
import json
import os
import pathlib
import re
import secrets

import botocore.exceptions
import pytest

from conftest import finished, flushed, wait_until
from gateway import Gateway, checksum

DAEMON_OPTIONS = ["--s3-listen", "127.0.0.1:0", "--s3-cors", "https://page.example"]


@pytest.fixture
def bucket(request, s3):
    name = request.node.name.removeprefix("test_")[:36].split("[")[0].rstrip("_") + secrets.token_hex(4)
    s3.create_bucket(Bucket=name)
    return name


def code_of(call, *args, **kwargs):
    """S3's code of a call that must fail, and its status."""
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        call(*args, **kwargs)
    response = refused.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def keys(answer):
    return [item["Key"] for item in answer.get("Contents", [])]


# ---- bytes

@pytest.mark.parametrize("size", [0, 1, 64, 65, 4096, 65536, 65537, 300000, 1 << 20, 17 << 20])
def test_bytes_of_any_size_come_back(s3, bucket, size):
    data = os.urandom(size)
    put = s3.put_object(Bucket=bucket, Key="f", Body=data)
    got = s3.get_object(Bucket=bucket, Key="f")
    assert got["Body"].read() == data
    assert put["ETag"] == got["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
    assert got["ContentLength"] == size
    assert s3.head_object(Bucket=bucket, Key="f")["ContentLength"] == size


def test_a_put_is_a_commit_with_its_run_and_the_version_is_its_id(shared, s3, bucket):
    shared.http("PATCH", f"/api/v1/repos/default/{bucket}", {"commit_window": "60s"})
    first = s3.put_object(Bucket=bucket, Key="a/b", Body=b"one")["VersionId"]
    assert s3.put_object(Bucket=bucket, Key="a/c", Body=b"two")["VersionId"] == first
    flushed(shared, bucket, first)
    assert shared.read(bucket, "a/c") == b"two"
    assert len(shared.get(f"/repos/default/{bucket}/commits")["commits"]) == 1
    second = s3.put_object(Bucket=bucket, Key="a/b", Body=b"three")["VersionId"]
    assert second != first
    assert s3.get_object(Bucket=bucket, Key="a/b")["Body"].read() == b"three"
    assert s3.get_object(Bucket=bucket, Key="a/b", VersionId=first)["Body"].read() == b"one"
    assert code_of(s3.get_object, Bucket=bucket, Key="a/b", VersionId="0" * 32) == ("NoSuchVersion", 404)
    assert s3.get_object(Bucket=bucket, Key="a/c")["VersionId"] == first
    flushed(shared, bucket, second)
    assert s3.get_object(Bucket=bucket, Key="a/c")["VersionId"] == second


def test_what_others_push_is_seen_and_what_is_put_is_seen_by_them(shared, s3, bucket):
    s3.put_object(Bucket=bucket, Key="ours", Body=b"s3")
    shared.push(bucket, "theirs", "rest")  # a push takes in what gathers
    assert shared.read(bucket, "ours") == b"s3"
    got = s3.get_object(Bucket=bucket, Key="theirs")
    assert got["Body"].read() == b"rest"
    assert got["ETag"] == f'"{hashlib.sha256(b"rest").hexdigest()[:32]}-1"'
    assert keys(s3.list_objects_v2(Bucket=bucket)) == ["ours", "theirs"]


def test_metadata_and_headers_come_back_and_survive_the_commit(shared, s3, bucket):
    said = {"ContentType": "text/x-test; charset=utf-8", "CacheControl": "max-age=3", "ContentDisposition": "attachment", "ContentLanguage": "de",
            "ContentEncoding": "gzip", "Metadata": {"one": "1", "two-words": "a b"}}
    version = s3.put_object(Bucket=bucket, Key="f", Body=b"x", Expires=datetime.datetime(2030, 1, 2), **said)["VersionId"]
    for _ in range(2):
        for got in (s3.get_object(Bucket=bucket, Key="f"), s3.head_object(Bucket=bucket, Key="f")):
            assert {name: got[name] for name in said} == said
            assert abs((got["LastModified"] - datetime.datetime.now(datetime.timezone.utc)).total_seconds()) < 60
        finished(shared, bucket, version)
    got = s3.get_object(Bucket=bucket, Key="f", ResponseContentType="a/b", ResponseCacheControl="no-store")
    assert (got["ContentType"], got["CacheControl"], got["ContentLanguage"]) == ("a/b", "no-store", "de")


def test_metadata_may_be_empty(s3, bucket):
    s3.put_object(Bucket=bucket, Key="f", Body=b"x", Metadata={"empty": "", "one": "1"})
    assert s3.head_object(Bucket=bucket, Key="f")["Metadata"] == {"empty": "", "one": "1"}


def test_metadata_that_comes_twice_is_joined_and_blanks_behind_a_value_are_none_of_it(gate, bucket):
    sent = gate.signed("PUT", f"/{bucket}/f", headers={"x-amz-meta-d": "1,2", "x-amz-meta-e": "a  b \t", "Content-Type": "text/x-test "})
    del sent["x-amz-meta-d"]
    assert gate.send("PUT", f"/{bucket}/f", headers={**sent, "x-amz-meta-d": "1 ", "X-Amz-Meta-D": "2"}).status == 200
    got = gate.ask("HEAD", f"/{bucket}/f").headers
    assert (got["x-amz-meta-d"], got["x-amz-meta-e"], got["content-type"]) == ("1,2", "a  b", "text/x-test")


@pytest.mark.parametrize("value", ["Z\u00fcrich", "\u65e5\u672c"])
def test_metadata_beyond_ascii_is_given_back_as_rfc_2047_says(s3, bucket, value):
    """As S3 does. botocore refuses such values in Metadata, so the header is set behind its back."""
    def set_header(request, **_):
        request.headers["x-amz-meta-place"] = value
    s3.meta.events.register("before-sign.s3.PutObject", set_header)
    s3.put_object(Bucket=bucket, Key="f", Body=b"x")
    got = s3.head_object(Bucket=bucket, Key="f")["Metadata"]["place"]
    assert email.header.decode_header(got) == [(value.encode(), "utf-8")]


@pytest.mark.parametrize("said,kept", [("deflate, gzip", "deflate, gzip"), ("deflate,  gzip", "deflate,  gzip"), ("gzip,aws-chunked", "gzip"),
                                       ("aws-chunked, gzip", "gzip"), ("aws-chunked", None), ("gzip", "gzip")])
def test_the_encoding_is_kept_as_it_was_written(gate, bucket, said, kept):
    assert gate.ask("PUT", f"/{bucket}/f", headers={"Content-Encoding": said}, body=b"x").status == 200
    assert gate.ask("HEAD", f"/{bucket}/f").headers.get("content-encoding") == kept


def test_a_push_by_others_takes_the_metadata_away(shared, s3, bucket):
    s3.put_object(Bucket=bucket, Key="f", Body=b"x", Metadata={"a": "b"})
    shared.push(bucket, "f", "y")
    got = s3.get_object(Bucket=bucket, Key="f")
    assert (got["Metadata"], got["ContentType"]) == ({}, "binary/octet-stream")


def test_too_much_metadata_is_refused(s3, bucket):
    s3.put_object(Bucket=bucket, Key="f", Body=b"", Metadata={"a": "x" * 2047})
    assert s3.get_object(Bucket=bucket, Key="f")["Metadata"] == {"a": "x" * 2047}
    assert code_of(s3.put_object, Bucket=bucket, Key="f", Body=b"", Metadata={"a": "x" * 2048}) == ("MetadataTooLarge", 400)


def test_ranges(s3, bucket):
    data = os.urandom(700000)
    s3.put_object(Bucket=bucket, Key="f", Body=data)
    for text, want in [("bytes=0-0", data[:1]), ("bytes=5-9", data[5:10]), ("bytes=699990-", data[699990:]), ("bytes=-7", data[-7:]),
                       ("bytes=262140-400000", data[262140:400001]), ("bytes=0-99999999", data)]:
        got = s3.get_object(Bucket=bucket, Key="f", Range=text)
        assert got["Body"].read() == want, text
        assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
        assert s3.head_object(Bucket=bucket, Key="f", Range=text)["ContentLength"] == len(want)
    for text in ("bytes=9-5", "lines=1-2", "bytes=a-b", "bytes=1-2,4-5"):  # not understood: all of it
        assert s3.get_object(Bucket=bucket, Key="f", Range=text)["Body"].read() == data, text
    assert code_of(s3.get_object, Bucket=bucket, Key="f", Range="bytes=700000-") == ("InvalidRange", 416)
    assert code_of(s3.get_object, Bucket=bucket, Key="f", Range="bytes=-0") == ("InvalidRange", 416)


def test_a_file_is_one_part(gate, s3, bucket):
    """Whatever it came in: clients that fetch part by part ask for the first, and for its number."""
    path, data = f"/{bucket}/f", os.urandom(70000)
    s3.put_object(Bucket=bucket, Key="f", Body=data)
    for method, want in (("GET", data), ("HEAD", b"")):
        answer = gate.ask(method, path, {"partNumber": "1"})
        assert (answer.status, answer.body, answer.headers["content-range"]) == (206, want, "bytes 0-69999/70000")
        assert answer.headers["content-length"] == "70000"
        assert gate.ask(method, path, {"partNumber": "2"}).status == 416
    assert gate.ask("GET", path, {"partNumber": "2"}).code == "InvalidPartNumber"
    for number in ("0", "x", "", "-1"):
        answer = gate.ask("GET", path, {"partNumber": number})
        assert (answer.status, answer.code) == (400, "InvalidArgument"), number
    assert gate.ask("GET", path, {"partNumber": "1"}, {"Range": "bytes=0-1"}).code == "InvalidRequest"
    s3.put_object(Bucket=bucket, Key="empty", Body=b"")
    assert (lambda a: (a.status, a.body))(gate.ask("GET", f"/{bucket}/empty", {"partNumber": "1"})) == (200, b"")


def test_conditions_of_reads(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="f", Body=b"x")["ETag"]
    modified = s3.head_object(Bucket=bucket, Key="f")["LastModified"]
    hour = datetime.timedelta(hours=1)
    for good in ({"IfMatch": etag}, {"IfMatch": "*"}, {"IfMatch": f'"other", {etag}'}, {"IfNoneMatch": '"other"'}, {"IfModifiedSince": modified - hour},
                 {"IfUnmodifiedSince": modified}, {"IfMatch": etag, "IfUnmodifiedSince": modified - hour}):
        assert s3.get_object(Bucket=bucket, Key="f", **good)["Body"].read() == b"x", good
    for bad in ({"IfMatch": '"other"'}, {"IfUnmodifiedSince": modified - hour}):
        assert code_of(s3.get_object, Bucket=bucket, Key="f", **bad) == ("PreconditionFailed", 412), bad
    for same in ({"IfNoneMatch": etag}, {"IfNoneMatch": "*"}, {"IfModifiedSince": modified}, {"IfNoneMatch": etag, "IfModifiedSince": modified - hour}):
        assert code_of(s3.get_object, Bucket=bucket, Key="f", **same)[1] == 304, same


# ---- conditions of writes

def test_if_none_match_puts_only_what_is_not_there(gate, s3, bucket):
    path = f"/{bucket}/f"
    first = {"If-None-Match": "*"}
    assert gate.ask("PUT", path, headers=first, body=b"1").status == 200
    assert (lambda a: (a.status, a.code))(gate.ask("PUT", path, headers=first, body=b"2")) == (412, "PreconditionFailed")
    assert s3.get_object(Bucket=bucket, Key="f")["Body"].read() == b"1"
    s3.delete_object(Bucket=bucket, Key="f")
    assert gate.ask("PUT", path, headers=first, body=b"3").status == 200


def test_if_none_match_takes_etags(gate, s3, bucket):
    path = f"/{bucket}/f"
    etag = s3.put_object(Bucket=bucket, Key="f", Body=b"1")["ETag"]
    for same in (etag, etag.strip('"'), f'"x", {etag}', "*"):
        assert (lambda a: (a.status, a.code))(gate.ask("PUT", path, headers={"If-None-Match": same}, body=b"2")) == (412, "PreconditionFailed"), same
    assert gate.ask("PUT", path, headers={"If-None-Match": '"x"'}, body=b"2").status == 200
    assert gate.ask("PUT", path, headers={"If-None-Match": etag}, body=b"3").status == 200  # no longer the file's
    assert gate.ask("PUT", f"/{bucket}/new", headers={"If-None-Match": etag}, body=b"3").status == 200
    assert gate.ask("PUT", path, headers={"If-None-Match": etag, "If-Match": etag}, body=b"4").code == "InvalidRequest"
    assert gate.ask("PUT", path, headers={"If-None-Match": "*", "x-amz-copy-source": f"{bucket}/new"}).code == "PreconditionFailed"
    assert gate.ask("PUT", path, headers={"If-None-Match": hashlib.md5(b"3").hexdigest(), "x-amz-copy-source": f"{bucket}/new"}).code == "PreconditionFailed"
    assert gate.ask("PUT", path, headers={"If-None-Match": '"x"', "x-amz-copy-source": f"{bucket}/new"}).status == 200


def test_if_match_puts_only_over_what_it_names(gate, shared, s3, bucket):
    path = f"/{bucket}/f"
    assert gate.ask("PUT", path, headers={"If-Match": '"x"'}, body=b"1").code == "NoSuchKey"
    etag = s3.put_object(Bucket=bucket, Key="f", Body=b"1")["ETag"]
    assert gate.ask("PUT", path, headers={"If-Match": '"other"'}, body=b"2").code == "PreconditionFailed"
    answer = gate.ask("PUT", path, headers={"If-Match": etag}, body=b"2")
    assert answer.status == 200
    finished(shared, bucket, answer.headers["x-amz-version-id"])
    assert gate.ask("PUT", path, headers={"If-Match": etag}, body=b"3").code == "PreconditionFailed"  # in the head now
    assert gate.ask("PUT", path, headers={"If-Match": answer.headers["etag"].strip('"')}, body=b"3").status == 200
    assert gate.ask("DELETE", path, headers={"If-Match": etag}).code == "PreconditionFailed"
    assert gate.ask("DELETE", f"/{bucket}/none", headers={"If-Match": etag}).status == 204  # as in S3


def test_conditions_of_deleting(gate, shared, s3, bucket):
    path, size, date = f"/{bucket}/f", "x-amz-if-match-size", "x-amz-if-match-last-modified-time"
    s3.put_object(Bucket=bucket, Key="f", Body=b"123")
    modified = gate.ask("HEAD", path).headers["last-modified"]
    for bad in ({size: "4"}, {date: "Wed, 12 Oct 2009 17:50:00 GMT"}, {size: "3", date: "Wed, 12 Oct 2009 17:50:00 GMT"}):
        assert gate.ask("DELETE", path, headers=bad).code == "PreconditionFailed", bad
    for wrong in ({size: "x"}, {date: "yesterday"}):
        assert gate.ask("DELETE", path, headers=wrong).code == "InvalidArgument", wrong
    assert gate.ask("PUT", path, headers={size: "3"}, body=b"4").code == "NotImplemented"
    assert gate.ask("DELETE", path, headers={size: "3", date: modified}).status == 204
    assert gate.ask("HEAD", path).status == 404
    shared.push(bucket, "theirs", "12")  # has no date of its own: that of its commit holds
    modified = gate.ask("HEAD", f"/{bucket}/theirs").headers["last-modified"]
    assert gate.ask("DELETE", f"/{bucket}/theirs", headers={size: "2", date: modified}).status == 204


@pytest.mark.parametrize("form", ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y", "%Y-%m-%dT%H:%M:%SZ"])
def test_dates_of_any_form_are_conditions(gate, s3, bucket, form):
    s3.put_object(Bucket=bucket, Key="f", Body=b"x")
    hour = datetime.timedelta(hours=1)
    now = datetime.datetime.now(datetime.timezone.utc)
    for name, good, bad in (("If-Modified-Since", now - hour, now + hour), ("If-Unmodified-Since", now + hour, now - hour)):
        assert gate.ask("GET", f"/{bucket}/f", headers={name: good.strftime(form)}).status == 200
        assert gate.ask("GET", f"/{bucket}/f", headers={name: bad.strftime(form)}).status in (304, 412)


def test_of_sixteen_who_want_to_be_first_one_is(gate, s3, bucket):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(lambda i: gate.ask("PUT", f"/{bucket}/f", headers={"If-None-Match": "*"}, body=b"%d" % i).status, range(16)))
    assert sorted(statuses) == [200] + [412] * 15
    assert s3.get_object(Bucket=bucket, Key="f")["Body"].read() == b"%d" % statuses.index(200)


# ---- names

@pytest.mark.parametrize("key", ["a b", "a+b", "a%2Fb", "ünï/cödé/日本", "q?x=1&y", "#", "a;b,c=d", "é́", "~-._", "(x)!*'", "a" * 255, "/".join(["x" * 204] * 5),
                                 "tab's \"quoted\" <xml>&amp;"])
def test_any_good_key_is_kept_as_it_is(s3, bucket, key):
    s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode()
    assert keys(s3.list_objects_v2(Bucket=bucket)) == [key]
    assert keys(s3.list_objects(Bucket=bucket, Prefix=key[:3])) == [key]
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": key})
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == key.encode()
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key}]})
    assert keys(s3.list_objects_v2(Bucket=bucket)) == ["copy"]


@pytest.mark.parametrize("key,code", [("../up", "InvalidArgument"), ("a/../b", "InvalidArgument"), ("a//b", "InvalidArgument"), ("/a", "InvalidArgument"),
                                      ("./a", "InvalidArgument"), ("a\tb", "InvalidArgument"), ("a\x7f", "InvalidArgument"), ("x" * 256, "InvalidArgument"),
                                      ("/".join(["y" * 204] * 5) + "z", "KeyTooLongError"), ("nul\0", "InvalidURI"), ("a/", "")])
def test_keys_that_no_dataset_can_hold_are_refused(gate, s3, bucket, key, code):
    path = f"/{bucket}/{key}"
    answer = gate.ask("PUT", path, body=b"" if key == "a/" else b"x")
    assert answer.code == code
    assert answer.status == (400 if code else 200)
    if code not in ("InvalidURI", ""):
        assert gate.ask("GET", path).code == ("NoSuchKey" if code == "InvalidArgument" else code)
        assert gate.ask("DELETE", path).status == 204


def test_a_file_has_nothing_below_it(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"")
    s3.put_object(Bucket=bucket, Key="d/e", Body=b"")
    assert code_of(s3.put_object, Bucket=bucket, Key="a/b", Body=b"") == ("InvalidRequest", 400)
    assert code_of(s3.put_object, Bucket=bucket, Key="d", Body=b"") == ("InvalidRequest", 400)


def test_a_key_that_ends_with_a_slash_is_an_empty_folder(shared, s3, bucket):
    version = s3.put_object(Bucket=bucket, Key="d/e/", Body=b"")["VersionId"]
    for _ in range(2):
        got = s3.head_object(Bucket=bucket, Key="d/e/")
        assert (got["ContentLength"], got["ETag"]) == (0, '"d41d8cd98f00b204e9800998ecf8427e"')
        assert keys(s3.list_objects_v2(Bucket=bucket)) == ["d/e/"]
        finished(shared, bucket, version)
        assert code_of(s3.get_object, Bucket=bucket, Key="d/e")[0] == "NoSuchKey"
    assert code_of(s3.put_object, Bucket=bucket, Key="x/", Body=b"bytes") == ("InvalidArgument", 400)
    s3.put_object(Bucket=bucket, Key="d/e/f", Body=b"1")
    assert keys(s3.list_objects_v2(Bucket=bucket)) == ["d/e/f"]
    assert s3.head_object(Bucket=bucket, Key="d/e/")["ContentLength"] == 0  # what has something in it is there as well
    assert code_of(s3.head_object, Bucket=bucket, Key="nowhere/")[1] == 404
    s3.put_object(Bucket=bucket, Key="g/", Body=b"")
    s3.delete_object(Bucket=bucket, Key="g/")
    assert keys(s3.list_objects_v2(Bucket=bucket)) == ["d/e/f"]


# ---- deleting

def test_deleting(shared, s3, bucket):
    version = s3.put_object(Bucket=bucket, Key="a", Body=b"1")["VersionId"]
    finished(shared, bucket, version)
    assert s3.delete_object(Bucket=bucket, Key="a")["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert code_of(s3.get_object, Bucket=bucket, Key="a") == ("NoSuchKey", 404)
    assert keys(s3.list_objects_v2(Bucket=bucket)) == []
    s3.delete_object(Bucket=bucket, Key="a")
    s3.delete_object(Bucket=bucket, Key="never/was")
    assert s3.get_object(Bucket=bucket, Key="a", VersionId=version)["Body"].read() == b"1"
    assert code_of(s3.delete_object, Bucket=bucket, Key="a", VersionId=version) == ("NotImplemented", 501)


def test_many_are_deleted_at_once(s3, bucket):
    names = [f"k{i:04}" for i in range(1000)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: s3.put_object(Bucket=bucket, Key=name, Body=b""), names[::10]))
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": name} for name in names]})
    assert sorted(item["Key"] for item in answer["Deleted"]) == names
    assert keys(s3.list_objects_v2(Bucket=bucket)) == []
    assert "Deleted" not in s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a"}], "Quiet": True})
    assert code_of(s3.delete_objects, Bucket=bucket, Delete={"Objects": [{"Key": "a"}] * 1001})[0] == "MalformedXML"
    odd = ["../up", "a//b", "/", "x" * 1025, "a b+c/\u00fc", "a\u007f"]  # what nothing can be called is gone as much as what is not there
    assert [item["Key"] for item in s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": name} for name in odd]})["Deleted"]] == odd


# ---- copying

def test_a_copy_is_a_reference_with_its_metadata(shared, s3, bucket):
    data = os.urandom(500000)
    s3.put_object(Bucket=bucket, Key="from", Body=data, ContentType="a/b", Metadata={"m": "1"})
    copied = s3.copy_object(Bucket=bucket, Key="to", CopySource=f"{bucket}/from")["CopyObjectResult"]
    got = s3.get_object(Bucket=bucket, Key="to")
    assert got["Body"].read() == data
    assert (got["ContentType"], got["Metadata"], got["ETag"]) == ("a/b", {"m": "1"}, copied["ETag"])
    s3.copy_object(Bucket=bucket, Key="to", CopySource=f"{bucket}/from", MetadataDirective="REPLACE", Metadata={"n": "2"})
    got = s3.head_object(Bucket=bucket, Key="to")
    assert (got["ContentType"], got["Metadata"]) == ("binary/octet-stream", {"n": "2"})
    version = s3.delete_object(Bucket=bucket, Key="from") and s3.head_object(Bucket=bucket, Key="to")["VersionId"]
    finished(shared, bucket, version)
    assert shared.read(bucket, "to") == data
    assert code_of(s3.copy_object, Bucket=bucket, Key="to", CopySource=f"{bucket}/to")[0] == "InvalidRequest"
    s3.copy_object(Bucket=bucket, Key="to", CopySource=f"{bucket}/to", MetadataDirective="REPLACE", ContentType="c/d")
    assert s3.head_object(Bucket=bucket, Key="to")["ContentType"] == "c/d"


def test_copies_between_branches_repos_and_projects(shared, s3, bucket):
    data = os.urandom(200000)
    shared.project("elsewhere")
    for branch, repo, project in (("dev", bucket, "default"), ("master", bucket + "2", "default"), ("master", bucket, "elsewhere")):
        other = f"{branch}.{repo}.{project}"
        s3.create_bucket(Bucket=other)
        s3.put_object(Bucket=bucket, Key="open", Body=data)  # gathers still: its bytes are in no pack
        version = s3.copy_object(Bucket=other, Key="copy", CopySource=f"{bucket}/open")["VersionId"]
        wait_until(lambda: is_there(s3, f"{version}.{other}"), f"the copy in {other}")
        assert s3.get_object(Bucket=f"{version}.{other}", Key="copy")["Body"].read() == data


def is_there(s3, bucket):
    try:
        return s3.head_bucket(Bucket=bucket)
    except botocore.exceptions.ClientError:
        return False


def test_conditions_of_a_copy(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="a", Body=b"1")["ETag"]
    modified = s3.head_object(Bucket=bucket, Key="a")["LastModified"]
    hour = datetime.timedelta(hours=1)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    copies = (lambda **c: s3.copy_object(Bucket=bucket, Key="b", CopySource=f"{bucket}/a", **c),
              lambda **c: s3.upload_part_copy(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=1, CopySource=f"{bucket}/a", **c))
    for copy in copies:
        for good in ({"CopySourceIfMatch": etag}, {"CopySourceIfNoneMatch": '"x"'}, {"CopySourceIfModifiedSince": modified - hour},
                     {"CopySourceIfUnmodifiedSince": modified}, {"CopySourceIfMatch": etag, "CopySourceIfUnmodifiedSince": modified - hour}):
            assert copy(**good)["ResponseMetadata"]["HTTPStatusCode"] == 200, good
        for bad in ({"CopySourceIfMatch": '"x"'}, {"CopySourceIfNoneMatch": etag}, {"CopySourceIfUnmodifiedSince": modified - hour},
                    {"CopySourceIfModifiedSince": modified}, {"CopySourceIfNoneMatch": etag, "CopySourceIfModifiedSince": modified - hour}):
            assert code_of(copy, **bad) == ("PreconditionFailed", 412), bad
    assert code_of(s3.copy_object, Bucket=bucket, Key="b", CopySource=f"{bucket}/none")[0] == "NoSuchKey"
    assert code_of(s3.copy_object, Bucket=bucket, Key="b", CopySource="nobucket/none")[0] == "NoSuchBucket"


# ---- buckets

def test_buckets_are_repos_and_branches(shared, s3):
    shared.project("other")
    for name in ("plain", "dev.plain", "master.far.other", "dev.far.other"):
        s3.create_bucket(Bucket=name)
        s3.put_object(Bucket=name, Key="kept", Body=b"x")
        s3.create_bucket(Bucket=name)  # as in us-east-1: again is no mistake, and changes nothing
        assert keys(s3.list_objects_v2(Bucket=name)) == ["kept"]
        s3.delete_object(Bucket=name, Key="kept")
    names = [item["Name"] for item in s3.list_buckets()["Buckets"]]
    assert {"plain", "dev.plain", "master.far.other", "dev.far.other"} <= set(names)
    assert sorted(b["name"] for b in shared.get("/repos/other/far/branches")["branches"]) == ["dev"]  # master comes with its first commit
    s3.put_object(Bucket="dev.plain", Key="only/here", Body=b"x")
    assert keys(s3.list_objects_v2(Bucket="plain")) == []
    assert keys(s3.list_objects_v2(Bucket="dev.plain")) == ["only/here"]
    region = json.loads(shared.ctl("s3", "env", "--json").out)["AWS_DEFAULT_REGION"]
    assert s3.get_bucket_location(Bucket="plain")["LocationConstraint"] == region
    assert s3.head_bucket(Bucket="plain")["ResponseMetadata"]["HTTPHeaders"]["x-amz-bucket-region"] == region
    assert s3.get_bucket_versioning(Bucket="plain")["Status"] == "Enabled"


def test_buckets_that_are_none(s3, bucket):
    for name, code in (("nobody", "NoSuchBucket"), ("nobranch." + bucket, "NoSuchBucket"), ("master." + bucket + ".noproject", "NoSuchBucket"),
                       ("a.b.c.d.e", "InvalidBucketName"), ("_x", "InvalidBucketName"), ("..", "InvalidBucketName"),
                       (f"{'0' * 32}.master.{bucket}", "NoSuchBucket")):
        assert code_of(s3.list_objects_v2, Bucket=name)[0] == code, name
        assert code_of(s3.head_bucket, Bucket=name)[1] in (400, 404), name
    assert code_of(s3.put_object, Bucket="nobody", Key="a", Body=b"")[0] == "NoSuchBucket"
    assert code_of(s3.create_bucket, Bucket="x.y.noproject")[0] == "InvalidBucketName"


def test_a_commit_is_a_bucket_that_is_never_changed(shared, s3, bucket):
    version = s3.put_object(Bucket=bucket, Key="a", Body=b"1", Metadata={"m": "1"})["VersionId"]
    finished(shared, bucket, version)
    s3.put_object(Bucket=bucket, Key="a", Body=b"2")
    for name in (f"{version}.master.{bucket}", f"{version}.master.{bucket}.default", f"{version[:12]}.master.{bucket}.default"):
        got = s3.get_object(Bucket=name, Key="a")
        assert (got["Body"].read(), got["Metadata"], got["VersionId"]) == (b"1", {"m": "1"}, version)
        assert keys(s3.list_objects_v2(Bucket=name)) == ["a"]
        assert code_of(s3.put_object, Bucket=name, Key="b", Body=b"") == ("MethodNotAllowed", 405)
        assert code_of(s3.delete_object, Bucket=name, Key="a") == ("MethodNotAllowed", 405)


def test_only_an_empty_bucket_is_deleted(shared, s3, bucket):
    s3.create_bucket(Bucket=f"dev.{bucket}")
    s3.put_object(Bucket=f"dev.{bucket}", Key="a", Body=b"1")
    assert code_of(s3.delete_bucket, Bucket=f"dev.{bucket}") == ("BucketNotEmpty", 409)
    assert code_of(s3.delete_bucket, Bucket=bucket) == ("BucketNotEmpty", 409)  # a branch of it is not
    s3.delete_object(Bucket=f"dev.{bucket}", Key="a")
    s3.delete_bucket(Bucket=f"dev.{bucket}")
    assert code_of(s3.head_bucket, Bucket=f"dev.{bucket}")[1] == 404
    s3.delete_bucket(Bucket=bucket)
    assert code_of(s3.head_bucket, Bucket=bucket)[1] == 404
    assert code_of(s3.delete_bucket, Bucket=bucket)[0] == "NoSuchBucket"


@pytest.mark.parametrize("branch", ["", "dev."])
def test_what_is_put_while_a_bucket_is_deleted_is_refused_or_keeps_it(gate, branch):
    def put(s3, bucket, results, at):
        try:
            s3.put_object(Bucket=bucket, Key=f"k{at}", Body=b"x")
            results[at] = True
        except botocore.exceptions.ClientError as refused:
            assert refused.response["Error"]["Code"] == "NoSuchBucket", refused
            results[at] = False

    clients = [gate.client() for _ in range(6)]
    for i in range(20 * int(os.environ.get("PL_GATEWAY_ROUNDS", "1"))):
        bucket = f"{branch}gone{i}" if branch else f"went{i}"
        clients[0].create_bucket(Bucket=bucket)
        done = {}
        with concurrent.futures.ThreadPoolExecutor(len(clients)) as pool:
            deletion = pool.submit(clients[0].delete_bucket, Bucket=bucket)
            puts = [pool.submit(put, s3, bucket, done, at) for at, s3 in enumerate(clients[1:])]
            for each in puts:
                each.result()
            refused = deletion.exception()
        kept = [f"k{at}" for at in sorted(done) if done[at]]
        if refused:
            assert refused.response["Error"]["Code"] == "BucketNotEmpty", refused
        if kept:
            assert refused, "deleted with what was answered"
            assert keys(clients[0].list_objects_v2(Bucket=bucket)) == kept


def test_puts_gather_for_the_window_of_the_repo(shared, s3, bucket):
    shared.http("PATCH", f"/api/v1/repos/default/{bucket}", {"commit_window": "60s"})
    version = s3.put_object(Bucket=bucket, Key="a", Body=b"1")["VersionId"]
    assert shared.get(f"/repos/default/{bucket}/commits")["commits"] == []
    shared.http("PATCH", f"/api/v1/repos/default/{bucket}", {"commit_window": "100ms"})
    assert s3.put_object(Bucket=bucket, Key="b", Body=b"2")["VersionId"] == version
    finished(shared, bucket, version)
    assert keys(s3.list_objects_v2(Bucket=f"{version}.master.{bucket}")) == ["a", "b"]


def test_durable_in_the_bucket_is_in_the_store_when_it_is_answered(shared, s3, bucket):
    shared.http("PATCH", f"/api/v1/repos/default/{bucket}", {"durable": "bucket", "commit_window": "60s"})  # its parts go with its end
    data = os.urandom(5000)
    s3.put_object(Bucket=bucket, Key="f", Body=data)
    kept = [pathlib.Path(folder, name).read_bytes() for folder, _, files in os.walk(f"{shared.dir}/store/open") for name in files]
    assert any(b"f" in part and data[:100] in part for part in kept)
    assert s3.get_object(Bucket=bucket, Key="f")["Body"].read() == data


# ---- checksums

@pytest.mark.parametrize("name", ["crc32", "crc32c", "crc64nvme", "sha1", "sha256", "sha512", "md5"])
def test_checksums_are_verified_and_given_back(gate, bucket, name):
    path, data, header = f"/{bucket}/f", os.urandom(100003), f"x-amz-checksum-{name}"
    good = checksum(name, data)
    answer = gate.ask("PUT", path, headers={header: good}, body=data)
    assert (answer.status, answer.headers.get(header)) == (200, good)
    assert gate.ask("PUT", path, headers={header: checksum(name, data + b"x")}, body=data).code == "BadDigest"
    assert gate.ask("PUT", path, headers={header: "!"}, body=data).code == "InvalidRequest"
    assert gate.ask("PUT", path, headers={header: good, "x-amz-checksum-" + ("sha1" if name != "sha1" else "sha256"): "x"}, body=data).code == "InvalidRequest"
    assert header not in gate.ask("GET", path).headers
    got = gate.ask("GET", path, headers={"x-amz-checksum-mode": "ENABLED"})
    assert (got.headers[header], got.headers["x-amz-checksum-type"], got.body) == (good, "FULL_OBJECT", data)
    assert header not in gate.ask("GET", path, headers={"x-amz-checksum-mode": "ENABLED", "Range": "bytes=0-5"}).headers
    copied = gate.ask("PUT", path + "-copy", headers={"x-amz-copy-source": path}).body
    assert f"<Checksum{name.upper()}>{good}</Checksum{name.upper()}><ChecksumType>FULL_OBJECT</ChecksumType>".encode() in copied


def test_content_md5_and_payload_hash_are_verified(gate, bucket):
    path = f"/{bucket}/f"
    for value, code in (("1B2M2Y8AsgTpgAmY7PhCfg==", "BadDigest"), ("not base64", "InvalidDigest"), ("AAAA", "InvalidDigest")):
        assert gate.ask("PUT", path, headers={"Content-MD5": value}, body=b"x").code == code
    assert gate.ask("PUT", path, headers={"Content-MD5": "ndTkYSaMgDT1yFZOFVxnpg=="}, body=b"x").status == 200
    wrong = hashlib.sha256(b"other").hexdigest()
    assert gate.ask("PUT", path, payload=wrong, body=b"x").code == "XAmzContentSHA256Mismatch"
    assert gate.ask("GET", path, payload=wrong).code == "XAmzContentSHA256Mismatch"
    assert gate.ask("PUT", path, payload="UNSIGNED-PAYLOAD", body=b"y").status == 200
    assert gate.ask("PUT", path, payload="nonsense", body=b"y").code == "InvalidArgument"
    assert gate.ask("GET", path).body == b"y"


# ---- lists of buckets

def bucket_pages(gate, **more):
    """Names of buckets, page by page, asked by hand: the client's program may be older than these arguments."""
    names, token = [], {}
    while True:
        page = gate.ask("GET", "/", {**more, **token}).body.decode()
        found = re.findall(r"<Name>(.*?)</Name>", page)
        assert len(found) <= int(more.get("max-buckets", 10000))
        names += found
        going_on = re.search(r"<ContinuationToken>(.*?)</ContinuationToken>", page)
        if not going_on:
            return names
        token = {"continuation-token": going_on.group(1)}


def test_buckets_are_listed_by_pages_and_prefix(shared, gate, s3):
    shared.project("pages")
    made = sorted(["lb-a", "lb-b", "dev.lb-a", "lb-a.lb-b", "master.lb-a.pages", "lb-x.lb-a.pages"])
    for name in made:
        s3.create_bucket(Bucket=name)
    everything = bucket_pages(gate)
    assert everything == sorted(everything) and set(made) <= set(everything)
    for size in ("1", "2", "1000"):
        assert bucket_pages(gate, **{"max-buckets": size}) == everything, size
        assert bucket_pages(gate, **{"max-buckets": size, "prefix": "lb-"}) == [name for name in made if name.startswith("lb-")], size
    assert b"<Prefix>lb-</Prefix>" in gate.ask("GET", "/", {"prefix": "lb-", "max-buckets": "1"}).body
    assert bucket_pages(gate, prefix="none") == [] == bucket_pages(gate, **{"bucket-region": "eu-west-1"})
    for query in ({"max-buckets": "0"}, {"max-buckets": "x"}, {"continuation-token": "x"}, {"continuation-token": ""}):
        assert gate.ask("GET", "/", query).code == "InvalidArgument", query


def test_a_copy_keeps_the_checksum_of_its_source(gate, s3, bucket):
    s3.put_object(Bucket=bucket, Key="f", Body=b"x", ChecksumAlgorithm="SHA256")
    for name, code in (("SHA256", ""), ("SHA1", "NotImplemented"), ("XXHASH64", "NotImplemented")):
        answer = gate.ask("PUT", f"/{bucket}/g", headers={"x-amz-copy-source": f"{bucket}/f", "x-amz-checksum-algorithm": name})
        assert answer.code == code, name
    assert s3.head_object(Bucket=bucket, Key="g", ChecksumMode="ENABLED")["ChecksumSHA256"] == checksum("sha256", b"x")


# ---- the owner that a client expects

def test_another_owner_than_expected_is_refused(gate, s3, bucket):
    owner = s3.list_buckets()["Owner"]["ID"]
    s3.put_object(Bucket=bucket, Key="f", Body=b"x", ExpectedBucketOwner=owner)
    assert s3.get_object(Bucket=bucket, Key="f", ExpectedBucketOwner=owner)["Body"].read() == b"x"
    s3.copy_object(Bucket=bucket, Key="g", CopySource=f"{bucket}/f", ExpectedBucketOwner=owner, ExpectedSourceBucketOwner=owner)
    for call, more in ((s3.put_object, {"Key": "h", "Body": b"x"}), (s3.get_object, {"Key": "f"}), (s3.delete_object, {"Key": "f"}), (s3.list_objects_v2, {}), (s3.delete_bucket, {}),
                       (s3.copy_object, {"Key": "h", "CopySource": f"{bucket}/f"})):
        assert code_of(call, Bucket=bucket, ExpectedBucketOwner="111122223333", **more) == ("AccessDenied", 403), call
    assert code_of(s3.copy_object, Bucket=bucket, Key="h", CopySource=f"{bucket}/f", ExpectedSourceBucketOwner="111122223333") == ("AccessDenied", 403)
    assert keys(s3.list_objects_v2(Bucket=bucket)) == ["f", "g"]


# ---- keys that do not go

def test_keys_that_do_not_go_are_refused_in_words(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"x")
    s3.put_object(Bucket=bucket, Key="d/f", Body=b"x")
    for key, body, code, words in (("a/b", b"y", "InvalidRequest", '"a"'), ("d", b"y", "InvalidRequest", '"d"'), ("folder/", b"bytes", "InvalidArgument", "folder"),
                                   ("x//y", b"y", "InvalidArgument", "key"), ("x\x01y", b"y", "InvalidArgument", "key"), ("../x", b"y", "InvalidArgument", "key")):
        with pytest.raises(botocore.exceptions.ClientError) as refused:
            s3.put_object(Bucket=bucket, Key=key, Body=body)
        error = refused.value.response["Error"]
        assert error["Code"] == code and words in error["Message"], (key, error)
    assert keys(s3.list_objects_v2(Bucket=bucket)) == ["a", "d/f"]


# ---- what is not there

@pytest.mark.parametrize("method,path,query,name", [
    ("GET", "", "tagging", "GetBucketTagging"), ("PUT", "", "policy", "PutBucketPolicy"), ("GET", "", "inventory", "GetBucketInventoryConfiguration"),
    ("PUT", "", "lifecycle", "PutBucketLifecycleConfiguration"), ("DELETE", "", "website", "DeleteBucketWebsite"), ("POST", "", "", "PostObject"),
    ("PUT", "/f", "legal-hold", "PutObjectLegalHold"), ("POST", "/f", "select", "SelectObjectContent"),
    ("GET", "/f", "torrent", "GetObjectTorrent"), ("PUT", "/f", "retention", "PutObjectRetention"), ("GET", "/f", "legal-hold", "GetObjectLegalHold")])
def test_what_is_not_there_says_its_name(gate, bucket, method, path, query, name):
    answer = gate.ask(method, f"/{bucket}{path}", {query: ""} if query else {})
    assert (answer.status, answer.code) == (501, "NotImplemented")
    assert name in answer.message


@pytest.mark.parametrize("call,name", [
    (lambda s3, bucket: s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"}), "PutObjectLockConfiguration"),
    (lambda s3, bucket: s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={}), "PutBucketNotificationConfiguration"),
    (lambda s3, bucket: s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": []}), "PutBucketLifecycleConfiguration"),
    (lambda s3, bucket: s3.put_object_legal_hold(Bucket=bucket, Key="f", LegalHold={"Status": "ON"}), "PutObjectLegalHold")])
def test_what_is_not_there_says_its_name_whatever_body_it_has(s3, bucket, call, name):
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        call(s3, bucket)
    error = refused.value.response["Error"]
    assert error["Code"] == "NotImplemented" and name in error["Message"]


@pytest.mark.parametrize("header,value,code", [("x-amz-acl", "public-read", "AccessControlListNotSupported"), ("x-amz-acl", "publik", "InvalidArgument"),
                                               ("x-amz-grant-read", "id=x", "AccessControlListNotSupported"), ("x-amz-checksum-xxhash64", "AAAAAAAAAAA=", "NotImplemented"),
                                               ("x-amz-checksum-xxhash3", "AAAAAAAAAAA=", "NotImplemented"),
                                               ("x-amz-server-side-encryption", "aws:kms", "NotImplemented"),
                                               ("x-amz-storage-class", "GLACIER", "InvalidStorageClass"), ("x-amz-acl", "private", ""),
                                               ("x-amz-storage-class", "STANDARD", "")])
def test_headers_that_want_more_are_refused_not_dropped(gate, bucket, header, value, code):
    assert gate.ask("PUT", f"/{bucket}/f", headers={header: value}, body=b"").code == code


# ---- ACLs: as in S3 with ownership enforced

def test_everything_belongs_to_the_owner(gate, s3, bucket):
    s3.put_object(Bucket=bucket, Key="f", Body=b"x")
    for get, put, where in ((s3.get_bucket_acl, s3.put_bucket_acl, {"Bucket": bucket}), (s3.get_object_acl, s3.put_object_acl, {"Bucket": bucket, "Key": "f"})):
        told = get(**where)
        owner = told["Owner"]["ID"]
        assert [(g["Grantee"]["ID"], g["Grantee"]["Type"], g["Permission"]) for g in told["Grants"]] == [(owner, "CanonicalUser", "FULL_CONTROL")]
        assert owner == s3.list_buckets()["Owner"]["ID"]
        put(**where, ACL="private")
        put(**where, AccessControlPolicy={"Grants": told["Grants"], "Owner": told["Owner"]})
        assert code_of(put, **where, ACL="public-read") == ("AccessControlListNotSupported", 400)
        assert code_of(put, **where, AccessControlPolicy={"Owner": told["Owner"], "Grants": []}) == ("AccessControlListNotSupported", 400)
        everybody = {"Grantee": {"Type": "Group", "URI": "http://acs.amazonaws.com/groups/global/AllUsers"}, "Permission": "READ"}
        assert code_of(put, **where, AccessControlPolicy={"Grants": [*told["Grants"], everybody], "Owner": told["Owner"]}) == ("AccessControlListNotSupported", 400)
    assert gate.ask("PUT", f"/{bucket}", {"acl": ""}, body=b"<other/>").code == "MalformedXML"
    assert code_of(s3.get_object_acl, Bucket=bucket, Key="none") == ("NoSuchKey", 404)
    assert code_of(s3.create_bucket, Bucket=bucket + "x", ACL="public-read") == ("InvalidBucketAclWithObjectOwnership", 400)


def test_versioning_is_on_and_stays_on(s3, bucket):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    assert code_of(s3.put_bucket_versioning, Bucket=bucket, VersioningConfiguration={"Status": "Suspended"}) == ("NotImplemented", 501)


def test_methods_that_are_none(gate, bucket):
    assert gate.ask("PATCH", f"/{bucket}/f").code == "MethodNotAllowed"
    assert gate.ask("DELETE", "/").code == "MethodNotAllowed"


# ---- pages of other origins

def test_pages_of_known_origins_may_ask(gate, bucket):
    asked = {"Origin": "https://page.example", "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "x-amz-date"}
    answer = gate.send("OPTIONS", f"/{bucket}/f", headers=asked)
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "https://page.example"
    assert "PUT" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "x-amz-date"
    assert gate.send("OPTIONS", f"/{bucket}/f", headers={**asked, "Origin": "https://evil.example"}).code == "AccessForbidden"
    assert gate.send("OPTIONS", f"/{bucket}/f").code == "InvalidRequest"
    answer = gate.ask("GET", f"/{bucket}", unsigned={"Origin": "https://page.example"})
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, "https://page.example")
    assert "access-control-allow-origin" not in gate.ask("GET", f"/{bucket}", unsigned={"Origin": "https://evil.example"}).headers


RULES = {"CORSRules": [{"AllowedOrigins": ["https://*.lab.example"], "AllowedMethods": ["GET", "PUT"], "AllowedHeaders": ["x-amz-*", "content-type"], "ExposeHeaders": ["ETag", "x-amz-meta-a"], "MaxAgeSeconds": 60},
                       {"AllowedOrigins": ["*"], "AllowedMethods": ["HEAD"]}]}


def test_a_bucket_has_its_own_rules_for_pages(gate, s3, bucket):
    assert code_of(s3.get_bucket_cors, Bucket=bucket) == ("NoSuchCORSConfiguration", 404)
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration=RULES)
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == RULES["CORSRules"]
    asked = {"Origin": "https://a.lab.example", "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "X-Amz-Date, content-type"}
    answer = gate.send("OPTIONS", f"/{bucket}/f", headers=asked)
    assert answer.status == 200
    told = {name: answer.headers["access-control-" + name] for name in ("allow-origin", "allow-methods", "allow-headers", "max-age", "expose-headers")}
    assert told == {"allow-origin": "https://a.lab.example", "allow-methods": "GET, PUT", "allow-headers": "X-Amz-Date, content-type", "max-age": "60",
                    "expose-headers": "ETag, x-amz-meta-a"}
    for other in ({"Origin": "https://lab.example"}, {"Access-Control-Request-Method": "DELETE"}, {"Access-Control-Request-Headers": "x-other"}):
        assert gate.send("OPTIONS", f"/{bucket}/f", headers={**asked, **other}).code == "AccessForbidden", other
    assert gate.send("OPTIONS", "/no-such-bucket/f", headers=asked).code == "AccessForbidden"
    assert gate.send("OPTIONS", f"/{bucket}/f", headers={"Origin": "null", "Access-Control-Request-Method": "HEAD"}).headers["access-control-allow-origin"] == "*"
    s3.delete_bucket_cors(Bucket=bucket)
    assert code_of(s3.get_bucket_cors, Bucket=bucket) == ("NoSuchCORSConfiguration", 404)
    assert gate.send("OPTIONS", f"/{bucket}/f", headers=asked).code == "AccessForbidden"


def test_a_stranger_does_not_learn_which_buckets_exist(gate, s3, bucket):
    """An unsigned request gets the same for a bucket that is not there, one without rules and one whose rules are for others."""
    s3.create_bucket(Bucket=bucket + "-rules")
    s3.put_bucket_cors(Bucket=bucket + "-rules", CORSConfiguration=RULES)
    s3.create_bucket(Bucket=f"dev.{bucket}")
    origin = {"Origin": "https://evil.example"}
    for method, asked in (("OPTIONS", {**origin, "Access-Control-Request-Method": "PUT"}), ("OPTIONS", origin), ("GET", origin), ("PUT", origin)):
        answers = set()
        for name in (bucket, bucket + "-rules", f"dev.{bucket}", f"none.{bucket}", "no-such-bucket", f"master.{bucket}.no-such-project"):
            answer = gate.send(method, f"/{name}/f", headers=asked)
            told = {name: value for name, value in answer.headers.items() if "request" not in name and name not in ("date", "content-length")}
            answers.add((answer.status, answer.code, answer.message, *sorted(told.items())))
        assert len(answers) == 1, (method, asked, answers)


def test_a_page_uploads_and_downloads_by_presigned_url(gate, s3, bucket):
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration=RULES)
    page = {"Origin": "https://a.lab.example"}
    put = gate.send("PUT", f"/{bucket}/f", gate.presigned("PUT", f"/{bucket}/f"), page, body=b"by a page")
    assert (put.status, put.headers["access-control-allow-origin"]) == (200, page["Origin"])
    got = gate.send("GET", f"/{bucket}/f", gate.presigned("GET", f"/{bucket}/f"), page)
    assert (got.body, got.headers["access-control-expose-headers"]) == (b"by a page", "ETag, x-amz-meta-a")
    refused = gate.send("GET", f"/{bucket}/f", headers=page)  # a page may read why
    assert (refused.code, refused.headers["access-control-allow-origin"]) == ("AccessDenied", page["Origin"])
    assert "access-control-allow-origin" not in gate.send("GET", f"/{bucket}/f", headers={"Origin": "https://evil.example"}).headers


@pytest.mark.parametrize("rules,code", [
    ("", "MalformedXML"), ("<CORSRule><AllowedMethod>GET</AllowedMethod></CORSRule>", "MalformedXML"), ("<Rule/>", "MalformedXML"),
    ("<CORSRule><AllowedMethod>PATCH</AllowedMethod><AllowedOrigin>*</AllowedOrigin></CORSRule>", "InvalidRequest"),
    ("<CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*.*</AllowedOrigin></CORSRule>", "InvalidRequest"),
    ("<CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin><MaxAgeSeconds>x</MaxAgeSeconds></CORSRule>", "MalformedXML"),
    ("<CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin><Other>x</Other></CORSRule>", "MalformedXML"),
    ("<CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin>" + "<ExposeHeader>x</ExposeHeader>" * 99 + "</CORSRule>", "InvalidRequest"),
    ("<CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin><ID>" + "i" * 256 + "</ID></CORSRule>", "InvalidRequest"),
    ("<CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin>" + "<MaxAgeSeconds>1</MaxAgeSeconds>" * 2 + "</CORSRule>", "MalformedXML")])
def test_rules_for_pages_that_are_none_are_refused(gate, bucket, rules, code):
    assert gate.ask("PUT", f"/{bucket}", {"cors": ""}, body=f"<CORSConfiguration>{rules}</CORSConfiguration>".encode()).code == code
    assert gate.ask("GET", f"/{bucket}", {"cors": ""}).code == "NoSuchCORSConfiguration"


def test_rules_for_pages_outlive_the_daemon_and_go_with_the_bucket(make_daemon):
    daemon = make_daemon(*DAEMON_OPTIONS[:2]).start()
    s3 = Gateway(daemon).client()
    for name in ("pages", "dev.pages"):
        s3.create_bucket(Bucket=name)
        s3.put_bucket_cors(Bucket=name, CORSConfiguration=RULES)
    daemon.stop()
    daemon.start()
    s3 = Gateway(daemon).client()
    assert s3.get_bucket_cors(Bucket="pages")["CORSRules"] == RULES["CORSRules"]
    for name in ("dev.pages", "pages"):
        s3.delete_bucket(Bucket=name)
    for name in ("pages", "dev.pages"):
        s3.create_bucket(Bucket=name)
        assert code_of(s3.get_bucket_cors, Bucket=name) == ("NoSuchCORSConfiguration", 404)


def test_rules_for_pages_go_with_a_branch_that_is_deleted_by_other_means(shared, gate, s3, bucket):
    name = f"dev.{bucket}"
    s3.create_bucket(Bucket=name)
    s3.put_bucket_cors(Bucket=name, CORSConfiguration=RULES)
    asked = {"Origin": "https://a.lab.example", "Access-Control-Request-Method": "PUT"}
    assert gate.send("OPTIONS", f"/{name}/f", headers=asked).status == 200
    shared.http("DELETE", f"/api/v1/repos/default/{bucket}/branches/dev")
    s3.create_bucket(Bucket=name)
    assert code_of(s3.get_bucket_cors, Bucket=name) == ("NoSuchCORSConfiguration", 404)
    assert gate.send("OPTIONS", f"/{name}/f", headers=asked).code == "AccessForbidden"


def test_a_preflight_that_asks_for_many_headers_is_refused(gate, s3, bucket):
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration=RULES)
    asked = {"Origin": "https://a.lab.example", "Access-Control-Request-Method": "PUT"}
    for n, status in ((100, 200), (101, 403)):
        names = ",".join(f"x-amz-{i}" for i in range(n))
        assert gate.send("OPTIONS", f"/{bucket}/f", headers={**asked, "Access-Control-Request-Headers": names}).status == status, n
