"""Tags of objects: S3's calls and bounds, what keeps them and what drops them; and what does not fit beside metadata."""
import secrets

import botocore.exceptions
import pytest

from conftest import flushed

DAEMON_OPTIONS = ["--s3-listen", "127.0.0.1:0"]
PART = 5 << 20


@pytest.fixture
def bucket(s3):
    name = f"tags{secrets.token_hex(4)}"
    s3.create_bucket(Bucket=name)
    return name


def refusal(call, **more):
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        call(**more)
    error = refused.value.response["Error"]
    return error["Code"], error["Message"]


def tags(s3, bucket, key="f", **more):
    return {tag["Key"]: tag["Value"] for tag in s3.get_object_tagging(Bucket=bucket, Key=key, **more)["TagSet"]}


def set_of(pairs):
    return {"TagSet": [{"Key": k, "Value": v} for k, v in pairs.items()]}


ODD = {"plain": "1", "empty": "", "a&b=c": "%+x y", "ü": "日本", "slash/:@": "-._~"}


def test_tags_are_put_got_and_deleted(shared, s3, bucket):
    first = s3.put_object(Bucket=bucket, Key="f", Body=b"x", Metadata={"m": "1"}, ContentType="a/b", ChecksumAlgorithm="SHA256")["VersionId"]
    assert tags(s3, bucket) == {}
    assert "x-amz-tagging-count" not in s3.head_object(Bucket=bucket, Key="f")["ResponseMetadata"]["HTTPHeaders"]
    flushed(shared, bucket, first)
    before = s3.head_object(Bucket=bucket, Key="f", ChecksumMode="ENABLED")
    second = s3.put_object_tagging(Bucket=bucket, Key="f", Tagging=set_of(ODD))["VersionId"]
    assert second != first
    for _ in range(2):
        assert tags(s3, bucket) == ODD
        after = s3.head_object(Bucket=bucket, Key="f", ChecksumMode="ENABLED")
        assert after["ResponseMetadata"]["HTTPHeaders"]["x-amz-tagging-count"] == "5"
        assert s3.get_object(Bucket=bucket, Key="f")["TagCount"] == 5
        for name in ("ETag", "ContentLength", "ContentType", "Metadata", "ChecksumSHA256"):
            assert after[name] == before[name], name
        flushed(shared, bucket, second)
    assert tags(s3, bucket, VersionId=first) == {} and tags(s3, bucket, VersionId=second) == ODD
    s3.delete_object_tagging(Bucket=bucket, Key="f")
    assert tags(s3, bucket) == {} and s3.head_object(Bucket=bucket, Key="f")["Metadata"] == {"m": "1"}
    assert s3.get_object(Bucket=bucket, Key="f")["Body"].read() == b"x"


def test_tags_of_what_others_pushed(shared, s3, bucket):
    shared.push(bucket, "theirs", "rest")
    etag = s3.head_object(Bucket=bucket, Key="theirs")["ETag"]
    s3.put_object_tagging(Bucket=bucket, Key="theirs", Tagging=set_of({"a": "1"}))
    assert tags(s3, bucket, "theirs") == {"a": "1"} and s3.head_object(Bucket=bucket, Key="theirs")["ETag"] == etag
    assert s3.get_object(Bucket=bucket, Key="theirs")["Body"].read() == b"rest"


def test_tags_come_with_puts_uploads_and_copies(s3, bucket):
    s3.put_object(Bucket=bucket, Key="f", Body=b"x", Tagging="d&a=1&b=%26%20c", Metadata={"m": "1"})
    put = {"a": "1", "b": "& c", "d": ""}
    assert [tag["Key"] for tag in s3.get_object_tagging(Bucket=bucket, Key="f")["TagSet"]] == ["a", "b", "d"] and tags(s3, bucket) == put
    upload = s3.create_multipart_upload(Bucket=bucket, Key="big", Tagging="up=load")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="big", UploadId=upload, PartNumber=1, Body=b"y")["ETag"]
    s3.complete_multipart_upload(Bucket=bucket, Key="big", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part}]})
    assert tags(s3, bucket, "big") == {"up": "load"}
    source = {"Bucket": bucket, "Key": "f"}
    for more, want, metadata in (({}, put, {"m": "1"}), ({"Tagging": "n=2"}, put, {"m": "1"}), ({"TaggingDirective": "REPLACE", "Tagging": "n=2"}, {"n": "2"}, {"m": "1"}),
                                 ({"TaggingDirective": "REPLACE"}, {}, {"m": "1"}), ({"MetadataDirective": "REPLACE", "Metadata": {"k": "v"}}, put, {"k": "v"})):
        s3.copy_object(Bucket=bucket, Key="copy", CopySource=source, **more)
        assert tags(s3, bucket, "copy") == want, more
        assert s3.head_object(Bucket=bucket, Key="copy")["Metadata"] == metadata, more
    s3.put_object(Bucket=bucket, Key="f", Body=b"z")
    assert tags(s3, bucket) == {}


MANY = {f"k{i}": "v" for i in range(10)}


def test_tags_have_s3s_bounds(gate, s3, bucket):
    s3.put_object(Bucket=bucket, Key="f", Body=b"x")
    for good in (MANY, {"k" * 128: "v" * 256}, {"ü" * 128: "日" * 256}):
        s3.put_object_tagging(Bucket=bucket, Key="f", Tagging=set_of(good))
        assert tags(s3, bucket) == good
    for bad in ({**MANY, "k10": "v"}, {"k" * 129: "v"}, {"k": "v" * 257}, {"aws:x": "v"}):
        code, message = refusal(s3.put_object_tagging, Bucket=bucket, Key="f", Tagging=set_of(bad))
        assert code == "InvalidTag" and message, bad
    twice = {"TagSet": [{"Key": "k", "Value": "1"}, {"Key": "k", "Value": "2"}]}
    assert refusal(s3.put_object_tagging, Bucket=bucket, Key="f", Tagging=twice) == ("InvalidTag", 'Cannot provide multiple Tags with the same key: "k"')
    assert tags(s3, bucket) == {"ü" * 128: "日" * 256}
    for header, code in (("=v", "InvalidTag"), ("k=1&k=2", "InvalidTag"), ("k=%", "InvalidArgument"), ("&".join(f"k{i}=" for i in range(11)), "InvalidTag")):
        assert refusal(s3.put_object, Bucket=bucket, Key="g", Body=b"x", Tagging=header)[0] == code, header
    for body in ("<Tagging/>", "<Tagging><TagSet><Tag><Key>k</Key></Tag></TagSet></Tagging>", "<Other/>"):
        assert gate.ask("PUT", f"/{bucket}/f", {"tagging": ""}, body=body.encode()).code == "MalformedXML", body
    assert refusal(s3.get_object_tagging, Bucket=bucket, Key="none")[0] == "NoSuchKey"
    assert refusal(s3.put_object_tagging, Bucket=bucket, Key="none", Tagging=set_of({}))[0] == "NoSuchKey"


def test_only_the_newest_version_gets_other_tags(shared, s3, bucket):
    first = s3.put_object(Bucket=bucket, Key="f", Body=b"x")["VersionId"]
    flushed(shared, bucket, first)
    s3.put_object_tagging(Bucket=bucket, Key="f", VersionId=first, Tagging=set_of({"a": "1"}))
    second = s3.put_object(Bucket=bucket, Key="f", Body=b"y")["VersionId"]
    flushed(shared, bucket, second)
    code, message = refusal(s3.put_object_tagging, Bucket=bucket, Key="f", VersionId=first, Tagging=set_of({"a": "2"}))
    assert (code, "older version" in message) == ("NotImplemented", True)
    s3.put_object(Bucket=bucket, Key="folder/", Body=b"")
    assert refusal(s3.put_object_tagging, Bucket=bucket, Key="folder/", Tagging=set_of({"a": "2"}))[0] == "NotImplemented"
    assert refusal(s3.put_object, Bucket=bucket, Key="other/", Body=b"", Tagging="a=1")[0] == "NotImplemented"


def test_parts_give_way_to_new_metadata_and_tags(s3, bucket):
    """The checksums of 60 parts fill the row of an object: a copy with more metadata has fewer of them, and succeeds."""
    s3.put_object(Bucket=bucket, Key="part", Body=bytes(PART))
    upload = s3.create_multipart_upload(Bucket=bucket, Key="f", ChecksumAlgorithm="SHA256")["UploadId"]
    source, parts = {"Bucket": bucket, "Key": "part"}, []
    for number in range(1, 111):
        result = s3.upload_part_copy(Bucket=bucket, Key="f", UploadId=upload, PartNumber=number, CopySource=source)["CopyPartResult"]
        parts.append({"PartNumber": number, "ETag": result["ETag"]})
    s3.complete_multipart_upload(Bucket=bucket, Key="f", UploadId=upload, MultipartUpload={"Parts": parts})
    asked = {"Bucket": bucket, "ObjectAttributes": ["ObjectParts"]}
    with_sums = s3.get_object_attributes(Key="f", **asked)["ObjectParts"]
    assert (with_sums["TotalPartsCount"], "ChecksumSHA256" in with_sums["Parts"][0]) == (110, True)
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "f"}, MetadataDirective="REPLACE", Metadata={"m": "x" * 2000})
    without = s3.get_object_attributes(Key="copy", **asked)["ObjectParts"]
    assert (without["TotalPartsCount"], "ChecksumSHA256" in without["Parts"][0]) == (110, False)
    s3.put_object_tagging(Bucket=bucket, Key="f", Tagging=set_of({f"k{i}": "v" * 200 for i in range(10)}))
    assert s3.get_object_attributes(Key="f", **asked)["ObjectParts"]["TotalPartsCount"] == 110
    assert len(tags(s3, bucket)) == 10
