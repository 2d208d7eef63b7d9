"""pipelined-worker against a daemon made for it: leases, results, output, ends, a daemon that goes away. The command runs without a
sandbox unless the test is about it."""

import hashlib
import json
import os
import re
import select
import signal
import subprocess
import time

import pytest
from fake_daemon import BIN, DATUM, FakeDaemon, Worker, decode_ops, eventually, processes_with, row


@pytest.fixture
def start(tmp_path):
    """start(shell command, *options, sandbox=, host_env={}, more of the stage) → (daemon, worker)"""
    started = []

    def _start(shell="true", *options, sandbox="none", attach=None, host_env=None, **stage):
        daemon = FakeDaemon({"run": ["sh", "-c", shell], **stage}, **(attach or {}))
        worker = Worker(daemon, tmp_path, *options, sandbox=sandbox, env=host_env)
        started.append((daemon, worker))
        return daemon, worker

    yield _start
    for daemon, worker in started:
        worker.stop()
        daemon.down()


def sandbox_reason():
    done = subprocess.run([BIN / "pipelined-worker", "--probe-sandbox"], capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


needs_sandbox = pytest.mark.skipif(bool(sandbox_reason()), reason=sandbox_reason() or "-")


def test_attach_tells_who_it_is_and_end_ends_it(start):
    daemon, worker = start()
    daemon.wait(lambda: daemon.nexts)
    attach = daemon.attaches[0]
    assert (attach["protocol"], attach["worker"], attach["exchange"], attach["held"]) == (1, "w1", True, [])
    assert re.fullmatch("1-[0-9a-f]{32}", attach["incarnation"])
    assert attach["pid"] == worker.process.pid
    daemon.end()
    assert worker.end() == 0
    assert not worker.work.exists()


def test_rows_run_in_order_and_come_back_as_one_result(start):
    daemon, _ = start('echo -n $PL_DATUM_ID >$PL_OUT/id; [ $PL_DATUM_ID != $BAD ] || exit 3',
                      env={"BAD": hashlib.sha256(b"1").hexdigest()})
    ids = [hashlib.sha256(bytes([48 + i])).hexdigest() for i in range(3)]
    daemon.give("t1", [row(i, ids[i]) for i in range(3)], fence=7)
    result = daemon.result()
    assert (result["task"], result["fence"], result["gave_back"]) == ("t1", 7, [])
    rows = result["rows"]
    assert [r["index"] for r in rows] == [0, 1, 2]
    assert [r["state"] for r in rows] == ["success", "failed", "success"]
    assert decode_ops(rows[0]) == {"id": (1, ids[0].encode())}
    assert decode_ops(rows[2]) == {"id": (1, ids[2].encode())}
    assert rows[1]["exit_code"] == 3 and rows[1]["reason"] == "exit code 3" and "output" not in rows[1]
    assert set(rows[0]["ms"]) == {"wait", "fetch", "compute", "upload", "held"}
    assert rows[0]["rusage"]["max_rss_kb"] > 0
    assert rows[0]["bytes"] == {"in": 0, "out": 64}


@pytest.mark.parametrize("script, timeout_ms, expected", [
    ("kill -SEGV $$", 0, {"signal": 11, "exit_code": 0, "reason": "killed by signal 11 (SIGSEGV)"}),
    ("kill -9 $$", 0, {"signal": 9, "oom": False, "reason": "killed by signal 9 (SIGKILL)"}),
    ("echo before; sleep 100", 2000, {"signal": 9, "timed_out": True, "reason": "timed out after 2s", "tail": "before\n"}),
    ("cat nothing", 0, {"exit_code": 1, "reason": "exit code 1", "tail": "cat: nothing: No such file or directory\n"}),
    ("ln -s /etc/passwd $PL_OUT/l", 0, {"exit_code": 0, "reason": "out/l is a link to /etc/passwd"}),
    ("mkfifo $PL_OUT/p", 0, {"exit_code": 0, "reason": "out/p is a FIFO"}),
    ("touch $PL_OUT/$(printf 'a\\200b')", 0, {"exit_code": 0, "reason": "out/a\\x80b has a name that is not UTF-8"}),
    ("printf 'a\\377b' >&2; exit 1", 0, {"tail": "a\ufffdb"}),
])
def test_a_failed_datum_says_why(start, script, timeout_ms, expected):
    daemon, _ = start(script)
    daemon.give(1, [row(timeout_ms=timeout_ms)])
    (got,) = daemon.result()["rows"]
    assert got["state"] == "failed"
    for field, value in expected.items():
        assert value in got[field] if field == "reason" else got[field] == value


def test_a_program_that_is_not_there(start):
    daemon, _ = start(run=["no-such-program", "x"])
    daemon.give(1, [row()])
    (got,) = daemon.result()["rows"]
    assert got["exit_code"] == 127
    assert got["reason"].startswith("cannot start no-such-program: there is no such program")


def test_a_script_whose_interpreter_is_not_there(start):
    daemon, _ = start(run=None, script="#! /no/such/python3 -u\nprint()")
    daemon.give(1, [row()])
    (got,) = daemon.result()["rows"]
    assert got["exit_code"] == 127
    assert got["reason"] == "cannot start the script: there is no /no/such/python3, the interpreter of its #! line"


@pytest.mark.parametrize("script, output", [
    ("echo via sh; false; echo not reached", "via sh\n"),
    ("#!/usr/bin/env python3\nprint('via python')", "via python\n"),
])
def test_a_script_runs_by_its_interpreter(start, script, output):
    daemon, _ = start(run=None, script=script)
    daemon.give(1, [row()])
    daemon.result()
    assert daemon.logs[(DATUM, 1)].decode() == output


def test_the_environment_is_given_not_inherited(start):
    daemon, _ = start("env", host_env={"SECRET_OF_THE_HOST": "x"}, env={"MINE": "1", "PL_SEED": "5"})
    daemon.give(1, [row(inputs=[{"name": "in-put", "path": "a/b.csv", "root": "00" * 32, "kind": "dir", "files": [], "commit": "c" * 32}])])
    assert daemon.result()["rows"][0]["state"] == "success"
    env = dict(line.split("=", 1) for line in daemon.logs[(DATUM, 1)].decode().splitlines())
    assert env["MINE"] == "1" and env["PL_SEED"] == "5"
    assert env["PL_STAGE"] == "st" and env["PL_PIPELINE"] == "pipe" and env["PL_PROJECT"] == "default"
    assert env["PL_DATUM_ID"] == DATUM == env["PACH_DATUM_ID"]
    assert env["PL_DEVICE"] == "cpu" and env["CUDA_VISIBLE_DEVICES"] == ""
    assert env["PL_INPUT_IN_PUT"].endswith("/pfs/in-put/a/b.csv")
    assert not [name for name in env if "SECRET" in name or "TOKEN" in name]


def test_output_is_sent_while_the_command_runs(start, tmp_path):
    go = tmp_path / "go"
    daemon, _ = start(f"echo first; while [ ! -e {go} ]; do sleep 0.01; done; echo second")
    daemon.give(1, [row(attempt=2)], fence=7)
    daemon.wait(lambda: daemon.logs.get((DATUM, 2)) == b"first\n")
    assert not daemon.results
    go.touch()
    daemon.result()
    assert daemon.logs[(DATUM, 2)] == b"first\nsecond\n"  # all of it is there when the result is
    assert daemon.log_fences == {"7"}


def test_much_output_arrives_whole_and_is_cut_at_64_MiB(start):
    daemon, _ = start("head -c 70000000 /dev/zero")
    daemon.give(1, [row()])
    daemon.wait(lambda: daemon.results, 60)
    log = daemon.logs[(DATUM, 1)]
    assert log[: 64 << 20] == bytes(64 << 20)
    assert log[64 << 20 :] == b"\n[pipelined: output cut here: more than 64 MiB of one datum]\n"


def test_unsent_output_of_a_task_that_is_taken_back_is_dropped_with_one_line(start, tmp_path):
    """However many pieces there are, and whatever the command still prints while it is killed."""
    daemon, worker = start(f"head -c 3000000 /dev/zero; touch {tmp_path}/printed; sleep 600")
    daemon.hold_back("log")
    daemon.give("t1", [row()])
    eventually((tmp_path / "printed").exists)
    daemon.holds("t1")
    daemon.take_back("t1")
    daemon.holds()
    daemon.hold_back()
    eventually(lambda: "could not be sent" in worker.said())
    daemon.end()
    assert worker.end() == 0
    dropped = re.findall("task t1: ([0-9]+) bytes of output and metrics could not be sent to the daemon: the task ended before", worker.said())
    assert len(dropped) == 1 and int(dropped[0]) > 2000000, dropped  # but for a request under way and what is in the pipe
    assert worker.said().count("could not be sent") == 1


def test_metrics_are_followed(start, tmp_path):
    go = tmp_path / "go"
    lines = [json.dumps({"step": i}) for i in range(3)]
    daemon, _ = start(f"echo '{lines[0]}' >>$PL_OUT/metrics.jsonl; while [ ! -e {go} ]; do sleep 0.01; done; "
                      f"echo '{lines[1]}' >>$PL_OUT/metrics.jsonl; echo -n '{lines[2]}' >>$PL_OUT/metrics.jsonl")
    daemon.give(1, [row()])
    daemon.wait(lambda: daemon.metric_lines == lines[:1])
    go.touch()
    (got,) = daemon.result()["rows"]
    assert daemon.metric_lines == lines
    assert "metrics.jsonl" in decode_ops(got)  # output like any other file


def test_a_burst_of_metrics_goes_in_requests_of_64_lines(start):
    lines = [json.dumps({"step": i}) for i in range(100)]
    daemon, _ = start(f"seq -f '{{\"step\": %.0f}}' 0 99 >$PL_OUT/new; mv $PL_OUT/new $PL_OUT/metrics.jsonl")
    daemon.refuse["metrics"] = (503, "busy")
    daemon.give(1, [row()])
    daemon.result()
    assert daemon.metric_lines == lines
    assert max(daemon.metric_requests) <= 64


def test_large_output_is_uploaded_before_the_result(start):
    daemon, _ = start("head -c 100000 /dev/urandom >$PL_OUT/data; mkdir $PL_OUT/d; cp $PL_OUT/data $PL_OUT/d/same")
    daemon.give(1, [row()])
    (got,) = daemon.result()["rows"]
    assert got["bytes"]["out"] == 200000
    assert set(decode_ops(got)) == {"data", "d/same"}
    assert len(daemon.packs) == 1
    assert 100000 < sum(map(len, daemon.packs.values())) < 110000  # the same bytes once


def test_an_upload_that_is_refused_fails_the_datum(start):
    daemon, _ = start("head -c 100000 /dev/urandom >$PL_OUT/data")
    daemon.refuse["have"] = (422, "limit")
    daemon.give(1, [row()])
    (got,) = daemon.result()["rows"]
    assert got["state"] == "failed" and "refused by the test" in got["reason"]


@pytest.mark.parametrize("status, code", [(507, "disk_full"), (500, "io_error"), (503, "out_of_memory")])
@pytest.mark.parametrize("route", ["have", "pack"])
def test_an_upload_waits_for_room_at_the_daemon(start, tmp_path, route, status, code):
    daemon, worker = start(f"echo run >>{tmp_path}/runs; head -c 100000 /dev/urandom >$PL_OUT/data")
    daemon.refuse[route] = (status, code)
    daemon.give(1, [row(0), row(1, hashlib.sha256(b"other").hexdigest())])
    assert [r["state"] for r in daemon.result()["rows"]] == ["success", "success"]
    assert (tmp_path / "runs").read_text() == "run\n" * 2
    assert "the daemon cannot store data now: " in worker.said() and "work folder is full" not in worker.said()


@pytest.mark.parametrize("route", ["have", "pack"])
def test_a_session_that_ended_while_the_command_computed_is_renewed(start, tmp_path, route):
    daemon, _ = start(f"echo run >>{tmp_path}/runs; head -c 100000 /dev/urandom >$PL_OUT/data")
    daemon.refuse[route] = (409, "retry")
    daemon.give(1, [row()])
    (got,) = daemon.result()["rows"]
    assert got["state"] == "success"
    assert daemon.sessions == 2
    assert (tmp_path / "runs").read_text() == "run\n"


def test_rows_whose_output_finds_no_place_are_given_back_and_the_rest_does_not_run(start, tmp_path):
    daemon, worker = start(f"echo run >>{tmp_path}/runs; head -c 5000000 /dev/urandom >$PL_OUT/data; "
                           f"[ $PL_DATUM_ID != {KEY2} ] || while [ ! -e {tmp_path}/go ]; do sleep 0.01; done")
    daemon.refuse["have"] = [(409, "retry")] * 2
    daemon.give(1, [row(0), row(1, KEY2), row(2, "03" * 32)])
    eventually(lambda: "row 0 given back" in worker.said())  # while the next one computes
    (tmp_path / "go").touch()
    result = daemon.result()
    assert (result["rows"], result["gave_back"]) == ([], [0, 1, 2])
    assert (tmp_path / "runs").read_text() == "run\n" * 2
    daemon.give(2, [row()])
    assert daemon.result(2)["rows"][0]["state"] == "success"


def test_the_next_datum_starts_clean(start):
    nap = f"sleep 1000.{os.getpid()}"  # other tests of this machine sleep, too
    daemon, _ = start("ls -A $PL_OUT; mkdir -p $PL_OUT/d/e; touch $PL_OUT/d/e/f; chmod 0 $PL_OUT/d; "
                      f"(setsid {nap} &); until ps ax -o args= | grep -q '^{nap}'; do :; done; "
                      f"ps ax -o args= | grep -c '^{nap}'")
    daemon.give(1, [row(i, f"{i:064x}") for i in range(3)])
    assert [r["state"] for r in daemon.result()["rows"]] == ["success"] * 3
    assert [daemon.logs[(f"{i:064x}", 1)] for i in range(3)] == [b"1\n"] * 3


def test_tmp_lives_as_long_as_the_worker(start):
    daemon, worker = start("cat $TMPDIR/x; date +%N >>$TMPDIR/x")
    daemon.give(1, [row(0)])
    daemon.give(2, [row(0, KEY2)])
    daemon.result(2)
    assert len(daemon.logs[(KEY2, 1)].splitlines()) == 1
    daemon.end()
    assert worker.end() == 0


KEY2 = "02" * 32


def test_held_tasks_are_renewed(start, tmp_path):
    go = tmp_path / "go"
    daemon, _ = start(f"while [ ! -e {go} ]; do sleep 0.01; done")
    daemon.give("t1", [row()], fence=9)
    daemon.wait(lambda: sum(r["tasks"] == [{"task": "t1", "fence": 9, "session": ""}] for r in daemon.renews) >= 2)
    go.touch()
    daemon.result()


def test_a_renewal_names_the_session_in_which_all_of_its_task_was_told(start, tmp_path):
    """And none when there were several: what was told in the first is pinned no more."""
    wait = "; ".join(f"[ $PL_DATUM_ID != {i:064x} ] || while [ ! -e {tmp_path}/{i} ]; do sleep 0.01; done" for i in (1, 3))
    daemon, _ = start(f"{wait}; head -c 5000000 /dev/urandom >$PL_OUT/data; echo $PL_DATUM_ID >>{tmp_path}/done")

    def says(task, session):
        wanted = {"task": task, "fence": 1, **({} if session is None else {"session": session})}
        daemon.wait(lambda: daemon.renews and wanted in daemon.renews[-1]["tasks"])

    daemon.give("t1", [row(0, f"{0:064x}"), row(1, f"{1:064x}")])
    says("t1", "s1")  # of the first row; the second one waits
    daemon.refuse["have"] = (409, "retry")
    (tmp_path / "1").touch()
    daemon.result(1)
    assert daemon.sessions == 2
    daemon.give("t2", [row(0, f"{2:064x}"), row(1, f"{3:064x}")])
    says("t2", "s2")
    (tmp_path / "3").touch()
    daemon.result(2)


def test_a_lost_lease_ends_the_task_without_a_result(start):
    daemon, worker = start("sleep 100")
    daemon.give("t1", [row()], fence=9)
    daemon.holds("t1")
    daemon.renew_reply = {"lost": [{"task": "t1"}]}
    daemon.holds()
    daemon.end()
    assert worker.end() == 0
    assert daemon.results == []


# Where the worker is when its lease is taken back: what begins it, what is held back at the daemon, and when it is there.
LARGE = "head -c 100000 /dev/urandom >$PL_OUT/data; "
STEPS = {
    "computing": ({"script": "echo here; sleep 600"}, [], "here"),
    "computing, with rows behind": ({"script": "echo here; sleep 600", "rows": 4}, [], "here"),
    "computing, and asking for nothing": ({"script": "echo here; sleep 600", "overlap": "0"}, [], "here"),
    "fetching": ({"script": "", "root": "0b" * 32}, ["locate"], "locate"),
    "asking what is there": ({"script": LARGE}, ["have"], "have"),
    "uploading": ({"script": LARGE}, ["pack"], "pack"),
    "uploading one output while another is computed": ({"script": LARGE + "[ $PL_DATUM_ID != $LAST ] || { echo here; sleep 600; }", "rows": 2}, ["have"], "here"),
    "sending what it printed": ({"script": "echo here"}, ["log"], "log"),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_lease_that_is_taken_back_lets_its_worker_take_the_next_at_once(start, step):
    """The renewal that tells of it is open at every step; without it the worker would hear a minute later."""
    what, held_back, there = STEPS[step]
    inputs = [{"name": "in", "path": "", "root": what["root"], "kind": "dir", "files": []}] if "root" in what else []
    ids = [hashlib.sha256(bytes([n])).hexdigest() for n in range(what.get("rows", 1))]
    quick = hashlib.sha256(b"quick").hexdigest()
    daemon, worker = start(f"[ $PL_DATUM_ID != {quick} ] || {{ echo -n 1 >$PL_OUT/x; exit 0; }}; {what['script']}", env={"LAST": ids[-1]},
                           attach={"lease_ms": 180000, "renew_ms": 60000}, host_env={"PIPELINED_OVERLAP": what.get("overlap", "1")})
    took = []
    for n in range(3):
        daemon.hold_back(*held_back)
        daemon.came.clear()
        daemon.logs.clear()
        daemon.give(2 * n, [row(i, id, inputs=inputs) for i, id in enumerate(ids)])
        daemon.wait(lambda: there in daemon.came or any(there.encode() in log for log in daemon.logs.values()))
        began = time.monotonic()
        daemon.take_back(2 * n)
        daemon.give(2 * n + 1, [row(0, quick)])
        daemon.result(n + 1)
        took.append(time.monotonic() - began)
    assert [r["task"] for r in daemon.results] == [1, 3, 5], "nothing comes of what was taken back"
    assert min(took) <= 0.1, took
    daemon.hold_back()
    daemon.end()
    assert worker.end() == 0


def test_a_lease_that_is_taken_back_before_the_worker_has_heard_of_it_is_not_run(start):
    daemon, worker = start("echo $PL_DATUM_ID", attach={"lease_ms": 180000, "renew_ms": 60000})
    daemon.wait(lambda: daemon.renews)
    daemon.take_back(1)
    daemon.wait(lambda: len(daemon.renews) > 1)
    daemon.give(1, [row()])
    daemon.give(2, [row(0, KEY2)])
    assert daemon.result()["task"] == 2
    assert list(daemon.logs) == [(KEY2, 1)]
    daemon.end()
    assert worker.end() == 0


def test_a_worker_whose_daemon_ends_does_not_wait_for_its_renewal(start):
    daemon, worker = start(attach={"lease_ms": 180000, "renew_ms": 60000})
    daemon.wait(lambda: daemon.renews and daemon.nexts)
    daemon.end()
    assert worker.end(20) == 0


def test_a_daemon_that_holds_no_renewal_is_asked_as_often_as_it_wants(start):
    daemon, _ = start("sleep 600", attach={"lease_ms": 30000, "renew_ms": 1000})
    daemon.renew_reply = {"recall": []}  # at once, with nothing in it
    daemon.give(1, [row()])
    began, before = time.monotonic(), len(daemon.renews)
    daemon.wait(lambda: len(daemon.renews) >= before + 4)
    assert time.monotonic() - began > 2


def test_a_renewal_that_was_lost_with_the_daemon_is_sent_again_soon(start):
    """A command runs and nothing else is asked; the daemon's next life is to hear of it long before the next renewal is due."""
    daemon, _ = start("echo here; sleep 600", attach={"lease_ms": 180000, "renew_ms": 60000}, host_env={"PIPELINED_OVERLAP": "0"})
    daemon.give(1, [row()])
    daemon.wait(lambda: daemon.logs)
    daemon.down()
    daemon.known.clear()
    daemon.up()
    daemon.wait(lambda: len(daemon.attaches) == 2)
    assert daemon.attaches[-1]["held"] == [{"task": 1, "fence": 1, "session": ""}]


def test_a_refused_result_is_dropped(start, tmp_path):
    go = tmp_path / "go"
    daemon, _ = start(f"while [ ! -e {go} ]; do sleep 0.01; done")
    daemon.give("t1", [row()])
    daemon.wait(lambda: daemon.leased)
    daemon.refuse["hand_in"] = (409, "lease_lost")
    daemon.give("t2", [row()])
    go.touch()
    daemon.wait(lambda: daemon.results)
    assert [r["task"] for r in daemon.results] == ["t2"]


def test_an_abandoned_datum_is_given_back_and_the_others_run(start, tmp_path):
    go = tmp_path / "go"
    daemon, _ = start(f"[ $PL_DATUM_ID != {DATUM} ] || sleep 100; while [ ! -e {go} ]; do sleep 0.01; done")
    go.touch()
    daemon.give("t1", [row(4), row(5, KEY2)])
    daemon.wait(lambda: daemon.leased)
    daemon.renew_reply = {"abandon": [{"task": "t1", "index": 4}]}
    result = daemon.result()
    assert result["gave_back"] == [4]
    assert [(r["index"], r["state"]) for r in result["rows"]] == [(5, "success")]


def test_a_worker_told_to_stop_gives_back_and_ends(start):
    daemon, worker = start("sleep 100")
    daemon.give("t1", [row(0), row(1, KEY2)])
    daemon.holds("t1")
    daemon.renew_reply = {"stop": True}
    assert daemon.result()["gave_back"] == [0, 1]
    assert worker.end() == 0


def test_sigterm_gives_back_what_does_not_end_soon(start):
    daemon, worker = start(f"[ $PL_DATUM_ID != {KEY2} ] || {{ echo here; sleep 100; }}; true")
    daemon.give("t1", [row(0), row(1, KEY2), row(2, "03" * 32)])
    daemon.wait(lambda: (KEY2, 1) in daemon.logs)
    worker.process.send_signal(signal.SIGTERM)
    result = daemon.result()
    assert [r["index"] for r in result["rows"]] == [0]
    assert result["gave_back"] == [1, 2]
    assert daemon.nexts[-1].get("leaving") is True
    assert worker.end() == 0
    assert not worker.work.exists()


def test_sigterm_lets_a_short_datum_finish(start, tmp_path):
    daemon, worker = start(f"echo here; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done")
    daemon.give("t1", [row(0)])
    daemon.wait(lambda: (DATUM, 1) in daemon.logs)
    worker.process.send_signal(signal.SIGTERM)
    (tmp_path / "go").touch()
    assert [r["state"] for r in daemon.result()["rows"]] == ["success"]
    assert worker.end() == 0


def test_sigterm_while_idle_ends_at_once(start):
    daemon, worker = start()
    daemon.wait(lambda: daemon.nexts)
    worker.process.send_signal(signal.SIGTERM)
    assert worker.end(20) == 0


def test_a_result_survives_the_daemon(start, tmp_path):
    """The daemon dies while a command runs, and comes back without a memory of the worker, on another port."""
    url_file = tmp_path / "pipelined.url"
    daemon, worker = start(f"echo -n kept >$PL_OUT/x; echo line; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done",
                           "--url-file", str(url_file))
    url_file.write_text(daemon.url + "\n")
    daemon.give("t1", [row()], fence=4)
    daemon.wait(lambda: daemon.logs)
    daemon.down()
    daemon.known.clear()  # first: connections that are there live on
    (tmp_path / "go").touch()
    daemon.up(port=0)
    url_file.write_text(daemon.url + "\n")
    result = daemon.result()
    assert decode_ops(result["rows"][0]) == {"x": (1, b"kept")}
    assert daemon.attaches[-1]["held"] == [{"task": "t1", "fence": 4, "session": ""}]
    daemon.end()
    assert worker.end() == 0


def test_a_worker_that_is_refused_ends_with_75(start):
    daemon, worker = start()
    daemon.refuse["attach"] = (403, "forbidden")
    daemon.refuse["next"] = (403, "forbidden")  # when it had attached before
    assert worker.end() == 75
    assert "refused by the test" in worker.said()


@pytest.mark.parametrize("options, says", [
    ([], "--url, --worker and --work are required"),
    (["--sandbox", "docker"], "use bwrap, none or pod"),
    (["--gpu-devices", "a"], "numbers of /dev/nvidiaN"),
    (["--bogus"], "--help"),
])
def test_usage_errors(options, says):
    done = subprocess.run([BIN / "pipelined-worker", *options], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert says in done.stderr


def test_the_store_may_not_lie_in_the_work_folder_but_beside_it(start, tmp_path):
    for name, refused in [("work/store", True), ("works", False)]:
        (tmp_path / name).mkdir(parents=True)
        daemon, worker = start("true", "--store-dir", tmp_path / name)
        if refused:
            assert worker.end() == 1
            assert f"--store-dir {tmp_path / name} is inside the work folder" in worker.said()
        else:
            daemon.give(1, [row()])
            assert daemon.result()["rows"][0]["state"] == "success"


def test_a_missing_token_is_an_error(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "PIPELINED_WORKER_TOKEN"}
    done = subprocess.run([BIN / "pipelined-worker", "--url", "http://127.0.0.1:1", "--worker", "w", "--work", tmp_path / "w"],
                          capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1
    assert "no token" in done.stderr


def test_a_killed_agent_takes_an_idle_runner_with_it(start):
    daemon, worker = start()
    daemon.wait(lambda: daemon.nexts)
    children = [int(p) for p in (open(f"/proc/{worker.process.pid}/task/{worker.process.pid}/children").read().split())]
    assert len(children) == 1
    pidfd = os.pidfd_open(children[0])
    worker.process.kill()
    assert select.select([pidfd], [], [], 60)[0], "the runner has ended"
    os.close(pidfd)


FAKE_NVML = """
#include <stdio.h>
#include <string.h>
struct util { unsigned gpu, memory; };
struct memory { unsigned long long total, free, used; };
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 4; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(1 + (unsigned long)i); return 0; }
int nvmlSystemGetDriverVersion(char *s, unsigned n) { snprintf(s, n, "450.1"); return 0; } /* without nvmlDeviceGetMemoryInfo_v2 */
int nvmlDeviceGetName(void *d, char *s, unsigned n) { snprintf(s, n, "A GPU"); return 0; }
int nvmlDeviceGetUUID(void *d, char *s, unsigned n) { snprintf(s, n, "GPU-%lu", (unsigned long)d); return 0; }
int nvmlDeviceGetMinorNumber(void *d, unsigned *n) { *n = 4 - (unsigned)(unsigned long)d; return 0; } /* the other way round */
int nvmlDeviceGetUtilizationRates(void *d, struct util *u) { u->gpu = 10 * (unsigned)(unsigned long)d; u->memory = 0; return 0; }
int nvmlDeviceGetMemoryInfo(void *d, struct memory *m) { memset(m, 0, sizeof *m); m->used = 1000 * (unsigned long)d; return 0; }
"""


def test_gpus_are_measured_through_nvml(start, tmp_path):
    (tmp_path / "nvml.c").write_text(FAKE_NVML)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libnvidia-ml.so.1", tmp_path / "nvml.c"], check=True)
    daemon, _ = start(f"echo $PL_DEVICE $PL_GPU_COUNT $CUDA_VISIBLE_DEVICES; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done",
                      "--gpu-devices", "0,2", host_env={"LD_LIBRARY_PATH": str(tmp_path)})
    daemon.give(1, [row()])
    daemon.wait(lambda: daemon.logs)
    polls = len(daemon.renews)
    daemon.wait(lambda: len(daemon.renews) >= polls + 5)  # half a second: the meter has looked
    (tmp_path / "go").touch()
    (got,) = daemon.result()["rows"]
    assert daemon.logs[(DATUM, 1)] == b"gpu 2 GPU-4,GPU-2\n"
    assert got["gpu"] == {"util": 30, "mem_peak": 6000}  # devices 4 and 2


# --- in the sandbox ---


@needs_sandbox
def test_in_the_sandbox_paths_are_pachyderms(start):
    daemon, _ = start("env; ls -d /pfs/in /pfs/out; pwd; ls -A /root; echo -n 1 >/pfs/out/x; ln -s ../in /pfs/out/l; ! touch /pfs/in/x",
                      sandbox="bwrap")
    daemon.give(1, [row(inputs=[{"name": "in", "path": "", "root": "00" * 32, "kind": "dir", "files": []}])])
    (got,) = daemon.result()["rows"]
    log = daemon.logs[(DATUM, 1)].decode()
    assert "PL_INPUT_IN=/pfs/in\n" in log and "PL_OUT=/pfs/out\n" in log and "HOME=/tmp/home\n" in log
    assert got["state"] == "failed" and "link /pfs/out/l -> ../in" in got["reason"]  # an empty input has no entries


@needs_sandbox
def test_a_killed_agent_takes_the_sandbox_with_it(start, tmp_path):
    marker = f"sandbox-{os.getpid()}"
    daemon, worker = start(f"echo here; sleep 100 # {marker}", sandbox="bwrap")
    daemon.give(1, [row()])
    daemon.wait(lambda: daemon.logs)
    pids = processes_with(marker)
    assert pids
    fds = [os.pidfd_open(pid) for pid in pids]
    worker.process.kill()
    worker.process.wait()
    for fd in fds:
        assert select.select([fd], [], [], 60)[0]
        os.close(fd)


@needs_sandbox
def test_a_cpu_stage_sees_no_gpu(start):
    daemon, _ = start("ls /dev; echo $CUDA_VISIBLE_DEVICES; echo $PL_DEVICE", sandbox="bwrap")
    daemon.give(1, [row()])
    daemon.result()
    log = daemon.logs[(DATUM, 1)].decode()
    assert "nvidia" not in log and log.endswith("\n\ncpu\n")


@needs_sandbox
def test_a_full_disk_of_the_work_folder_is_said(start, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    (tmp_path / "work").mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", tmp_path / "work"], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip(mounted.stderr.decode())
    try:
        daemon, worker = start("head -c 2000000 /dev/zero >$PL_OUT/x", sandbox="bwrap")
        daemon.give(1, [row()])
        (got,) = daemon.result()["rows"]
        assert "the disk of the work folder is full" in got["reason"]
        worker.stop()
    finally:
        subprocess.run(["umount", "-l", tmp_path / "work"], check=True)
