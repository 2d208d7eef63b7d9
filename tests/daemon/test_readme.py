"""What the README has people type after the demo works as it stands, in the terminal in which the demo ran."""
import contextlib
import os
import re
import select
import signal
import subprocess

import pytest
from conftest import BIN, SANDBOX, SANITIZER, TOP


@pytest.fixture
def terminal(tmp_path):
    """run(text) -> what a shell in the checkout printed. The daemon that the demo leaves running is ended with the test."""
    home, folder = tmp_path / "home", tmp_path / "demo"
    home.mkdir()
    env = {**os.environ, "HOME": str(home), "PATH": f"{home}/.local/bin:/usr/bin:/bin", "PIPELINED_DEMO_DIR": str(folder), "PIPELINED_DEMO_BIN": BIN}

    def run(text):
        done = subprocess.run(["sh", "-eu"], input=text, capture_output=True, text=True, cwd=TOP, env=env, check=False, timeout=240)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        assert not SANITIZER.search(done.stderr), done.stderr
        return done.stdout
    yield run
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int((folder / "demo.pid").read_text()), signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.skipif(SANDBOX != "bwrap", reason="without namespaces try wants --sandbox none")
def test_the_commands_work_after_the_demo(terminal, tmp_path):
    with open(os.path.join(TOP, "README.md"), encoding="utf-8") as f:
        look, change = re.findall(r"^```sh\n(.*?)^```$", f.read(), re.M | re.S)
    look, change = (text.replace("build/", f"{tmp_path}/") for text in (look, change))
    said = terminal("sh pipelines/demo.sh")
    assert "All checks held" in said and "You are logged in to it" in said and "\n  pipelinectl status\n" in said
    said = terminal(look)
    assert "accuracy" in said and "model.npz" in said and (tmp_path / "prepared").is_dir() and re.search(r"^http://127\.0\.0\.1:\d+/", said, re.M)
    terminal(change)
    assert (tmp_path / "report").is_dir()
    ending = os.pidfd_open(int((tmp_path / "demo" / "demo.pid").read_text()))
    terminal(f"kill $(cat {tmp_path}/demo/demo.pid)")
    assert select.select([ending], [], [], 60)[0], "the daemon ends"
    os.close(ending)
    assert "All checks held" in terminal("sh pipelines/demo.sh"), "again, beside a batch that was pushed since"
    assert "accuracy" in terminal("pipelinectl get file report@master:/report.json -o -")
    terminal("pipelinectl logout demo")


def test_it_is_short():
    with open(os.path.join(TOP, "README.md"), encoding="utf-8") as f:
        assert len(f.readlines()) <= 150
