"""What the data pages ask: repos with who makes and uses them, find, totals of a diff, two runs over all repos, archives, what is gone."""
import io
import json
import tarfile
import urllib.parse
import zipfile

import pytest

from conftest import Exec, HttpError, Link

LARGE = bytes(range(256)) * 4096 + b"end"  # several chunks
LONG = "long/" + "n" * 120 + "/" + "m" * 200
NAMES = {"a.txt": b"one", "b/c.txt": b"two", "b/run.sh": Exec(b"#!"), "b/empty": b"", "b/large.bin": LARGE, "b/link": Link("c.txt"), "b/out": Link("../../../etc/passwd"),
         "b/absolute": Link("/etc/passwd"), "b/..\\..\\up.txt": b"up", "b/<img src=x onerror=hit()>.txt": b"tag", "b/\u00fcml\u00e4ut \u2603.txt": b"utf", LONG: b"long"}


@pytest.fixture
def filled(daemon):
    daemon.default.repo("in")
    daemon.default.commit("in", {name: content for name, content in NAMES.items() if content is not LARGE})
    daemon.default.push("in", "b/large.bin", LARGE)
    daemon.default.commit("in", {"unrelated": b"1"})
    return daemon


def test_find_says_how_far_it_looked(filled):
    page = filled.get("/repos/default/in/refs/master/list", find="C.TXT")
    assert [one["path"] for one in page["files"]] == ["b/c.txt"] and page["looked"] == len(NAMES) + 1 and "next" not in page
    assert "looked" not in filled.get("/repos/default/in/refs/master/list")
