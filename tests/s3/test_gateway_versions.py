"""Versions of objects are commits: each commit of a branch that changed a key is a version of it."""
import itertools
import secrets

import botocore.exceptions
import pytest

from conftest import flushed
from gateway import Gateway

DAEMON_OPTIONS = ["--s3-listen", "127.0.0.1:0"]


@pytest.fixture
def bucket(shared, s3):
    name = f"versions{secrets.token_hex(4)}"
    s3.create_bucket(Bucket=name)
    shared.http("PATCH", f"/api/v1/repos/default/{name}", {"commit_window": "60s"})
    return name


def listed(s3, bucket, **more):
    """(key, version, size or None for a delete marker, whether it is the newest), in S3's order; page by page."""
    rows, markers = [], {}
    while True:
        page = s3.list_object_versions(Bucket=bucket, **{**more, **markers})
        versions = [(v["Key"], v["VersionId"], v["Size"], v["IsLatest"]) for v in page.get("Versions", [])]
        deleted = [(v["Key"], v["VersionId"], None, v["IsLatest"]) for v in page.get("DeleteMarkers", [])]
        rows += versions + deleted
        if not page["IsTruncated"]:
            return rows
        markers = {"KeyMarker": page["NextKeyMarker"], **({"VersionIdMarker": page["NextVersionIdMarker"]} if "NextVersionIdMarker" in page else {})}


@pytest.fixture
def history(shared, s3, bucket):
    """Four commits and one that gathers: what each did, newest first."""
    ids = []
    for step in ({"a": b"1", "b": b"1", "d/x": b"1"}, {"a": b"22"}, {"a": None, "b": b"22"}, {"a": b"333", "d/y": b"1"}):
        for key, body in step.items():
            if body is None:
                deleted = s3.delete_object(Bucket=bucket, Key=key)
                assert deleted["DeleteMarker"] is True
                ids.append(deleted["VersionId"])
            else:
                ids.append(s3.put_object(Bucket=bucket, Key=key, Body=body)["VersionId"])
        flushed(shared, bucket, ids[-1])
    ids.append(s3.put_object(Bucket=bucket, Key="b", Body=b"4444")["VersionId"])
    return list(dict.fromkeys(reversed(ids)))


def test_versions_are_the_commits_that_changed_a_key(s3, bucket, history):
    newest, fourth, third, second, first = history
    want = [("a", fourth, 3, True), ("a", third, None, False), ("a", second, 2, False), ("a", first, 1, False),
            ("b", newest, 4, True), ("b", third, 2, False), ("b", first, 1, False), ("d/x", first, 1, True), ("d/y", fourth, 1, True)]
    assert sorted(listed(s3, bucket)) == sorted(want)
    for size in (1, 2, 3, 5):
        assert sorted(listed(s3, bucket, MaxKeys=size)) == sorted(want), size
    assert sorted(listed(s3, bucket, Prefix="d/")) == sorted(want[-2:])
    assert sorted(listed(s3, bucket, Prefix="b")) == sorted(want[4:7])
    for key, version, size, _ in want:
        if size is not None:
            assert s3.get_object(Bucket=bucket, Key=key, VersionId=version)["ContentLength"] == size
            assert s3.head_object(Bucket=bucket, Key=key, VersionId=version)["VersionId"] == version
    s3.copy_object(Bucket=bucket, Key="again", CopySource={"Bucket": bucket, "Key": "a", "VersionId": second})
    assert s3.get_object(Bucket=bucket, Key="again")["Body"].read() == b"22"


def test_versions_below_a_delimiter_are_one_line(s3, bucket, history):
    page = s3.list_object_versions(Bucket=bucket, Delimiter="/")
    assert [p["Prefix"] for p in page["CommonPrefixes"]] == ["d/"]
    assert {v["Key"] for v in page["Versions"]} == {"a", "b"}
    seen = []
    markers = {}
    for _ in itertools.repeat(None, 20):
        page = s3.list_object_versions(Bucket=bucket, Delimiter="/", MaxKeys=1, **markers)
        seen += [v["Key"] for v in page.get("Versions", []) + page.get("DeleteMarkers", [])] + [p["Prefix"] for p in page.get("CommonPrefixes", [])]
        if not page["IsTruncated"]:
            break
        markers = {"KeyMarker": page["NextKeyMarker"], **({"VersionIdMarker": page["NextVersionIdMarker"]} if page.get("NextVersionIdMarker") else {})}
    assert seen == ["a"] * 4 + ["b"] * 3 + ["d/"]


def test_a_page_goes_on_behind_all_versions_of_a_key(s3, bucket, history):
    """A page that ends early, even without a line, names a key and this version; the next page may begin within a common prefix."""
    rows = listed(s3, bucket)
    assert listed(s3, bucket, KeyMarker="a", VersionIdMarker="null") == [row for row in rows if row[0] > "a"]
    page = s3.list_object_versions(Bucket=bucket, KeyMarker="d/w", VersionIdMarker="null", Delimiter="/")
    assert [p["Prefix"] for p in page["CommonPrefixes"]] == ["d/"] and "Versions" not in page
    page = s3.list_object_versions(Bucket=bucket, KeyMarker="d/w", Delimiter="/")
    assert "CommonPrefixes" not in page and "Versions" not in page


def test_a_delete_marker_is_no_object(shared, s3, bucket, history):
    gate = Gateway(shared)
    answer = gate.ask("GET", f"/{bucket}/a", {"versionId": history[2]})
    assert (answer.status, answer.code, answer.headers["x-amz-delete-marker"]) == (405, "MethodNotAllowed", "true")
    assert gate.ask("GET", f"/{bucket}/none", {"versionId": history[2]}).code == "NoSuchVersion"


def test_metadata_alone_makes_a_version(shared, s3, bucket):
    first = s3.put_object(Bucket=bucket, Key="f", Body=b"x")["VersionId"]
    flushed(shared, bucket, first)
    second = s3.put_object(Bucket=bucket, Key="f", Body=b"x", Metadata={"a": "b"})["VersionId"]
    flushed(shared, bucket, second)
    assert [row[1] for row in listed(s3, bucket)] == [second, first]


def test_versions_are_never_deleted_one_by_one(s3, bucket, history):
    """Each object has its own answer: the others are deleted."""
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a", "VersionId": history[1]}, {"Key": "b"}, {"Key": "none"}]})
    assert [(e["Key"], e["VersionId"], e["Code"]) for e in answer["Errors"]] == [("a", history[1], "NotImplemented")]
    assert [(d["Key"], d.get("DeleteMarker")) for d in answer["Deleted"]] == [("b", True), ("none", None)]
    assert {row[:2] for row in listed(s3, bucket)} >= {("a", history[1])}
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        s3.delete_object(Bucket=bucket, Key="a", VersionId=history[1])
    assert refused.value.response["Error"]["Code"] == "NotImplemented"


def test_conditions_of_delete_objects_are_refused_not_ignored(shared, s3, bucket):
    s3.put_object(Bucket=bucket, Key="f", Body=b"x")
    answer = Gateway(shared).ask("POST", f"/{bucket}", {"delete": ""}, body=b"<Delete><Quiet>true</Quiet><Object><Key>f</Key><ETag>other</ETag></Object></Delete>")
    assert answer.status == 200 and b"<Code>NotImplemented</Code>" in answer.body
    s3.head_object(Bucket=bucket, Key="f")


def test_a_commit_is_a_bucket_with_one_version(shared, s3, bucket):
    commit = s3.put_object(Bucket=bucket, Key="f", Body=b"x")["VersionId"]
    flushed(shared, bucket, commit)
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    assert "Status" not in s3.get_bucket_versioning(Bucket=f"{commit}.master.{bucket}")
    assert listed(s3, f"{commit}.master.{bucket}") == [("f", commit, 1, True)]


def test_places_that_are_none_are_refused(s3, bucket):
    for more in ({"VersionIdMarker": "x"}, {"KeyMarker": "a", "VersionIdMarker": "0" * 32}):
        with pytest.raises(botocore.exceptions.ClientError) as refused:
            s3.list_object_versions(Bucket=bucket, **more)
        assert refused.value.response["Error"]["Code"] == "InvalidArgument"
    assert listed(s3, bucket) == []
