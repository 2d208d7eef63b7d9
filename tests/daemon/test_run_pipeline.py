"""pipelinectl run pipeline: a run that no push made."""

import json

import pytest

from conftest import HttpError, sh

NOT_FOUND, INVALID = 3, 5


def chain(project):
    project.repo("in").stages(sh("one", 'cp "$PL_INPUT_IN" "$PL_OUT/"', glob="/*"), sh("two", 'cat "$PL_INPUT_ONE"/* >"$PL_OUT/all"', "one"))
    project.run("in", {"a": "1", "b": "2"})


def begin(project, *args, pipeline="p"):
    return project.d.ctl("--json", "run", "pipeline", f"{project.name}/{pipeline}", *args).json


def datums(run):
    return {stage: (job["state"], job["datums"]["total"], job["datums"]["reused"]) for stage, job in run["job"].items()}


def test_what_is_done_is_reused(project):
    chain(project)
    begun = begin(project)
    run = project.wait(begun["run"])
    assert (begun["stages"], run["cause"], run["state"]) == (["one", "two"], "manual", "success")
    assert datums(run) == {"one": ("success", 2, 2), "two": ("success", 1, 1)}


def test_with_force_every_datum_runs_again_and_the_result_is_the_same(project):
    chain(project)
    run = project.wait(begin(project, "--force")["run"])
    assert datums(run) == {"one": ("success", 2, 0), "two": ("success", 1, 0)}
    assert project.contents("two") == {"all": b"12"}
    assert "every datum" in run["message"]


def test_of_one_stage_what_follows_runs_too_and_what_comes_before_does_not(project):
    chain(project)
    run = project.wait(begin(project, "--stage", "two", "--force")["run"])
    assert datums(run) == {"two": ("success", 1, 0)}
    run = project.wait(begin(project, "--stage", "one", "--force")["run"])
    assert datums(run)["one"] == ("success", 2, 0)
    assert datums(run)["two"] == ("success", 1, 1), "the same tree: its datum is reused"


def test_a_forced_run_is_forced_after_a_restart(daemon):
    project = daemon.project("forced")
    project.repo("in").stages(sh("s", 'cp "$PL_INPUT_IN" "$PL_OUT/"', glob="/*"))
    project.run("in", {"a": "1", "b": "2"})
    begun = begin(project, "--force")["run"]
    daemon.kill()
    daemon.start()
    assert datums(project.wait(begun)) == {"s": ("success", 2, 0)}
    project.run("in", {"c": "3"})
    assert datums(project.wait(begin(project)["run"])) == {"s": ("success", 3, 3)}


def test_failed_work_is_tried_again(project):
    project.repo("in").stages(sh("s", 'test "$PL_INPUT_IN" = "${PL_INPUT_IN%b}"; cp "$PL_INPUT_IN" "$PL_OUT/"', glob="/*"))
    project.run("in", {"a": "1", "b": "2"}, state="failure")
    run = project.wait(begin(project)["run"])
    assert (run["job"]["s"]["state"], run["job"]["s"]["datums"]["reused"]) == ("failure", 1)


def test_people_are_told_what_to_type_next(project):
    chain(project)
    said = project.d.ctl("--project", project.name, "run", "pipeline", "p").out
    assert "of 2 stages" in said and "next: pipelinectl wait run " in said
    project.wait(said.split()[1])


@pytest.mark.parametrize("args, code, said", [
    (["nix"], NOT_FOUND, 'no pipeline "nix"'),
    (["p", "--stage", "nix"], NOT_FOUND, 'pipeline "p" has no stage "nix"'),
    (["p"], INVALID, 'stage "s" has nothing to read yet'),
])
def test_what_cannot_run_is_named(project, args, code, said):
    project.repo("in").stages(sh("s", "true"))
    done = project.d.ctl("--project", project.name, "run", "pipeline", *args, ok=False)
    assert (done.code, said in done.err) == (code, True), done.err


def test_a_stage_without_data_does_not_keep_the_others_from_running(project):
    project.repo("in", "none").stages(sh("s", "true"), sh("waits", "true", "none"))
    project.run("in", {"a": "1"})
    begun = begin(project)
    assert begun["stages"] == ["s"]
    assert list(project.wait(begun["run"])["job"]) == ["s"]


def test_the_interface_refuses_what_it_does_not_know(project):
    chain(project)
    with pytest.raises(HttpError) as e:
        project.d.post(f"/pipelines/{project.name}/p/run", {"stagee": "one"})
    assert e.value.status == 400, json.dumps(e.value.error)
