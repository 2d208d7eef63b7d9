"""Results of a stage's jobs side by side: what metrics.jsonl of each datum says, with the parameters that it had; and curves."""
import contextlib
import json
import sqlite3
import urllib.parse

import pytest

from conftest import HttpError, sh

PRINT = r"""/usr/bin/python3 - <<'END'
import json, os
lr = float(os.environ["PL_PARAM_LR"])
with open(os.environ["PL_OUT"] + "/metrics.jsonl", "w") as f:
    for step in range(1, 6):
        f.write(json.dumps({"step": step, "loss": lr + abs(step - 4), "acc": 1 - lr / step, "note": "text", "progress": step / 5}) + "\n")
    f.write("not json\n[1]\n{\"loss\": NaN}\n")
END"""


def sweep(*lr, **more):
    return {"name": "train", "input": {"cross": [{"repo": "in"}, {"params": {"lr": list(lr), "k": [7]}}]}, "run": ["sh", "-ec", PRINT],
            "output": {"prefix": "${params.lr}/"}, "env": {"DEPTH": "3", "TAG": "t-${params.lr}"}, **more}


def jobs(project, **query):
    return project.d.get(f"/metrics/{project.name}/train/jobs?" + urllib.parse.urlencode(query))


def figure(result, name):
    return next(f for f in result["figures"] if f["name"] == name)


def test_each_combination_is_a_result_with_its_parameters_and_its_best(project):
    project.repo("in").stages(sweep(0.5, 0.1))
    run = project.run("in", {"f": "1"})
    page = jobs(project)
    assert page["metrics"] == ["loss", "acc"] and page["lower"] == ["loss"] and page["differ"] == ["lr"] and "next" not in page
    by_lr = {r["params"]["lr"]: r for r in page["results"]}
    assert {lr: r["params"] for lr, r in by_lr.items()} == {lr: {"lr": lr, "k": 7, "DEPTH": "3"} for lr in (0.5, 0.1)}
    assert {r["run"] for r in page["results"]} == {run["id"]} and {r["state"] for r in page["results"]} == {"success"}
    assert figure(by_lr[0.5], "loss") == {"name": "loss", "count": 5, "last": {"step": 5, "value": 1.5}, "min": {"step": 4, "value": 0.5}, "max": {"step": 1, "value": 3.5}}
    assert [(r["lines"], r["broken"]) for r in page["results"]] == [(8, 3)] * 2, "lines that are no JSON are counted"
    # less is better of a loss, more of what its name tells nothing about; a goal that is given counts
    assert (page["metric"], page["goal"]) == ("loss", "min")
    assert page["best"] == {"run": run["id"], "datum": by_lr[0.1]["datum"], "step": 4, "value": 0.1}
    assert jobs(project, metric="acc")["best"]["value"] == pytest.approx(0.98)
    assert jobs(project, metric="acc", goal="min")["best"] == {"run": run["id"], "datum": by_lr[0.5]["datum"], "step": 1, "value": 0.5}
    assert jobs(project, metric="none")["best"] is None
    with pytest.raises(HttpError) as refused:
        jobs(project, goal="best")
    assert refused.value.status == 400 and "use min or max" in str(refused.value)


def test_jobs_come_by_pages_and_a_new_combination_alone_is_in_the_newest(project):
    project.repo("in").stages(sweep(0.5), sh("quiet", "echo >$PL_OUT/f"))
    first = project.run("in", {"f": "1"})["id"]
    second = project.wait(project.stages(sweep(0.5, 0.25), sh("quiet", "echo >$PL_OUT/f"), update=True)["run"])["id"]
    page = jobs(project, limit=1)
    assert [(r["run"], r["params"]["lr"]) for r in page["results"]] == [(second, 0.25)], "the other was reused"
    rest = jobs(project, limit=1, after=page["next"])
    assert [(r["run"], r["params"]["lr"]) for r in rest["results"]] == [(first, 0.5)]
    assert "next" not in rest or jobs(project, after=rest["next"])["results"] == []
    assert [r["run"] for r in jobs(project, run=first[:8])["results"]] == [first]
    assert project.d.get(f"/metrics/{project.name}/quiet/jobs")["results"] == []


def test_a_curve_has_at_most_so_many_points_and_every_peak(project):
    values = [i % 7 for i in range(90)]
    values[41] = 1000
    lines = "".join(json.dumps({"step": 2 * i, "v": v}) + "\n" for i, v in enumerate(values))
    project.repo("in").stages(sh("train", f"cat >$PL_OUT/metrics.jsonl <<'END'\n{lines}END\n"))
    run = project.run("in", {"f": "1"})["id"]
    get = lambda query: project.d.get(f"/metrics/{project.name}/train/curve?{query}")
    whole = get("metric=v")
    assert (whole["run"], whole["steps"], whole["values"]) == (run, [2 * i for i in range(90)], values)
    thin = get(f"metric=v&points=20&run={run[:8]}&datum={whole['datum']}")
    assert len(thin["steps"]) <= 20 and thin["count"] == 90 and max(thin["values"]) == 1000
    assert (thin["steps"][0], thin["steps"][-1]) == (0, 178)
    assert get("metric=none")["values"] == []
    for wrong, says in (("", "metric"), ("metric=v&points=3", "use 8 to 500"), ("metric=v&datum=xy", "datum")):
        with pytest.raises(HttpError) as refused:
            get(wrong)
        assert refused.value.status == 400 and says in str(refused.value)


def test_stages_with_metrics_are_listed_with_the_last_line_of_their_newest_jobs(project):
    stages = [sweep(0.5), sh("quiet", "echo >$PL_OUT/f"), sh("other", """echo '{"v": 1}' >$PL_OUT/metrics.jsonl; echo x >>$PL_OUT/metrics.jsonl""")]
    project.repo("in").stages(*stages)
    first = project.run("in", {"f": "1"})["id"]
    second = project.run("in", {"f": "2"})["id"]
    mine, after = [], ""
    while True:  # two stages at a time
        page = project.d.get("/metrics?limit=2" + (f"&after={after}" if after else ""))
        mine += [s for s in page["stages"] if s["project"] == project.name]
        if "next" not in page:
            break
        after = page["next"]
    assert [(s["stage"], [j["run"] for j in s["jobs"]]) for s in mine] == [("other", [second, first]), ("train", [second, first])]
    assert mine[0]["jobs"][0]["line"] == {"v": 1} and mine[1]["jobs"][0]["line"]["step"] == 5
    with pytest.raises(HttpError) as refused:
        project.d.get("/metrics?after=nothing")
    assert refused.value.status == 400


def write_lines(daemon, job, datums, lines):
    """Writes lines of metrics.jsonl of a job that has none, the datums in turn; the daemon is stopped."""
    with contextlib.closing(sqlite3.connect(f"{daemon.dir}/pipelined.db")) as db, db:
        rows = [(job, n, bytes([n % datums + 1]) * 32, line) for n, line in enumerate(lines)]
        db.executemany("INSERT INTO metric(job, id, datum, at_us, data) VALUES (?, ?, ?, 1, ?)", rows)


def three_jobs(daemon):
    """A stage with three jobs that wrote no metrics: their runs and ids, oldest first."""
    project = daemon.default
    project.repo("in").stages(sh("train", "true"))
    runs = [project.run("in", {"f": str(n)})["id"] for n in range(3)]
    daemon.stop()
    with contextlib.closing(sqlite3.connect(f"{daemon.dir}/pipelined.db")) as db:
        ids = [db.execute("SELECT id FROM job WHERE run = ? AND stage = 'train'", (run,)).fetchone()[0] for run in runs]
    return project, runs, ids


def by_run(page):
    return {run: [r for r in page["results"] if r["run"] == run] for run in dict.fromkeys(r["run"] for r in page["results"])}


def test_a_page_ends_before_it_has_too_many_figures(make_daemon):
    daemon = make_daemon(sandbox="none").start()
    project, runs, ids = three_jobs(daemon)
    wide = json.dumps({f"f{n}": n for n in range(64)})
    for job in ids:
        write_lines(daemon, job, 130, [wide] * 130)  # 8,320 figures
    daemon.start()
    page = jobs(project)
    assert {run: len(of) for run, of in by_run(page).items()} == {runs[2]: 130, runs[1]: 130}
    assert sum(len(r["figures"]) for r in page["results"]) <= 20000
    rest = jobs(project, after=page["next"])
    assert {run: len(of) for run, of in by_run(rest).items()} == {runs[0]: 130} and "next" not in rest


def test_a_job_is_summed_up_from_all_its_lines_or_comes_on_the_next_page(make_daemon):
    daemon = make_daemon(sandbox="none").start()
    project, runs, ids = three_jobs(daemon)
    write_lines(daemon, ids[2], 1, ['{"v": 1}'] * 150_000)
    write_lines(daemon, ids[1], 1, ['{"v": 1}'] * 60_000)
    write_lines(daemon, ids[0], 1, ['{"v": 1}'] * 10)
    daemon.start()
    page = jobs(project)
    assert [(r["run"], r["lines"], r["cut"]) for r in page["results"]] == [(runs[2], 150_000, False)]
    rest = jobs(project, after=page["next"])
    assert [(r["run"], r["lines"], r["cut"]) for r in rest["results"]] == [(runs[1], 60_000, False), (runs[0], 10, False)] and "next" not in rest
