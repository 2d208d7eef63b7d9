"""What the GPUs did in the last 24 hours: by slot and by stage, over restarts, and no longer than that."""

import os
import sqlite3
import time

import pytest

from conftest import HttpError, sh, wait_until
from people import User
from test_clock import clock, library  # noqa: F401
from test_gpus import a_machine, gpu_stage  # noqa: F401


def history(d, **query):
    return d.get("/gpus/history", **query)


def gpu_events(d):
    events = d.http("GET", "/api/v1/events?since=0&limit=10000", headers={"Accept": "application/json"})["events"]
    return [one for one in events if one["type"] == "gpu"]


def held(d, stage):
    return sum(one["held_ms"] for one in history(d)["stages"] if one.get("stage") == stage)


def until(go):
    return f"while [ ! -e {go} ]; do sleep 0.01; done"


def test_the_history_says_who_held_a_gpu_and_what_stood_idle(machine):
    d, project = machine(util=2)
    begun_us = int(time.time() * 1e6)
    go = os.path.join(d.root, "go")
    project.repo("in").stages(gpu_stage("s", {"product": ["*H100*"]}, until(go)))
    run = project.commit("in", {"x": "1"})["run"]
    d.wait_job(run, "s", lambda j: j["state"] == "running", "its begin")
    got = wait_until(lambda: (lambda h: h["total"]["used_ms"] >= 300 and h)(history(d, **{"from": begun_us, "px": 10})), "time in which it computes")
    stage, = got["stages"]
    assert (stage["project"], stage["stage"]) == (project.name, "s") and stage["held_ms"] == got["total"]["held_ms"]
    assert [(one["product"], one["slot"]) for one in got["series"]] == [
        ("NVIDIA A100-SXM4-40GB", 0), ("NVIDIA A100-SXM4-40GB", 1), ("NVIDIA H100 80GB HBM3", 2)]
    assert [sum(one["held"]) > 0 for one in got["series"]] == [False, False, True]
    assert len(got["known_ms"]) == len(got["series"][0]["capacity"]) == got["points"] == 10
    assert abs(sum(stage["held"]) - stage["held_ms"]) <= 10
    total = got["total"]
    assert total["idle_ms"] == total["held_ms"] and 300 <= total["used_ms"] <= total["held_ms"], "the driver measures 2 %: it is idle"
    assert abs(total["busy_ms"] - total["measured_ms"] / 50) <= 9 and total["capacity_ms"] >= total["measured_ms"] > 0
    slot = next(one for one in d.get("/gpus")["gpus"] if one["slot"] == 2)
    assert slot["computing"] and begun_us < slot["idle_since_us"] <= time.time() * 1e6
    eve = User(d, "eve", ("other", "reader"))
    assert [one.get("stage") for one in eve.get("/gpus/history")["stages"]] == [None], "who may not read the stage learns no name"
    d.write(go, "")
    project.wait(run)


def test_a_restart_keeps_it(machine):
    d, project = machine()
    go = os.path.join(d.root, "go")
    project.repo("in").stages(gpu_stage("s", True, until(go)))
    run = project.commit("in", {"x": "1"})["run"]
    wait_until(lambda: held(d, "s") >= 500, "time that is held")
    d.write(go, "")
    project.wait(run)
    before = held(d, "s")
    assert d.stop() == 0
    d.start()
    assert held(d, "s") >= before


def test_a_crash_loses_seconds_of_it(machine):
    d, project = machine()
    go = os.path.join(d.root, "go")
    project.repo("in").stages(gpu_stage("s", True, until(go)))
    run = project.commit("in", {"x": "1"})["run"]
    wait_until(lambda: held(d, "s") >= 500, "time that is held")
    path = f"{d.dir}/pipelined.db"
    wait_until(lambda: sqlite3.connect(path).execute("SELECT count(*) FROM gpu_span WHERE series LIKE '%\"s\"%'").fetchone()[0], "that it is written")
    d.kill()
    d.start()
    assert held(d, "s") > 0
    d.write(go, "")
    project.wait(run)


def test_what_the_database_refused_is_written_later(make_daemon, clock):  # noqa: F811
    d = make_daemon("--gpus", "1", sandbox="none").start(env=clock.env)
    project = d.default.repo("in")
    project.stages(gpu_stage("s", True, "sleep 1"))
    db = sqlite3.connect(f"{d.dir}/pipelined.db", isolation_level=None)
    db.execute("CREATE TRIGGER refuse BEFORE INSERT ON gpu_span BEGIN SELECT RAISE(ABORT, 'refused by a test'); END")
    project.run("in", {"x": "1"})
    until_us = int(time.time() * 1e6)
    clock.set(120)  # the minute is over
    project.run("in", {"x": "2"})
    wait_until(lambda: "cannot record what the GPUs did, will be tried again: database: refused by a test" in d.log(), d.log)
    assert db.execute("SELECT count(*) FROM gpu_span").fetchone() == (0,)
    assert d.log().count("cannot record what the GPUs did") == 1
    db.execute("DROP TRIGGER refuse")
    project.run("in", {"x": "3"})
    wait_until(lambda: db.execute("SELECT count(*) FROM gpu_span WHERE from_us < ? AND series LIKE '%\"s\"%'", (until_us,)).fetchone()[0], d.log)
    db.close()


def test_it_goes_back_24_hours(make_daemon, clock):  # noqa: F811
    d = make_daemon("--gpus", "1", sandbox="none").start(env=clock.env)
    project = d.default.repo("in")
    project.stages(gpu_stage("s", True, "sleep 1"))
    project.run("in", {"x": "1"})
    assert d.stop() == 0
    clock.set(25 * 3600)
    d.start(env=clock.env)
    assert history(d, **{"from": 1})["stages"] != [], "nothing was written since"
    project.run("in", {"x": "2"})
    assert d.stop() == 0
    rows = sqlite3.connect(f"{d.dir}/pipelined.db").execute("SELECT from_us FROM gpu_span").fetchall()
    assert rows and min(rows)[0] > (time.time() + 3600) * 1e6, rows


def test_an_event_tells_that_slots_changed(make_daemon, gate):
    d = make_daemon("--gpus", "2", sandbox="none").start()
    project = d.default.repo("in")
    project.stages(gpu_stage("s", True, gate.wait))
    run = project.commit("in", {"x": "1"})["run"]
    wait_until(lambda: {"capacity": 2, "held": 1, "computing": 1, "idle": 0} in [one["data"] for one in gpu_events(d)], lambda: gpu_events(d))
    gate.arrived()
    gate.open()
    assert project.wait(run)["state"] == "success"
    told = wait_until(lambda: (lambda all: all[-1]["data"]["held"] == 0 and all)(gpu_events(d)), lambda: gpu_events(d))
    assert all(b["at_us"] - a["at_us"] >= 400000 for a, b in zip(told, told[1:])), told


def test_without_gpus_nothing_is_recorded(make_daemon):
    d = make_daemon("--gpus", "0").start()
    project = d.default.repo("in")
    project.stages(sh("s", "true"))
    project.run("in", {"x": "1"})
    got = history(d)
    assert (got["series"], got["stages"], sum(got["known_ms"])) == ([], [], 0)
    assert gpu_events(d) == []


def test_a_range_that_is_none_is_refused(make_daemon):
    d = make_daemon("--gpus", "1").start()
    for query, says in (({"from": 5, "to": 5}, "from must be earlier"), ({"px": 0}, "px is 0"), ({"px": 1441}, "px"), ({"from": -1}, "from")):
        with pytest.raises(HttpError, match=says):
            d.get("/gpus/history", **query)
