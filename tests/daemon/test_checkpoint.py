"""What a command keeps in $PL_CHECKPOINT is there for its next attempt."""

import contextlib
import glob
import os
import signal
import sqlite3

from conftest import sh, wait_until

GOES_ON = 'echo here >>"$PL_CHECKPOINT/log"; mkdir -p "$PL_CHECKPOINT/d"; echo 5 >"$PL_CHECKPOINT/d/step"; '


def kept(project):
    """How many checkpoints the daemon has of the project."""
    with sqlite3.connect(f"file:{project.d.dir}/pipelined.db?mode=ro", uri=True) as db:
        return db.execute("SELECT count(*) FROM checkpoint WHERE project = ?", [project.name]).fetchone()[0]


def told_at(project):
    """When the newest of them was told."""
    with sqlite3.connect(f"file:{project.d.dir}/pipelined.db?mode=ro", uri=True) as db:
        return db.execute("SELECT max(at_us) FROM checkpoint WHERE project = ?", [project.name]).fetchone()[0]


def workers(daemon):
    """Process ids of the daemon's agents."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                words = f.read().split(b"\0")
            with open(os.path.join(os.path.dirname(path), "environ"), "rb") as f:
                env = f.read()
        except OSError:
            continue
        if words[0].endswith(b"pipelined-worker") and daemon.dir.encode() in env + b" ".join(words):
            found.append(int(path.split("/")[2]))
    return found


def test_a_checkpoint_is_there_for_the_next_try_and_goes_with_success(project, gate):
    project.repo("in").stages(sh("s", f'if test -e "$PL_CHECKPOINT/d/step"; then cp -r "$PL_CHECKPOINT" "$PL_OUT/kept"; echo more >>"$PL_CHECKPOINT/log"; exit; fi; {GOES_ON} {gate.wait}; exit 1',
                                 checkpoint={"every": "1s"}, datum={"tries": 2}))
    run = project.commit("in", {"f": "1"})["run"]
    gate.arrived()
    wait_until(lambda: kept(project) == 1, "the checkpoint to be kept")
    gate.open()
    run = project.wait(run)
    assert run["state"] == "success", run["job"]["s"]["reason"]
    assert project.contents("s") == {"kept/log": b"here\n", "kept/d/step": b"5\n"}
    assert kept(project) == 0


def test_a_command_that_fails_leaves_what_it_had(project):
    """However long before the next checkpoint would have been due."""
    project.repo("in").stages(sh("s", 'if test -e "$PL_CHECKPOINT/n"; then cp "$PL_CHECKPOINT/n" "$PL_OUT/"; test $(wc -l <"$PL_CHECKPOINT/n") = 2 && exit; fi; '
                                      'echo >>"$PL_CHECKPOINT/n"; exit 1', checkpoint={"every": "1h"}, datum={"tries": 2}))
    run = project.run("in", {"f": "1"}, state="failure")
    again = project.d.ctl("--json", "rerun", run["id"], "--failed").json["run"]
    run = project.wait(again)
    assert run["state"] == "success" and project.contents("s") == {"n": b"\n\n"}
    assert kept(project) == 0


def test_a_worker_that_is_told_to_end_leaves_a_checkpoint(make_daemon, gate):
    daemon = make_daemon().start()
    project = daemon.project("p1").repo("in")
    project.stages(sh("s", f'if test -e "$PL_CHECKPOINT/d/step"; then cp "$PL_CHECKPOINT/log" "$PL_OUT/"; exit; fi; {GOES_ON} {gate.wait}', checkpoint=True))
    run = project.commit("in", {"f": "1"})["run"]
    gate.arrived()
    for pid in workers(daemon):
        os.kill(pid, signal.SIGTERM)
    run = project.wait(run)
    assert run["state"] == "success" and project.contents("s") == {"log": b"here\n"}
    assert kept(project) == 0


def test_every_datum_again_is_from_nothing_but_its_own_attempts(project, gate):
    script = f'cp -r "$PL_CHECKPOINT" "$PL_OUT/kept"; test ! -e "$PL_CHECKPOINT/log" || exit 0; {GOES_ON} {gate.wait}; exit 1'
    project.repo("in").stages(sh("s", script, checkpoint={"every": "1s"}, datum={"tries": 1}))
    run = project.commit("in", {"f": "1"})["run"]
    gate.arrived()
    wait_until(lambda: kept(project) == 1, "the checkpoint to be kept")
    gate.open()
    assert project.wait(run)["state"] == "failure" and kept(project) == 1
    told = told_at(project)
    again = project.d.ctl("--json", "run", "pipeline", f"{project.name}/p", "--force").json["run"]
    gate.arrived()  # a datum that had found the checkpoint would not come here
    wait_until(lambda: told_at(project) > told, "its own checkpoint")
    for pid in workers(project.d):
        with contextlib.suppress(ProcessLookupError):  # an idle one of an earlier test may end by itself
            os.kill(pid, signal.SIGTERM)
    again = project.wait(again)  # its second attempt goes on from there
    assert again["state"] == "success", again["job"]["s"]["reason"]
    assert project.contents("s") == {"kept/log": b"here\n", "kept/d/step": b"5\n"}


def test_a_pipeline_that_is_deleted_takes_its_checkpoints_along(project, gate):
    project.repo("in").stages(sh("s", f'{GOES_ON} {gate.wait}', checkpoint={"every": "1s"}))
    project.commit("in", {"f": "1"})
    gate.arrived()
    wait_until(lambda: kept(project) == 1, "the checkpoint to be kept")
    project.d.ctl("delete", "pipeline", f"{project.name}/p", "--keep-repos")
    assert kept(project) == 0
    wait_until(lambda: not workers(project.d), "its worker to end")  # it is told to, and tells once more
    assert kept(project) == 0


def test_another_datum_begins_with_nothing(project):
    project.repo("in").stages(sh("s", 'ls -A "$PL_CHECKPOINT" >"$PL_OUT/$(basename "$PL_INPUT_IN")"; echo x >"$PL_CHECKPOINT/x"', glob="/*", checkpoint=True))
    project.run("in", {"a": "1", "b": "2"})
    assert project.contents("s") == {"a": b"", "b": b""}


def test_a_stage_without_checkpoints_has_no_such_variable(project):
    project.repo("in").stages(sh("s", 'echo "${PL_CHECKPOINT-none}" >"$PL_OUT/f"'))
    project.run("in", {"a": "1"})
    assert project.contents("s") == {"f": b"none\n"}
