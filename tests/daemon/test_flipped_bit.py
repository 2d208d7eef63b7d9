"""One bit of a pack has flipped on the disk: whoever reads it says so, and nobody gets wrong bytes. One test for each path on which packs
are read."""

import http.client
import json
import os

import pytest

from conftest import HttpError, sh
from test_restart import flip_bit, packs


@pytest.fixture
def hurt(make_daemon):
    """A daemon whose store has one bit flipped: called with "data", in the bytes of in@master:/hurt/data.bin; with "tree", in the tree of
    that commit; with "footer", in the footer of the tree's pack. in@master^ and other are whole. Nothing is in any cache."""
    d = make_daemon(sandbox="none").start()

    def flip(what):
        p = d.default.repo("in", "other")
        p.push("other", "whole", b"not hurt")
        p.push("in", "good", os.urandom(100_000))
        before = set(packs(d))
        if what == "data":
            p.push("in", "hurt/data.bin", os.urandom(300_000))
        else:  # many small ones lie in the tree itself
            p.commit("in", {f"hurt/{i:05}": "x" for i in range(300)})
        d.stop()
        victim = max(set(packs(d)) - before, key=os.path.getsize)
        size = os.path.getsize(victim)
        flip_bit(victim, {"data": size // 3, "tree": 120, "footer": size - 100}[what])
        d.victim = os.path.basename(victim)
        d.start()
        return d

    return flip


def damaged(error):
    text = error.body.decode() if isinstance(error, HttpError) else str(error)
    return "does not match" in text or "damaged" in text or "corrupt" in text


def refused(call):
    """An error that says what it is, or a body that is cut off: never a whole answer."""
    with pytest.raises((HttpError, http.client.IncompleteRead)) as e:
        call()
    assert isinstance(e.value, http.client.IncompleteRead) or (e.value.error["code"] == "corrupt" and damaged(e.value)), e.value


def test_get_over_http(hurt):
    d = hurt("data")
    refused(lambda: d.default.read("in", "hurt/data.bin"))
    assert "a download was cut off at byte" in d.log() and d.victim[:12] in d.log(), "who asked hears nothing of why"
    assert len(d.default.read("in", "good")) == 100_000


def test_get_by_pipelinectl(hurt, tmp_path):
    d = hurt("data")
    said = d.ctl("get", "file", "in@master:/", "-r", "-o", tmp_path / "out", ok=False)
    assert said.code != 0 and damaged(said.err), said.err
    assert not (tmp_path / "out" / "hurt" / "data.bin").exists()
    d.ctl("get", "file", "in@master:/good", "-o", tmp_path / "good")


@pytest.mark.parametrize("where", ["tree", "footer"])
def test_a_list_and_a_tree_that_is_read(hurt, where):
    d = hurt(where)
    refused(lambda: d.get("/repos/default/in/refs/master/list", recursive=1, limit=1000))
    assert d.get("/repos/default/in/refs/master^/list", recursive=1)["files"]


def test_diff(hurt):
    d = hurt("tree")
    said = d.ctl("diff", "file", "in@master", "in@master^", ok=False)
    assert said.code != 0 and damaged(said.err), said.out + said.err


def test_a_push_onto_it(hurt):
    d = hurt("tree")
    refused(lambda: d.default.push("in", "hurt/00001", b"y"))
    d.default.push("other", "more", b"others go on")


def test_checkout_by_a_worker(hurt):
    d = hurt("data")
    p = d.default
    p.stages(sh("s", 'ls -R "$PL_INPUT_IN" >"$PL_OUT/seen"'), sh("t", 'cat "$PL_INPUT_OTHER/whole" >"$PL_OUT/f"', "other"))
    run = d.get("/runs")["runs"][0]["id"]
    ended = p.wait(run)
    assert ended["job"]["s"]["state"] == "failure", ended
    assert damaged(json.dumps(ended["job"]["s"])), ended["job"]["s"]
    assert p.read("t", "f") == b"not hurt"


def test_fsck_online_and_offline(hurt):
    d = hurt("data")
    found = d.post("/fsck?full=1")["findings"]
    assert [f["path"] for f in found if f["path"]] == ["hurt/data.bin"]
    assert {f["pack"] for f in found if f["pack"]} == {d.victim}
    said = d.ctl("fsck", "--full", "--store", f"file://{d.dir}/store", ok=False)
    assert said.code == 1 and "hurt/data.bin" in said.out


def test_mirror(hurt):
    d = hurt("data")
    said = d.ctl("mirror", f"file://{d.dir}/store", f"file://{d.root}/copy", "--json", ok=False)
    report = json.loads(said.out)
    assert said.code == 1 and [f["object"].split("/")[-1] for f in report["findings"]] == [d.victim], said.out
    assert not [path for path in packs_of(f"{d.root}/copy") if os.path.basename(path) == d.victim]


def packs_of(store):
    for folder, _, names in os.walk(os.path.join(store, "p")):
        for name in names:
            yield os.path.join(folder, name)


def test_an_upload_that_lies(hurt):
    """What arrives is verified before it is taken in."""
    d = hurt("data")
    with open(next(path for path in packs(d) if os.path.basename(path) == d.victim), "rb") as f:
        content = f.read()
    session = d.post("/sessions", {"project": "default"})["session"]
    with pytest.raises(HttpError) as e:
        d.http("PUT", f"/api/v1/projects/default/packs/{d.victim}?session={session}", content)
    assert damaged(e.value), e.value
