"""docs/inner-loop.md: a new user who types it gets what it says."""

import os
import re
import subprocess

import pytest
from conftest import BIN, SANDBOX, SANITIZER, TOP

DOC = os.path.join(TOP, "docs", "inner-loop.md")


def blocks():
    with open(DOC, encoding="utf-8") as f:
        return re.findall(r"^```sh\n(.*?)^```$", f.read(), re.M | re.S)


@pytest.mark.skipif(SANDBOX != "bwrap", reason="the document says what to add without namespaces")
def test_from_an_empty_folder_to_a_pipeline(daemon, tmp_path):
    desk = tmp_path / "desk"
    desk.mkdir()
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(desk), "PIPELINED_URL": daemon.url, "PIPELINED_TOKEN": daemon.token}
    said = []
    for block in blocks():
        done = subprocess.run(["sh", "-eu"], input=block, capture_output=True, text=True, cwd=desk, env=env, check=False, timeout=120)
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        assert not SANITIZER.search(done.stderr), done.stderr
        said.append((done.stdout, done.stderr))
    assert [out for out, _ in said if "one.txt\tone/" in out]
    assert sum('"the": 4' in out for out, _ in said) == 2, "tried, and then run: the same"
    assert [out for out, _ in said if '"prefix":"two/"' in out]
    why = next(out for out, _ in said if "total" in out and "books" in out and "code" in out)
    assert "three.txt" in why
    failed = next(err for out, err in said if "as expected" in out)
    line = re.search(r"try it here: pipelinectl (try count --at [0-9a-f]{8} --datum [0-9a-f]{12})$", failed, re.M)
    assert "UnicodeDecodeError" in failed and line
    assert "exit code 1" in daemon.ctl(*line.group(1).split(), ok=False).err
    assert "a" in daemon.read("total", "total.json").decode()


def test_the_document_shows_verbs_that_are_there():
    with open(DOC, encoding="utf-8") as f:
        text = f.read()
    help_text = subprocess.run([os.path.join(BIN, "pipelinectl"), "help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"^  ([a-z]\S*)", help_text, re.M))
    assert set(re.findall(r"pipelinectl ([a-z]+)", text)) <= known
