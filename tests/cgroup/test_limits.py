"""What a stage says in `resources` holds for the workers of one machine, and what goes beyond is told as such. As root, in the root group."""
import json
import os
import signal

import pytest
from conftest import ROOT, kit, only

LIMIT = "32Mi"
OUT_OF_MEMORY = f"killed by signal 9 (SIGKILL), out of memory: it needs more than the {LIMIT} of its resources.memory"
HOG = "python3 -c 'b = b\"x\" * (64 << 20)'"
COPY = 'cp "$PL_INPUT_IN" "$PL_OUT/$(basename "$PL_INPUT_IN")"'


def limited(name, script, memory=LIMIT, **more):
    return kit.sh(name, script, glob="/*", resources={"memory": memory}, **more)


def text(group, name):
    return (group / name).read_text(encoding="ascii").strip()


def said_by_agents(daemon):
    try:
        with open(os.path.join(daemon.dir, "logs", "workers.log"), encoding="utf-8", errors="replace") as f:
            return f.read().splitlines()
    except FileNotFoundError:
        return []


def group_of(pid):
    with open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
        return f.read().strip()


def test_a_command_beyond_its_memory_is_a_try_and_the_rest_goes_on(project):
    before = len(said_by_agents(project.d))
    project.repo("in").stages(limited("s", f'if grep -q hog "$PL_INPUT_IN"; then echo before; {HOG}; fi; {COPY}', on_error="skip", datum={"tries": 2}))
    run = project.run("in", {"a": "1", "b": "hog", "c": "3"})
    assert project.contents("s") == {"a": b"1", "c": b"3"}
    tried = [a for a in project.datums("s", run["id"]) if a["state"] != "success"]
    assert [(a["signal"], a["tail"]) for a in tried] == [(9, "before\n")] * 2, tried
    assert {a["reason"] for a in tried} == {OUT_OF_MEMORY}, tried
    ready = [line for line in said_by_agents(project.d)[before:] if ": ready (" in line]
    assert len(ready) == 1, "the agent is not limited, and starts its sandbox again"


@pytest.mark.parametrize("script", [f"{HOG} & wait; echo >$PL_OUT/survived", f"{HOG} || true; echo >$PL_OUT/survived",
                                    "head -c 64M /dev/zero >/tmp/much; echo >$PL_OUT/survived"], ids=["child", "ignored", "tmp"])
def test_all_of_a_command_ends_with_what_is_out_of_memory(project, script):
    project.repo("in").stages(limited("s", script))
    run = project.run("in", {"f": "1"}, state="failure")
    assert OUT_OF_MEMORY in run["job"]["s"]["reason"], run["job"]["s"]["reason"]
    assert project.commits("s") == []


def test_the_next_datum_has_an_empty_tmp(project):
    project.repo("in").stages(limited("s", f'test ! -e /tmp/much; if grep -q hog "$PL_INPUT_IN"; then head -c 64M /dev/zero >/tmp/much; fi; {COPY}', on_error="skip"))
    project.run("in", {"a": "hog", "b": "2"})
    assert project.contents("s") == {"b": b"2"}


def test_a_batch_command_is_started_again_for_the_other_datums(project):
    project.repo("in").stages({"name": "s", "input": {"repo": "in", "glob": "/*"}, "datum": {"batch": True}, "on_error": "skip", "resources": {"memory": LIMIT},
                               "script": "#!/usr/bin/python3\nimport pl\nfor d in pl.datums():\n    text = open(d['in']).read()\n"
                                         "    b = b'x' * ((64 if text == 'hog' else 1) << 20)\n    open(d.out + '/' + text, 'w').write(text)\n"})
    run = project.run("in", {"a": "one", "b": "hog", "c": "three"})
    assert project.contents("s") == {"one": b"one", "three": b"three"}
    assert [a["reason"] for a in project.datums("s", run["id"]) if a["state"] != "success"] == [OUT_OF_MEMORY]


def test_the_command_of_on_error_runs_in_a_new_sandbox(project):
    project.repo("in").stages(limited("s", HOG, on_error={"run": ["sh", "-c", "exit 0"]}))
    run = project.run("in", {"f": "1"})
    assert run["job"]["s"]["datums"]["failed"] == 0, run["job"]["s"]["datums"]


def test_without_a_limit_there_is_none(project):
    project.repo("in").stages(kit.sh("s", f"{HOG}; echo >$PL_OUT/f"))
    project.run("in", {"f": "1"})


def test_less_than_the_sandbox_takes_is_told(project):
    project.repo("in").stages(limited("s", "true", memory="64Ki"))
    run = project.commit("in", {"f": "1"})["run"]
    words = "the sandbox needs more memory to start than the 64Ki of resources.memory"
    kit.wait_until(lambda: any(words in line for line in said_by_agents(project.d)), "the worker to say why it does not start")
    project.d.http("POST", f"/api/v1/runs/{run}/stop")
    project.d.wait(run)


def test_the_sandbox_is_in_a_group_and_nobody_else(project, gate, groups):
    project.repo("in").stages(kit.sh("s", f"{gate.wait}; sleep 0 && echo >$PL_OUT/f", resources={"memory": LIMIT, "cpu": 2}))
    run = project.commit("in", {"f": "1"})["run"]
    gate.arrived()
    group = only(groups, "group")
    cores = len(os.sched_getaffinity(0))
    assert [text(group, name) for name in ("memory.max", "memory.swap.max", "memory.oom.group")] == [str(32 << 20), "0", "1"]
    assert text(group, "cpu.weight") == str(1 + (1024 * min(2, cores) - 2) * 9999 // 262142)
    with open("/proc/sys/kernel/threads-max", encoding="ascii") as f:
        assert int(text(group, "pids.max")) <= int(f.read()) // 4
    names = sorted({os.path.basename(kit.cmdline(pid).split(b"\0")[0]).decode() for pid in map(int, text(group, "cgroup.procs").split())})
    assert names == ["bwrap", "pl-runner", "python3", "sh"], names
    agent = only(lambda: kit.workers_of(project.d), "worker")
    assert group_of(agent) == "0::/" and group_of(project.d.process.pid) == "0::/"
    (group / "pids.max").write_text(str(len(text(group, "cgroup.procs").split()) - 1), encoding="ascii")
    gate.leave_open()
    run = project.wait(run)
    assert run["state"] == "failure" and "sh: 1: Cannot fork" in project.logs("s"), (run, project.logs("s"))
    kit.wait_until(lambda: not groups(), "the group to be removed")


def test_a_sandbox_killed_from_outside_is_no_try(project, gate, groups):
    project.repo("in").stages(kit.sh("s", f"{gate.wait}; echo >$PL_OUT/f", resources={"memory": LIMIT}))
    run = project.commit("in", {"f": "1"})["run"]
    gate.arrived()
    group = only(groups, "group")
    for pid in map(int, text(group, "cgroup.procs").split()):
        if kit.cmdline(pid).startswith(b"bwrap"):
            os.kill(pid, signal.SIGKILL)
            break
    gate.arrived()
    gate.leave_open()
    run = project.wait(run)
    assert run["state"] == "success", json.dumps(run, indent=1)


def test_it_is_said_that_limits_hold(project):
    folder, = ROOT.glob("pipelined-*")
    reply = project.repo("in").stages(limited("s", "true"))
    assert reply["warnings"] == []
    limits = project.d.get("/status")["live"]["limits"]
    assert limits == {"held": "cpu, memory and pids", "not_held": "", "folder": str(folder)}
    assert f"ok    limits         cpu, memory and pids of each worker are limited by cgroups in {folder}\n" in project.d.ctl("doctor").out
    assert "not limited" not in project.d.ctl("status").out
    run = project.run("in", {"f": "1"})
    assert run["job"]["s"]["warnings"] == []


def test_try_is_limited_too(project):
    spec = project.d.write("try/spec.json", json.dumps({"pipeline": "p", "stages": [limited("s", HOG)]}))
    data = os.path.dirname(project.d.write("try/in/f", "1"))
    done = project.d.ctl("try", "-f", spec, "s", "--input", f"in={data}", ok=False)
    assert done.code != 0 and OUT_OF_MEMORY in done.err, done.err
    assert "reserved" not in done.err, done.err
    assert not list(ROOT.glob("pipelined-try-*"))
