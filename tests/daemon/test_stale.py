"""Which outputs are out of date, why, what mends them, and what that costs: status --stale, list and inspect pipeline, the API."""

from conftest import sh, wait_until
from people import User

COPY = 'cp -r "$PL_INPUT_IN"/. "$PL_OUT"/'


def freshness(project, pipeline="p"):
    """{stage: freshness} of a pipeline; both routes say the same."""
    one = project.d.get(f"/pipelines/{project.name}/{pipeline}")
    listed = next(p for p in project.d.get("/pipelines", project=project.name)["pipelines"] if p["name"] == pipeline)
    of = {s["name"]: s["freshness"] for s in one["stages"]}
    assert of == {s["name"]: s["freshness"] for s in listed["stages"]}
    assert one["stale"] == listed["stale"] == sum(f["text"] != "" for f in of.values())
    for name, f in of.items():
        repo = project.d.get(f"/repos/{project.name}/{name}")
        assert repo["freshness"] == f and repo["stale"] == (f["text"] != "" and repo["commit"] != "")
    return of


def stale_lines(project):
    """What status --stale says of this project's stages."""
    said = project.d.ctl("status", "--stale")
    return [line.removeprefix(f"{project.name}/") for line in said.out.splitlines() if line.startswith(f"{project.name}/")]


def states(project, pipeline="p"):
    return {name: (f["state"], f["why"], f.get("datums")) for name, f in freshness(project, pipeline).items()}


CURRENT = ("current", [], None)


def test_nothing_is_out_of_date_while_there_is_nothing_and_when_all_is_made(project):
    project.repo("in").stages(sh("one", COPY), sh("two", "true", repo="one"))
    assert {name: f["state"] for name, f in freshness(project).items()} == {"one": "empty", "two": "empty"}
    assert stale_lines(project) == []
    project.run("in", {"a": "1"})
    assert states(project) == {"one": CURRENT, "two": CURRENT}
    assert stale_lines(project) == []
    assert {f["command"] for f in freshness(project).values()} == {""}


def test_an_empty_daemon_prints_nothing_and_succeeds(daemon):
    said = daemon.ctl("status", "--stale")
    assert (said.code, said.out, said.err) == (0, "", "")
    assert daemon.ctl("--json", "status", "--stale").json == {"stages": []}


def test_a_newer_input_whose_job_failed_says_what_is_left_and_what_follows(project):
    """The second push fails one of its datums: what was made of the first is older than the input, and what was made of that, too."""
    project.repo("in").stages(sh("one", 'test "$(cat $PL_INPUT_IN)" != bad; cp "$PL_INPUT_IN" "$PL_OUT"/', glob="/*"),
                              sh("two", 'cp -r "$PL_INPUT_ONE"/. "$PL_OUT"/', repo="one"), sh("apart", COPY))
    project.run("in", {"a": "1"})
    run = project.run("in", {"b": "bad", "c": "3"}, state="failure")["id"]
    of = freshness(project)
    assert of["apart"]["state"] == "current"
    assert of["one"] == {"state": "stale", "why": ["input"], "datums": 1, "text": f"out of date: 1 datum, input in changed in run {run[:8]}",
                         "command": f"pipelinectl run pipeline {project.name}/p"}
    assert (of["two"]["state"], of["two"]["why"], of["two"]["text"]) == ("stale", ["upstream"], "out of date: its input one is out of date (input)")
    assert stale_lines(project) == [f"{name}  {of[name]['text']}: {of[name]['command']}" for name in ("one", "two")]
    project.run("in", {"b": "2"})
    assert stale_lines(project) == []


def test_code_that_changed_while_the_pipeline_was_stopped(project):
    spec = lambda text: [sh("lab", f'cp "$PL_INPUT_IN" "$PL_OUT"/; true {text}', glob="/*"), sh("end", "true", repo="lab")]
    project.repo("in").stages(*spec("1"))
    project.run("in", {"a": "1", "b": "2", "c": "3"})
    project.d.post(f"/pipelines/{project.name}/p/stop")
    assert states(project) == {"lab": CURRENT, "end": CURRENT}
    project.stages(*spec("2"), update=True)
    of = freshness(project)
    assert of["lab"] == {"state": "stale", "why": ["code"], "datums": 3, "command": f"pipelinectl start pipeline {project.name}/p",
                         "text": "out of date: 3 datums, code changed in version 2; pipeline p is stopped"}
    assert of["end"]["why"] == ["upstream"] and "(code)" in of["end"]["text"]
    run = project.d.post(f"/pipelines/{project.name}/p/start")["run"]
    project.wait(run)
    assert states(project) == {"lab": CURRENT, "end": CURRENT}


def test_code_whose_run_failed_names_that_run(project):
    project.repo("in").stages(sh("lab", COPY))
    project.run("in", {"a": "1"})
    run = project.wait(project.stages(sh("lab", "exit 3"), update=True)["run"])["id"]
    f = freshness(project)["lab"]
    assert f["text"] == f"out of date: 1 datum, code changed in run {run[:8]}" and f["why"] == ["code"]
    # back to what it was: the output was made by just that
    project.wait(project.stages(sh("lab", COPY), update=True)["run"])
    assert states(project) == {"lab": CURRENT}


def test_a_change_that_touches_no_datum_makes_nothing_out_of_date(project):
    project.repo("in").stages(sh("lab", COPY))
    project.run("in", {"a": "1"})
    project.d.post(f"/pipelines/{project.name}/p/stop")
    project.stages(sh("lab", COPY, workers=3), update=True)
    assert states(project) == {"lab": CURRENT}
    project.stages(sh("lab", COPY, workers=3, glob="/*"), update=True)
    assert states(project) == {"lab": ("stale", ["spec"], None)}
    assert "selection of inputs changed in version 3" in freshness(project)["lab"]["text"]


def test_skipped_datums_are_counted_until_they_succeed(project):
    project.repo("in").stages(sh("lab", 'test "$(cat $PL_INPUT_IN)" != bad; cp "$PL_INPUT_IN" "$PL_OUT"/', glob="/*", on_error="skip"))
    project.run("in", {"a": "1", "b": "bad", "c": "bad"})
    assert freshness(project)["lab"] == {"state": "stale", "why": ["skipped"], "datums": 2, "text": "out of date: 2 datums skipped",
                                         "command": f"pipelinectl run pipeline {project.name}/p"}
    project.run("in", {"b": "1", "c": "1"})
    assert states(project) == {"lab": CURRENT}


def test_a_stage_that_never_made_an_output(project):
    project.repo("in").stages(sh("lab", "exit 3"), sh("next", "true", repo="lab"))
    project.run("in", {"a": "1"}, state="failure")
    of = states(project)
    assert of == {"lab": ("stale", ["missing"], 1), "next": ("empty", [], None)}
    assert stale_lines(project) == [f"lab  out of date: 1 datum, no output yet: pipelinectl run pipeline {project.name}/p"]


def test_what_a_run_brings_up_to_date_names_the_run(project, gate):
    project.repo("in").stages(sh("lab", f'if [ "$(cat $PL_INPUT_IN/a)" = 2 ]; then {gate.wait}; fi; {COPY}'), sh("end", "true", repo="lab"))
    project.run("in", {"a": "1"})
    run = project.push("in", "a", b"2")["run"]
    gate.arrived()
    wait_until(lambda: {f["state"] for f in freshness(project).values()} == {"updating"}, "both have jobs")
    of = freshness(project)["lab"]
    assert of["run"] == run and of["command"] == f"pipelinectl wait run {run[:8]}"
    assert of["text"] == f"out of date: input in changed in run {run[:8]}; being brought up to date by run {run[:8]}"
    gate.open()
    project.wait(run)
    assert stale_lines(project) == []


def test_the_command_mends_a_pipeline_upstream(project):
    """The second pipeline reads what the first one writes: the first is to be run."""
    project.repo("in").stages(sh("lab", COPY), pipeline="first")
    project.stages(sh("end", 'cp -r "$PL_INPUT_LAB"/. "$PL_OUT"/', repo="lab"), pipeline="second")
    project.run("in", {"a": "1"})
    project.wait(project.stages(sh("lab", "exit 3"), pipeline="first", update=True)["run"])
    of = freshness(project, "second")["end"]
    assert (of["why"], of["command"]) == (["upstream"], f"pipelinectl run pipeline {project.name}/first")


def test_pipelinectl_says_it_where_pipelines_are_shown(project):
    project.repo("in").stages(sh("lab", COPY), sh("end", "true", repo="lab"))
    project.run("in", {"a": "1"})
    ctl = lambda *args: project.d.ctl("--project", project.name, *args)
    assert "OUT OF DATE" in ctl("list", "pipeline").out
    run = project.wait(project.stages(sh("lab", "exit 3"), sh("end", "true", repo="lab"), update=True)["run"])["id"]
    assert f"lab: 1 datum, code changed in run {run[:8]} (and 1 more)" in ctl("list", "pipeline").out
    shown = ctl("inspect", "pipeline", "p").out
    assert f"1 datum, code changed in run {run[:8]}" in shown and "its input lab is out of date (code)" in shown
    status = ctl("status").out
    assert f"{project.name}/lab  out of date: 1 datum, code changed in run {run[:8]}: pipelinectl run pipeline {project.name}/p" in status
    listed = [one for one in ctl("--json", "status", "--stale").json["stages"] if one["project"] == project.name]
    assert [(one["pipeline"], one["stage"], one["state"], one["why"]) for one in listed] == [("p", "lab", "stale", ["code"]), ("p", "end", "stale", ["upstream"])]


def prices(project, *args):
    """{stage: (datums, of, at_most)} of run pipeline --dry-run."""
    got = project.d.ctl("--json", "run", "pipeline", f"{project.name}/p", "--dry-run", *args).json
    assert got["run"] == ""
    return {one["stage"]: tuple(one["again"][key] for key in ("datums", "of", "at_most")) if "again" in one else None for one in got["prices"]}


def test_a_dry_run_prices_what_is_out_of_date_and_starts_nothing(project):
    spec = lambda script: [sh("lab", script, glob="/*"), sh("end", 'cp -r "$PL_INPUT_LAB"/. "$PL_OUT"/', repo="lab"), sh("apart", COPY)]
    good = 'cp "$PL_INPUT_IN" "$PL_OUT"/'
    project.repo("in").stages(*spec(good))
    project.run("in", {"a": "1", "b": "2", "c": "3"})
    runs = lambda: [run["id"] for run in project.d.get("/runs", project=project.name)["runs"]]
    before = runs()
    assert prices(project) == {"lab": (0, 3, False), "end": (0, 1, False), "apart": (0, 1, False)}
    assert prices(project, "--force") == {"lab": (3, 3, False), "end": (1, 1, False), "apart": (1, 1, False)}
    assert prices(project, "--stage", "lab", "--force") == {"lab": (3, 3, False), "end": (1, 1, True)}
    said = project.d.ctl("run", "pipeline", f"{project.name}/p", "--dry-run").out
    assert "none was started" in said and "nothing to run again, 3 reused" in said
    assert runs() == before
    # a job that fails at one of three datums leaves that one; what follows may run
    project.wait(project.stages(*spec('test "$(cat $PL_INPUT_IN)" != 2; ' + good), update=True)["run"])
    assert prices(project) == {"lab": (1, 3, False), "end": (1, 1, True), "apart": (0, 1, False)}
    said = project.d.ctl("run", "pipeline", f"{project.name}/p", "--dry-run").out
    assert "1 of 3 datums to run" in said and "2 reused" in said and "up to 1 of 1 datum to run" in said


def test_a_dry_run_is_refused_as_the_run_would_be(project):
    project.repo("in").stages(sh("lab", COPY))
    refused = lambda *args: project.d.ctl("run", "pipeline", f"{project.name}/p", "--dry-run", *args, ok=False)
    assert "nothing to read yet" in refused().err
    project.run("in", {"a": "1"})
    assert 'has no stage "none"' in refused("--stage", "none").err
    project.d.post(f"/pipelines/{project.name}/p/stop")
    assert "stopped" in refused().err


def test_a_dry_run_leaves_open_commits_open(project):
    """A put that waits for its commit is no part of the price, and a question ends no commit."""
    project.repo("in").stages(sh("lab", COPY))
    project.run("in", {"a": "1"})
    project.d.http("PATCH", f"/api/v1/repos/{project.name}/in", {"commit_window": "60s"})
    project.push("in", "b", b"2")
    before = project.commits("in")
    assert prices(project) == {"lab": (0, 1, False)}
    assert project.commits("in") == before
    project.wait(project.d.post(f"/pipelines/{project.name}/p/run")["run"])
    assert len(project.commits("in")) == len(before) + 1, "the run itself reads the put"


def test_a_stage_without_a_cache_runs_every_datum(project):
    bad = 'test "$(cat $PL_INPUT_IN)" != bad; cp "$PL_INPUT_IN" "$PL_OUT"/'
    project.repo("in").stages(sh("lab", bad, glob="/*", cache=False, on_error="skip"), sh("end", 'cp -r "$PL_INPUT_LAB"/. "$PL_OUT"/', repo="lab"))
    project.run("in", {"a": "1", "b": "2", "c": "3"})
    assert prices(project) == {"lab": (3, 3, False), "end": (1, 1, True)}
    run = project.wait(project.d.post(f"/pipelines/{project.name}/p/run")["run"])["id"]
    assert project.d.job(run, "lab")["datums"]["done"] == 3
    project.run("in", {"c": "bad"})
    assert states(project)["lab"] == ("stale", ["skipped"], 3), "not the one that was skipped alone"


def test_a_dry_run_prices_the_stages_of_other_pipelines_that_follow(project):
    """But none of a stopped one, which get no jobs."""
    project.repo("in").stages(sh("lab", COPY))
    for pipeline, stage in (("second", "end"), ("third", "halted")):
        project.stages(sh(stage, 'cp -r "$PL_INPUT_LAB"/. "$PL_OUT"/', repo="lab"), pipeline=pipeline)
    project.run("in", {"a": "1"})
    project.d.post(f"/pipelines/{project.name}/third/stop")
    assert prices(project, "--force") == {"lab": (1, 1, False), "end": (1, 1, True)}
    got = project.d.post(f"/pipelines/{project.name}/p/run", {"dry_run": True})
    assert [(one["project"], one["pipeline"], one["stage"]) for one in got["prices"]] == [(project.name, "p", "lab"), (project.name, "second", "end")]
    said = project.d.ctl("run", "pipeline", f"{project.name}/p", "--dry-run", "--force").out
    assert "a run would have 2 stages" in said and "end (second)" in said
    run = project.wait(project.d.post(f"/pipelines/{project.name}/p/run", {"force": True})["run"])["id"]
    assert {job["stage"] for job in project.d.get(f"/runs/{run}")["jobs"]} == {"lab", "end"}


def test_changed_code_and_another_glob_leave_the_number_open(project):
    project.repo("in").stages(sh("lab", COPY))
    project.run("in", {"a": "1", "b": "2"})
    project.d.post(f"/pipelines/{project.name}/p/stop")
    project.stages(sh("lab", f"true; {COPY}", glob="/*"), update=True)
    assert states(project) == {"lab": ("stale", ["code"], None)}


def test_the_version_that_is_named_brought_the_change(project):
    """Later changes of fields that touch no datum, and a way back and forth, name no other version."""
    def reason(**more):
        project.stages(sh("lab", COPY, **more), update=True)
        return freshness(project)["lab"]["text"]

    project.repo("in").stages(sh("lab", COPY))
    project.run("in", {"a": "1"})
    project.d.post(f"/pipelines/{project.name}/p/stop")
    assert "selection of inputs changed in version 2" in reason(glob="/*")
    assert "selection of inputs changed in version 2" in reason(glob="/*", workers=3)
    assert reason(workers=3) == ""
    assert "code changed in version 5" in reason(workers=3, cache={"salt": "x"})


def test_an_input_that_may_not_be_read_leaves_the_number_open(project):
    """What changed there is not told, and neither is that nothing did."""
    elsewhere = project.d.project(f"{project.name}-b").repo("far")
    project.repo("in").stages(sh("lab", "true", repo=f"{elsewhere.name}/far"), sh("apart", COPY))
    elsewhere.run("far", {"a": "1"})
    project.run("in", {"a": "1"})
    user = User(project.d, f"{project.name}-u", (project.name, "writer"))
    got = project.d.http("POST", f"/api/v1/pipelines/{project.name}/p/run", {"dry_run": True}, token=user.token)["prices"]
    assert {one["stage"]: (one["again"]["datums"], one["again"]["at_most"]) for one in got} == {"lab": (1, True), "apart": (0, False)}
    assert prices(project) == {"lab": (0, 1, False), "apart": (0, 1, False)}
