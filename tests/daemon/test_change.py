"""A change costs what it touches: what runs again, what is kept, what goes."""

import json

import pytest

from conftest import HttpError, sh

COPY = 'cp "$PL_INPUT_IN" "$PL_OUT/$(basename "$PL_INPUT_IN")"'


def counts(job):
    return {k: job["datums"][k] for k in ("total", "reused", "done", "failed")}


def test_a_push_without_a_change_makes_no_commit_and_no_run(project):
    project.repo("in").stages(sh("s", COPY, glob="/*"))
    project.run("in", {"a": "1"})
    runs = len(project.d.get("/runs", limit=1000)["runs"])
    again = project.commit("in", {"a": "1"})
    assert again["changed"] is False
    assert len(project.commits("in")) == len(project.commits("s")) == 1
    assert len(project.d.get("/runs", limit=1000)["runs"]) == runs


def test_a_second_push_runs_only_the_touched_datum(project):
    project.repo("in").stages(sh("s", COPY, glob="/*"), sh("all", 'cat "$PL_INPUT_S"/* >"$PL_OUT/all"', "s"))
    first = project.run("in", {"a": "1", "b": "2", "c": "3"})
    assert counts(first["job"]["s"]) == {"total": 3, "reused": 0, "done": 3, "failed": 0}
    second = project.run("in", {"b": "9", "d": "4"})
    assert counts(second["job"]["s"]) == {"total": 4, "reused": 2, "done": 2, "failed": 0}
    assert counts(second["job"]["all"]) == {"total": 1, "reused": 0, "done": 1, "failed": 0}
    assert project.contents("s") == {"a": b"1", "b": b"9", "c": b"3", "d": b"4"}
    assert project.read("all", "all") == b"1934"
    assert project.contents("s", "master^1") == {"a": b"1", "b": b"2", "c": b"3"}


def test_a_deleted_input_takes_its_outputs_along(project):
    project.repo("in").stages(sh("s", COPY, glob="/*"))
    project.run("in", {"a": "1", "b": "2"})
    run = project.run("in", {}, deletes=["a"])
    assert counts(run["job"]["s"]) == {"total": 1, "reused": 1, "done": 0, "failed": 0}
    assert project.contents("s") == {"b": b"2"}


def newest_run(project):
    return project.wait(project.d.get("/runs", limit=1)["runs"][0]["id"])


def test_a_deleted_commit_takes_its_outputs_along(project):
    project.repo("in").stages(sh("s", COPY, glob="/*"), sh("t", COPY.replace("INPUT_IN", "INPUT_S"), "s", glob="/*"))
    project.run("in", {"a": "1"})
    project.run("in", {"b": "2"})
    assert project.contents("t") == {"a": b"1", "b": b"2"}
    project.d.http("DELETE", f"/api/v1/repos/{project.name}/in/commits/master")
    run = newest_run(project)
    assert (run["cause"], run["state"]) == ("delete", "success")
    assert counts(run["job"]["s"]) == {"total": 1, "reused": 1, "done": 0, "failed": 0}
    assert project.contents("s") == project.contents("t") == {"a": b"1"}


def test_a_branch_made_again_under_its_name_is_not_read_as_the_one_before(project):
    branches = f"/api/v1/repos/{project.name}/in/branches"
    project.repo("in").push("in", "f", "old", branch="dev")
    project.d.http("DELETE", f"{branches}/dev")
    project.commit("in", {"f": "new"})
    project.d.http("POST", branches, {"name": "dev", "from": "master"})
    made = project.stages({"name": "s", "input": {"repo": "in@dev", "glob": "/"}, "run": ["sh", "-c", 'cp "$PL_INPUT_IN/f" "$PL_OUT/f"']})
    assert project.wait(made["run"])["state"] == "success"
    assert project.read("s", "f") == b"new"


def test_a_run_that_waited_reads_a_branch_as_it_was_when_the_run_began(project, gate):
    project.repo("in", "go").push("in", "f", "first")
    project.d.http("POST", f"/api/v1/repos/{project.name}/in/branches", {"name": "dev", "from": "master"})
    script = f'cat "$PL_INPUT_GO"/* >"$PL_OUT/go"; cp "$PL_INPUT_IN/f" "$PL_OUT/f"; grep -q x "$PL_OUT/go" || {gate.wait}'
    cross = [{"repo": "in@dev", "glob": "/"}, {"repo": "go", "glob": "/"}]
    project.stages({"name": "s", "input": {"cross": cross}, "run": ["sh", "-c", script], "on_new": "queue"})
    first = project.commit("go", {"g": "1"})["run"]
    gate.arrived()
    second = project.commit("go", {"g": "x2"})["run"]
    third = project.push("in", "f", "later", branch="dev")["run"]
    gate.open()
    assert [project.wait(r)["state"] for r in (first, second, third)] == ["success"] * 3
    assert [project.read("s", "f", r) for r in (first, second, third)] == [b"first", b"first", b"later"]


def test_a_branch_made_at_a_commit_runs_the_stages_that_read_it(project):
    project.repo("in").stages(sh("s", COPY, "in@dev", glob="/*"))
    project.commit("in", {"a": "1"})
    project.d.post(f"/repos/{project.name}/in/branches", {"name": "dev", "from": "master"})
    run = newest_run(project)
    assert (run["cause"], run["state"]) == ("push", "success")
    assert project.contents("s") == {"a": b"1"}


def test_content_that_was_there_before_is_not_computed_again(project):
    project.repo("in").stages(sh("s", COPY, glob="/*"))
    project.run("in", {"a": "1"})
    project.run("in", {"a": "2"})
    run = project.run("in", {"a": "1"})
    assert counts(run["job"]["s"]) == {"total": 1, "reused": 1, "done": 0, "failed": 0}
    assert project.contents("s") == {"a": b"1"}


def test_a_change_that_a_stage_does_not_look_at_runs_nothing(project):
    project.repo("in").stages({"name": "s", "input": {"repo": "in", "files": ["*.csv"]}, "run": ["sh", "-c", "ls $PL_INPUT_IN >$PL_OUT/list"]})
    project.run("in", {"a.csv": "1", "note.txt": "x"})
    run = project.run("in", {"note.txt": "y"})
    assert counts(run["job"]["s"]) == {"total": 1, "reused": 1, "done": 0, "failed": 0}


def test_an_update_reruns_only_the_stages_that_changed_and_what_they_change(project):
    copy, upper = sh("copy", COPY, glob="/*"), sh("upper", 'cat "$PL_INPUT_COPY"/* >"$PL_OUT/f"', "copy")
    side = sh("side", 'cat "$PL_INPUT_COPY"/* | wc -c >"$PL_OUT/f"', "copy")
    project.repo("in").stages(copy, upper, side)
    project.run("in", {"a": "x"})
    reply = project.stages(copy, sh("upper", 'cat "$PL_INPUT_COPY"/* | tr a-z A-Z >"$PL_OUT/f"', "copy"), side, update=True)
    assert {s["stage"]: s["change"] for s in reply["stages"]} == {"copy": "unchanged", "upper": "changed", "side": "unchanged"}
    run = project.wait(reply["run"])
    assert counts(run["job"]["upper"])["done"] == 1
    assert all(j["datums"]["done"] == 0 for s, j in run["job"].items() if s != "upper")
    assert project.read("upper", "f") == b"X"


def test_an_update_with_the_same_spec_changes_nothing(project):
    stage = sh("s", COPY, glob="/*")
    project.repo("in").stages(stage)
    project.run("in", {"a": "x"})
    reply = project.stages(stage, update=True)
    assert (reply["changed"], reply["run"], reply["version"]) == (False, "", 1)


def test_an_update_that_only_places_outputs_elsewhere_runs_no_command(project):
    project.repo("in").stages(sh("s", COPY, glob="/*", cache={"salt": "1"}))
    project.run("in", {"a": "x"})
    run = project.wait(project.stages(sh("s", COPY, glob="/*", cache={"salt": "1"}, output={"prefix": "new/"}), update=True)["run"])
    assert counts(run["job"]["s"]) == {"total": 1, "reused": 1, "done": 0, "failed": 0}
    assert project.contents("s") == {"new/a": b"x"}


def test_a_new_salt_runs_everything_again(project):
    project.repo("in").stages(sh("s", COPY, glob="/*", cache={"salt": "1"}))
    project.run("in", {"a": "x", "b": "y"})
    run = project.wait(project.stages(sh("s", COPY, glob="/*", cache={"salt": "2"}), update=True)["run"])
    assert counts(run["job"]["s"]) == {"total": 2, "reused": 0, "done": 2, "failed": 0}


def test_without_cache_every_job_runs_every_datum(project):
    project.repo("in").stages(sh("s", COPY, glob="/*", cache=False))
    project.run("in", {"a": "x"})
    run = project.run("in", {"b": "y"})
    assert counts(run["job"]["s"]) == {"total": 2, "reused": 0, "done": 2, "failed": 0}


def test_environment_is_part_of_the_key_and_resources_are_not(project):
    project.repo("in").stages(sh("s", COPY, glob="/*", env={"A": "1"}))
    project.run("in", {"a": "x"})
    more = project.stages(sh("s", COPY, glob="/*", env={"A": "1"}, workers=2, resources={"memory": "1Gi"}), update=True)
    if more["run"]:
        assert counts(project.wait(more["run"])["job"]["s"])["done"] == 0
    run = project.wait(project.stages(sh("s", COPY, glob="/*", env={"A": "2"}), update=True)["run"])
    assert counts(run["job"]["s"])["done"] == 1


def test_a_stage_that_is_added_runs_over_what_is_there(project):
    project.repo("in").stages(sh("s", COPY, glob="/*"))
    project.run("in", {"a": "x"})
    reply = project.stages(sh("s", COPY, glob="/*"), sh("more", 'cat "$PL_INPUT_S"/* >"$PL_OUT/f"', "s"), update=True)
    assert {s["stage"]: s["change"] for s in reply["stages"]} == {"s": "unchanged", "more": "new"}
    assert project.wait(reply["run"])["state"] == "success"
    assert project.read("more", "f") == b"x"


def test_a_stage_that_is_taken_out_stops_running(project):
    project.repo("in").stages(sh("s", COPY, glob="/*"), sh("more", 'cat "$PL_INPUT_S"/* >"$PL_OUT/f"', "s"))
    project.run("in", {"a": "x"})
    reply = project.stages(sh("s", COPY, glob="/*"), update=True)
    assert {s["stage"]: s["change"] for s in reply["stages"]} == {"s": "unchanged", "more": "removed"}
    run = project.run("in", {"a": "y"})
    assert list(run["job"]) == ["s"]


def test_a_pipeline_made_after_the_data_runs_at_once(project):
    project.repo("in").commit("in", {"a": "x"})
    reply = project.stages(sh("s", COPY, glob="/*"))
    run = project.wait(reply["run"])
    assert (run["state"], run["cause"]) == ("success", "pipeline")
    assert project.contents("s") == {"a": b"x"}


def test_why_leads_from_an_output_back_to_what_was_pushed(project):
    project.repo("in").stages(sh("s", COPY, glob="/*"), sh("all", 'cat "$PL_INPUT_S"/* >"$PL_OUT/all"', "s"))
    first = project.run("in", {"a": "1", "b": "2"})
    second = project.run("in", {"b": "3"})
    why = project.d.get(f"/why/{project.name}/all/master/all")
    assert (why["stage"], why["run"], why["reused"], why["path"]) == ("all", second["id"], False, "/all")
    assert why["code"] == second["job"]["all"]["code"]
    between, = why["inputs"]
    a, b = between["inputs"]
    assert [(x["repo"], x["path"], x["stage"], x["run"], x["reused"]) for x in (a, b)] == [
        ("s", "/a", "s", first["id"], True), ("s", "/b", "s", second["id"], False)]
    assert [(i["repo"], i["path"], i["commit"]) for i in b["inputs"]] == [("in", "/b", second["id"])]


def test_why_follows_the_first_files_of_a_folder_and_counts_the_rest(project):
    project.repo("in").stages(sh("s", 'ls "$PL_INPUT_IN" >"$PL_OUT/list"', glob="/*/"), {
        "name": "t", "input": {"repo": "in", "files": ["**/*.txt"]}, "run": ["sh", "-c", 'ls "$PL_INPUT_IN" >"$PL_OUT/list"']})
    project.run("in", {f"d/{i:02}.txt": str(i) for i in range(30)})
    whole, = project.d.get(f"/why/{project.name}/s/master/list")["inputs"]
    assert (whole["path"], whole["files"], len(whole["inputs"])) == ("d/", 30, 20)
    assert "more" not in whole
    some, = project.d.get(f"/why/{project.name}/t/master/list")["inputs"]
    assert (some["files"], some["more"], len(some["inputs"])) == (20, True, 20)
    told = project.d.ctl("--project", project.name, "why", "t@master:/list").out
    assert "20+ files" in told and "… and more files" in told
    project.run("in", {}, deletes=[f"d/{i:02}.txt" for i in range(20, 30)])
    some, = project.d.get(f"/why/{project.name}/t/master/list")["inputs"]
    assert some["files"] == 20 and "more" not in some


def test_the_code_identity_follows_the_command(project):
    project.repo("in").stages(sh("s", COPY, glob="/*"))
    first = project.run("in", {"a": "1"})
    project.wait(project.stages(sh("s", COPY + "; true", glob="/*"), update=True)["run"])
    why = project.d.get(f"/why/{project.name}/s/master/a")
    old = project.d.get(f"/why/{project.name}/s/{first['id']}/a")
    assert old["code"] == first["job"]["s"]["code"] != why["code"]


def test_deleting_a_pipeline_takes_its_output_repos(project):
    project.repo("in").stages(sh("s", COPY, glob="/*"))
    project.run("in", {"a": "1"})
    project.d.http("DELETE", f"/api/v1/pipelines/{project.name}/p")
    assert [r["name"] for r in project.d.get("/repos", project=project.name)["repos"]] == ["in"]
    assert project.commit("in", {"a": "2"})["changed"]
    with pytest.raises(HttpError, match="404"):
        project.d.get(f"/pipelines/{project.name}/p")


def test_deleting_a_pipeline_can_keep_its_results(project):
    stage = sh("s", COPY, glob="/*")
    project.repo("in").stages(stage)
    project.run("in", {"a": "1"})
    project.d.http("DELETE", f"/api/v1/pipelines/{project.name}/p?keep_repos=1")
    assert project.contents("s") == {"a": b"1"}
    run = project.wait(project.stages(stage)["run"])
    assert counts(run["job"]["s"]) == {"total": 1, "reused": 1, "done": 0, "failed": 0}, "made again, it goes on where it was"


def kind(project, repo):
    return project.d.get(f"/repos/{project.name}/{repo}")["kind"]


def test_kept_results_are_an_input_repo(project):
    d, stage = project.d, sh("s", COPY, glob="/*")
    project.repo("in").stages(stage)
    first = project.run("in", {"a": "1"})
    assert kind(project, "s") == "output"
    d.ctl("--project", project.name, "delete", "pipeline", "p", "--keep-repos")
    assert kind(project, "s") == "input" and {r["name"]: r["kind"] for r in d.get("/repos", project=project.name)["repos"]}["s"] == "input"
    project.commit("s", {"b": "2"})  # they take puts beside what was there,
    assert project.contents("s") == {"a": b"1", "b": b"2"}
    d.post(f"/repos/{project.name}/s/branches", {"name": "old", "from": first["id"]})  # branches,
    d.ctl("--project", project.name, "update", "repo", "s", "--commit-window", "1s")  # and options of input repos;
    d.ctl("--project", project.name, "update", "repo", "s", "--commit-window", "0s")
    project.stages(sh("t", 'cp "$PL_INPUT_S" "$PL_OUT/"', repo="s", glob="/*"), pipeline="q")  # stages read them as any other
    run = project.commit("s", {"c": "3"})["run"]
    assert counts(project.wait(run)["job"]["t"])["total"] == 3
    d.stop()
    d.start()  # which a daemon that starts again knows as well
    project.wait(project.commit("s", {"c": "4"})["run"])
    assert project.contents("t")["c"] == b"4"


def test_a_stage_does_not_write_over_what_was_pushed_into_kept_results(project):
    stage = sh("s", COPY, glob="/*")
    project.repo("in").stages(stage)
    project.run("in", {"a": "1"})
    project.d.http("DELETE", f"/api/v1/pipelines/{project.name}/p?keep_repos=1")
    made = project.commit("s", {"b": "2"})
    pushed = made["commit"]
    with pytest.raises(HttpError, match="409") as e:
        project.stages(stage)
    assert e.value.error["message"] == (
        f'stage "s" would write branch "master" of repo "s", to which commit {pushed[:8]} was pushed')
    project.wait(made["run"])  # a commit whose run goes on is in use
    project.d.http("DELETE", f"/api/v1/repos/{project.name}/s/commits/{pushed}")
    assert counts(project.wait(project.stages(stage)["run"])["job"]["s"])["reused"] == 1 and kind(project, "s") == "output"


def test_a_stage_that_its_pipeline_no_longer_has_leaves_an_output_repo(project):
    project.repo("in").stages(sh("s", COPY, glob="/*"), sh("t", COPY, glob="/*"))
    project.run("in", {"a": "1"})
    project.stages(sh("s", COPY, glob="/*"), update=True)
    with pytest.raises(HttpError, match="409") as e:  # it goes with the pipeline: nothing of users' own goes into it
        project.commit("t", {"b": "2"})
    assert e.value.error["message"] == 'repo "t" holds the output of a stage that its pipeline no longer has: push to an input repo'


def test_kept_results_can_be_deleted(project):
    project.repo("in").stages(sh("s", COPY, glob="/*"))
    project.run("in", {"a": "1"})
    project.d.http("DELETE", f"/api/v1/pipelines/{project.name}/p?keep_repos=1")
    project.d.http("DELETE", f"/api/v1/repos/{project.name}/s")
    project.repo("s").commit("s", {"b": "2"})
    assert project.contents("s") == {"b": b"2"}


def test_a_pipeline_that_others_read_is_not_deleted(project):
    project.repo("in").stages(sh("s", COPY, glob="/*"))
    project.stages(sh("t", "ls $PL_INPUT_S >$PL_OUT/f", "s"), pipeline="q")
    with pytest.raises(HttpError, match="409") as e:
        project.d.http("DELETE", f"/api/v1/pipelines/{project.name}/p")
    assert e.value.error["code"] == "in_use" and 'stage "t" reads' in e.value.error["message"]


def test_a_pipeline_deleted_and_made_again_starts_anew(project):
    stage = sh("s", COPY, glob="/*")
    project.repo("in").stages(stage)
    project.run("in", {"a": "1"})
    project.d.http("DELETE", f"/api/v1/pipelines/{project.name}/p")
    run = project.wait(project.stages(stage)["run"])
    assert (run["state"], project.contents("s")) == ("success", {"a": b"1"})


def test_a_dry_run_keeps_nothing(project):
    project.repo("in")
    spec = {"pipeline": "p", "project": project.name, "stages": [sh("s", COPY, glob="/*")]}
    reply = project.d.post("/pipelines", {"spec": json.dumps(spec), "filename": "spec.json", "dry_run": True})
    assert reply["stages"] == [{"stage": "s", "change": "new"}]
    assert project.d.get("/pipelines", project=project.name)["pipelines"] == []


def test_results_of_a_failed_job_are_used_by_the_next(project):
    script = COPY + '; ! grep -q bad "$PL_INPUT_IN"'
    project.repo("in").stages(sh("s", script, glob="/*"))
    first = project.run("in", {"a": "1", "b": "bad", "c": "3"}, state="failure")
    assert counts(first["job"]["s"]) == {"total": 3, "reused": 0, "done": 2, "failed": 1}
    second = project.run("in", {"b": "2"})
    assert counts(second["job"]["s"]) == {"total": 3, "reused": 2, "done": 1, "failed": 0}
    assert project.contents("s") == {"a": b"1", "b": b"2", "c": b"3"}


def test_the_files_of_a_reference_are_in_no_key_and_an_update_says_so(project):
    def spec(files, reference=True):
        script = 'ls -A "$PL_INPUT_MODEL" >"$PL_OUT/$(basename "$PL_INPUT_IN")"'
        model = {"repo": "model", "files": files, **({"reference": True} if reference else {})}
        return [{"name": "s", "input": {"cross": [{"repo": "in", "glob": "/*"}, model]}, "script": script}]

    def price(stages):
        body = {"spec": json.dumps({"pipeline": "p", "project": project.name, "stages": stages}), "filename": "spec.json", "dry_run": True, "update": True}
        change, = project.d.post("/pipelines", body)["stages"]
        return change.get("what"), change["again"]["datums"], change["again"]["estimated"]

    project.repo("in", "model").commit("model", {"m.bin": "1", "m.txt": "2"})
    project.stages(*spec(["*.bin"]))
    project.run("in", {"a": "1", "b": "2"})
    assert price(spec(["*.bin", "*.txt"])) == ("reference (in no datum key)", 0, False)
    assert price(spec(["*.bin", "*.txt"], reference=False)) == ("input", 2, True)
    project.stages(*spec(["*.bin", "*.txt"]), update=True)
    run = project.run("in", {"c": "3"})
    assert counts(run["job"]["s"]) == {"total": 3, "reused": 2, "done": 1, "failed": 0}
    assert project.contents("s") == {"a": b"m.bin\n", "b": b"m.bin\n", "c": b"m.bin\nm.txt\n"}
