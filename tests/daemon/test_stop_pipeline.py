"""stop pipeline and start pipeline: a stopped pipeline keeps what it has and gets no jobs."""

import json
import pathlib

import pytest
from conftest import HttpError, wait_until
from people import User

CONFLICT, MISSING = 4, 3


def spec(name="p", stage="copy", repo="in", **more):
    return {"pipeline": name, "repos": {"in": {}},
            "stages": [{"name": stage, "input": {"repo": repo, "name": "x", "glob": "/"}, "script": "cat $x/* >$PL_OUT/all", **more}]}


def make(daemon, one, verb="create", *options):
    return daemon.ctl(verb, "pipeline", "-f", daemon.write("spec.json", json.dumps(one)), *options)


def pipeline(daemon, name="p"):
    return daemon.get(f"/pipelines/default/{name}")


def jobs_of(daemon, stage):
    return [(j["run"], j["state"]) for j in daemon.get("/jobs")["jobs"] if j["stage"] == stage]


@pytest.fixture
def daemon(make_daemon):
    return make_daemon().start()


def test_a_stopped_pipeline_keeps_its_outputs_and_goes_on_with_what_came_meanwhile(daemon):
    make(daemon, spec())
    make(daemon, spec("q", "next", "copy"))
    daemon.default.run("in", {"a": b"1"})
    said = daemon.ctl("stop", "pipeline", "p").out
    assert "pipeline p is stopped" in said and "start pipeline p" in said
    assert pipeline(daemon)["state"] == "stopped" and pipeline(daemon)["stopped_by"] == "hand" and pipeline(daemon)["version"] == 1
    assert "stopped" in daemon.ctl("list", "pipeline").out and "stopped" in daemon.ctl("inspect", "pipeline", "p").out
    assert "2 pipelines (1 stopped)" in daemon.ctl("status").out
    before = jobs_of(daemon, "copy"), jobs_of(daemon, "next")
    for i in range(3):
        daemon.wait(daemon.default.commit("in", {f"b{i}": b"2"})["run"])
    assert (jobs_of(daemon, "copy"), jobs_of(daemon, "next")) == before and daemon.read("copy", "all") == b"1"
    assert "stopped already" in daemon.ctl("stop", "pipeline", "p").out
    answer = json.loads(daemon.ctl("start", "pipeline", "p", "--json").out)
    assert (answer["state"], answer["changed"]) == ("running", True)
    assert {j["stage"] for j in daemon.wait(answer["run"])["jobs"]} == {"copy", "next"}
    assert daemon.read("copy", "all") == b"1222" and daemon.read("next", "all") == b"1222"
    assert pipeline(daemon)["state"] == "running" and "stopped_by" not in pipeline(daemon)
    assert "not stopped" in daemon.ctl("start", "pipeline", "p").out
    run = daemon.default.run("in", {"c": b"3"})
    assert set(run["job"]) == {"copy", "next"} and daemon.read("next", "all") == b"12223"


def test_what_runs_is_killed_and_the_next_start_does_it(daemon):
    make(daemon, spec(script="test -e /nowhere || sleep 600"))
    run = daemon.default.commit("in", {"a": b"1"})["run"]
    wait_until(lambda: [s for _, s in jobs_of(daemon, "copy")] == ["running"], "the job")
    daemon.ctl("stop", "pipeline", "p")
    ended = daemon.wait(run)
    assert ended["state"] == "killed" and "pipeline was stopped" in ended["jobs"][0]["reason"]
    assert "is stopped and does not run" in make(daemon, spec(), "update", "--yes").err
    assert pipeline(daemon)["version"] == 2 and pipeline(daemon)["state"] == "stopped" and len(jobs_of(daemon, "copy")) == 1
    run = json.loads(daemon.ctl("start", "pipeline", "p", "--json").out)["run"]
    assert daemon.wait(run)["state"] == "success" and daemon.read("copy", "all") == b"1"


def test_a_stopped_pipeline_is_not_run_by_hand(daemon):
    make(daemon, spec())
    run = daemon.default.run("in", {"a": b"1"})
    daemon.ctl("stop", "pipeline", "p")
    for words in (("run", "pipeline", "p"), ("rerun", run["id"]), ("rerun", run["id"], "--as", "again")):
        refused = daemon.ctl(*words, ok=False)
        assert refused.code == CONFLICT and "pipeline \"p\" is stopped" in refused.err and "start pipeline p" in refused.err, refused.err
    assert daemon.ctl("stop", "pipeline", "none", ok=False).code == MISSING
    assert daemon.ctl("start", "pipeline", "none", ok=False).code == MISSING


def test_a_start_without_data_waits_for_the_first_push(daemon):
    make(daemon, spec())
    daemon.ctl("stop", "pipeline", "p")
    assert "no commit yet" in daemon.ctl("start", "pipeline", "p").out
    run = daemon.default.run("in", {"a": b"1"})
    assert set(run["job"]) == {"copy"}


def test_a_stop_outlasts_restarts_and_a_recovery(daemon):
    make(daemon, spec(script="sleep 600"))
    make(daemon, spec("other", "slow", script="sleep 600"))
    first = daemon.default.commit("in", {"a": b"1"})["run"]
    wait_until(lambda: [s for _, s in jobs_of(daemon, "copy") + jobs_of(daemon, "slow")] == ["running"] * 2, "the jobs")
    daemon.ctl("stop", "pipeline", "p")
    second = daemon.default.commit("in", {"b": b"1"})["run"]
    daemon.kill()
    daemon.start("--linger", "0s")
    wait_until(lambda: [s for _, s in jobs_of(daemon, "copy")] == ["killed"], "the end of the stopped job")
    assert pipeline(daemon)["state"] == "stopped" and jobs_of(daemon, "copy") == [(first, "killed")]
    make(daemon, spec(), "update", "--yes")
    run = json.loads(daemon.ctl("start", "pipeline", "p", "--json").out)["run"]
    assert daemon.wait(run)["state"] == "success"
    daemon.kill()
    daemon.start("--linger", "0s")
    wait_until(lambda: "running" in [s for _, s in jobs_of(daemon, "slow")], "the other pipeline")
    assert {r for r, _ in jobs_of(daemon, "copy")} == {first, run}, "no job of the time between"
    daemon.ctl("stop", "pipeline", "other")
    daemon.ctl("stop", "pipeline", "p")
    for one in (first, second):
        daemon.wait(one)
    assert daemon.stop() == 0
    for left in pathlib.Path(daemon.dir).glob("pipelined.db*"):
        left.unlink()
    daemon.start()
    assert (pipeline(daemon)["state"], pipeline(daemon, "other")["state"]) == ("stopped", "stopped")
    daemon.wait(daemon.default.commit("in", {"c": b"1"})["run"])
    assert {r for r, _ in jobs_of(daemon, "copy")} == {first, run}
    daemon.wait(json.loads(daemon.ctl("start", "pipeline", "p", "--json").out)["run"])
    assert daemon.read("copy", "all") == b"111"


def test_starts_and_stops_between_pushes_lose_nothing(daemon):
    make(daemon, spec())
    daemon.default.run("in", {"f0": b"0"})
    for i in range(1, 9):
        daemon.post("/pipelines/default/p/stop")
        daemon.default.commit("in", {f"f{i}": b"%d" % i})
        daemon.post("/pipelines/default/p/start")
        daemon.default.commit("in", {f"g{i}": b"%d" % i})
    for run in daemon.get("/runs", limit=100)["runs"]:
        daemon.wait(run["id"])
    assert daemon.read("copy", "all") == b"01234567812345678"


def test_writers_stop_and_start_and_events_tell(daemon):
    make(daemon, spec())
    reader, writer = User(daemon, "reader", ("default", "reader")), User(daemon, "writer", ("default", "writer"))
    assert reader.status("POST", "/pipelines/default/p/stop") == 403 and writer.status("POST", "/pipelines/default/p/stop") == 200
    assert reader.status("POST", "/pipelines/default/p/start") == 403 and writer.status("POST", "/pipelines/default/p/start") == 200
    with pytest.raises(HttpError):
        daemon.post("/pipelines/default/none/stop")
