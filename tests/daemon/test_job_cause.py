"""Why a job ran, as a sentence and in numbers: what changed in its inputs, code and spec since the stage's last good job."""
import json

from conftest import sh, wait_until

COPY = 'cp -r "$PL_INPUT_IN" "$PL_OUT/"'


def cause(project, stage, run):
    return project.d.get(f"/jobs/{project.name}/{stage}/{run['id']}/cause")


def test_files_that_came_changed_and_went_are_counted_and_the_rest_is_not(project):
    """Only what the stage's globs select counts; the first job has nothing to be compared with."""
    project.repo("in").stages({**sh("s", COPY), "input": {"repo": "in", "glob": "/days/*", "files": ["*.csv"]}})
    first = project.run("in", {"days/mon/a.csv": "1", "days/mon/b.csv": "2", "days/tue/c.csv": "3", "notes/n.csv": "4"})
    said = cause(project, "s", first)
    assert (said["before"], said["text"], said["inputs"]) == ("", "the stage has not succeeded before", []), said
    second = project.run("in", {"days/mon/a.csv": "11", "days/mon/d.csv": "5", "days/mon/e.csv": "6", "days/mon/readme": "7", "notes/n.csv": "44"},
                         deletes=["days/mon/b.csv"])
    said = cause(project, "s", second)
    one, = said["inputs"]
    assert said["before"] == first["id"] and said["text"] == "2 files new, 1 changed, 1 gone below in:/days/mon", said
    assert (one["added"], one["changed"], one["removed"], one["more"], one["folder"]) == (2, 1, 1, False, "days/mon/"), one
    assert (one["from"], one["to"]) == (first["id"], second["id"]) and one["paths"] == ["days/mon/a.csv", "days/mon/b.csv", "days/mon/d.csv"], one
    third = project.run("in", {"days/wed/x.csv": "1"})
    assert cause(project, "s", third)["text"] == "1 file is new: in:/days/wed/x.csv"
    fourth = project.run("in", {"days/wed/x.csv": "2", "days/wed/y.csv": "3", "notes/n.csv": "0"}, deletes=["days/mon/a.csv", "days/tue/c.csv"])
    assert cause(project, "s", fourth)["text"] == "1 file new, 1 changed, 2 gone below in:/days"


def test_what_the_stage_does_not_select_is_no_cause(project):
    stage = {**sh("s", COPY), "input": {"repo": "in", "glob": "/a/*"}}
    project.repo("in").stages(stage)
    project.run("in", {"a/1": "1"})
    run = project.run("in", {"b/1": "1"})
    assert cause(project, "s", run)["text"] == "nothing that it reads changed"
    project.stages({**stage, "input": {"repo": "in", "glob": "/b/*"}}, update=True)
    run = project.run("in", {"c": "1"})
    assert cause(project, "s", run)["text"].startswith("spec changed: input"), cause(project, "s", run)


def test_what_was_deleted_meanwhile_is_said(project):
    project.repo("in").stages(sh("s", COPY))
    project.run("in", {"f": "1"})
    second = project.run("in", {"f": "2"})
    project.d.http("DELETE", f"/api/v1/repos/{project.name}/in/commits/{second['id']}")
    said = cause(project, "s", second)
    assert said["inputs"] == [{"name": "in", "note": "the commit has been deleted"}], said


def test_a_job_that_was_never_planned_says_so(project):
    project.repo("in").stages(sh("a", "exit 1"), sh("b", COPY, repo="a"))
    run = project.run("in", {"f": "1"}, state="failure")
    assert cause(project, "b", run)["text"] == "its datums are not known: it was not planned"


def test_a_change_of_the_code_or_the_spec_is_named(project, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "a.sh").write_text(COPY)
    (code / "b.sh").write_text("true")
    stage = {"name": "s", "input": {"repo": "in"}, "code": "code", "run": ["sh", "a.sh"]}

    def deploy(stage):
        """The run of the update."""
        seen = {run["id"] for run in project.d.get("/runs")["runs"]}
        there = any(one["project"] == project.name for one in project.d.get("/pipelines")["pipelines"])
        (tmp_path / "p.json").write_text(json.dumps({"pipeline": "p", "project": project.name, "stages": [stage]}))
        project.d.ctl("update" if there else "create", "pipeline", "-f", tmp_path / "p.json", *(["--yes"] if there else []))
        new = wait_until(lambda: {run["id"] for run in project.d.get("/runs")["runs"]} - seen, "a run of the update").pop()
        return project.wait(new)

    project.repo("in").commit("in", {"f": "1"})
    deploy(stage)
    (code / "b.sh").write_text("false")
    (code / "c.sh").write_text("true")
    said = cause(project, "s", deploy(stage))
    assert said["text"] == "code changed: b.sh, c.sh" and said["code"] == ["b.sh", "c.sh"] and said["inputs"] == [], said
    said = cause(project, "s", deploy({**stage, "env": {"K": "2"}}))
    assert said["text"] == "spec changed: env" and "code" not in said, said


def test_a_run_again_says_of_which_run(project):
    project.repo("in").stages(sh("s", COPY))
    run = project.run("in", {"f": "1"})
    again = project.d.post(f"/runs/{run['id']}/rerun", {})["run"]
    project.d.wait(again)
    said = cause(project, "s", {"id": again})
    assert said["text"] == f"run again: the jobs of run {run['id'][:8]}" and said["rerun_of"] == run["id"], said
