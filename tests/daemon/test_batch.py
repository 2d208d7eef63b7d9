"""Stages whose command stays alive for all datums of its worker: pl-next, pachctl next datum, pl.py."""
import os
import re

import pytest

import swapping_command

BATCH = {"batch": True}


def stage(script, name="s", datum=None, **more):
    """A batch stage over the files of `in`."""
    return {"name": name, "input": {"repo": "in", "glob": "/*"}, "script": script, "datum": {**BATCH, **(datum or {})}, **more}


def files(n):
    return {f"f{i:02}": f"{i}\n" for i in range(n)}


def loop(body):
    """A shell loop over the datums; $PL_INPUT_IN is the current one's."""
    return f'echo start\nwhile pl-next; do\n. "${{PL_OUT%/out}}/.env"\n{body}\ndone\n'


COPY = 'cp "$PL_INPUT_IN" "$PL_OUT/"'


def starts(project, run):
    return project.logs("s", run=run["id"]).count("start\n")


def test_one_process_serves_all_datums(project):
    project.repo("in").stages(stage(loop(COPY)))
    run = project.run("in", files(12))
    assert run["state"] == "success" and run["job"]["s"]["datums"]["done"] == 12
    assert project.contents("s") == {name: text.encode() for name, text in files(12).items()}
    assert starts(project, run) == 1


def test_each_worker_has_a_process_of_its_own(project):
    project.repo("in").stages(stage(loop(COPY), workers=2))
    run = project.run("in", files(12))
    assert run["job"]["s"]["datums"]["done"] == 12
    assert starts(project, run) in (1, 2)


def test_older_stage_code_calls_pachctl(project):
    project.repo("in").stages(stage('while pachctl next datum; do . "${PL_OUT%/out}/.env"; ' + COPY + "; done"))
    assert project.run("in", files(3))["state"] == "success"
    assert len(project.contents("s")) == 3


def test_a_datum_that_says_so_fails_and_the_others_go_on(project):
    project.repo("in").stages(stage(
        'set -- \nwhile pl-next "$@"; do\n. "${PL_OUT%/out}/.env"\nset --\n' + COPY +
        '\ncase $PL_INPUT_IN in */f01) set -- --fail "the label is missing";; esac\ndone'))
    run = project.run("in", files(4), state="failure")
    job = run["job"]["s"]
    assert (job["datums"]["done"], job["datums"]["failed"]) == (3, 1)
    failed, = [d for d in project.datums("s", run["id"]) if d["state"] == "failed"]
    assert failed["reason"] == "the label is missing"


def test_a_crash_fails_the_current_datum_and_a_new_process_does_the_rest(project):
    project.repo("in").stages(stage(loop('case $PL_INPUT_IN in */f01) exit 7;; esac\n' + COPY)))
    run = project.run("in", files(4), state="failure")
    job = run["job"]["s"]
    assert (job["datums"]["done"], job["datums"]["failed"]) == (3, 1)
    failed, = [d for d in project.datums("s", run["id"]) if d["state"] == "failed"]
    assert (failed["reason"], failed["exit_code"]) == ("exit code 7", 7)
    assert starts(project, run) == 2


def test_a_crash_is_a_try(project):
    project.repo("in").stages(stage(loop('[ -e /dev/shm/$PL_DATUM_ID ] || { : >/dev/shm/$PL_DATUM_ID; exit 7; }\n' + COPY), datum={"tries": 2}))
    run = project.run("in", files(2))
    assert run["state"] == "success"
    assert sorted(d["state"] for d in project.datums("s", run["id"])) == ["failed", "failed", "success", "success"]


def test_leaving_early_gives_the_rest_to_the_next_process(project):
    project.repo("in").stages(stage('echo start\nn=0\nwhile [ $n -lt 2 ] && pl-next; do\n. "${PL_OUT%/out}/.env"\n' + COPY + "\nn=$((n + 1))\ndone"))
    run = project.run("in", files(5))
    assert run["state"] == "success" and len(project.contents("s")) == 5
    assert starts(project, run) >= 3


def test_a_command_that_never_asks_is_an_error(project):
    project.repo("in").stages(stage("echo start; true"))
    run = project.run("in", files(1), state="failure")
    assert "twice without completing a datum" in run["job"]["s"]["reason"] and "pl-next" in run["job"]["s"]["reason"]


def test_what_an_early_leaver_wrote_is_not_kept(project):
    project.repo("in").stages(stage(
        'pl-next || exit 0\n. "${PL_OUT%/out}/.env"\nif [ -e /dev/shm/second ]; then ' + COPY + '; pl-next; else : >/dev/shm/second; echo x >"$PL_OUT/half"; fi'))
    assert project.run("in", files(1))["state"] == "success"
    assert list(project.contents("s")) == ["f00"]


def test_the_timeout_is_of_each_datum(project):
    project.repo("in").stages(stage(loop('case $PL_INPUT_IN in */f01) sleep 600;; esac\n' + COPY), datum={"timeout": "5s"}))
    run = project.run("in", files(3), state="failure")
    failed, = [d for d in project.datums("s", run["id"]) if d["state"] == "failed"]
    assert failed["reason"] == "timed out after 5s"
    assert run["job"]["s"]["datums"]["done"] == 2


def test_the_process_stays_for_the_next_task_and_is_told_that_there_is_no_more(project):
    project.repo("in").stages(stage(loop(COPY) + 'echo "left with $?" >&2; exit 0'))
    assert project.run("in", files(40))["state"] == "success"
    assert len(project.contents("s")) == 40


def test_inputs_and_outputs_are_those_of_the_datum(project):
    project.repo("in").stages(stage(loop('ls "${PL_INPUT_IN%/*}" >"$PL_OUT/$(basename "$PL_INPUT_IN")"; ls "$PL_OUT" | wc -l >>"$PL_OUT/$(basename "$PL_INPUT_IN")"')))
    assert project.run("in", files(3))["state"] == "success"
    assert project.contents("s") == {name: f"{name}\n1\n".encode() for name in files(3)}


def test_the_log_of_a_datum_is_its_own(project):
    project.repo("in").stages(stage(loop('echo "at $(basename "$PL_INPUT_IN")"\n' + COPY)))
    run = project.run("in", files(3))
    logs = [project.logs("s", run=run["id"], datum=a["id"]) for a in project.datums("s", run["id"])]
    assert sorted(line for log in logs for line in log.splitlines() if line.startswith("at ")) == ["at f00", "at f01", "at f02"]
    assert all(log.count("at ") == 1 for log in logs)


PYTHON = '''#!/usr/bin/python3
import pl
print("start", flush=True)
for d in pl.datums():
    with open(d["in"]) as f:
        text = f.read()
    if text == "1\\n":
        d.fail("one is\\nnot wanted")
        continue
    with open(d.out + "/" + d["in"].rsplit("/", 1)[1], "w") as f:
        f.write(text + str(sorted(d.inputs)) + str(len(d.id)))
'''


@pytest.mark.parametrize("batch", [True, False])
def test_python_goes_through_the_datums_with_and_without_batch(project, batch):
    project.repo("in").stages(stage(PYTHON, datum={"batch": batch}))
    run = project.run("in", files(3), state="failure")
    assert run["job"]["s"]["datums"]["done"] == 2
    failed, = [d for d in project.datums("s", run["id"]) if d["state"] == "failed"]
    assert failed["reason"] == ("one is not wanted" if batch else "exit code 1")
    project.run("in", {"f01": "5\n"})
    assert project.contents("s") == {f"f{i:02}": f"{n}\n['in']64".encode() for i, n in ((0, 0), (1, 5), (2, 2))}


def test_a_wrong_option_of_pl_next_is_a_usage_error(project):
    project.repo("in").stages(stage(loop('pl-next --wrong 2>"$PL_OUT/usage" || echo $? >"$PL_OUT/code"')))
    assert project.run("in", files(1))["state"] == "success"
    assert project.read("s", "code") == b"2\n" and b"usage: pl-next" in project.read("s", "usage")


def test_without_batch_pl_next_says_what_is_missing(project):
    project.repo("in").stages({"name": "s", "input": {"repo": "in"}, "script": 'pl-next 2>"$PL_OUT/said" || echo $? >"$PL_OUT/code"'})
    assert project.run("in", files(1))["state"] == "success"
    assert project.read("s", "code") == b"1\n" and b'"batch": true' in project.read("s", "said")


def test_a_stopped_job_ends_its_process(project, gate):
    project.repo("in").stages(stage(loop(gate.wait)))
    run = project.commit("in", files(2))["run"]
    gate.arrived()
    project.d.post(f"/runs/{run}/stop")
    assert project.wait(run)["state"] == "killed"


def test_a_live_command_that_swaps_its_output_for_links_gets_nothing_of_the_daemons(make_daemon):
    """It keeps its folders open and goes on while the agent moves, reads, stores and removes them."""
    daemon = make_daemon().start()
    secrets = [os.path.join(daemon.dir, name) for name in ("token", "master.key")]
    before = [(os.stat(path).st_mode, open(path, "rb").read()) for path in secrets]
    mode = os.stat(daemon.dir).st_mode
    project = daemon.project("swaps").repo("in")
    project.stages(stage(swapping_command.script(daemon.dir, *secrets), checkpoint={"every": "1s"}, on_error="skip", max_failed="100%"))
    run = project.run("in", files(60), timeout=240)
    counts = run["job"]["s"]["datums"]
    assert counts["done"] + counts["failed"] == 60 and counts["done"] > 0, run
    assert int(project.logs("s", run=run["id"]).split("swaps: ")[-1].split()[0]) >= 1000
    for d in project.datums("s", run["id"]):
        alone = swapping_command.left_alone(d["id"])
        assert d["state"] == "success" or not alone and d["reason"].startswith("output: ") and "/pfs/out/" in d["reason"], d["reason"]
    for name, content in project.contents("s").items():
        assert re.fullmatch(rb"own \d+", content), name
    assert before == [(os.stat(path).st_mode, open(path, "rb").read()) for path in secrets]
    assert mode == os.stat(daemon.dir).st_mode
