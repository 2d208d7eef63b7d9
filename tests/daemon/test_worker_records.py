"""What is told of workers afterwards: which served a job, where, for how long, what was lost with them, and at what cost."""
import contextlib
import os
import re
import signal
import sqlite3
import time

import pytest
from conftest import sh, wait_until, workers_of
from test_restart import newest

GPU = {"gpu": {"count": 1, "required": True}}


def once(tmp_path):
    """A command that hangs where it is run first, and succeeds where it is run again."""
    return f'if mkdir {tmp_path}/began 2>/dev/null; then sleep 600; fi; cp "$PL_INPUT_IN/f" "$PL_OUT/f"'


def lose_one(daemon, p, tmp_path):
    """A run whose datum is lost with its worker, and succeeds with the next one."""
    run = p.commit("in", {"f": "1"})["run"]
    wait_until((tmp_path / "began").exists, "the command to run")
    worker, = workers_of(daemon)
    os.kill(worker, signal.SIGKILL)
    assert p.wait(run)["state"] == "success"
    return run


def inspected(daemon, run, stage, check, what):
    """The job as `inspect job` shows it, once `check` holds."""
    look = lambda: daemon.get(f"/jobs/default/{stage}/{run}")
    wait_until(lambda: check(look()), lambda: f"the job {what}: {look()}")
    return look()


def recorded(daemon, run, stage, check=lambda workers: len(workers) == 2):
    job = inspected(daemon, run, stage, lambda j: check(j["workers"]) and all(w["ended_us"] for w in j["workers"]), "to have its workers recorded")
    return job, job["workers"]


def test_a_lost_worker_is_told_of_when_its_job_has_ended(make_daemon, tmp_path):
    daemon = make_daemon("--gpus", "1", sandbox="none").start()
    p = daemon.default.repo("in")
    p.stages(sh("s", once(tmp_path), **GPU))
    run = lose_one(daemon, p, tmp_path)
    job, (lost, good) = recorded(daemon, run, "s")
    assert job["workers_lost"] == 1 and job["datums"]["lost"] == 1
    assert (lost["state"], good["state"]) == ("lost", "ended")
    assert lost["reason"] == "killed by signal 9" and lost["node"] and lost["gpus"] == 1
    (task, fence, datums), = lost["held"]
    assert task and fence and datums == 1 and lost["tasks"] == 1
    assert good["held"] == [] and good["tasks"] == 1
    for w in (lost, good):
        assert 0 < w["started_us"] <= w["ended_us"] and abs(w["gpu_ms"] - (w["ended_us"] - w["started_us"]) // 1000) <= 1
    first, second = p.datums("s", run)
    assert (first["state"], second["state"]) == ("lost", "success") and first["attempt"] == second["attempt"] == 1
    assert first["fence"] == fence < second["fence"]
    assert first["reason"] == "its worker ended: killed by signal 9" and first["node"] == lost["node"] and first["worker"] == lost["worker"]
    assert job["gpu"]["lost_ms"] == first["ms"]["held"] > 0
    assert job["gpu"]["held_ms"] == first["ms"]["held"] + second["ms"]["held"]
    line = f"worker {lost['worker']} of stage default/s on {lost['node']} was lost after "
    assert line in daemon.log() and daemon.log().count(line) == 1


def test_a_command_that_was_stopped_with_its_worker_is_a_lost_attempt(make_daemon, tmp_path):
    """As with a pod that is drained: the worker is told to end, and gives the datum back."""
    daemon = make_daemon("--gpus", "1", sandbox="none").start()
    p = daemon.default.repo("in")
    p.stages(sh("s", once(tmp_path), **GPU))
    run = p.commit("in", {"f": "1"})["run"]
    wait_until((tmp_path / "began").exists, "the command to run")
    os.kill(workers_of(daemon)[0], signal.SIGTERM)
    assert p.wait(run)["state"] == "success"
    job, _ = recorded(daemon, run, "s")
    first, second = p.datums("s", run)
    assert (first["state"], second["state"]) == ("lost", "success") and first["attempt"] == second["attempt"] == 1
    assert first["reason"] == "its worker was told to end" and first["node"]
    assert job["datums"]["lost"] == 1 and job["gpu"]["lost_ms"] == first["ms"]["held"] > 0
    assert job["gpu"]["held_ms"] == first["ms"]["held"] + second["ms"]["held"]


@pytest.mark.parametrize("checkpoint", [True, False], ids=["checkpoint", "log alone"])
def test_what_is_known_of_a_lost_attempt_after_a_restart_and_a_recovery(make_daemon, tmp_path, checkpoint):
    """A restart and a checkpoint keep all of it. The log alone keeps how many were lost, and what it cost (docs/operations.md, "not restored")."""
    store, log = (tmp_path / "store" / name for name in ("ckpt", "log"))
    options = ["--gpus", "1", "--store", f"file://{store.parent}"]
    daemon = make_daemon(*options, *(["--checkpoint-every", "1"] if checkpoint else []), sandbox="none").start()
    p = daemon.default.repo("in", "other")
    p.stages(sh("s", f"echo begin; {once(tmp_path)}", **GPU))
    run = p.commit("in", {"f": "1"})["run"]
    wait_until(lambda: (tmp_path / "began").exists() and p.logs("s", run=run) == "begin\n", "the command to run")
    os.kill(*workers_of(daemon), signal.SIGKILL)
    assert p.wait(run)["state"] == "success"
    job, (worker, _) = recorded(daemon, run, "s")
    datums, printed = p.datums("s", run), p.logs("s", run=run)
    lost, good = datums
    assert (lost["state"], lost["reason"], lost["gpus"]) == ("lost", "its worker ended: killed by signal 9", 1)
    assert (lost["worker"], lost["node"]) == (worker["worker"], worker["node"]) and lost["fence"] < good["fence"] and lost["worker"] < good["worker"]
    assert worker["started_us"] < lost["started_us"] < lost["finished_us"] < good["started_us"] < good["finished_us"]
    for one in datums:
        assert one["node"] and one["gpu_ms"] == one["ms"]["held"] > 0, one
    assert printed == f"begin\nworker lost: {lost['reason']} (node {lost['node']})\nbegin\n"
    listed = daemon.ctl("list", "datum", "s", "--json").json["datums"]
    assert [{**one, "tail": ""} for one in listed] == [{**one, "tail": ""} for one in datums]
    assert daemon.stop() == 0
    daemon.start()
    assert (daemon.get(f"/jobs/default/s/{run}"), p.datums("s", run), p.logs("s", run=run)) == (job, datums, printed)
    if checkpoint:
        p.push("other", "x", "x")  # a checkpoint of what is logged from here on has it
        wait_until(lambda: newest(store) == newest(log), "a checkpoint")
    assert daemon.stop() == 0
    anew = make_daemon(*options, name="anew", sandbox="none").start()
    assert ("recovered from checkpoint 0 " in anew.log()) == (not checkpoint)
    nothing = {} if checkpoint else {"workers": [], "workers_lost": 0}
    assert anew.get(f"/jobs/default/s/{run}") == {**job, **nothing}
    assert (anew.default.datums("s", run), anew.default.logs("s", run=run)) == ((datums, printed) if checkpoint else ([], ""))
    shown = anew.ctl("inspect", "job", "s").out
    assert re.search(rf"^lost +1 attempt{' with 1 worker' if checkpoint else ''}: held [0-9.ms]+, GPU held [0-9.ms]+$", shown, re.M), shown


WORKERS = """
workers (2 lost):
WORKER  POD        NODE   STATE  BEGAN                TOOK   TASKS  GPUS HELD  REASON
2       train-2-1  spot1  lost   2026-01-02 03:04:05  1m40s  1      2 × 1m30s  its pod was preempted: PreemptionByScheduler: for a more important pod
5       train-5-1  spot2  lost   2026-01-02 03:06:00  30s    1      2 × 25s    its node was lost: it stopped responding
8       train-8-1  big    ended  2026-01-02 03:06:40  2m     3      2 × 1m55s  the job ended
"""
ATTEMPTS = """
TRY  STATE    EXIT  BEGAN                TOOK   NODE   POD        REASON
1    lost           2026-01-02 03:04:20  1m25s  spot1  train-2-1  its pod was preempted: PreemptionByScheduler: for a more important pod
1    lost           2026-01-02 03:06:10  20s    spot2  train-5-1  its worker ended: its node was lost: it stopped responding
1    success  0     2026-01-02 03:06:50  1m40s  big    train-8-1
"""


def test_the_text_that_says_why_a_job_took_long(make_daemon, tmp_path):
    """With records of pods of a cluster, put into the database in place of those of this machine's worker."""
    daemon = make_daemon(sandbox="none").start()
    p = daemon.default.repo("in")
    p.stages(sh("s", "true"))
    run = p.run("in", {"f": b"1"})["id"]
    recorded(daemon, run, "s", lambda workers: len(workers) == 1)
    datum = p.datums("s", run)[0]["id"]
    daemon.kill()
    at = lambda clock: 1767323045000000 + 1000000 * (60 * int(clock[:2]) + int(clock[3:]) - 245)  # 03:MM:SS on 2026-01-02
    with contextlib.closing(sqlite3.connect(f"{daemon.dir}/pipelined.db", isolation_level=None)) as db:
        job, = db.execute("SELECT id FROM job").fetchone()
        db.execute("DELETE FROM job_worker")
        db.execute("DELETE FROM attempt")
        for worker, lost, pod, node, began, ended, tasks, gpu_s, reason in (
                (2, 1, "train-2-1", "spot1", "04:05", "05:45", 1, 180, "its pod was preempted: PreemptionByScheduler: for a more important pod"),
                (5, 1, "train-5-1", "spot2", "06:00", "06:30", 1, 50, "its node was lost: it stopped responding"),
                (8, 0, "train-8-1", "big", "06:40", "08:40", 3, 230, "the job ended")):
            db.execute("INSERT INTO job_worker(job, worker, lost, pod, node, started_us, ended_us, tasks, gpus, gpu_ms, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 2, ?, ?)",
                       (job, worker, lost, pod, node, at(began), at(ended), tasks, gpu_s * 1000, reason))
        for fence, state, began, ended, ms, node, pod, reason in (
                (3, "lost", "04:20", "05:45", '{"held":85000}', "spot1", "train-2-1", "its pod was preempted: PreemptionByScheduler: for a more important pod"),
                (6, "lost", "06:10", "06:30", '{"held":20000}', "spot2", "train-5-1", "its worker ended: its node was lost: it stopped responding"),
                (9, "success", "06:50", "08:30", '{"held":110000,"compute":100000}', "big", "train-8-1", "")):
            detail = f'{{"paths":"in=/","ms":{ms},"gpus":2,"node":"{node}","pod":"{pod}","worker":{fence - 1},"started_us":{at(began)}}}'
            db.execute("INSERT INTO attempt(job, datum, attempt, fence, state, exit_code, reason, detail, finished_us) VALUES (?, ?, 1, ?, ?, 0, ?, ?, ?)",
                       (job, bytes.fromhex(datum), fence, state, reason, detail, at(ended)))
    daemon.start()
    utc = {"TZ": "UTC"}
    shown = daemon.ctl("inspect", "job", "s", env=utc).out
    assert shown[shown.index("\nworkers"):] == WORKERS, shown
    shown = daemon.ctl("inspect", "datum", "s", datum, env=utc).out
    assert shown.startswith(f"datum  {datum}\npaths  in=/\n{ATTEMPTS}"), shown
    listed = [line.split() for line in daemon.ctl("list", "datum", "s").out.splitlines()]
    assert [line[:6] for line in listed] == [["DATUM", "TRY", "STATE", "EXIT", "PATHS", "TOOK"], [datum[:8], "1", "lost", "in=/", "1m25s", "spot1"],
                                             [datum[:8], "1", "lost", "in=/", "20s", "spot2"], [datum[:8], "1", "success", "0", "in=/", "1m40s"]]
    lost, _, good = p.datums("s", run)
    assert (lost["gpu_ms"], good["gpu_ms"]) == (170000, 220000)


def test_one_command_says_why_a_job_took_long(make_daemon, tmp_path):
    daemon = make_daemon("--gpus", "1", sandbox="none").start()
    p = daemon.default.repo("in")
    p.stages(sh("s", once(tmp_path), **GPU))
    run = lose_one(daemon, p, tmp_path)
    recorded(daemon, run, "s")
    shown = daemon.ctl("inspect", "job", "s").out
    line = re.search(r"^lost  +(.*)$", shown, re.M).group(1)
    assert re.fullmatch(r"1 attempt with 1 worker: held [0-9.hms]+, GPU held [0-9.hms]+", line), shown
    words = [re.split("  +", re.sub(r"[0-9.]+m?s\b", "T", line.strip())) for line in shown.split("\nworkers (1 lost):\n")[1].strip().splitlines()]
    assert words[0] == ["WORKER", "NODE", "STATE", "BEGAN", "TOOK", "TASKS", "GPUS HELD", "REASON"], shown
    assert [(w[2], *w[4:]) for w in words[1:]] == [("lost", "T", "1", "1 × T", "killed by signal 9"), ("ended", "T", "1", "1 × T", "the job ended")], shown
    assert "lost with workers" in shown, shown
    assert "lost" in daemon.ctl("list", "datum", "s", "--state", "lost").out
    datum = p.datums("s", run)[0]["id"]
    assert "its worker ended: killed by signal 9" in daemon.ctl("inspect", "datum", "s", datum).out


def test_what_was_lost_before_a_restart_is_told_of_after_it(make_daemon, tmp_path):
    daemon = make_daemon("--gpus", "1", sandbox="none").start()
    p = daemon.default.repo("in")
    p.stages(sh("s", f'mkdir {tmp_path}/began-$(ls {tmp_path} | grep -c began); while ! test -e {tmp_path}/go; do sleep 0.05; done; true', **GPU))
    run = p.commit("in", {"f": "1"})["run"]
    wait_until((tmp_path / "began-0").exists, "the command to run")
    os.kill(workers_of(daemon)[0], signal.SIGKILL)
    wait_until((tmp_path / "began-1").exists, "the command to run again")
    before = inspected(daemon, run, "s", lambda j: j["workers_lost"] == 1 and j["gpu"]["lost_ms"], "to have lost a worker")
    daemon.kill()
    daemon.start()
    inspected(daemon, run, "s", lambda j: any(w["state"] == "running" for w in j["workers"]), "to have its second worker")
    (tmp_path / "go").touch()
    assert p.wait(run)["state"] == "success"
    job, (lost, good) = recorded(daemon, run, "s")
    assert job["gpu"]["lost_ms"] == before["gpu"]["lost_ms"] and job["datums"]["lost"] == 1
    assert lost == next(w for w in before["workers"] if w["state"] == "lost") and good["state"] == "ended"


def restarted_in_the_second_datum(make_daemon, tmp_path, datums, seconds=0):
    """A worker of one GPU has ended the first datum, after so long at least, and runs the second one, which waits for a file: then the daemon is killed and started again."""
    daemon = make_daemon("--gpus", "1", sandbox="none").start()
    p = daemon.default.repo("in")
    script = f'n=1; while ! mkdir {tmp_path}/began-$n 2>/dev/null; do n=$((n + 1)); done; if test $n -le 2; then while ! test -e {tmp_path}/go-$n; do sleep 0.05; done; fi'
    p.stages(sh("s", script, glob="/*", workers=1, **GPU))
    run = p.commit("in", {f"f{n:02}": f"{n}" for n in range(datums)})["run"]
    wait_until((tmp_path / "began-1").exists, "the first command to run")
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= until, "the first datum to have taken its time")
    (tmp_path / "go-1").touch()
    wait_until(lambda: (tmp_path / "began-2").exists() and p.datums("s", run), "the second command to run, and the first datum to be kept")
    first, = p.datums("s", run)
    daemon.kill()
    daemon.start()
    return daemon, p, run, first


def test_a_worker_s_time_and_tasks_begin_with_it_after_a_restart(make_daemon, tmp_path):
    """Not with the last lease, which is all that the daemon has of it besides its start."""
    daemon, p, run, first = restarted_in_the_second_datum(make_daemon, tmp_path, datums=2)
    job = inspected(daemon, run, "s", lambda j: any(w["state"] == "running" for w in j["workers"]), "to have its worker")
    worker, = job["workers"]
    assert worker["started_us"] < first["finished_us"] - first["ms"]["held"] * 1000 and worker["tasks"] == 2, (worker, first)
    (tmp_path / "go-2").touch()
    assert p.wait(run)["state"] == "success"
    job, (worker,) = recorded(daemon, run, "s", lambda workers: len(workers) == 1)
    assert worker["started_us"] < first["finished_us"] - first["ms"]["held"] * 1000 and worker["tasks"] == 2, (worker, first)
    assert worker["gpu_ms"] >= job["gpu"]["held_ms"] > 0, job


def test_a_worker_that_went_on_to_another_job_serves_that_one_since_then_after_a_restart(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    p = daemon.default.repo("in")
    p.stages(sh("s", f'n=$(cat "$PL_INPUT_IN/f"); >{tmp_path}/began-$n; while ! test -e {tmp_path}/go-$n; do sleep 0.05; done', workers=1, keep_warm="1h"))
    runs = []
    for n in ("1", "2"):
        runs.append(p.commit("in", {"f": n})["run"])
        wait_until((tmp_path / f"began-{n}").exists, "the command to run")
        if n == "1":
            (tmp_path / "go-1").touch()
            assert p.wait(runs[0])["state"] == "success"
    _, (before,) = recorded(daemon, runs[0], "s", lambda workers: len(workers) == 1)
    daemon.kill()
    daemon.start()
    job = inspected(daemon, runs[1], "s", lambda j: any(w["state"] == "running" for w in j["workers"]), "to have its worker")
    worker, = job["workers"]
    assert worker["worker"] == before["worker"] and worker["started_us"] >= before["ended_us"] and worker["tasks"] == 1, (before, worker)
    (tmp_path / "go-2").touch()
    assert p.wait(runs[1])["state"] == "success"


def test_the_time_of_a_reported_datum_is_not_lost_again_after_a_restart(make_daemon, tmp_path):
    """Of so many datums the worker fetches the second one ahead: its lease is about as old as the first one's. A third one is not fetched
    ahead, because a datum takes more than ten seconds (PL_SCHED_AIM_MS)."""
    daemon, p, run, first = restarted_in_the_second_datum(make_daemon, tmp_path, datums=20, seconds=10.5)
    os.kill(*workers_of(daemon), signal.SIGKILL)
    (tmp_path / "go-2").touch()
    assert p.wait(run)["state"] == "success"
    datums = p.datums("s", run)
    held = lambda attempts: [a["ms"]["held"] for a in attempts if a["ms"]]
    losses = [a for a in datums if a["state"] == "lost"]
    lost = max(losses, key=lambda a: a["ms"]["held"] if a["ms"] else 0)
    assert lost["finished_us"] - lost["ms"]["held"] * 1000 >= first["finished_us"] - 2000, (first, lost)
    gpu = daemon.get(f"/jobs/default/s/{run}")["gpu"]
    assert gpu["lost_ms"] == sum(held(losses)) and gpu["held_ms"] == sum(held(datums)), gpu


def test_the_workers_of_a_running_job_are_shown(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    p = daemon.default.repo("in")
    p.stages(sh("s", f"while ! test -e {tmp_path}/go; do sleep 0.05; done"))
    run = p.commit("in", {"f": "1"})["run"]
    daemon.wait_job(run, "s", lambda j: j["state"] == "running", "to run")
    job = inspected(daemon, run, "s", lambda j: any(w["state"] == "running" for w in j["workers"]), "to have a worker")
    worker, = job["workers"]
    assert worker["node"] and worker["ended_us"] is None and worker["tasks"] == 1
    assert "running" in daemon.ctl("inspect", "job", "s").out
    (tmp_path / "go").touch()
    p.wait(run)
    job, (worker,) = recorded(daemon, run, "s", lambda workers: len(workers) == 1)
    assert worker["state"] == "ended" and worker["reason"] == "the job ended" and job["workers_lost"] == 0
