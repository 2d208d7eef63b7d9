"""Where there are no namespaces, as in plain Docker: what is said, and that the same specs run."""
import os
import subprocess
import sys

import pytest

from conftest import BIN, HttpError, sh

WITHOUT = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "no_namespaces.py")]


@pytest.fixture
def plain(make_daemon):
    """A daemon where nothing can make a namespace."""
    daemon = make_daemon(sandbox="none")
    daemon.before = WITHOUT
    return daemon.start().project("plain")


def test_the_probe_says_that_there_is_no_sandbox():
    probe = subprocess.run([*WITHOUT, os.path.join(BIN, "pipelined-worker"), "--probe-sandbox"], capture_output=True, text=True, check=False)
    assert probe.returncode == 1
    assert "Operation not permitted" in probe.stderr


def test_a_pipeline_runs(plain):
    plain.repo("in").stages(sh("up", 'tr a-z A-Z <"$PL_INPUT_IN" >"$PL_OUT/$(basename "$PL_INPUT_IN")"', glob="/*"),
                            sh("all", 'cat "$PL_INPUT_UP"/* >"$PL_OUT/all"', "up"))
    run = plain.run("in", {"a": "one\n", "b": "two\n"})
    assert run["state"] == "success"
    assert plain.contents("all") == {"all": b"ONE\nTWO\n"}
    assert plain.run("in", {"c": "three\n"})["job"]["up"]["datums"]["reused"] == 2


@pytest.mark.parametrize("stage, field", [
    ({"run": ["sh", "-c", "cp /pfs/in/f /pfs/out"]}, "stages[0].run[2]"),
    ({"script": "cp /pfs/in/* $PL_OUT"}, "stages[0].script"),
    ({"run": ["true"], "env": {"MODEL": "/pfs/in/model"}}, "stages[0].env.MODEL"),
])
def test_a_command_that_names_pfs_is_refused(plain, stage, field):
    with pytest.raises(HttpError) as refused:
        plain.repo("in").stages({"name": "s", "input": {"repo": "in"}, **stage})
    assert refused.value.error["field"] == field
    assert "$PL_INPUT_<NAME> and $PL_OUT" in str(refused.value)


def test_a_path_that_only_looks_like_pfs_is_not(plain):
    plain.repo("in").stages({"name": "s", "input": {"repo": "in"}, "run": ["sh", "-c", "echo /data/pfs/x /pfs2 /pfs.old >$PL_OUT/x"]})
    assert plain.run("in", {"f": "1"})["state"] == "success"


def test_where_a_sandbox_is_wanted_the_daemon_does_not_start_and_says_what_to_do(make_daemon):
    daemon = make_daemon(sandbox="bwrap")
    daemon.before = WITHOUT
    daemon.start(expect_failure=True)
    code, daemon.process = daemon.process.returncode, None
    assert code == 1
    assert "stages cannot run in a sandbox here: bwrap: " in daemon.log() and "--sandbox none" in daemon.log()
