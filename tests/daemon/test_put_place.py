"""Puts that go elsewhere than the user means: a misspelled branch, an open commit of one's own."""

import pytest
from conftest import sh
from test_cli_data import Cli


@pytest.fixture
def put(project, tmp_path):
    (tmp_path / "f").write_text("1")

    def put(to, user="ana", verb=("put", "file"), *more):
        return project.d.ctl("--project", project.name, *verb, to, *more, *(("-f", str(tmp_path / "f")) if verb[0] == "put" else ()), env={"USER": user})
    return put


def test_a_branch_that_a_put_makes_and_no_stage_reads_is_told(project, put):
    project.repo("in", "free").stages(sh("s", "true", repo="in", glob="/*"))
    said = put("in@mater:/x")
    assert f'this made branch "mater" of repo {project.name}/in, which no stage reads; did you mean "master"? ' in said.err and f"delete branch {project.name}/in@mater" in said.err
    assert 'which no stage reads; stages read "master". ' in put("in@else:/x").err
    assert put("in@mater:/y").err == ""  # it is there now
    assert put("in@master:/x").err == "" and put("free@any:/x").err == ""


def test_a_put_goes_into_the_open_commit_of_its_user(project, put):
    project.repo("in")
    put("in@master:/a")
    put("in@master", "ana", ("start", "commit"))
    said = put("in@master:/b")
    assert "added to open commit" in said.out and project.contents("in") == {"a": b"1"}
    said = put("in@master:/c", "bob")  # of another user: told, and a commit of its own
    assert 'is not yours but of "ana", so this is a commit of its own' in said.err and project.contents("in") == {"a": b"1", "c": b"1"}
    put("in@master", "ana", ("start", "commit"))
    assert "has 2 open commits of yours, so this is a commit of its own" in put("in@master:/d").err
    assert set(project.contents("in")) == {"a", "c", "d"}
