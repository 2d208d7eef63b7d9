"""What the engine takes up again after a restart, and what it then leaves alone."""

import json
import os
import signal
import sqlite3

import pytest

from conftest import Project, sh, wait_until, workers_of
from people import leases, status_of, worker_token
from test_follow import Stream

WAIT = 'while ! test -e {0}; do sleep 0.05; done; '


def write(text):
    return f'printf %s "{text}" >"$PL_OUT/out"'


def change(daemon, statement):
    """Changes the database of a daemon that is not there."""
    db = sqlite3.connect(os.path.join(daemon.dir, "pipelined.db"))
    with db:
        assert db.execute(statement).rowcount == 1
    db.close()


def restart(daemon):
    daemon.kill()
    daemon.start()


def test_a_daemon_starts_although_a_repo_that_a_stage_reads_was_taken_away(daemon):
    p = daemon.default.repo("in", "gone")
    p.stages(sh("a", write("a"), "gone"), pipeline="pa")
    p.stages(sh("b", write("b")), pipeline="pb")
    daemon.http("DELETE", "/api/v1/repos/default/gone?force=1")
    assert daemon.stop() == 0
    daemon.start()
    run = p.run("in", {"f": "1"})
    assert run["job"]["b"]["state"] == "success" and "a" not in run["job"]


def test_metrics_go_on_where_they_stood(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    go = tmp_path / "go"
    daemon.default.repo("in").stages(sh("s", 'echo \'{"step": 1}\' >"$PL_OUT/metrics.jsonl"; ' + WAIT.format(go) + 'echo \'{"step": 2}\' >>"$PL_OUT/metrics.jsonl"'))
    run = daemon.default.commit("in", {"f": "1"})["run"]
    wait_until(lambda: daemon.job(run, "s") and daemon.get("/metrics/default/s")["metrics"], "the first metric")
    restart(daemon)
    go.write_text("")
    daemon.wait(run)
    assert [m["line"]["step"] for m in daemon.get("/metrics/default/s")["metrics"]] == [1, 2]


def test_metrics_that_come_twice_are_kept_once(make_daemon, tmp_path):
    """As after a kill between keeping and answering. An agent that numbers no lines is heard as before."""
    daemon = make_daemon(sandbox="none").start()
    go, begun = tmp_path / "go", tmp_path / "begun"
    daemon.default.repo("in").stages(sh("s", f">{begun}; " + WAIT.format(go) + write("x")))
    run = daemon.default.commit("in", {"f": "1"})["run"]
    wait_until(begun.exists, "the command to begin: its worker knows of the lease")
    (worker, (task, fence)), = leases(daemon).items()

    def post(*steps, **more):
        body = {"worker": str(worker), "task": task, "index": 0, "lines": [json.dumps({"step": step}) for step in steps], **more}
        return status_of(daemon, "POST", "/worker/metrics", body, token=worker_token(daemon, worker))

    steps = lambda: [m["line"]["step"] for m in daemon.get("/metrics/default/s")["metrics"]]
    with Stream(daemon, "/events") as stream:
        assert [post(1, 2, fence=fence, first=0) for _ in range(2)] == [200, 200]
        assert steps() == [1, 2]
        assert post(3) == 200
        wait_until(lambda: [d["line"]["step"] for _, t, d in stream.events if t == "metric"] == [1, 2, 3], "each to be told once")
    restart(daemon)
    wait_until(lambda: post(1, 2, fence=fence, first=0) == 200, "the daemon to be ready")
    assert post(2, 4, fence=fence, first=1) == 200
    assert steps() == [1, 2, 3, 4]
    assert post(5, fence=fence + 1, first=0) == 200, "of another lease"
    assert [post(6), post(6)] == [200, 200]
    assert steps() == [1, 2, 3, 4, 5, 6, 6]
    for wrong in ({"first": 0}, {"fence": fence}, {"fence": fence, "first": -1}, {"fence": fence, "first": "0"}, {"fence": fence, "first": 1 << 41}):
        assert post(7, **wrong) == 400, wrong
    go.write_text("")
    assert daemon.wait(run)["state"] == "success"


def test_what_ended_before_is_not_done_again_and_the_rest_is(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    go, ran = tmp_path / "go", tmp_path / "ran"
    script = f'n=$(cat "$PL_INPUT_IN"); echo $n >>{ran}; if test $n -gt 3; then {WAIT.format(go)} fi; cp "$PL_INPUT_IN" "$PL_OUT/$n"'
    daemon.default.repo("in").stages(sh("s", script, glob="/*", workers=1))
    run = daemon.default.commit("in", {str(n): str(n) for n in range(6)})["run"]
    daemon.wait_job(run, "s", lambda j: j["datums"]["done"] and ran.read_text().endswith("4\n"), "to stand in the fifth")
    restart(daemon)
    daemon.wait_job(run, "s", lambda j: j["datums"]["done"], "to know still what was done")
    go.write_text("")
    ended = daemon.default.wait(run)
    assert ended["state"] == "success", ended
    assert ended["job"]["s"]["datums"] | {} == {"total": 6, "reused": 0, "done": 6, "failed": 0}
    assert sorted(ran.read_text().split()) == [str(n) for n in range(6)]
    assert daemon.default.contents("s") == {str(n): b"%d" % n for n in range(6)}


def test_a_run_that_waits_for_its_turn_waits_again(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    go = tmp_path / "go"
    p = daemon.default.repo("in").stages(sh("s", WAIT.format(go) + 'cp "$PL_INPUT_IN/f" "$PL_OUT/f"', on_new="queue")) and daemon.default
    first = p.commit("in", {"f": "1"})["run"]
    daemon.wait_job(first, "s", lambda j: j["state"] == "running", "to run")
    second = p.commit("in", {"f": "2"})["run"]
    p.stages(sh("later", write("l"), "s"), pipeline="later")
    restart(daemon)
    daemon.wait_job(second, "s", lambda j: "its turn" in j["reason"], "to wait for its turn")
    go.write_text("")
    ended = [p.wait(r) for r in (first, second)]
    assert [r["state"] for r in ended] == ["success", "success"]
    assert [p.read("s", "f", r) for r in (first, second)] == [b"1", b"2"]
    assert "later" not in ended[0]["job"], "a stage reached by a run before its time"


def test_a_job_whose_pipeline_went_is_ended_by_the_next_start(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    p = daemon.default.repo("in").stages(sh("s", "sleep 600")) and daemon.default
    run = p.commit("in", {"f": "1"})["run"]
    daemon.wait_job(run, "s", lambda j: j["state"] == "running", "to run")
    daemon.process.send_signal(signal.SIGSTOP)
    daemon.kill()
    daemon.start()
    daemon.http("DELETE", "/api/v1/pipelines/default/p")
    assert p.wait(run)["job"]["s"]["state"] == "killed"


def test_a_worker_that_died_with_its_daemon_costs_a_try_of_nothing(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    go = tmp_path / "go"
    daemon.default.repo("in").stages(sh("s", WAIT.format(go) + write("x")))
    run = daemon.default.commit("in", {"f": "1"})["run"]
    daemon.wait_job(run, "s", lambda j: j["state"] == "running", "to run")
    worker, = workers_of(daemon)
    daemon.kill()
    os.kill(worker, signal.SIGKILL)
    daemon.start()
    go.write_text("")
    ended = daemon.wait(run)
    assert ended["state"] == "success", ended


def test_a_worker_that_no_daemon_knows_ends_with_the_next_start(make_daemon, tmp_path):
    """As after a kill between its start and its record: nobody waits for it, and it waits for nobody."""
    daemon = make_daemon().start()
    daemon.default.repo("in").stages(sh("s", WAIT.format(tmp_path / "never") + write("x")))
    daemon.default.commit("in", {"f": "1"})
    wait_until(lambda: leases(daemon), "a worker to have its task")
    stray, = workers_of(daemon)
    daemon.kill()
    change(daemon, "DELETE FROM worker")
    daemon.start()
    assert daemon.stop() == 0
    wait_until(lambda: stray not in workers_of(daemon), "the worker to end")


def test_rows_that_were_leased_anew_are_the_newer_tasks(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    go, ran = tmp_path / "go", tmp_path / "ran"
    daemon.default.repo("in").stages(sh("s", f"echo x >>{ran}; " + WAIT.format(go) + write("x")))
    run = daemon.default.commit("in", {"f": "1"})["run"]
    daemon.wait_job(run, "s", lambda j: ran.exists(), "to run")
    daemon.kill()
    change(daemon, "INSERT INTO lease(task, fence, job, worker, rows, failures, losses, seq)"
           " SELECT task - 1, fence - 1, job, worker, rows, failures, losses, seq FROM lease")
    daemon.start()
    go.write_text("")
    assert daemon.wait(run)["state"] == "success"
    assert ran.read_text() == "x\n"


def test_datums_given_up_with_their_workers_are_counted_as_failed(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    ran = tmp_path / "ran"
    daemon.default.repo("in").stages(sh("s", f"echo x >>{ran}; sleep 600"))
    run = daemon.default.commit("in", {"f": "1"})["run"]
    daemon.wait_job(run, "s", lambda j: ran.exists(), "to run")
    daemon.kill()
    change(daemon, "UPDATE lease SET losses = 20")
    change(daemon, "INSERT INTO tried(job, rows, failures, losses, state) SELECT job, rows, 0, 20, 'waiting' FROM lease")
    daemon.start()
    worker, = workers_of(daemon)
    os.kill(worker, signal.SIGKILL)
    job = daemon.default.wait(run)["job"]["s"]
    assert job["state"] == "failure" and "lost 21 times" in job["reason"]
    assert job["datums"]["failed"] == 1, job


def test_a_datum_that_used_up_its_tries_is_not_tried_again(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    go, ran = tmp_path / "go", tmp_path / "ran"
    script = f'n=$(cat "$PL_INPUT_IN"); echo $n >>{ran}; test $n != 0 || {{ echo no luck; exit 3; }}; {WAIT.format(go)}'
    daemon.default.repo("in").stages(sh("s", script, glob="/*", workers=2, datum={"tries": 2}))
    run = daemon.default.commit("in", {"a": "0", "b": "1"})["run"]
    daemon.wait_job(run, "s", lambda j: j["datums"]["failed"] and "1" in ran.read_text(), "to stand in the second")
    restart(daemon)
    job = daemon.wait_job(run, "s", lambda j: j["datums"]["failed"], "to know still what failed")
    assert job["attempts"] == 2, job
    go.write_text("")
    job = daemon.default.wait(run)["job"]["s"]
    assert job["state"] == "failure" and job["reason"] == "1 of 2 datums failed; the first: datum in=/a: exit code 3: no luck", job
    assert job["datums"] | {} == {"total": 2, "reused": 0, "done": 1, "failed": 1}
    assert sorted(ran.read_text().split()) == ["0", "0", "1"]


def test_tries_that_a_waiting_datum_used_count_after_a_restart(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    go, ran = tmp_path / "go", tmp_path / "ran"
    script = f'n=$(cat "$PL_INPUT_IN"); echo $n >>{ran}; test $n != 0 || exit 3; {WAIT.format(go)}'
    daemon.default.repo("in").stages(sh("s", script, glob="/*", datum={"tries": 2}))
    run = daemon.default.commit("in", {"a": "0", "b": "1"})["run"]
    daemon.wait_job(run, "s", lambda j: ran.read_text().split() == ["0", "1"] if ran.exists() else False, "to stand in the second")
    restart(daemon)
    go.write_text("")
    job = daemon.default.wait(run)["job"]["s"]
    assert job["reason"] == "1 of 2 datums failed; the first: datum in=/a: exit code 3"
    assert ran.read_text().split() == ["0", "1", "0"]
    assert [a["attempt"] for a in daemon.get(f"/jobs/default/s/{run}/datums")["datums"] if a["state"] == "failed"] == [1, 2]


def test_losses_of_a_waiting_datum_count_after_a_restart(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    go, ran = tmp_path / "go", tmp_path / "ran"
    script = f'n=$(cat "$PL_INPUT_IN"); echo $n >>{ran}; {WAIT.format(f"{go}$n")}'
    daemon.default.repo("in").stages(sh("s", script, glob="/*"))
    run = daemon.default.commit("in", {"a": "0", "b": "1"})["run"]
    stands_in = lambda lines: daemon.wait_job(run, "s", lambda j: ran.exists() and ran.read_text().split() == lines, f"to have begun {lines}")
    stands_in(["0"])
    os.kill(*workers_of(daemon), signal.SIGKILL)
    stands_in(["0", "1"])  # the first one waits
    daemon.kill()
    change(daemon, "UPDATE tried SET losses = 20")
    daemon.start()
    (tmp_path / "go1").write_text("")
    stands_in(["0", "1", "0"])
    os.kill(*workers_of(daemon), signal.SIGKILL)
    job = daemon.default.wait(run)["job"]["s"]
    assert "1 of 2 datums failed" in job["reason"] and "lost 21 times" in job["reason"], job


def test_what_was_given_up_is_not_tried_again_after_a_restart(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    go, ran = tmp_path / "go", tmp_path / "ran"
    script = f'n=$(cat "$PL_INPUT_IN"); echo $n >>{ran}; {WAIT.format(go)}'
    daemon.default.repo("in").stages(sh("s", script, glob="/*"))
    run = daemon.default.commit("in", {"a": "0", "b": "1"})["run"]
    stands_in = lambda lines: daemon.wait_job(run, "s", lambda j: ran.exists() and ran.read_text().split() == lines, f"to have begun {lines}")
    stands_in(["0"])
    daemon.kill()
    change(daemon, "UPDATE lease SET losses = 20")
    change(daemon, "INSERT INTO tried(job, rows, failures, losses, state) SELECT job, rows, 0, 20, 'waiting' FROM lease")
    daemon.start()
    os.kill(*workers_of(daemon), signal.SIGKILL)
    stands_in(["0", "1"])
    restart(daemon)
    assert daemon.job(run, "s")["datums"]["failed"] == 1
    go.write_text("")
    job = daemon.default.wait(run)["job"]["s"]
    assert job["reason"].startswith("1 of 2 datums failed; the first: datum in=/a: lost 21 times with its worker"), job
    assert ran.read_text().split() == ["0", "1"]


def test_the_time_that_a_job_ran_is_known_after_a_restart_although_nothing_else_happened(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    go = tmp_path / "go"
    daemon.default.repo("in").stages(sh("s", WAIT.format(go)))
    run = daemon.default.commit("in", {"a": "0"})["run"]
    before = daemon.wait_job(run, "s", lambda j: j["ms"]["busy"] > 0, "to have run for a while")["ms"]["busy"]
    restart(daemon)
    go.write_text("")
    assert daemon.default.wait(run)["job"]["s"]["ms"]["busy"] > before
