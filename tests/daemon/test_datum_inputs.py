"""The files that a datum read, as one archive."""

import io
import tarfile
import zipfile

import pytest
from conftest import HttpError, sh
from people import User

FAILS = sh("s", "exit 3", glob="/*/")


def archive(project, stage, run, datum, token=True, **query):
    more = "?" + "&".join(f"{k}={v}" for k, v in query.items()) if query else ""
    return project.d.http("GET", f"/api/v1/jobs/{project.name}/{stage}/{run}/datums/{datum}/inputs{more}", raw=True, token=token)


def unzip(data):
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        assert z.testzip() is None
        return {i.filename: z.read(i) for i in z.infolist()}


def datum_of(project, stage, run, word):
    return next(a["id"] for a in project.datums(stage, run) if word in a["paths"])


def test_each_input_is_a_folder_with_the_files_of_its_match(project):
    stage = {"name": "s", "run": ["sh", "-c", "exit 3"], "input": {"cross": [
        {"repo": "photos", "glob": "/*/", "files": ["*.jpg"]}, {"repo": "model", "glob": "/weights/*", "name": "net"}, {"params": {"k": [1]}}]}}
    project.repo("photos", "model").stages(stage)
    project.commit("model", {"weights/w2": "no", "other": "no"})
    project.push("model", "weights/w1", "W" * 3_000_000)  # of several chunks
    run = project.run("photos", {"a/1.jpg": "one", "a/x/2.jpg": "two", "a/notes.txt": "not chosen", "ab/3.jpg": "three"}, state="failure")["id"]
    datum = datum_of(project, "s", run, "photos=/a, net=/weights/w1")
    files = unzip(archive(project, "s", run, datum))
    assert files == {"photos/a/1.jpg": b"one", "photos/a/x/2.jpg": b"two", "net/weights/w1": b"W" * 3_000_000}
    with tarfile.open(fileobj=io.BytesIO(archive(project, "s", run[:8], datum[:12], format="tar"))) as tar:
        assert {m.name for m in tar.getmembers() if m.isfile()} == set(files)


def test_a_datum_that_succeeded_and_one_that_reads_all_have_inputs_too(project):
    project.repo("in").stages(sh("s", 'cp -r "$PL_INPUT_IN"/* "$PL_OUT/"'))
    run = project.run("in", {"a": "1", "a, in=/b": "2"})["id"]
    assert unzip(archive(project, "s", run, datum_of(project, "s", run, "in=/"))) == {"in/a": b"1", "in/a, in=/b": b"2"}
    new = project.run("in", {"a": "changed"})["id"]
    assert unzip(archive(project, "s", run, datum_of(project, "s", run, "in=/")))["in/a"] == b"1", "what it read then"
    assert unzip(archive(project, "s", new, datum_of(project, "s", new, "in=/")))["in/a"] == b"changed"


def test_a_reused_datum_has_the_inputs_of_its_job(project):
    project.repo("in").stages(sh("s", "true", glob="/*"))
    run = project.run("in", {"a": "1", "b": "2"})["id"]
    later = project.run("in", {"b": "changed"})["id"]
    assert unzip(archive(project, "s", later, datum_of(project, "s", run, "in=/a"))) == {"in/a": b"1"}


def test_what_is_not_there_is_said(project):
    project.repo("in").stages(FAILS)
    run = project.run("in", {"a/f": "1"}, state="failure")["id"]
    datum = datum_of(project, "s", run, "in=/a")
    for name, status, words in (("0" * 64, 404, "has no kept attempt of a datum"), (f"{datum}/../x", 404, "")):
        with pytest.raises(HttpError) as e:
            archive(project, "s", run, name)
        assert e.value.status == status and words in e.value.error["message"]
    with pytest.raises(HttpError) as e:
        archive(project, "s", run, datum, format="rar")
    assert e.value.status == 400 and 'format "rar" is not known: use tar or zip' in e.value.error["message"]


def test_who_may_not_read_an_input_does_not_get_it(project):
    project.repo("secret").stages(sh("s", "exit 3", "secret", glob="/*"))
    run = project.run("secret", {"f": "1"}, state="failure")["id"]
    datum = datum_of(project, "s", run, "secret=/f")
    eve = User(project.d, "eve", (f"{project.name}/s", "reader"))
    assert eve.status("GET", f"/jobs/{project.name}/s/{run}/datums/{datum}") == 200
    assert eve.status("GET", f"/jobs/{project.name}/s/{run}/datums/{datum}/inputs") == 403
    ana = User(project.d, "ana", (project.name, "reader"))
    assert unzip(archive(project, "s", run, datum, token=ana.token)) == {"secret/f": b"1"}
