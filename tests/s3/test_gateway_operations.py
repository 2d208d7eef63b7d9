"""Every call of S3 either does what it says or is refused by its name: none is taken for another one."""
import itertools
import secrets
import urllib.parse
import uuid

import botocore.session
import pytest

from conftest import sh

DAEMON_OPTIONS = ["--s3-listen", "127.0.0.1:0"]

IMPLEMENTED = """AbortMultipartUpload CompleteMultipartUpload CopyObject CreateBucket CreateMultipartUpload DeleteBucket DeleteBucketCors DeleteObject
    DeleteObjectTagging DeleteObjects GetBucketAcl GetBucketCors GetBucketLocation GetBucketVersioning GetObject GetObjectAcl GetObjectAttributes
    GetObjectTagging HeadBucket HeadObject ListBuckets ListMultipartUploads ListObjectVersions ListObjects ListObjectsV2 ListParts PutBucketAcl
    PutBucketCors PutBucketVersioning PutObject PutObjectAcl PutObjectTagging UploadPart UploadPartCopy""".split()
# S3 knows it from ListBuckets by the host alone.
BY_HOST = ["ListDirectoryBuckets"]
# A browser's form, which botocore's model does not have, and operations for which this botocore may be too old.
MORE = {name: tuple(place.split()) for name, place in {
    "PostObject": "POST /{Bucket}", "RenameObject": "PUT /{Bucket}/{Key+}?renameObject", "UpdateObjectEncryption": "PUT /{Bucket}/{Key+}?encryption",
    "PutObjectAnnotation": "PUT /{Bucket}/{Key+}?annotation", "GetObjectAnnotation": "GET /{Bucket}/{Key+}?annotation",
    "DeleteObjectAnnotation": "DELETE /{Bucket}/{Key+}?annotation", "CreateSession": "GET /{Bucket}?session",
    "PutBucketAbac": "PUT /{Bucket}?abac", "GetBucketAbac": "GET /{Bucket}?abac",
    "CreateBucketMetadataConfiguration": "POST /{Bucket}?metadataConfiguration", "GetBucketMetadataConfiguration": "GET /{Bucket}?metadataConfiguration",
    "DeleteBucketMetadataConfiguration": "DELETE /{Bucket}?metadataConfiguration",
    "CreateBucketMetadataTableConfiguration": "POST /{Bucket}?metadataTable", "GetBucketMetadataTableConfiguration": "GET /{Bucket}?metadataTable",
    "DeleteBucketMetadataTableConfiguration": "DELETE /{Bucket}?metadataTable",
    "UpdateBucketMetadataInventoryTableConfiguration": "PUT /{Bucket}?metadataInventoryTable",
    "UpdateBucketMetadataJournalTableConfiguration": "PUT /{Bucket}?metadataJournalTable",
    "UpdateBucketMetadataAnnotationTableConfiguration": "PUT /{Bucket}?metadataAnnotationTable"}.items()}


def model():
    """Name → (method, path, query) of every operation of S3, with the arguments that it needs."""
    service = botocore.session.get_session().get_service_model("s3")
    every = {name: (service.operation_model(name).http["method"], service.operation_model(name).http["requestUri"]) for name in service.operation_names}
    operations = {}
    for name, (method, uri) in {**MORE, **every}.items():
        path, _, query = uri.partition("?")
        members = service.operation_model(name).input_shape.members if name in every and service.operation_model(name).input_shape else {}
        needed = service.operation_model(name).input_shape.required_members if members else []
        query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        query |= {members[m].serialization["name"]: "1" for m in needed if members[m].serialization.get("location") == "querystring"}
        operations[name] = (method, path, query)
    return operations


OPERATIONS = model()


@pytest.fixture
def bucket(s3):
    name = f"operations{secrets.token_hex(4)}"
    s3.create_bucket(Bucket=name)
    return name


def world(s3, bucket):
    """All that a call could change."""
    objects = {o["Key"]: s3.get_object(Bucket=bucket, Key=o["Key"])["Body"].read() for o in s3.list_objects_v2(Bucket=bucket).get("Contents", [])}
    tags = [s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"] for key in objects]
    uploads = s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    return objects, tags, uploads, [b["Name"] for b in s3.list_buckets()["Buckets"]]


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - set(IMPLEMENTED) - set(BY_HOST)))
def test_what_is_not_there_is_refused_and_changes_nothing(gate, s3, bucket, name):
    method, path, query = OPERATIONS[name]
    if "{Key+}" in path:
        s3.put_object(Bucket=bucket, Key="f", Body=b"bytes", Tagging="a=b")
    before = world(s3, bucket)
    answer = gate.ask(method, path.format(**{"Bucket": bucket, "Key+": "f"}), query, body=b"<Configuration/>" if method in ("PUT", "POST") else b"")
    assert (answer.status, answer.code) == (501, "NotImplemented")
    assert name in answer.message or name not in MORE
    assert world(s3, bucket) == before


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "DELETE"])
@pytest.mark.parametrize("path", ["", "/f"])
def test_a_subresource_is_never_taken_for_another_operation(gate, s3, bucket, method, path):
    """Neither one that S3 has with another method, nor one that nobody knows; with a value or without."""
    level = "/{Bucket}/{Key+}" if path else "/{Bucket}"
    names = {name for _, _, query in OPERATIONS.values() for name in query} - {"list-type", "select-type", "partNumber", "id"}
    there = {name for m, p, query in OPERATIONS.values() for name in query if (m, p) == (method, level)}
    if path:
        s3.put_object(Bucket=bucket, Key="f", Body=b"bytes", Tagging="a=b")
    before = world(s3, bucket)
    for name, value in [*itertools.product(sorted(names - there), ["", "1"]), ("append", ""), ("no-such-thing", "")]:
        answer = gate.ask(method, f"/{bucket}{path}", {name: value}, {"x-amz-copy-source": f"{bucket}/f"} if value and method == "PUT" and path else {})
        assert answer.status in (405, 501), (name, value, answer.status)
        if method != "HEAD" and answer.status == 501:
            assert answer.code == "NotImplemented" and (f"?{name} " in answer.message or "PostObject" in answer.message), (name, answer.body)
    answer = gate.ask(method, f"/{bucket}{path}", {"bare": ""}, target=f"/{bucket}{path}?bare")
    assert answer.status in (405, 501)
    assert world(s3, bucket) == before


def test_arguments_without_a_value_are_no_subresources(gate, s3, bucket):
    s3.put_object(Bucket=bucket, Key="f", Body=b"bytes")
    empty = ["delimiter", "prefix", "marker", "encoding-type", "max-keys"]
    assert b"<Key>f</Key>" in gate.ask("GET", f"/{bucket}", dict.fromkeys(empty, "")).body
    more = {"list-type": "2", **dict.fromkeys(["delimiter", "prefix", "start-after", "fetch-owner", "x-id"], "")}
    assert b"<Key>f</Key>" in gate.ask("GET", f"/{bucket}", more).body
    assert gate.ask("GET", "/", dict.fromkeys(["prefix", "bucket-region", "max-buckets"], "")).status == 200
    assert gate.ask("GET", f"/{bucket}/f", dict.fromkeys(["versionId", "response-expires", "x-id"], "")).body == b"bytes"
    assert gate.ask("PUT", f"/{bucket}/g", {"x-id": "PutObject", "mine": "1"}, body=b"new").status == 200


def test_a_browsers_form_is_refused_by_its_name(gate, s3, bucket):
    """Its signature is in the form, so its head has none."""
    post = s3.generate_presigned_post(bucket, "from-a-form")
    boundary = uuid.uuid4().hex
    fields = {**post["fields"], "file": "bytes"}
    body = "".join(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()) + f"--{boundary}--\r\n"
    answer = gate.send("POST", urllib.parse.urlsplit(post["url"]).path, headers={"Content-Type": f"multipart/form-data; boundary={boundary}"}, body=body.encode())
    assert (answer.status, answer.code) == (501, "NotImplemented") and "PostObject" in answer.message
    assert world(s3, bucket)[0] == {}
    assert gate.send("POST", f"/{bucket}", headers={"Content-Type": "text/plain"}, body=b"x").code == "AccessDenied"


# ---- CreateBucket

def test_a_bucket_that_a_stage_writes_is_there_already(shared, gate, s3):
    shared.post("/repos", {"name": "created-in"})
    shared.default.stages(sh("created-out", "true", "created-in"), pipeline="created")
    for _ in range(2):
        assert gate.ask("PUT", "/created-out").status == 200
    assert gate.ask("PUT", "/other.created-out").status != 200
    assert gate.ask("PUT", "/created-out/f", body=b"x").status != 200  # and stays the stage's
    assert "other.created-out" not in [b["Name"] for b in s3.list_buckets()["Buckets"]]


@pytest.mark.parametrize("body,code", [
    ("not XML", "MalformedXML"), ("<Other/>", "MalformedXML"), ("<CreateBucketConfiguration>", "MalformedXML"),
    ("<CreateBucketConfiguration><Tags><Tag><Key>k</Key><Value>v</Value></Tag></Tags></CreateBucketConfiguration>", "NotImplemented"),
    ("<CreateBucketConfiguration><Bucket><Type>Directory</Type></Bucket></CreateBucketConfiguration>", "NotImplemented"),
    ("<CreateBucketConfiguration/>", ""), ("", ""),
    ('<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><LocationConstraint>eu-west-1</LocationConstraint></CreateBucketConfiguration>', "")])
def test_the_configuration_of_a_new_bucket_is_read(gate, body, code):
    name = f"created{secrets.token_hex(4)}"
    assert gate.ask("PUT", f"/{name}", body=body.encode()).code == code
    assert gate.ask("HEAD", f"/{name}").status == (404 if code else 200)


@pytest.mark.parametrize("ownership,code", [("BucketOwnerEnforced", ""), ("ObjectWriter", "NotImplemented"), ("BucketOwnerPreferred", "NotImplemented")])
def test_a_bucket_belongs_to_its_owner(gate, ownership, code):
    assert gate.ask("PUT", f"/created{secrets.token_hex(4)}", headers={"x-amz-object-ownership": ownership}).code == code
