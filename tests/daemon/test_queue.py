"""What waits, what goes first, what is stopped: jobs of one stage, tries, timeouts, GPU slots."""

import pytest

from conftest import HttpError, sh, wait_until

DAEMON_OPTIONS = ["--gpus", "1"]


def hold(project, script="sleep 600", **more):
    """A stage whose job on a file "slow" does not end by itself."""
    project.repo("in").stages(sh("s", f'if test -e "$PL_INPUT_IN/slow"; then {script}; fi; cat "$PL_INPUT_IN/n" >"$PL_OUT/n"', **more))


def running(project, run, stage="s"):
    return project.d.wait_job(run, stage, lambda j: j["state"] == "running", "to run")


def test_a_newer_run_takes_the_place_of_one_that_has_not_begun(project):
    hold(project)
    first = project.commit("in", {"slow": "", "n": "1"})["run"]
    running(project, first)
    second = project.commit("in", {"n": "2"}, deletes=["slow"])["run"]
    third = project.commit("in", {"n": "3"})["run"]
    project.d.post(f"/runs/{first}/stop")
    runs = [project.wait(r) for r in (first, second, third)]
    assert [r["job"]["s"]["state"] for r in runs] == ["killed", "killed", "success"]
    assert runs[1]["job"]["s"]["reason"] == runs[1]["reason"] == f"superseded by run {third[:8]}"
    assert runs[0]["job"]["s"]["reason"] == runs[0]["reason"] != ""
    assert project.d.get(f"/runs/{second}/wait")["superseded_by"] == third
    assert project.read("s", "n") == b"3"
    assert len(project.commits("s")) == 1


def test_a_queue_runs_one_job_for_each_run_in_their_order(project):
    project.repo("in").stages(sh("s", 'cat "$PL_INPUT_IN/n" >"$PL_OUT/n"', on_new="queue"))
    runs = [project.commit("in", {"n": str(i)})["run"] for i in range(5)]
    assert [project.wait(r)["state"] for r in runs] == ["success"] * 5
    assert [c["id"] for c in project.commits("s")] == runs[::-1]
    assert [project.read("s", "n", r) for r in runs] == [b"%d" % i for i in range(5)]


def test_a_failed_datum_is_tried_again_as_often_as_the_spec_says(project):
    project.repo("in").stages(sh("s", 'echo "try $PL_DATUM_ID"; exit 3', datum={"tries": 3}))
    run = project.run("in", {"f": "1"}, state="failure")
    attempts = project.datums("s", run["id"])
    assert [(a["attempt"], a["state"], a["exit_code"]) for a in attempts] == [(1, "failed", 3), (2, "failed", 3), (3, "failed", 3)]
    assert run["job"]["s"]["datums"] == {"total": 1, "reused": 0, "done": 0, "failed": 1}


def test_a_datum_that_takes_too_long_is_stopped(project):
    project.repo("in").stages(sh("s", "echo before; sleep 600", datum={"timeout": "3s"}))
    run = project.run("in", {"f": "1"}, state="failure")
    attempt, = project.datums("s", run["id"])
    assert attempt["timed_out"] and "3s" in attempt["reason"], attempt
    assert attempt["tail"] == "before\n"
    assert "timeout" in run["job"]["s"]["reason"] or "timed out" in run["job"]["s"]["reason"], run["job"]["s"]["reason"]


def test_a_job_that_takes_too_long_is_stopped(project):
    project.repo("in").stages(sh("s", "sleep 600", timeout="1s"))
    run = project.run("in", {"f": "1"}, state="killed")
    job = run["job"]["s"]
    assert job["state"] == "killed" and job["reason"] == "job timed out after 1s of running"


def test_a_run_can_be_stopped(project):
    project.repo("in").stages(sh("s", "sleep 600"), sh("after", "true", "s"))
    run = project.commit("in", {"f": "1"})["run"]
    running(project, run)
    assert project.d.post(f"/runs/{run[:10]}/stop")["stopped"] == run
    run = project.wait(run)
    assert (run["state"], run["job"]["s"]["state"], run["job"]["s"]["reason"]) == ("killed", "killed", "stopped by a user")
    assert run["job"]["after"]["state"] in ("killed", "unrunnable")


def test_a_job_can_be_stopped_and_what_needs_it_is_not_run(project):
    project.repo("in").stages(sh("s", "sleep 600"), sh("other", "echo >$PL_OUT/f"), sh("after", "true", "s"))
    run = project.commit("in", {"f": "1"})["run"]
    running(project, run)
    project.d.post(f"/jobs/{project.name}/s/{run}/stop")
    run = project.wait(run)
    jobs = run["job"]
    assert (jobs["s"]["state"], jobs["other"]["state"]) == ("killed", "success")
    assert (run["state"], run["reason"]) == ("killed", "stopped by a user"), "no job failed"
    assert jobs["after"]["state"] in ("killed", "unrunnable") and '"s"' in jobs["after"]["reason"] or "s " in jobs["after"]["reason"]


def test_what_has_ended_cannot_be_stopped(project):
    project.repo("in").stages(sh("s", "true"))
    run = project.run("in", {"f": "1"})["id"]
    for path in (f"/runs/{run}/stop", f"/jobs/{project.name}/s/{run}/stop"):
        with pytest.raises(HttpError, match="404|409"):
            project.d.post(path)
    with pytest.raises(HttpError, match="404"):
        project.d.post("/runs/ffff0000ffff0000ffff0000ffff0000/stop")


def test_what_is_downstream_of_a_failure_does_not_run_and_says_why(project):
    project.repo("in").stages(sh("s", "exit 1"), sh("after", "true", "s"), sh("last", "true", "after"))
    run = project.run("in", {"f": "1"}, state="failure")
    assert [run["job"][s]["state"] for s in ("s", "after", "last")] == ["failure", "unrunnable", "unrunnable"]
    assert "s" in run["job"]["after"]["reason"].split() or '"s"' in run["job"]["after"]["reason"]
    assert "s" in run["job"]["last"]["reason"]


def test_a_gpu_stage_gets_its_slot_and_a_cpu_stage_none(project):
    show = "echo $PL_DEVICE $PL_GPU_COUNT ${CUDA_VISIBLE_DEVICES-unset} >$PL_OUT/f"
    project.repo("in").stages(sh("gpu", show, gpu=True), sh("cpu", show))
    run = project.run("in", {"f": "1"})
    assert project.read("gpu", "f") == b"gpu 1 0\n"
    assert project.read("cpu", "f").split()[:2] == [b"cpu", b"0"] and project.read("cpu", "f").split()[2:] in ([b"unset"], [b"-1"], [])
    assert (run["job"]["gpu"]["device"], run["job"]["cpu"]["device"]) == ("gpu", "cpu")


def test_more_gpus_than_there_are_is_waited_for_with_the_reason(project):
    project.repo("in").stages(sh("s", "true", gpu=2))
    run = project.commit("in", {"f": "1"})["run"]
    job = project.d.wait_job(run, "s", lambda j: "GPU" in j["reason"], "to say what it waits for")
    assert job["state"] in ("created", "starting") and "2" in job["reason"] and "1" in job["reason"], job["reason"]
    project.d.post(f"/runs/{run}/stop")
    assert project.wait(run)["state"] == "killed"


def test_a_gpu_that_another_stage_holds_is_waited_for_and_named(project):
    project.repo("in", "go").stages(sh("first", "sleep 600", gpu=True))
    project.stages(sh("second", "echo >$PL_OUT/f", "go", gpu=True), pipeline="q")
    first = project.commit("in", {"f": "1"})["run"]
    running(project, first, "first")
    held = wait_until(lambda: [g for g in project.d.get("/gpus")["gpus"] if g["state"] == "held"], "the slot to be held")
    assert held[0]["by"]["stage"] == "first" and held[0]["by"]["run"] == first
    second = project.commit("go", {"f": "1"})["run"]
    job = project.d.wait_job(second, "second", lambda j: "first" in j["reason"], "to name who holds the GPU")
    assert "GPU" in job["reason"]
    project.d.post(f"/runs/{first}/stop")
    assert project.wait(second)["job"]["second"]["device"] == "gpu"


def test_a_job_that_has_not_begun_is_on_what_its_stage_asks_for(project):
    """And on nothing yet where that may be either; what its command runs on is known before it has ended."""
    project.repo("in", "go").stages(sh("first", "sleep 600", gpu={"required": False}))
    project.stages(sh("must", "true", "go", gpu=True), sh("may", "true", "go", gpu={"required": False, "wait": "1h"}), sh("cpu", "sleep 600", "go"), pipeline="q")
    first = project.commit("in", {"f": "1"})["run"]
    assert running(project, first, "first")["device"] == "gpu"
    second = project.commit("go", {"f": "1"})["run"]
    for stage, device in (("must", "gpu"), ("may", None)):
        assert project.d.wait_job(second, stage, lambda j: "waiting for 1 GPU" in j["reason"], "to wait")["device"] == device
    assert running(project, second, "cpu")["device"] == "cpu"
    rows = [line.split() for line in project.d.ctl("--project", project.name, "list", "job", "--run", second).out.splitlines()[1:]]
    assert {row[1]: "gpu" in row for row in rows} == {"must": True, "may": False, "cpu": False}
    for run in (second, first):
        project.d.post(f"/runs/{run}/stop")
    jobs = project.wait(second)["job"]
    assert {stage: jobs[stage]["device"] for stage in ("must", "may", "cpu")} == {"must": None, "may": None, "cpu": "cpu"}


def test_a_gpu_that_is_wanted_but_not_required_is_used_when_free(project):
    project.repo("in").stages(sh("s", "echo $PL_DEVICE >$PL_OUT/f", gpu={"count": 1, "required": False}))
    project.run("in", {"f": "1"})
    assert project.read("s", "f") == b"gpu\n"


def test_a_gpu_that_does_not_come_in_time_is_done_without(project):
    project.repo("in", "go").stages(sh("first", "sleep 600", gpu=True))
    project.stages(sh("second", "echo $PL_DEVICE >$PL_OUT/f", "go", gpu={"count": 1, "required": False, "wait": "1s"}), pipeline="q")
    first = project.commit("in", {"f": "1"})["run"]
    running(project, first, "first")
    job = project.run("go", {"f": "1"})["job"]["second"]
    assert (job["device"], job["warnings"]) == ("cpu", ["it runs on the CPU: gpu.required is false and no GPU came within 1s"])
    assert project.read("second", "f") == b"cpu\n"
    project.d.post(f"/runs/{first}/stop")
    project.wait(first)


def test_more_gpus_than_there_are_are_done_without_at_once(project):
    project.repo("in").stages(sh("s", "echo $PL_DEVICE >$PL_OUT/f", gpu={"count": 4, "required": False}))
    project.run("in", {"f": "1"})
    assert project.read("s", "f") == b"cpu\n"


def test_what_stands_behind_a_long_datum_is_done_by_who_has_nothing(project, gate):
    """One of 60 takes until the gate opens; by then a task holds many."""
    project.repo("in").stages(sh("s", f'n=$(basename $PL_INPUT_IN); echo $n; test $n != 20 || {gate.wait}; echo >$PL_OUT/$n', glob="/*", workers=2))
    run = project.commit("in", {str(i): str(i) for i in range(60)})["run"]
    gate.arrived()
    begun = lambda: sorted(project.logs("s", run=run).split(), key=int)
    wait_until(lambda: len(begun()) >= 60, lambda: f"all others to be done, not {begun()}")
    gate.open()
    assert project.wait(run)["job"]["s"]["datums"] | {} == {"total": 60, "reused": 0, "done": 60, "failed": 0}
    assert begun() == [str(i) for i in range(60)]  # none twice


def test_workers_share_the_datums(project, gate):
    project.repo("in").stages(sh("s", gate.wait + '; echo >$PL_OUT/$(basename $PL_INPUT_IN)', glob="/*", workers=2))
    run = project.commit("in", {str(i): str(i) for i in range(4)})["run"]
    for _ in range(2):
        gate.arrived(2)
        assert len([w for w in project.d.get("/status")["live"]["workers"] if w["project"] == project.name]) == 2
        gate.open()
    assert project.wait(run)["job"]["s"]["datums"]["done"] == 4
    assert sorted(project.files("s")) == [str(i) for i in range(4)]


def test_expensive_plans_of_one_project_do_not_hold_up_the_plans_of_another(make_daemon):
    """Many stages with a plan of 160,000 datums each wait for a GPU that is not there; the plan of a small run of another project passes their plans."""
    d = make_daemon().start()
    big, small = d.project("big"), d.project("small")
    big.repo("in").stages(*[
        {"name": f"s{i}", "input": {"cross": [{"repo": "in", "glob": "/*", "name": "a"}, {"repo": "in", "glob": "/*", "name": "b"}]}, "run": ["true"], "gpu": True}
        for i in range(24)])
    small.repo("in").stages(sh("s", 'cp "$PL_INPUT_IN/n" "$PL_OUT"'))
    run = big.commit("in", {f"{i:03}": str(i) for i in range(400)})["run"]
    done = small.run("in", {"n": "1"})["id"]
    events = d.http("GET", "/api/v1/events?since=0&limit=10000", headers={"Accept": "application/json"})["events"]
    plans = [(e["data"]["run"], e["data"]["stage"]) for e in events if e["type"] == "job" and e["data"]["counts"]["total"]]
    planned = {stage for of, stage in plans[:plans.index((done, "s"))] if of == run}
    assert len(planned) < 24, "the small run's plan came after all plans of the other project"
    d.post(f"/runs/{run}/stop")
