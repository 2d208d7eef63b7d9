"""A store mirrored while it is used, moved, and taken up again by a daemon."""

import os
import sqlite3

from conftest import everything, runs_end
from test_restart import busy


def test_a_mirror_of_a_store_in_use_is_a_store(make_daemon):
    d = make_daemon("--checkpoint-every", "5").start()
    busy(d)
    runs_end(d)
    source, copy = f"file://{d.dir}/store", f"file://{d.root}/copy"
    first = d.ctl("mirror", source, copy, "--json").json
    assert first["ok"] and first["packs"] > 5 and first["log_objects"] == first["log_seq"], first
    d.default.push("other", "more", os.urandom(50_000))
    runs_end(d)
    second = d.ctl("mirror", source, copy, "--json").json
    assert 1 <= second["packs"] <= 3 and second["there"] == first["packs"] and second["log_seq"] > first["log_seq"], second
    assert f"has the log up to {second['log_seq']}" in d.ctl("mirror", source, copy).out
    assert d.ctl("fsck", "--full", "--store", copy, "--json").json["ok"]
    before, contents = everything(d), d.default.contents("other")
    assert d.stop() == 0
    twin = make_daemon("--store", copy, name="twin").start()
    assert everything(twin) == before
    assert twin.default.contents("other") == contents
    twin.default.push("other", "on the twin", b"it goes on there")
    refused = d.ctl("mirror", source, copy, ok=False)
    assert refused.code == 1 and "differs from the source's" in refused.err, refused.err


def test_a_store_is_moved_under_the_same_folder(make_daemon):
    d = make_daemon().start()
    busy(d)
    d.default.push("other", "last", b"before the move")
    token, before = d.token, everything(d)
    assert d.stop() == 0
    d.ctl("mirror", f"file://{d.dir}/store", f"file://{d.root}/moved")
    os.rename(os.path.join(d.dir, "store"), os.path.join(d.root, "old"))
    d.options += ["--store", f"file://{d.root}/moved"]
    d.start()
    assert d.token == token and everything(d) == before
    assert d.default.read("other", "last") == b"before the move"
    d.default.push("other", "after", b"the move")
    assert d.post("/fsck?full=1")["ok"]
    with sqlite3.connect(f"file:{d.dir}/pipelined.db?mode=ro", uri=True) as db:
        assert not db.execute("SELECT * FROM meta WHERE key = 'recovered'").fetchall(), "nothing had to be recovered"


def test_what_cannot_be_mirrored_is_refused_and_left_alone(make_daemon):
    one, two = make_daemon().start(), make_daemon(name="two").start()
    one.default.repo("in")
    two.default.repo("in")
    refused = one.ctl("mirror", f"file://{one.dir}/store", f"file://{two.dir}/store", ok=False)
    assert refused.code == 4 and "not a mirror of this source" in refused.err, refused.err
    os.makedirs(os.path.join(one.root, "photos"))
    one.write("photos/cat", "meow")
    refused = one.ctl("mirror", f"file://{one.dir}/store", f"file://{one.root}/photos", ok=False)
    assert refused.code != 0 and "choose an empty place" in refused.err, refused.err
    assert one.ctl("mirror", f"file://{one.root}/nothing", f"file://{one.root}/copy", ok=False).code == 3
    assert "are both" in one.ctl("mirror", f"{one.dir}/store", f"file://{one.dir}/store", ok=False).err
