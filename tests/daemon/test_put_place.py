"""Puts that go elsewhere than the user means: a misspelled branch, an open commit of one's own."""

import ctypes
import json
import pathlib

import pytest
from conftest import sh
from people import User


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


def test_a_branch_that_a_put_makes_in_a_repo_that_no_stage_reads_is_told(project, put):
    project.repo("nore")
    assert put("nore@master:/x").err == "", "its first branch"
    assert put("nore@mastr:/x").err == (f'pipelinectl: this made branch "mastr" of repo {project.name}/nore; did you mean "master"? '
                                        f"pipelinectl delete branch {project.name}/nore@mastr takes it back\n")
    assert f'this made branch "dev" of repo {project.name}/nore; pipelinectl delete branch ' in put("nore@dev:/x").err
    put("nore@made", "ana", ("create", "branch"))
    assert put("nore@made:/x").err == "", "a user made it"


def test_a_branch_that_the_end_of_an_open_commit_makes_is_told(project, put):
    project.repo("g").stages(sh("s", "true", repo="g", glob="/*"))
    put("g@masterr", "ana", ("start", "commit"))
    put("g@masterr:/x")
    said = put("g@masterr", "ana", ("finish", "commit")).err
    assert f'this made branch "masterr" of repo {project.name}/g, which no stage reads; did you mean "master"? ' in said
    put("g@master", "ana", ("start", "commit"))
    put("g@master:/x")
    assert put("g@master", "ana", ("finish", "commit")).err == ""


def test_a_branch_with_two_open_commits_is_not_finished_but_told_their_ids(project, put):
    project.repo("l")
    put("l@master", "ana", ("start", "commit"))
    put("l@master", "ana", ("start", "commit"))
    one, two = (c["id"][:8] for c in project.d.get(f"/repos/{project.name}/l/open")["commits"])
    said = project.d.ctl("--project", project.name, "finish", "commit", "l@master", ok=False)
    assert (said.code, said.err) == (4, f'pipelinectl: 2 open commits of l match "master": {one}, {two}: name one by its digits\n'
                                        f"  pipelinectl list commit {project.name}/l --open\n")


def test_a_put_that_waits_says_that_an_open_commit_runs_nothing(project, put):
    project.repo("in")
    put("in@master", "ana", ("start", "commit"))
    said = put("in@master:/a", "ana", ("put", "file"), "--wait")
    (c,) = project.d.get(f"/repos/{project.name}/in/open")["commits"]
    assert said.err == f"pipelinectl: the commit is open: nothing runs until pipelinectl finish commit {project.name}/in@{c['id'][:8]}\n"


def test_a_push_names_the_project_of_its_repo(project, put):
    project.repo("in")
    assert f"{project.name}/in@master: commit " in put("in@master:/a").out
    assert f"{project.name}/in@master: nothing changed, still at commit " in put("in@master:/a").out


def test_a_put_goes_into_the_open_commit_of_its_user(project, put):
    project.repo("in")
    put("in@master:/a")
    put("in@master", "ana", ("start", "commit"))
    said = put("in@master:/b", "else")  # the owner is who opened it, not who $USER says
    assert "added to open commit" in said.out and project.contents("in") == {"a": b"1"}
    put("in@master", "ana", ("start", "commit"))
    assert "has 2 open commits of yours, so this is a commit of its own" in put("in@master:/d").err
    assert set(project.contents("in")) == {"a", "d"}


def test_users_of_one_login_name_have_open_commits_of_their_own(project, tmp_path):
    """Tokens say who asks: machines where everybody is "root" mix nothing up."""
    project.repo("in")
    (tmp_path / "f").write_text("1")
    ana, bob = (User(project.d, f"{name}-{project.name}", (project.name, "writer")) for name in ("ana", "bob"))
    target = f"{project.name}/in@master"

    def put(user, path, login="root"):
        return user.ctl("put", "file", f"{target}:{path}", "-f", tmp_path / "f", env={"USER": login})
    ana.ctl("start", "commit", target, env={"USER": "root"})
    said = put(bob, "/b").stderr
    assert f'is not yours but of "{ana.name}", so this is a commit of its own' in said and set(project.contents("in")) == {"b"}
    assert "added to open commit" in put(ana, "/a").stdout and "added to open commit" in put(ana, "/c", "other").stdout
    (mine,), (seen,) = (user.get(f"/repos/{project.name}/in/open")["commits"] for user in (ana, bob))
    assert (mine["owner"], mine["mine"], seen["owner"], seen["mine"]) == (ana.name, True, ana.name, False)
    assert ana.get(f"/repos/{project.name}/in/commits/{mine['id']}")["mine"] and set(project.contents("in")) == {"b"}


def xxh64(data):
    function = ctypes.CDLL("libxxhash.so.0").XXH64
    function.restype, function.argtypes = ctypes.c_uint64, (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64)
    return function(data, len(data), 0).to_bytes(8, "little")


def without_owner(spool):
    """Rewrites an open commit's file as versions before the owner wrote it (docs/format.md)."""
    whole = spool.read_bytes()
    n = int.from_bytes(whole[8:12], "little")
    head = {name: value for name, value in json.loads(whole[20:20 + n]).items() if name != "owner"}
    text = json.dumps(head, sort_keys=True, separators=(",", ":")).encode()
    spool.write_bytes(whole[:8] + len(text).to_bytes(4, "little") + xxh64(text) + text + whole[20 + n:])


def test_an_open_commit_of_an_earlier_version_is_its_authors(make_daemon, tmp_path):
    daemon = make_daemon()
    daemon.start()
    (tmp_path / "f").write_text("1")
    daemon.ctl("create", "repo", "in")
    daemon.ctl("start", "commit", "in@master", env={"USER": "ana"})
    daemon.stop()
    (spool,) = pathlib.Path(daemon.dir, "open").glob("*.spool")
    without_owner(spool)
    daemon.start()

    def put(path, user):
        return daemon.ctl("put", "file", f"in@master:{path}", "-f", tmp_path / "f", env={"USER": user})
    assert 'is not yours but of "bob"' not in put("/a", "ana").err and 'is not yours but of "ana"' in put("/b", "bob").err
    (one,) = daemon.get("/repos/default/in/open")["commits"]
    assert one["operations"] == 1 and "owner" not in one and "mine" not in one
