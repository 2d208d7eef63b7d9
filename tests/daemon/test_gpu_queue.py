"""What waits for GPUs and CPU, in the order in which it is served: since when, who has it, and what would let it start; GPUs that are held idle
meanwhile."""

import os
import time

from conftest import sh, wait_until
from people import User
from test_clock import clock, library  # noqa: F401
from test_gpu_history import until
from test_gpus import a_machine, gpu_stage  # noqa: F401


def three_that_want_one(d):
    """Of one GPU: "first" has it, "high" goes before "low". -> the run of the two, and the file that ends "first"."""
    project = d.default.repo("in", "before")
    go = os.path.join(d.root, "go")
    project.stages(gpu_stage("first", True, until(go), repo="before"), gpu_stage("low", True, priority=-1), gpu_stage("high", True, priority=1))
    before = project.commit("before", {"x": "1"})["run"]
    d.wait_job(before, "first", lambda j: j["state"] == "running", "that it has the GPU")
    run = project.commit("in", {"x": "1"})["run"]
    for stage in ("low", "high"):
        d.wait_job(run, stage, lambda j: j["reason"].startswith("waiting for 1 GPU"), "that it waits")
    return project, before, run, go


def test_the_queue_says_what_waits_for_what_and_what_would_let_it_start(make_daemon):
    d = make_daemon("--gpus", "1", sandbox="none").start()
    begun_us = int(time.time() * 1e6)
    project, before, run, go = three_that_want_one(d)
    got = d.get("/queue")
    assert [(one["stage"], one["run"], one["for"], one["ahead"]) for one in got["queue"]] == [("high", run, "gpu", 0), ("low", run, "gpu", 1)]
    high, low = got["queue"]
    assert high["reason"] == f"waiting for 1 GPU: 0 of 1 free, used by stage first of run {before[:8]}"
    assert begun_us <= high["since_us"] <= time.time() * 1e6 and high["want"]["gpus"] == 1 and (high["free"], high["of"]) == (0, 1)
    assert high["holders"] == [{"gpus": 1, "project": project.name, "stage": "first", "run": before, "computing": 1}]
    assert high["start"] == f"it starts when first of run {before[:8]} ends"
    assert low["start"] == f"it starts when first of run {before[:8]} ends; 1 stage goes before it"
    job = d.get(f"/jobs/{project.name}/high/{run}")
    assert job["waits"] == {key: high[key] for key in ("for", "ahead", "want", "free", "of", "holders", "start")}
    assert "waits" not in d.get(f"/jobs/{project.name}/first/{before}")
    assert User(d, "eve", ("other", "reader")).get("/queue") == {"queue": [], "hidden": 2}
    d.write(go, "")
    project.wait(run)
    assert d.get("/queue")["queue"] == [] and "waits" not in d.get(f"/jobs/{project.name}/high/{run}")


def test_what_can_never_start_is_last_and_says_so(machine):
    d, project = machine()
    project.repo("in").stages(gpu_stage("never", {"product": ["*B200*"], "memory": "180G", "compute": "10.0"}))
    run = project.commit("in", {"x": "1"})["run"]
    d.wait_job(run, "never", lambda j: "with product" in j["reason"], "what it waits for")
    one, = d.get("/queue")["queue"]
    assert (one["for"], one["want"]["product"], one["want"]["compute"], one["want"]["gpu_memory_mib"]) == ("never", ["*B200*"], "10.0", 165888)
    assert one["start"] == "it cannot start here: add what it wants, or ask for less in its spec"


def test_gpus_that_are_held_idle_while_a_stage_waits_need_somebody(machine, clock, tmp_path):  # noqa: F811
    d, project = machine(util=0, env=clock.env)
    go = os.path.join(d.root, "go")
    project.repo("in", "before").stages(gpu_stage("first", {"count": 3}, until(go), repo="before"), gpu_stage("second", True))
    before = project.commit("before", {"x": "1"})["run"]
    d.wait_job(before, "first", lambda j: j["state"] == "running", "that it has the GPUs")
    wait_until(lambda: all("idle_since_us" in one for one in d.get("/gpus")["gpus"]), "that they are idle")
    run = project.commit("in", {"x": "1"})["run"]
    d.wait_job(run, "second", lambda j: j["reason"].startswith("waiting for 1 GPU"), "that it waits")
    idle = lambda: [one for one in d.get("/needs")["needs"] if one["kind"] == "idle_gpu"]  # noqa: E731
    assert idle() == [], "five minutes are allowed"
    since = d.get("/gpus")["gpus"][0]["idle_since_us"]
    clock.set(365)
    one, = idle()
    assert one["text"] == "first holds 3 GPUs and does nothing with them, while second waits for 1"
    assert (one["stage"], one["run"], one["since_us"]) == ("second", run, since) and one["holder"]["stage"] == "first"
    high, = d.get("/queue")["queue"]
    assert high["start"] == f"it starts when first of run {before[:8]} ends; first of run {before[:8]} has done nothing for 6 min"
    assert [one for one in User(d, "eve", ("other", "reader")).get("/needs")["needs"] if one["kind"] == "idle_gpu"] == []
    d.write(go, "")
    project.wait(run)
    assert idle() == []


def test_a_full_cpu_is_waited_for_too(make_daemon):
    d = make_daemon("--gpus", "0", sandbox="none").start()
    project = d.default.repo("in", "before")
    go = os.path.join(d.root, "go")
    project.stages(sh("first", until(go), repo="before", resources={"cpu": 1000}), sh("second", "true", resources={"cpu": 1000}))
    before = project.commit("before", {"x": "1"})["run"]
    d.wait_job(before, "first", lambda j: j["state"] == "running", "that it runs")
    run = project.commit("in", {"x": "1"})["run"]
    d.wait_job(run, "second", lambda j: j["reason"].startswith("waiting for"), "that it waits")
    one, = d.get("/queue")["queue"]
    assert (one["for"], one["start"]) == ("cpu", f"it starts when first of run {before[:8]} ends") and one["want"]["gpus"] == 0
    d.write(go, "")
    project.wait(run)
