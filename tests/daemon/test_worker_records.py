"""What is told of workers afterwards: which served a job, where, for how long, what was lost with them, and at what cost."""
import os
import signal

from conftest import sh, wait_until, workers_of

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


def test_one_command_says_why_a_job_took_long(make_daemon, tmp_path):
    daemon = make_daemon("--gpus", "1", sandbox="none").start()
    p = daemon.default.repo("in")
    p.stages(sh("s", once(tmp_path), **GPU))
    run = lose_one(daemon, p, tmp_path)
    recorded(daemon, run, "s")
    shown = daemon.ctl("inspect", "job", "s").out
    assert "workers (1 lost)" in shown and "killed by signal 9" in shown and "1 × " in shown and "lost with workers" in shown, shown
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
