"""The timeline of a run: what each worker of its stages did, also while it does it, in as many pixels as are asked for."""
import contextlib
import sqlite3

import pytest
from conftest import HttpError, sh, wait_until

WORK = 'sleep 0.2; cp "$PL_INPUT_IN" "$PL_OUT/"'


def timeline(project, run, **query):
    got = project.d.get(f"/runs/{run}/timeline", **query)
    for stage in got["stages"]:
        for lane in stage["lanes"]:
            spans = lane["spans"]
            assert all(a["to_us"] == b["from_us"] for a, b in zip(spans, spans[1:])), "spans follow each other"
            assert all(a["phase"] != b["phase"] for a, b in zip(spans, spans[1:]))
            assert len(spans) <= got["px"] + 1
    return got


def ended(project, run, workers):
    """The timeline once the rows of the workers are written, which is after the job's end."""
    return wait_until(lambda: (lambda got: got if sum(len(stage["lanes"]) for stage in got["stages"]) >= workers else None)(timeline(project, run)), "the workers' rows")


def test_each_worker_has_the_phases_of_its_datums(project):
    project.repo("in").stages(sh("a", WORK, glob="/*", workers=1), sh("b", 'ls "$PL_INPUT_A" >"$PL_OUT/l"', repo="a"))
    run = project.run("in", {str(i): "x" for i in range(3)})
    got = ended(project, run["id"], 2)
    assert (got["from_us"], got["to_us"], got["px"], got["more"]) == (run["created_us"], run["finished_us"], 1000, False)
    a, b = got["stages"]
    assert [(s["stage"], s["state"], s["workers"], s["attempts"], s["kept"]) for s in (a, b)] == [("a", "success", 1, 3, 3), ("b", "success", 1, 1, 1)]
    lane, = a["lanes"]
    assert lane["state"] == "ended" and lane["spans"][0]["phase"] == "start" and 600 <= lane["ms"]["compute"] <= run["job"]["a"]["ms"]["compute"] + 3, lane
    assert sum(span["to_us"] - span["from_us"] for span in lane["spans"] if span["phase"] == "compute") >= 600_000
    assert got["gpu"] == {"held_ms": 0, "computing_ms": 0, "idle_ms": 0}
    part = timeline(project, run["id"], **{"from": run["created_us"], "to": lane["spans"][0]["to_us"], "px": 10})
    assert part["px"] == 10 and {span["phase"] for s in part["stages"] for one in s["lanes"] for span in one["spans"]} <= {"start"}


def test_a_worker_that_works_now_is_there(project, gate):
    project.repo("in").stages(sh("a", f'cp "$PL_INPUT_IN" "$PL_OUT/"; {gate.wait}', glob="/*"))
    run = project.commit("in", {"x": "1"})["run"]
    gate.arrived()
    got = timeline(project, run)
    lane, = got["stages"][0]["lanes"]
    assert lane["state"] == "running" and lane.get("ended_us") is None and lane["spans"][-1]["phase"] == "work", lane
    assert lane["spans"][-1]["to_us"] == got["to_us"]
    gate.open()
    assert project.d.wait(run)["state"] == "success"


@pytest.mark.parametrize("query, field", [({"px": 0}, "px"), ({"px": 4001}, "px"), ({"from": 5, "to": 5}, "from"), ({"to": "noon"}, "to"), ({"from": 0, "to": 2**63 - 1, "px": 2}, "to")])
def test_a_view_of_nothing_is_refused(project, query, field):
    project.repo("in").stages(sh("a", "true"))
    run = project.run("in", {"x": "1"})
    with pytest.raises(HttpError) as refused:
        timeline(project, run["id"], **query)
    assert refused.value.status == 400 and refused.value.error["field"] == field, refused.value.error


def test_a_run_that_is_not_there_has_none(project):
    with pytest.raises(HttpError) as refused:
        timeline(project, "ab" * 16)
    assert refused.value.status == 404


def test_all_stages_together_have_so_many_workers_and_the_reply_says_that_there_are_more(make_daemon):
    daemon = make_daemon(sandbox="none").start()
    project = daemon.default
    project.repo("in").stages(*(sh(f"s{n:02}", "true") for n in range(12)))
    run = project.run("in", {"x": "1"})
    daemon.stop()
    with contextlib.closing(sqlite3.connect(f"{daemon.dir}/pipelined.db")) as db, db:
        db.execute("DELETE FROM job_worker")
        for job, in db.execute("SELECT id FROM job WHERE run = ?", (run["id"],)).fetchall():
            rows = [(job, n, run["created_us"], run["finished_us"]) for n in range(1, 1801)]
            db.executemany("INSERT INTO job_worker(job, worker, lost, started_us, ended_us) VALUES (?, ?, 0, ?, ?)", rows)
    daemon.start()
    got = timeline(project, run["id"])
    assert [stage["workers"] for stage in got["stages"]] == [1800] * 11 + [200] and got["more"]
    few = timeline(project, run["id"], **{"from": run["finished_us"] + 1, "to": run["finished_us"] + 2})
    assert [stage["workers"] for stage in few["stages"]] == [0] * 12 and not few["more"]
