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
