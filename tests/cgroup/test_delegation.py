"""Where the groups are: in one that was delegated to a user, as systemd does it, or in the root group; and what lives of daemons leave there."""
import itertools
import os
import shutil
import signal
import subprocess

import pytest
from conftest import ROOT, kit, only

USER = 1000
LIMIT = "32Mi"
ENTER = 'echo 0 >"$1"; shift; exec setpriv --reuid 1000 --regid 1000 --clear-groups "$@"'
numbers = itertools.count(1)


def text(group, name):
    return (group / name).read_text(encoding="ascii").strip()


def group_of(pid):
    with open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
        return f.read().strip()


class Delegated:
    """A group of the user's, as systemd makes it of a unit with Delegate=, and a daemon that is started there as the user."""

    def __init__(self, controllers="+cpu +memory +pids"):
        (ROOT / "cgroup.subtree_control").write_text("+cpu +memory +pids", encoding="ascii")
        self.parent = ROOT / f"slice-{next(numbers)}"
        self.parent.mkdir()
        (self.parent / "cgroup.subtree_control").write_text(controllers, encoding="ascii")
        self.group = self.parent / "pipelined.service"
        self.group.mkdir()
        for path in (self.group, self.group / "cgroup.procs", self.group / "cgroup.threads", self.group / "cgroup.subtree_control"):
            os.chown(path, USER, USER)
        self.root = f"/run/user-{self.parent.name}"
        os.mkdir(self.root, 0o700)
        self.daemon = kit.Daemon(self.root, "--sandbox", kit.SANDBOX)
        self.enter()

    def enter(self, below=""):
        os.chown(self.root, USER, USER)
        self.daemon.before = ["sh", "-c", ENTER, "sh", str(self.group / below / "cgroup.procs")]

    def workers(self):
        return sorted(self.group.glob("worker-*"))

    def end(self):
        kit.remove(self.daemon)
        for folder, _, _ in os.walk(self.parent, topdown=False):
            os.rmdir(folder)
        shutil.rmtree(self.root, ignore_errors=True)


@pytest.fixture
def delegated():
    made = []

    def make(*words):
        made.append(Delegated(*words))
        return made[-1]
    yield make
    for one in made:
        one.end()


def hog_and_others(daemon):
    """One datum of three is killed at its limit."""
    script = 'if grep -q hog "$PL_INPUT_IN"; then python3 -c "b = b\'x\' * (64 << 20)"; fi; cp "$PL_INPUT_IN" "$PL_OUT/$(basename "$PL_INPUT_IN")"'
    p = daemon.default.repo("in")
    assert p.stages(kit.sh("s", script, glob="/*", on_error="skip", resources={"memory": LIMIT, "cpu": 1}))["warnings"] == []
    run = p.run("in", {"a": "1", "b": "hog", "c": "3"})
    assert p.contents("s") == {"a": b"1", "c": b"3"}
    failed, = [a for a in p.datums("s", run["id"]) if a["state"] != "success"]
    assert failed["reason"].endswith("out of memory: it needs more than the 32Mi of its resources.memory"), failed


def test_a_user_limits_workers_in_a_group_that_was_delegated(delegated, gate):
    here = delegated()
    d = here.daemon.start()
    own = "/" + str(here.group.relative_to(ROOT))
    assert group_of(d.process.pid) == f"0::{own}/daemon"
    assert text(here.group, "cgroup.procs") == "" and text(here.group, "cgroup.subtree_control") == "cpu memory pids"
    hog_and_others(d)
    p = d.project("waits")
    p.repo("in").stages(kit.sh("s", gate.wait, resources={"memory": LIMIT}), pipeline="waits")
    run = p.commit("in", {"f": "1"})["run"]
    gate.arrived()
    kit.wait_until(lambda: len(here.workers()) == 1, "the group of the first stage's worker to go")
    agent = only(lambda: kit.workers_of(d), "worker")
    assert group_of(agent) == f"0::{own}/daemon"
    gate.leave_open()
    p.wait(run)
    assert d.stop() == 0
    assert here.workers() == []


def test_a_daemon_that_starts_in_the_leaf_uses_the_group_above(delegated):
    here = delegated()
    (here.group / "daemon").mkdir()
    os.chown(here.group / "daemon", USER, USER)
    os.chown(here.group / "daemon" / "cgroup.procs", USER, USER)
    here.enter("daemon")
    d = here.daemon.start()
    assert d.get("/status")["live"]["limits"] == {"held": "cpu, memory and pids", "not_held": "", "folder": str(here.group)}
    hog_and_others(d)


def test_a_controller_that_was_not_delegated_is_named(delegated):
    here = delegated("+memory +pids")
    d = here.daemon.start()
    own = "/" + str(here.group.relative_to(ROOT))
    why = f"the cgroup {own} has no controller cpu"
    limits = d.get("/status")["live"]["limits"]
    assert limits == {"held": "memory and pids", "not_held": "cpu", "folder": str(here.group), "why": why, "remedy": "request it from systemd: Delegate=cpu memory pids"}
    p = d.default.repo("in")
    reply = p.stages(kit.sh("s", "true", resources={"memory": LIMIT, "cpu": 1}))
    assert reply["warnings"] == [f"stage s: resources.cpu is not enforced here, it is only reserved: {why}: request it from systemd: Delegate=cpu memory pids"]


@pytest.mark.parametrize("what", ["others", "foreign"])
def test_a_group_that_is_not_the_daemons_alone_is_left_as_it_is(delegated, what):
    here = delegated()
    other = None
    if what == "others":
        other = subprocess.Popen(["sh", "-c", 'echo 0 >"$1"; exec sleep 1000', "sh", str(here.group / "cgroup.procs")])
        kit.wait_until(lambda: text(here.group, "cgroup.procs"), "the other process to be there")
    else:
        os.chown(here.group / "cgroup.subtree_control", 0, 0)
    d = here.daemon.start()
    limits = d.get("/status")["live"]["limits"]
    assert limits["held"] == "" and ("contains other processes" if other else "is not delegated to pipelined") in limits["why"], limits
    assert text(here.group, "cgroup.subtree_control") == "" and not (here.group / "daemon").exists()
    p = d.default.repo("in")
    warning, = p.stages(kit.sh("s", "echo >$PL_OUT/f", resources={"memory": LIMIT}))["warnings"]
    assert warning.startswith("stage s: resources.memory is not enforced here, it is only reserved: the cgroup /slice-"), warning
    run = p.run("in", {"f": "1"})
    assert run["job"]["s"]["warnings"] == [warning.removeprefix("stage s: ")]
    if other:
        other.kill()
        other.wait()


def test_a_killed_daemon_finds_its_groups_again(make_daemon, gate, groups):
    d = make_daemon().start()
    p = d.default.repo("in")
    p.stages(kit.sh("s", f"{gate.wait}; echo >$PL_OUT/f", resources={"memory": LIMIT}))
    run = p.commit("in", {"f": "1"})["run"]
    gate.arrived()
    mine, = groups()
    d.kill()
    left = mine.parent / "worker-99"  # of a worker of which nothing else is known
    left.mkdir()
    sleeper = subprocess.Popen(["sh", "-c", 'echo 0 >"$1"; exec setsid sleep 1000', "sh", str(left / "cgroup.procs")])
    kit.wait_until(lambda: text(left, "cgroup.procs"), "the process to be there")
    d.start()
    kit.wait_until(lambda: groups() == [mine], lambda: f"the unknown group to go: {groups()}")
    assert sleeper.wait(60) == -signal.SIGKILL
    gate.leave_open()
    assert d.wait(run)["state"] == "success"
    kit.wait_until(lambda: groups() == [], "the adopted worker's group to go")
    folder = mine.parent
    d.stop()
    assert not folder.exists(), "the root group is as it was"


def test_what_leaves_its_session_without_a_sandbox_ends_with_its_agent(make_daemon, gate, groups):
    d = make_daemon(sandbox="none").start()
    p = d.default.repo("in")
    mark = "sleep 98765"
    p.stages(kit.sh("s", f"setsid {mark} & {gate.wait}", resources={"memory": LIMIT}))
    run = p.commit("in", {"f": "1"})["run"]
    gate.arrived()
    kit.wait_until(lambda: kit.processes_with(mark), "the process to be there")
    runner, = [pid for pid in map(int, text(groups()[0], "cgroup.procs").split()) if b"pl-runner" in kit.cmdline(pid)]
    os.kill(runner, signal.SIGSTOP)  # it would see to the end of its command
    agent, = kit.workers_of(d)
    d.http("POST", f"/api/v1/runs/{run}/stop")
    os.kill(agent, signal.SIGKILL)
    kit.wait_until(lambda: not [line for line in kit.processes_with(mark) if line.startswith("sleep")], "the process to end")
    kit.wait_until(lambda: groups() == [], "its group to go")
