"""Workers from the engine's side: what they hold is held until they are gone for certain."""

import os
import select
import shutil
import signal
import statistics
import time

import pytest
from conftest import SANDBOX, cmdline, processes_with, sh, wait_until, workers_of


def test_a_gpu_is_given_to_the_next_only_when_no_process_holds_it(make_daemon, tmp_path):
    daemon = make_daemon("--gpus", "1", sandbox="none").start()
    pid = tmp_path / "pid"
    gpu = {"gpu": {"count": 1, "required": True}}
    holds = f'trap "" TERM; (sh -c \'echo $PPID\' >{pid}; sleep 600) & wait'
    looks = f"if test -e /proc/$(cat {pid}); then echo runs; else echo gone; fi"
    p = daemon.default.repo("one", "two")
    p.stages(sh("s", holds, "one", **gpu), pipeline="p1")
    p.stages(sh("t", looks, "two", **gpu), pipeline="p2")
    first = p.commit("one", {"f": "1"})["run"]
    wait_until(lambda: pid.exists() and pid.read_text().strip(), "the command to hold the GPU")
    second = p.commit("two", {"f": "1"})["run"]
    daemon.wait_job(second, "t", lambda j: "waiting for 1 GPU" in j["reason"], "to be the next")  # else the first stage's next worker may be
    worker, = workers_of(daemon)
    os.kill(worker, signal.SIGKILL)
    assert p.wait(second)["state"] == "success"
    assert p.logs("t", run=second) == "gone\n"
    took = daemon.job(second, "t")["ms"]
    assert took["gpu"] == took["held"] > 0  # one GPU
    assert "GPU held" in daemon.ctl("inspect", "job", "t").out
    daemon.post(f"/runs/{first}/stop")
    p.wait(first)


def test_a_stop_waits_until_what_a_killed_worker_left_is_removed(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    ready = tmp_path / "ready"
    daemon.default.repo("in").stages(sh("s", f"cd $PL_OUT; seq 30000 | xargs touch; : >{ready}; sleep 600"))
    daemon.default.commit("in", {"f": "1"})
    wait_until(ready.exists, "files to lie in the work folder")
    worker, = workers_of(daemon)
    known, = [w["id"] for w in daemon.get("/status")["live"]["workers"]]
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: known not in [w["id"] for w in daemon.get("/status")["live"]["workers"]], "the worker to be known as gone")
    assert daemon.stop() == 0
    assert not os.listdir(os.path.join(daemon.dir, "work"))


def test_memory_is_reserved_as_far_as_there_is_any(daemon):
    p = daemon.default.repo("in")
    p.stages(sh("small", "true", resources={"memory": "64Mi"}), sh("large", "true", resources={"memory": "1024Ti"}))
    run = p.commit("in", {"f": "1"})["run"]
    job = daemon.wait_job(run, "small", lambda j: j["state"] == "success", "to succeed")
    assert any("resources.memory" in w for w in job["warnings"]), job["warnings"]
    daemon.wait_job(run, "large", lambda j: "of memory per worker: the executor offers" in j["reason"], "to say that it asks too much")


def test_what_a_killed_daemon_left_of_a_worker_that_nobody_knows_goes(make_daemon):
    daemon = make_daemon(sandbox="none").start()
    daemon.kill()
    work = os.path.join(daemon.dir, "work")
    os.makedirs(os.path.join(work, "4294967297", "next", "deep"))
    os.mkfifo(os.path.join(work, "4294967297.held"))
    os.makedirs(os.path.join(work, "4294967298"))
    os.mkfifo(os.path.join(work, "4294967299.held"))
    os.mkfifo(os.path.join(work, "4294967300.held"))
    holder = os.open(os.path.join(work, "4294967300.held"), os.O_RDWR)
    os.makedirs(os.path.join(work, "not-a-worker"))
    daemon.start()
    wait_until(lambda: set(os.listdir(work)) == {"not-a-worker", "4294967300.held"}, lambda: f"what is left: {os.listdir(work)}")
    os.close(holder)
    wait_until(lambda: os.listdir(work) == ["not-a-worker"], lambda: f"what is left: {os.listdir(work)}")
    os.mkfifo(os.path.join(work, "4294967301.held"))
    with open(os.path.join(work, "4294967301.held"), "r+b", buffering=0):
        assert daemon.stop() == 0
        daemon.start()
        assert daemon.stop() == 0, "a stop does not wait for what is not its own"


# bwrap whose child waits for what never comes, with all that it was given open, as one does whose parent was killed before it could go on.
LEAVES_A_CHILD = """#!/usr/bin/python3
import os, signal, sys
if any("/data/work/" in word for word in sys.argv) and not os.fork():
    signal.pause()
os.execv("{bwrap}", ["bwrap", *sys.argv[1:]])
"""


@pytest.mark.skipif(SANDBOX != "bwrap", reason="there is no sandbox")
def test_what_a_killed_sandbox_left_is_removed_with_its_worker(make_daemon, tmp_path):
    program = tmp_path / "bin" / "bwrap"
    program.parent.mkdir()
    program.write_text(LEAVES_A_CHILD.format(bwrap=shutil.which("bwrap")))
    program.chmod(0o755)
    d = make_daemon().start(env={"PATH": f"{program.parent}:{os.environ['PATH']}"})
    d.default.repo("in").stages(sh("s", 'cp "$PL_INPUT_IN/f" "$PL_OUT/f"'))
    try:
        d.default.wait(d.default.commit("in", {"f": "1"})["run"])
        assert processes_with(str(program))
        assert d.stop() == 0, "it waits for all that is left of its workers"
        assert not processes_with(str(program))
    finally:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            if str(program).encode() in cmdline(pid):
                os.kill(int(pid), signal.SIGKILL)


def test_a_lease_that_is_taken_back_at_any_step_leaves_its_worker_free(make_daemon):
    """A run is stopped while its datum is planned, leased, written down, told and computed; the next one's is computed at once. A worker whose
    question was forgotten answers 25 s later, one that hears with its next renewal up to 2 s later."""
    daemon = make_daemon(sandbox="none").start()
    p = daemon.default.repo("in")
    p.stages(sh("s", 'if test -e "$PL_INPUT_IN/slow"; then sleep 600; fi; cat "$PL_INPUT_IN/n" >"$PL_OUT/n"', on_new="queue"))
    p.run("in", {"n": "0"})
    for step in range(12):
        took, plain = [], []
        for n in range(5):
            began = time.monotonic()
            p.run("in", {"n": f"plain {step} {n}"}, timeout=60)  # what a run takes here and now that follows no stop
            plain.append(time.monotonic() - began)
            run = p.commit("in", {"slow": "", "n": f"slow {step} {n}"})["run"]
            for _ in range(2 * step):  # as many questions later
                daemon.get(f"/runs/{run}")
            daemon.post(f"/runs/{run}/stop")
            began = time.monotonic()
            p.run("in", {"n": f"quick {step} {n}"}, deletes=["slow"], timeout=60)
            took.append(time.monotonic() - began)
        assert min(took) <= 0.1 + statistics.median(plain), (step, took, plain)


@pytest.mark.parametrize("how", ["one datum", "one by one", "many datums in a task"])
def test_a_stopped_jobs_command_ends_at_once_and_its_worker_takes_the_next_lease(make_daemon, tmp_path, how):
    """Whether the worker asks for more meanwhile or not: SIGKILL right after the stop, and the next job's command right after that."""
    daemon = make_daemon(sandbox="none").start(env={"PIPELINED_OVERLAP": "0" if how == "one by one" else "1"})
    n = 60 if how == "many datums in a task" else 1
    began = tmp_path / "began"
    os.mkfifo(began)
    p = daemon.default.repo("in")
    p.stages(sh("s", f'case "$(cat "$PL_INPUT_IN")" in slow*) echo $$ >{began}; exec sleep 600;; first*) echo $$ >{began};; esac', glob="/*", on_new="queue"))
    killed, leased = [], []
    with os.fdopen(os.open(began, os.O_RDWR), encoding="ascii") as commands:
        for i in range(5):
            slow = p.commit("in", {f"{k:02}": f"{'slow' if k == n // 2 else 'other'} {i}" for k in range(n)})["run"]
            pidfd = os.pidfd_open(int(commands.readline()))
            last = p.commit("in", {f"{k:02}": f"{'other' if k else 'first'} {i} again" for k in range(n)})["run"]
            daemon.wait_job(slow, "s", lambda j: j["state"] == "running", "to run")
            stopped = time.monotonic()
            daemon.post(f"/runs/{slow}/stop")
            assert select.select([pidfd], [], [], 60)[0], "the command to end"
            ended = time.monotonic()
            commands.readline()
            leased.append(time.monotonic() - ended)
            killed.append(ended - stopped)
            os.close(pidfd)
            p.wait(last)
    assert min(killed) <= 0.1 and min(leased) <= 0.1, (killed, leased)


def test_a_sandbox_that_is_killed_from_outside_is_no_try(daemon, tmp_path):
    """Its datum is leased again at once the first time, then after a wait."""
    p = daemon.default.repo("in")
    p.stages(sh("s", 'cp "$PL_INPUT_IN" "$PL_OUT/"; if [ "$(basename "$PL_INPUT_IN")" = b ]; then echo begun; while test -e "/proc/$$"; do sleep 1; done; fi', glob="/*"))
    run = p.commit("in", {"a": "1", "b": "2"})["run"]
    daemon.wait_job(run, "s", lambda j: j["state"] == "running", "to run")
    for losses in (1, 2):
        wait_until(lambda: p.logs("s", run=run).count("begun") == losses, "the command to run")
        worker, = workers_of(daemon)
        for child in open(f"/proc/{worker}/task/{worker}/children", encoding="ascii").read().split():
            os.kill(int(child), signal.SIGKILL)
    job = daemon.wait_job(run, "s", lambda j: "trying again" in j["reason"] or j["state"] == "failure", "to say that it waits")
    assert job["state"] == "running" and "its worker ended: its sandbox was killed from outside" in job["reason"], job
    tries = lambda: sorted((d["state"], d["attempt"]) for d in p.datums("s", run))
    wait_until(lambda: tries() == [("lost", 1), ("lost", 1), ("success", 1)], lambda: f"a, and of b no try: {tries()}")
    daemon.post(f"/runs/{run}/stop")
