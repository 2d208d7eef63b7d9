"""A store of another format, or with records that only a newer program knows: everybody says so, and nobody touches it."""
import hashlib
import json
import os
import struct

from test_fsck import whole


def refused_everywhere(d, words, hint=""):
    """The daemon and every verb that opens a store by its address."""
    store = os.path.join(d.dir, "store")
    before, url = whole(store), f"file://{store}"
    for command in (("recover", "--store", url, "--data", f"{d.root}/anew"), ("mirror", url, f"file://{d.root}/copy")):
        said = d.ctl(*command, ok=False)
        assert said.code == 1 and words in said.err and hint in said.err, (command, said.out, said.err)
        assert not os.path.exists(f"{d.root}/anew/pipelined.db")
    d.start(expect_failure=True)
    assert d.process.returncode == 1 and words in d.log() and hint in d.log(), d.log()
    d.process = None
    assert whole(store) == before


def test_a_store_of_another_format(make_daemon):
    d = make_daemon().start()
    d.default.repo("in").push("in", "f", "1")
    d.stop()
    marker = os.path.join(d.dir, "store", "format")
    with open(marker, encoding="utf-8") as f:
        text = f.read()
    assert json.loads(text)["format"] == "1" and text.startswith('{"format":"1","store":"')
    for format_id, hint in (("2", "Use a newer program"), ("1-dev", "draft")):
        with open(marker, "w", encoding="utf-8") as f:
            f.write(text.replace('"format":"1"', f'"format":"{format_id}"'))
        words = f"the store has format {format_id} with sha256 and gear64-1; this program supports 1"
        refused_everywhere(d, words, hint)
        said = d.ctl("fsck", "--store", f"file://{d.dir}/store", ok=False)
        assert said.code == 1 and words in said.err and hint in said.err, said.err
    with open(marker, "w", encoding="utf-8") as f:
        f.write(text)
    d.start()
    assert d.read("in", "f") == b"1"


def test_a_record_of_a_newer_program(make_daemon):
    d = make_daemon().start()
    d.default.repo("in").push("in", "f", "1")
    d.stop()
    log = os.path.join(d.dir, "store", "log")
    last = max(os.listdir(log))
    with open(os.path.join(log, last), "rb") as f:
        previous = f.read()
    seq = int(last, 16) + 1
    with open(os.path.join(log, f"{seq:016x}"), "wb") as f:
        f.write(b"PLLG" + struct.pack("<HH", 1, 0) + previous[8:24] + previous[24:32] + struct.pack("<Q", seq) + hashlib.sha256(previous).digest()
                + struct.pack("<I", 1) + struct.pack("<HHI", 999, 0, 2) + b"{}")
    refused_everywhere(d, f"log/{seq:016x}")
    said = d.ctl("fsck", "--store", f"file://{d.dir}/store", "--json", ok=False)
    assert said.code == 1 and f"log/{seq:016x}" in said.out + said.err, said.out + said.err
