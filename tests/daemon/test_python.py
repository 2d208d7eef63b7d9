"""A stage's own Python on one machine: a virtual environment in and outside of the sandbox, programs that the sandbox does not show, and stages
that cannot run."""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import time

import pytest
from conftest import BIN, SANDBOX, SANITIZER, TOP, sh
from test_try import Desk

FAILED, INVALID = 1, 5
SHOWN = pytest.mark.skipif(SANDBOX != "bwrap", reason="without namespaces commands see the whole machine")

USE_IT = 'import os, sys, our_package\nprint(our_package.WORD, sys.prefix, os.environ.get("VIRTUAL_ENV"), sep="\\n")\n'


def make_venv(folder, *options):
    """A virtual environment with one package, made without a network."""
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", *options, folder], check=True, timeout=60)
    site = next((folder / "lib").glob("python3*/site-packages"))
    (site / "our_package.py").write_text('WORD = "from the environment"\n')
    return folder


@pytest.fixture(scope="module")
def venv(tmp_path_factory):
    return make_venv(tmp_path_factory.mktemp("ana") / "venv")


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def start(make_daemon, desk, *shown):
    """A daemon whose sandbox shows these folders; with the repo `in` and a file in it."""
    config = desk.top / "config.json"
    config.write_text(json.dumps({"sandbox_read_only": [str(folder) for folder in shown]}))
    daemon = make_daemon("--config", str(config)).start()
    daemon.ctl("create", "repo", "in")
    desk.files(data={"a": "1"})
    return daemon, config


def put(daemon, desk):
    daemon.ctl("put", "file", "in:/a", "-f", f"{desk.top}/data/a")


def stage(python, code=USE_IT, **more):
    return {"name": "s", "input": {"repo": "in"}, "run": ["python3", "-c", code], **({"python": str(python)} if python else {}), **more}


def stop(pid_file):
    """Ends the daemon that a page started, if it still runs, and waits for its end."""
    if not pid_file.exists():
        return
    pid = int(pid_file.read_text())
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(fd, signal.SIGTERM)
    except ProcessLookupError:
        pass
    select.select([fd], [], [], 60)
    os.close(fd)


def words(program, folder):
    return f'{program} exists on this machine, but the sandbox does not show it: add "{folder}" to sandbox_read_only, or use "setup"'


def test_a_stage_runs_in_its_environment(make_daemon, desk, venv):
    """In a job, in a try beside the daemon, and in a try without one, by the same configuration."""
    daemon, config = start(make_daemon, desk, venv)
    spec = desk.spec(stage(venv))
    daemon.ctl("create", "pipeline", "-f", spec)
    put(daemon, desk)
    run = daemon.ctl("wait", "run", "in@master")
    real = daemon.ctl("logs", "s").out
    assert real.splitlines() == ["from the environment", str(venv), str(venv)], run.err
    line = ["try", "--sandbox", SANDBOX, "-f", spec, "-i", f"in={desk.top}/data"]
    assert daemon.ctl(*line).out == real
    daemon.stop()
    assert desk.ctl(*line, "--config", config).stdout == real


def test_a_path_of_the_stage_comes_after_its_environment(make_daemon, desk, venv):
    daemon, _ = start(make_daemon, desk, venv)
    daemon.ctl("create", "pipeline", "-f", desk.spec({**stage(venv), "env": {"PATH": "/usr/bin:/bin"}}))
    put(daemon, desk)
    daemon.ctl("wait", "run", "in@master")
    assert daemon.ctl("logs", "s").out.splitlines() == ["from the environment", str(venv), str(venv)]


def test_the_interpreter_names_its_environment(make_daemon, desk, venv):
    daemon, _ = start(make_daemon, desk, venv)
    daemon.ctl("create", "pipeline", "-f", desk.spec(stage(venv / "bin" / "python")))
    put(daemon, desk)
    daemon.ctl("wait", "run", "in@master")
    assert daemon.ctl("logs", "s").out.splitlines()[1:] == [str(venv), str(venv)]


def test_another_environment_runs_the_stage_again(make_daemon, desk, venv, tmp_path):
    other = make_venv(tmp_path / "other")
    daemon, _ = start(make_daemon, desk, venv, other)
    put(daemon, desk)
    daemon.ctl("create", "pipeline", "-f", desk.spec(stage(venv)), "--wait")  # the file was there: this is what runs it
    said = daemon.ctl("update", "pipeline", "-f", desk.spec(stage(other)), "--yes")
    assert "python" in said.out and "1 of 1 datum" in said.out, said.out
    desk.files(data={"a": "2"})
    put(daemon, desk)
    daemon.ctl("wait", "run", "in@master")
    assert str(other) in daemon.ctl("logs", "s").out


@SHOWN
def test_an_environment_that_the_sandbox_hides_is_refused(make_daemon, desk, venv):
    daemon, _ = start(make_daemon, desk)
    spec = desk.spec(stage(venv))
    said = words(venv / "bin" / "python3", venv)
    for line in (["create", "pipeline", "-f", spec], ["try", "--sandbox", SANDBOX, "-f", spec, "-i", f"in={desk.top}/data"]):
        done = daemon.ctl(*line, ok=False)
        assert done.code == INVALID or line[0] == "try", done.err
        assert said in done.err
    daemon.stop()
    assert said in desk.ctl("try", "--sandbox", SANDBOX, "-f", spec, "-i", f"in={desk.top}/data", ok=False).stderr


@SHOWN
def test_a_program_that_the_sandbox_hides_is_refused(make_daemon, desk, venv):
    daemon, _ = start(make_daemon, desk)
    program = venv / "bin" / "python"
    done = daemon.ctl("create", "pipeline", "-f", desk.spec({**stage(None), "run": [str(program), "x.py"]}), ok=False)
    assert done.code == INVALID and f"stage s: {words(program, venv)}" in done.err
    script = f"#!{program}\nprint(1)\n"
    done = daemon.ctl("create", "pipeline", "-f", desk.spec({"name": "s", "input": {"repo": "in"}, "script": script}), ok=False)
    assert done.code == INVALID and words(program, venv) in done.err
    assert daemon.ctl("list", "pipeline", "--json", "--no-header", ok=False).out.find('"p"') < 0


@SHOWN
def test_the_python_that_an_environment_is_made_of_must_be_shown(make_daemon, desk, tmp_path):
    base = tmp_path / "python"
    (base / "bin").mkdir(parents=True)
    (base / "lib").mkdir()
    shutil.copy(os.path.realpath("/usr/bin/python3"), base / "bin" / "python3")
    made = tmp_path / "venv"
    (made / "bin").mkdir(parents=True)
    (made / "pyvenv.cfg").write_text(f"home = {base}/bin\n")
    (made / "bin" / "python3").symlink_to(base / "bin" / "python3")
    daemon, _ = start(make_daemon, desk, made)
    done = daemon.ctl("create", "pipeline", "-f", desk.spec(stage(made)), ok=False)
    assert words(base / "bin" / "python3", base) in done.err


def test_a_python_that_is_none_is_refused(make_daemon, desk, tmp_path):
    daemon, _ = start(make_daemon, desk)
    for python, said in ((tmp_path / "gone", "does not exist on this machine: make it with python3 -m venv"),
                         (tmp_path, "is not a Python environment, it has no bin/python3"),
                         ("venv", "an absolute path")):
        done = daemon.ctl("create", "pipeline", "-f", desk.spec(stage(python)), ok=False)
        assert done.code == INVALID and said in done.err, done.err


def test_a_missing_program_is_told_at_create_and_fails_the_job_at_once(make_daemon, desk):
    """Not after tries × datums: the job ends before a datum has begun, and works once the program is there."""
    daemon, _ = start(make_daemon, desk)
    desk.files(data={f"f{i}": "x" for i in range(20)})
    spec = desk.spec({"name": "s", "input": {"repo": "in", "glob": "/*"}, "run": ["no-such-program"], "workers": 4, "datum": {"tries": 3}})
    said = 'there is no program "no-such-program" on this machine'
    assert said in daemon.ctl("create", "pipeline", "-f", spec, "--strict", ok=False).err
    done = daemon.ctl("create", "pipeline", "-f", spec)
    assert f"stage s: {said}" in done.err + done.out and "its jobs fail until it is there" in done.err + done.out
    began = time.monotonic()
    daemon.ctl("put", "file", "-r", "in@master:/", "-f", f"{desk.top}/data")
    done = daemon.ctl("wait", "run", "in@master", ok=False)
    assert done.code == FAILED and time.monotonic() - began < 20
    assert f"stage s cannot run: {said}" in done.err, done.err
    assert daemon.ctl("list", "datum", "s", "--json", ok=False).out.count('"failed"') == 0
    daemon.ctl("update", "pipeline", "-f", desk.spec(sh("s", "true", glob="/*")), "--yes")
    desk.files(data={"a": "2"})
    put(daemon, desk)
    daemon.ctl("wait", "run", "in@master")


def follow(title, tmp_path, **more):
    """A section of docs/environments.md, block by block, from an empty folder and beside no other daemon; what its commands said. `more`: variables."""
    with open(os.path.join(TOP, "docs", "environments.md"), encoding="utf-8") as f:
        section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", f.read(), re.M | re.S).group(1)
    home = tmp_path / "home"
    desk = tmp_path / "desk"
    home.mkdir()
    desk.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith("PIPELINED_")}
    env = {**env, "PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(home), "XDG_CACHE_HOME": str(home), "XDG_DATA_HOME": str(home), **more}
    said = []
    try:
        for block in re.findall(r"^```sh\n(.*?)^```$", section, re.M | re.S):
            done = subprocess.run(["sh", "-eu"], input=block, capture_output=True, text=True, cwd=desk, env=env, check=False, timeout=300)
            assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
            assert not SANITIZER.search(done.stderr), done.stderr
            said.append(done)
    finally:
        stop(desk / "daemon.pid")
    return said


@SHOWN
def test_the_page_on_a_virtual_environment_as_it_stands(tmp_path):
    said = follow("A virtual environment of your own", tmp_path)
    assert said[2].stdout.endswith("cat dog and bird\n")
    assert "stems.txt" in said[3].stderr and "exit code" not in said[3].stderr
