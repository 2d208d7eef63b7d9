"""A glob that matches nothing: the job says which input, which glob, how many files there are, and what would match."""

import pytest
from conftest import sh

FILES = {"train/a.csv": "1", "train/b.csv": "2", "raw/deep/c.txt": "3"}


@pytest.mark.parametrize("glob, more, says", [
    ("/trian/*.csv", {}, 'glob "/trian/*.csv" matches none of the 3 files of repo "in"; "/train/*.csv" would match /train/a.csv'),
    ("/deep/*", {}, 'glob "/deep/*" matches none of the 3 files of repo "in"; "/**/deep/*" would match /raw/deep/c.txt'),
    ("/other/*.txt", {}, 'glob "/other/*.txt" matches none of the 3 files of repo "in"; "/**/*.txt" would match /raw/deep/c.txt'),
    ("/x.png", {}, 'glob "/x.png" matches none of the 3 files of repo "in"; it has /raw/deep/c.txt, for example'),
    ("/", {"files": ["*.png"]}, 'no file that glob "/" matches is one of its "files", "*.png"; repo "in" has 3 files, /raw/deep/c.txt and others'),
])
def test_a_job_without_datums_says_what_would_match(project, glob, more, says):
    project.repo("in").stages(sh("s", "true", repo="in", glob=glob, **more) if not more else
                              {"name": "s", "input": {"repo": "in", "glob": glob, **more}, "run": ["true"]})
    run = project.run("in", FILES)
    job = run["job"]["s"]
    assert (job["state"], job["reason"]) == ("success", f'input "in": {says}')
    assert says[:40] in project.d.ctl("--project", project.name, "inspect", "run", run["id"]).out.replace("\n", " ")
    for verb in (["wait", "run", run["id"]], ["logs", "s"], ["list", "datum", "s"]):
        assert f'input "in": {says}' in project.d.ctl("--project", project.name, *verb).err, verb


@pytest.mark.parametrize("glob, says", [
    ("/sub/*.csv", 'glob "/sub/*.csv" matches none of the 3 files of repo "in"; "/**/*.csv" would match /a/b.csv'),
    ("/b.csv", 'glob "/b.csv" matches none of the 3 files of repo "in"; "/**/b.csv" would match /a/b.csv'),
    ("/sub/*.top", 'glob "/sub/*.top" matches none of the 3 files of repo "in"; "/*.top" would match /y.top'),
    ("/**/*.top", 'glob "/**/*/*.top" matches none of the 3 files of repo "in"; "/*.top" would match /y.top'),
])
def test_what_would_match_does_so_in_pachyderms_form_too(project, glob, says):
    """There, a folder of two stars is at least one folder. The glob is named as the effective spec has it."""
    spec = {"pipeline": {"name": "m", "project": {"name": project.name}}, "transform": {"cmd": ["true"]}, "input": {"pfs": {"repo": "in", "glob": glob}}}
    project.repo("in")
    project.d.pipeline(spec)
    run = project.run("in", {"a/b.csv": "1", "a/c": "2", "y.top": "3"})
    assert run["job"]["m"]["reason"] == f'input "in": {says}'
    spec["input"]["pfs"]["glob"] = says.split('"')[-2]
    updated = project.wait(project.d.pipeline(spec, update=True)["run"])
    assert updated["job"]["m"]["reason"] == "" and updated["job"]["m"]["datums"]["total"] == 1


def test_a_repo_of_another_project_is_named_with_it(project):
    other = project.d.project(project.name + "o")
    other.repo("data")
    project.stages({"name": "s", "input": {"repo": f"{other.name}/data", "glob": "/*.png"}, "run": ["true"]})
    said = project.d.ctl("put", "file", f"{other.name}/data@master:/x", "-f", "-", "--wait", stdin=b"1").err
    assert f'none of the 1 file of repo "{other.name}/data"' in said, said


def test_the_reason_goes_when_something_matches_and_names_the_right_input(project):
    project.repo("in", "empty").stages({"name": "s", "input": {"cross": [{"repo": "in", "glob": "/*"}, {"repo": "empty", "glob": "/*"}]}, "run": ["true"]})
    project.commit("empty", {"x": "1"})
    project.d.ctl("--project", project.name, "delete", "file", "empty@master:/x")
    run = project.run("in", {"a": "1"})
    assert run["job"]["s"]["reason"] == 'input "empty": repo "empty" has no files in branch "master"'
    run = project.run("in", {"b": "1"})  # planned from the job before
    assert run["job"]["s"]["reason"] == 'input "empty": repo "empty" has no files in branch "master"'
    run = project.run("empty", {"x": "1"})
    assert (run["job"]["s"]["state"], run["job"]["s"]["reason"]) == ("success", "")
