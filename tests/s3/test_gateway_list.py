"""Lists by the gateway against a list made here, whatever the prefix, delimiter, page and place, with much of it gathering still."""
import random
import urllib.parse

import pytest

from conftest import finished
from gateway import Gateway

DAEMON_OPTIONS = ["--s3-listen", "127.0.0.1:0"]


@pytest.fixture(scope="module")
def s3(shared):
    return Gateway(shared).client()


def expected(keys, prefix="", delimiter="", after="", limit=1000):
    """(keys, common prefixes, truncated) of one page, as S3 defines it."""
    lines = []
    for key in sorted(keys, key=lambda k: k.encode()):
        if not key.startswith(prefix):
            continue
        at = key.find(delimiter, len(prefix)) if delimiter else -1
        line = key[:at + len(delimiter)] if at >= 0 else key
        if line.encode() > after.encode() and key.encode() > after.encode() and (line, at >= 0) not in lines:
            lines.append((line, at >= 0))
    page = lines[:limit]
    return [line for line, shared in page if not shared], [line for line, shared in page if shared], len(lines) > limit


def got(answer):
    return ([item["Key"] for item in answer.get("Contents", [])], [item["Prefix"] for item in answer.get("CommonPrefixes", [])], answer["IsTruncated"])


def pages(call, **question):
    """All pages of a version 2 list, put together."""
    keys, shared, token = [], [], {}
    while True:
        answer = call(**question, **token)
        assert answer["KeyCount"] == len(answer.get("Contents", [])) + len(answer.get("CommonPrefixes", []))
        keys += [item["Key"] for item in answer.get("Contents", [])]
        shared += [item["Prefix"] for item in answer.get("CommonPrefixes", [])]
        if not answer["IsTruncated"]:
            return keys, shared
        token = {"ContinuationToken": answer["NextContinuationToken"]}


def pages_v1(call, **question):
    keys, shared, place = [], [], {}
    while True:
        answer = call(**question, **place)
        found = [item["Key"] for item in answer.get("Contents", [])]
        keys += found
        shared += [item["Prefix"] for item in answer.get("CommonPrefixes", [])]
        if not answer["IsTruncated"]:
            return keys, shared
        place = {"Marker": answer.get("NextMarker") or found[-1]}


SEGMENTS = ["a", "a-b", "a.b", "a b", "b", "c", "ü", "日本", "-", "~", "z0", "0"]


def random_world(rng):
    """Names of files and of empty folders that can be in one dataset."""
    files, folders = set(), set()
    for _ in range(rng.randrange(1, 80)):
        path = "/".join(rng.choice(SEGMENTS) for _ in range(rng.randrange(1, 4)))
        above = ["/".join(path.split("/")[:i]) for i in range(1, path.count("/") + 1)]
        if any(p in files for p in above) or any(f.startswith(path + "/") for f in files | folders):
            continue
        folders -= set(above)
        if rng.random() < 0.2 and path not in files:
            folders.add(path)
        elif path not in folders:
            files.add(path)
    return files, folders


@pytest.mark.parametrize("seed", range(12))
def test_lists_are_those_of_the_definition(shared, s3, seed):
    rng = random.Random(seed)
    repo = f"list{seed}"
    s3.create_bucket(Bucket=repo)
    files, folders = random_world(rng)
    early = {f for f in files if rng.random() < 0.6}
    gone = {"gone/" + f for f in early if rng.random() < 0.3} if not any(f == "gone" for f in files) else set()
    # some of it in the head, some gathering on it, some of the head deleted by what gathers
    if early:
        shared.default.commit(repo, {f: "x" for f in early | gone})
    for f in sorted(files - early):
        s3.put_object(Bucket=repo, Key=f, Body=b"y")
    for f in sorted(folders):
        s3.put_object(Bucket=repo, Key=f + "/", Body=b"")
    for f in sorted(gone):
        s3.delete_object(Bucket=repo, Key=f)
    keys = files | {f + "/" for f in folders}
    for _ in range(40):
        prefix = rng.choice(["", "", "a", "a/", "a-", "b/", "a/a", "none", "ü", rng.choice(sorted(keys))[:rng.randrange(1, 6)]])
        delimiter = rng.choice(["", "/", "/", "-", "a", "/a"])
        after = rng.choice(["", "", "a", "a/", "a-b", "a.", "b/c", "zz", rng.choice(sorted(keys))])
        limit = rng.choice([1, 2, 3, 7, 1000])
        question = {"Bucket": repo, "Prefix": prefix, "Delimiter": delimiter, "MaxKeys": limit}
        want = expected(keys, prefix, delimiter, after, limit)
        place = f"prefix {prefix!r} delimiter {delimiter!r} after {after!r} limit {limit} of {sorted(keys)}"
        assert got(s3.list_objects_v2(**question, StartAfter=after)) == want, place
        assert got(s3.list_objects(**question, Marker=after)) == want, place
        whole = expected(keys, prefix, delimiter, "", 10 ** 6)[:2]
        assert pages(s3.list_objects_v2, **question) == whole, place
        assert pages_v1(s3.list_objects, **question) == whole, place


def test_lists_say_what_objects_are(shared, s3):
    s3.create_bucket(Bucket="said")
    put = s3.put_object(Bucket="said", Key="a b/ü+%&<>", Body=b"12345")
    shared.push("said", "pushed", "123")
    item, pushed = s3.list_objects_v2(Bucket="said", FetchOwner=True)["Contents"]
    assert (item["Key"], item["Size"], item["ETag"], item["StorageClass"]) == ("a b/ü+%&<>", 5, put["ETag"], "STANDARD")
    assert item["LastModified"] == s3.head_object(Bucket="said", Key="a b/ü+%&<>")["LastModified"].replace(microsecond=item["LastModified"].microsecond)
    assert item["Owner"]["ID"]
    assert pushed["ETag"] == s3.head_object(Bucket="said", Key="pushed")["ETag"]
    for version in ({"list-type": "2"}, {}):
        raw = Gateway(shared).ask("GET", "/said", {**version, "encoding-type": "url", "prefix": "a b", "delimiter": "&"}).body.decode()
        assert f"<Prefix>{urllib.parse.quote('a b/ü+%&', safe='/-._~')}</Prefix></CommonPrefixes>" in raw
        assert "<EncodingType>url</EncodingType>" in raw and "<Prefix>a%20b</Prefix>" in raw and "<Delimiter>%26</Delimiter>" in raw
        raw = Gateway(shared).ask("GET", "/said", {**version, "encoding-type": "url"}).body.decode()
        assert f"<Key>{urllib.parse.quote('a b/ü+%&<>', safe='/-._~')}</Key>" in raw
        assert raw.count("<Owner>") == (0 if version else 2)
        raw = Gateway(shared).ask("GET", "/said", version).body.decode()
        assert "<Key>a b/ü+%&amp;&lt;&gt;</Key>" in raw and "<EncodingType>" not in raw


def test_a_thousand_at_most_and_none_at_least(shared, s3):
    s3.create_bucket(Bucket="many")
    shared.default.commit("many", {f"d{i % 3}/f{i:05}": "" for i in range(2500)})
    answer = s3.list_objects_v2(Bucket="many", MaxKeys=5000)
    assert (len(answer["Contents"]), answer["MaxKeys"], answer["IsTruncated"]) == (1000, 1000, True)
    assert len(pages(s3.list_objects_v2, Bucket="many")[0]) == 2500
    assert got(s3.list_objects_v2(Bucket="many", Delimiter="/")) == ([], ["d0/", "d1/", "d2/"], False)
    answer = s3.list_objects_v2(Bucket="many", MaxKeys=0)
    assert (answer["KeyCount"], answer["IsTruncated"]) == (0, False)


def test_places_that_are_none_are_refused(shared, s3):
    gate = Gateway(shared)
    s3.create_bucket(Bucket="places")
    for query in ({"continuation-token": "x"}, {"continuation-token": ""}, {"max-keys": "-1"}, {"max-keys": "x"}, {"encoding-type": "base64"},
                  {"continuation-token": "MQA="}):
        assert gate.ask("GET", "/places", {"list-type": "2", **query}).code == "InvalidArgument", query
    assert got(s3.list_objects_v2(Bucket="places", Prefix="x" * 2000)) == ([], [], False)
    assert got(s3.list_objects_v2(Bucket="places", StartAfter="../..")) == ([], [], False)


def test_a_page_goes_on_after_the_commit(shared, s3):
    """A token is a place: it holds in whatever the branch has become."""
    s3.create_bucket(Bucket="pages")
    for i in range(5):
        version = s3.put_object(Bucket="pages", Key=f"k{i}", Body=b"")["VersionId"]
    first = s3.list_objects_v2(Bucket="pages", MaxKeys=2)
    s3.delete_object(Bucket="pages", Key="k2")
    finished(shared, "pages", version)
    rest = s3.list_objects_v2(Bucket="pages", ContinuationToken=first["NextContinuationToken"])
    assert [item["Key"] for item in rest["Contents"]] == ["k3", "k4"]


ODD_KEYS = ["a b", "a%20b", "a+b", "a&b", "a<b>", "quote\"'", "tab-less", "\u00fc", "\u65e5\u672c/\u8a9e+ x", "\U0001f600", "x=y?z#"]


def test_odd_keys_are_listed_as_they_are(shared, s3):
    """botocore asks for encoding-type=url and takes it back; without it, and as the other lists have it, they are the same."""
    gate, upload = Gateway(shared), {}
    s3.create_bucket(Bucket="odd")
    for key in ODD_KEYS:
        s3.put_object(Bucket="odd", Key=key, Body=b"x")
        upload[key] = s3.create_multipart_upload(Bucket="odd", Key=key)["UploadId"]
    want = sorted(ODD_KEYS, key=lambda key: key.encode())
    for call, field in ((s3.list_objects, "Contents"), (s3.list_objects_v2, "Contents"), (s3.list_object_versions, "Versions"), (s3.list_multipart_uploads, "Uploads")):
        assert [item["Key"] for item in call(Bucket="odd")[field]] == want, field
    for query in ({"list-type": "2"}, {}, {"versions": ""}, {"uploads": ""}):
        encoded = gate.ask("GET", "/odd", {**query, "encoding-type": "url", "prefix": "a+"}).body
        assert b"<EncodingType>url</EncodingType>" in encoded and b"<Prefix>a%2B</Prefix>" in encoded and b"<Key>a%2Bb</Key>" in encoded, query
        assert b"<Key>a+b</Key>" in gate.ask("GET", "/odd", {**query, "prefix": "a+"}).body, query
        assert gate.ask("GET", "/odd", {**query, "encoding-type": "base64"}).code == "InvalidArgument", query
    pages_of = s3.get_paginator("list_object_versions").paginate(Bucket="odd", PaginationConfig={"PageSize": 2})
    assert [v["Key"] for page in pages_of for v in page["Versions"]] == want
    pages_of = s3.get_paginator("list_multipart_uploads").paginate(Bucket="odd", PaginationConfig={"PageSize": 2})
    assert [u["Key"] for page in pages_of for u in page["Uploads"]] == want
