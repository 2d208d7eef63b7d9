"""create pipeline --example: each example is a folder to start from, and runs with the commands that its README and the program print."""

import os
import re
import subprocess

import pytest
from conftest import BIN, SANDBOX, SANITIZER, TOP
from package_index import Index, wheel
from test_image import Podman

EXISTS, USAGE = 4, 2
EXAMPLES = sorted(os.listdir(os.path.join(TOP, "pipelines", "examples")))
RESULT = {"setup": "| ana ", "plain": '{"cat": 1, "mat": 1, "on": 1, "sat": 1, "the": 2}', "params": '{"degree": 2, "error": ',
          "image": "6 words, counted by an image"}


class Shell:
    def __init__(self, daemon, folder):
        self.folder = folder
        self.env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder), "PIPELINED_URL": daemon.url, "PIPELINED_TOKEN": daemon.token}

    def __call__(self, text, code=0):
        done = subprocess.run(["sh", "-eu"], input=text, capture_output=True, text=True, cwd=self.folder, env=self.env, check=False, timeout=120)
        assert not SANITIZER.search(done.stderr), done.stderr
        assert done.returncode == code, f"{text}\n{done.stdout}\n{done.stderr}"
        return done


@pytest.fixture
def desk(tmp_path):
    folder = tmp_path / "desk"
    folder.mkdir()
    return folder


@pytest.fixture
def index(monkeypatch):
    """Where packages come from, as the daemon's environment says; with one that does what the example wants of it."""
    table = '__version__ = "0.9"\ndef tabulate(rows, headers, tablefmt):\n    return "\\n".join("| " + " | ".join(row.values()) + " |" for row in rows)\n'
    one = Index(wheel("tabulate", "0.9", {"tabulate.py": table}))
    monkeypatch.setenv("PIP_INDEX_URL", one.url)
    yield one
    one.close()


def blocks(path):
    return re.findall(r"^```sh\n(.*?)^```$", path.read_text(), re.M | re.S)


@pytest.fixture
def podman(tmp_path, monkeypatch):
    """A script in the place of podman, with the image that the example wants."""
    folder = tmp_path / "podman"
    folder.mkdir()
    monkeypatch.setenv("PODMAN_FOLDER", str(folder))
    one = Podman(folder, "wc")
    (one.root / "etc/os-release").write_text('PRETTY_NAME="an image"\n')
    one.add("debian:12")
    return one


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("folder", [None, "my-own"])
def test_an_example_runs_on_a_fresh_daemon_as_it_is_printed(make_daemon, desk, index, podman, name, folder):
    if name in ("image", "setup") and SANDBOX != "bwrap":
        pytest.skip("it needs namespaces")
    shell = Shell(make_daemon("--podman", str(podman.program)).start(), desk)
    said = shell(f"pipelinectl create pipeline --example {name} {folder or ''}").stdout.splitlines()
    at = desk / (folder or name)
    assert said[0] == f"example {name} is in {folder or name}: read {folder or name}/README.md"
    commands = [re.fullmatch(r"next: (pipelinectl .*)", line).group(1) for line in said[1:]]
    first, second = blocks(at / "README.md")
    assert first.splitlines() == commands and len(commands) == 3
    for command in commands:
        shell(command)
    assert RESULT[name] in shell(second).stdout
    assert sorted(os.listdir(at)) == sorted(os.listdir(os.path.join(TOP, "pipelines", "examples", name)))


def test_nothing_is_written_over(daemon, desk):
    shell = Shell(daemon, desk)
    (desk / "plain").mkdir()
    (desk / "plain" / "README.md").write_text("mine")
    (desk / "file").write_text("mine")
    assert "plain exists already and is left as it is: name a new folder" in shell("pipelinectl create pipeline --example plain", EXISTS).stderr
    assert "file exists already" in shell("pipelinectl create pipeline --example plain file", EXISTS).stderr
    assert (desk / "plain" / "README.md").read_text() == "mine" and os.listdir(desk / "plain") == ["README.md"]
    assert sorted(os.listdir(desk)) == ["file", "plain"]


@pytest.mark.parametrize(("line", "said"), [
    ("--example plan", 'there is no example "plan", did you mean plain: use plain (two stages), setup (packages for a stage), image (commands in a container image) or params'),
    ("--example sweep", 'there is no example "sweep": use plain'),
    ("--example plain 'a b'", 'folder "a b": the commands to type name it'),
    ("--example plain -f s.json", "give one of the two"),
    ("--example plain --dry-run", "only copies files: leave them out"),
    ("plain", "a folder is given with --example alone"),
    ("", "create pipeline needs a spec: give -f SPEC, or --example NAME"),
])
def test_what_is_wrong_is_said(daemon, desk, line, said):
    assert said in Shell(daemon, desk)(f"pipelinectl create pipeline {line}", USAGE).stderr
    assert os.listdir(desk) == []
