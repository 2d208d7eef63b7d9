"""Git repositories as inputs: a push is a commit of a repo that only the daemon writes, and starts a run."""

import os
import pathlib
import shutil
import time

import pytest
from conftest import HttpError, wait_until
from source_kit import Repository
from test_webhooks import SECRET, ask, secret_of

CONFLICT = 4


@pytest.fixture
def git(tmp_path):
    folder = tmp_path / "repositories"
    folder.mkdir()
    return Repository(folder)


@pytest.fixture
def daemon(make_daemon, git):
    return make_daemon("--git-local-folders", git.bare.parent).start()


def lines(git, name="count", **more):
    """A stage with one datum per file of the repository, and the name of its input."""
    return {"name": name, "input": {"git": {"name": "docs", "url": str(git.bare), "glob": "/*.txt", **more}},
            "output": {"prefix": "${docs.stem}/"}, "script": "cat $docs >$PL_OUT/all"}


def sync(daemon, repo="docs", ok=True):
    return daemon.ctl("sync", "repo", repo, ok=ok)


def repo_of(daemon, name="docs"):
    return daemon.get(f"/repos/default/{name}")


def commits(daemon, repo="docs"):
    return daemon.get(f"/repos/default/{repo}/commits", branch="master")["commits"]


def run_of(daemon, commit):
    """Waits for the run that the commit started; {stage: job}."""
    return {j["stage"]: j for j in daemon.wait(commit["id"])["jobs"]}


def test_a_push_is_a_commit_and_runs_what_it_changed(daemon, git):
    first = git.write("a.txt", "a").write("b.txt", "b").write("sub/c.txt", "c").push("The first text\n\nWith more.")
    daemon.pipeline({"pipeline": "p", "stages": [lines(git)]})
    sync(daemon)
    commit = commits(daemon)[0]
    assert (commit["git"], commit["message"], commit["author"]) == (first, "The first text", "Ada <ada@example.org>")
    assert {path.lstrip("/") for path in daemon.default.contents("docs")} == {"a.txt", "b.txt", "sub/c.txt"}
    job = run_of(daemon, commit)["count"]
    assert (job["state"], job["datums"]["total"]) == ("success", 2) and daemon.read("count", "a/all") == b"a"
    second = git.write("b.txt", "bb").push("Another b")
    sync(daemon)
    newest, before = commits(daemon)
    assert (newest["git"], newest["parent"], before["git"]) == (second, before["id"], first)
    datums = run_of(daemon, newest)["count"]["datums"]
    assert (datums["total"], datums["reused"], datums["done"]) == (2, 1, 1) and daemon.read("count", "b/all") == b"bb"
    repo = repo_of(daemon)
    assert repo["git"] | {"looked_us": 0, "changed_us": 0} == {
        "url": str(git.bare), "state": "following", "error": "", "commit": second, "applied": second, "warnings": [], "looked_us": 0, "changed_us": 0}
    assert second[:12] in daemon.ctl("why", "count@master:/b/all").out
    assert second in daemon.ctl("inspect", "commit", "docs@master").out and second[:12] in daemon.ctl("list", "commit", "docs").out
    shown = daemon.ctl("inspect", "repo", "docs").out
    assert second in shown and str(git.bare) in shown and "following" in shown


def test_a_look_with_nothing_new_makes_no_commit(daemon, git):
    sha = git.write("a.txt", "a").push()
    daemon.pipeline({"pipeline": "p", "stages": [lines(git)]})
    assert f"repo docs is at {sha[:12]}" in sync(daemon).out
    sync(daemon)
    assert len(commits(daemon)) == 1


def test_the_first_files_come_by_themselves(daemon, git):
    sha = git.write("a.txt", "a").push()
    daemon.pipeline({"pipeline": "p", "stages": [lines(git)]})
    wait_until(lambda: repo_of(daemon)["git"]["applied"] == sha, "the first commit")
    assert run_of(daemon, commits(daemon)[0])["count"]["state"] == "success"


def test_a_rewritten_branch_is_a_commit_as_well(daemon, git):
    git.write("a.txt", "a").push()
    old = git.write("b.txt", "b").push()
    daemon.pipeline({"pipeline": "p", "stages": [lines(git)]})
    sync(daemon)
    git("reset", "-q", "--hard", "HEAD~1")
    new = git.write("c.txt", "c").push("Again", "--force")
    sync(daemon)
    newest, before = commits(daemon)
    assert (newest["git"], newest["parent"], before["git"]) == (new, before["id"], old)
    assert set(daemon.default.contents("docs")) == {"a.txt", "c.txt"}
    assert repo_of(daemon)["git"]["warnings"] == [f"the branch was rewritten: commit {old[:12]} is not in its history"]
    git("push", "-q", "--force", "origin", f"{old}:{git.branch}")  # back to a commit of before
    sync(daemon)
    assert [c["git"] for c in commits(daemon)] == [old, new, old]


def test_only_the_daemon_writes_the_repo(daemon, git):
    git.write("a.txt", "a").push()
    daemon.pipeline({"pipeline": "p", "stages": [lines(git)]})
    sync(daemon)
    says = f'repo "docs" has the files of {git.bare}, and changes with it: push to that git repository'
    f = daemon.write("f", b"1")
    for words in (("put", "file", "docs@master:/f", "-f", f), ("start", "commit", "docs@master"),
                  ("delete", "commit", "docs@master"), ("create", "branch", "docs@other"), ("delete", "branch", "docs@master", "--force"),
                  ("delete", "file", "docs@master:/a.txt")):
        done = daemon.ctl(*words, ok=False)
        assert done.code and says in done.err, (words, done.err)
    assert "from git: it has no commit_window" in daemon.ctl("update", "repo", "docs", "--commit-window", "1s", ok=False).err
    for more in ([], ["--force"]):
        assert "follows a git repository, and a stage reads it" in daemon.ctl("delete", "repo", "docs", *more, ok=False).err
    daemon.ctl("delete", "pipeline", "p")
    daemon.ctl("delete", "repo", "docs")
    git.write("a.txt", "again").push()
    daemon.pipeline({"pipeline": "p", "stages": [lines(git)]})
    wait_until(lambda: daemon.get("/repos/default/docs")["files"], "the first commit of the new repo")
    assert daemon.read("docs", "a.txt") == b"again" and len(commits(daemon)) == 1


def test_pipelines_share_an_input_but_not_with_another_repository(daemon, git):
    git.write("a.txt", "a").push()
    daemon.pipeline({"pipeline": "p", "stages": [lines(git)]})
    daemon.pipeline({"pipeline": "q", "stages": [lines(git, "again"), {"name": "third", "input": {"repo": "docs"}, "script": "true"}]})
    sync(daemon)
    git.write("a.txt", "aa").push()
    sync(daemon)
    jobs = run_of(daemon, commits(daemon)[0])
    assert set(jobs) == {"count", "again", "third"} and {j["state"] for j in jobs.values()} == {"success"}

    def refused(stage, repos=None):
        with pytest.raises(HttpError) as e:
            daemon.pipeline({"pipeline": "r", "repos": repos or {}, "stages": [stage]})
        return e.value.error["message"]

    assert f'repo "docs" follows {git.bare}, not {git.bare}, branch v2: give the git input another name' in refused(lines(git, "r", branch="v2"))
    daemon.default.repo("plain")
    said = refused({"name": "r", "input": {"git": {"name": "plain", "url": str(git.bare)}}, "script": "true"})
    assert f'repo "plain" exists, and is filled by pushes, not from git ({git.bare})' in said
    said = refused({"name": "r", "input": {"git": {"name": "x", "source": "team"}}, "script": "true"})
    assert 'git input "x": project "default" has no source "team"' in said


def test_addresses_that_the_daemon_does_not_follow(daemon, git, tmp_path):
    for url, says in ((str(tmp_path / "elsewhere"), "does not lie in one of the daemon's git.local_folders"),
                      (f"file://{daemon.dir}", "does not lie in one of the daemon's git.local_folders"),
                      ("git://example.org/a", "git"), ("http://example.org/a", "http")):
        with pytest.raises(HttpError) as e:
            daemon.pipeline({"pipeline": "p", "stages": [{"name": "s", "input": {"git": {"name": "x", "url": url}}, "script": "true"}]})
        assert e.value.status in (400, 403, 422) and says in e.value.error["message"], (url, e.value.error)


def test_an_input_from_a_source_uses_its_repository(daemon, git):
    stage = {"name": "count", "input": {"git": {"name": "docs", "source": "team", "files": ["*.txt"]}}, "script": "cat $docs/*.txt >$PL_OUT/all"}
    sha = git.write("a.txt", "a").write("pipelines/p.json", {"pipeline": "p", "stages": [stage]}).push()
    daemon.ctl("create", "source", "team", "--git", git.bare, "--interval", "1h")
    wait_until(lambda: repo_of(daemon)["git"]["applied"] == sha, "the first commit of an input of a new pipeline")
    assert run_of(daemon, commits(daemon)[0])["count"]["state"] == "success" and daemon.read("count", "all") == b"a"
    sha = git.write("a.txt", "b").push()
    sync(daemon)
    assert commits(daemon)[0]["git"] == sha and repo_of(daemon)["git"]["source"] == "team"
    daemon.ctl("delete", "source", "team", "--force")
    done = sync(daemon, ok=False)
    assert done.code and 'project "default" has no source "team" any more' in done.err


def test_a_source_that_inputs_name_is_deleted_only_by_force(daemon, git):
    stage = {"input": {"git": {"name": "docs", "source": "team"}}, "script": "true"}
    git.write("pipelines/p.json", {"pipeline": "p", "stages": [{**stage, "name": "count"}]}).push()
    daemon.ctl("create", "source", "team", "--git", git.bare, "--interval", "1h")
    daemon.ctl("create", "source", "other", "--git", git.bare, "--interval", "1h", "--path", "none/*.json", ok=False)
    other = daemon.project("other")
    other.stages({"name": "far", "input": {"repo": "default/docs"}, "script": "true"})
    daemon.ctl("delete", "source", "other")
    refused = daemon.ctl("delete", "source", "team", ok=False)
    assert refused.code == CONFLICT and ('source "team" is read by git input "docs" of stage "count" of pipeline "p", '
                                         'input "docs" of stage "far" of pipeline "other/p": change or delete them first, or use --force') in refused.err, refused.err
    daemon.http("DELETE", "/api/v1/pipelines/other/p")
    daemon.pipeline({"pipeline": "many", "stages": [{**stage, "name": f"s{i}"} for i in range(9)]})
    assert 'stage "s2" of pipeline "many" and 7 more: change' in daemon.ctl("delete", "source", "team", ok=False).err
    assert daemon.get("/sources/team")["state"] == "following"
    daemon.ctl("delete", "source", "team", "--force")
    assert daemon.get("/sources")["sources"] == []


def test_a_branch_that_goes_and_comes_back(daemon, git):
    git.write("a.txt", "a").push()
    daemon.pipeline({"pipeline": "p", "stages": [lines(git)]})
    sync(daemon)
    shutil.move(git.bare, f"{git.bare}.away")
    assert sync(daemon, ok=False).code
    state = repo_of(daemon)["git"]
    assert state["state"] == "unreachable" and state["error"]
    assert daemon.get("/pipelines/default/p")["state"] == "running" and len(commits(daemon)) == 1
    shutil.move(f"{git.bare}.away", git.bare)
    sync(daemon)
    assert repo_of(daemon)["git"]["state"] == "following"


def test_links_submodules_and_lfs(daemon, git):
    git.write("a.txt", "a").write("big.txt", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    os.symlink("a.txt", git.clone / "inside.txt")
    first = git.push()
    daemon.pipeline({"pipeline": "p", "stages": [lines(git)]})
    sync(daemon)
    assert repo_of(daemon)["git"]["warnings"] == ["big.txt is a pointer of git LFS, whose content is not fetched: the stage gets the pointer"]
    assert set(daemon.default.contents("docs")) >= {"a.txt", "big.txt"}
    os.symlink("../../etc/passwd", git.clone / "outside.txt")
    second = git.push()
    done = sync(daemon, ok=False)
    assert done.code and "outside.txt: a link to ../../etc/passwd leads out of the repository" in done.err
    state = repo_of(daemon)["git"]
    assert (state["state"], state["commit"], state["applied"]) == ("invalid", second, first)
    (git.clone / "outside.txt").unlink()
    third = git.push()
    sync(daemon)
    assert [c["git"] for c in commits(daemon)] == [third, first] and repo_of(daemon)["git"]["state"] == "following"


def test_many_pointers_of_lfs_are_counted_not_listed(daemon, git):
    for i in range(12):
        git.write(f"{i:02}.bin", f"version https://git-lfs.github.com/spec/v1\noid sha256:{i}\nsize 1\n")
    git.push()
    daemon.pipeline({"pipeline": "p", "stages": [lines(git)]})
    sync(daemon)
    warnings = repo_of(daemon)["git"]["warnings"]
    assert len(warnings) == 6 and warnings[-1] == "and so are 7 more files"


def test_a_repo_that_is_made_anew_during_a_look_gets_nothing_of_it(daemon, git, tmp_path):
    for i in range(3000):
        git.write(f"many/{i:05}.txt", str(i))
    git.push()
    (tmp_path / "repositories" / "other").mkdir()
    other = Repository(tmp_path / "repositories" / "other")
    tip = other.write("one.txt", "1").push()
    daemon.pipeline({"pipeline": "p", "stages": [lines(git)]})
    wait_until(lambda: list(pathlib.Path(daemon.dir, "cache/git").glob("default.docs.git/objects/pack/*.pack")), "the fetch of the first")
    daemon.http("DELETE", "/api/v1/pipelines/default/p")
    daemon.http("DELETE", "/api/v1/repos/default/docs")
    daemon.pipeline({"pipeline": "q", "stages": [lines(other, "other")]})
    sync(daemon)
    assert [commit["git"] for commit in commits(daemon)] == [tip]


def test_restart_and_recovery_keep_the_git_commits(daemon, git):
    shas = [git.write("a.txt", "a").push()]
    daemon.pipeline({"pipeline": "p", "stages": [lines(git)]})
    sync(daemon)
    shas.append(git.write("a.txt", "b").push())
    sync(daemon)
    run_of(daemon, commits(daemon)[0])
    assert daemon.stop() == 0
    for left in pathlib.Path(daemon.dir).glob("pipelined.db*"):
        left.unlink()
    daemon.start()
    assert [c["git"] for c in commits(daemon)] == shas[::-1]
    sync(daemon)
    assert len(commits(daemon)) == 2
    shas.append(git.write("a.txt", "c").push())
    sync(daemon)
    assert [c["git"] for c in commits(daemon)] == shas[::-1]
    assert run_of(daemon, commits(daemon)[0])["count"]["state"] == "success"


def test_a_daemon_that_is_killed_while_it_looks_has_each_commit_once(daemon, git):
    for i in range(200):
        git.write(f"many/{i}", f"{i}" * 1000)
    git.write("a.txt", "0").push()
    daemon.pipeline({"pipeline": "p", "stages": [lines(git)]})
    sync(daemon)
    shas = [commits(daemon)[0]["git"]]
    for i in range(6):
        shas.append(git.write("a.txt", f"{i + 1}").push())
        daemon.post("/repos/default/docs/sync")
        time.sleep(0.01 * 2**i)  # somewhere within the look
        daemon.kill()
        daemon.start()
        sync(daemon)
        assert [c["git"] for c in commits(daemon)] == shas[::-1]
    assert run_of(daemon, commits(daemon)[0])["count"]["state"] == "success" and daemon.read("count", "a/all") == b"6"


def test_a_webhook_of_the_source_hints_at_its_inputs(daemon, git):
    git.write("a.txt", "a").write("pipelines/none.json", {"pipeline": "q", "repos": {"in": {}}, "stages": [
        {"name": "q", "input": {"repo": "in"}, "script": "true"}]}).push()
    secret_of(daemon)
    daemon.ctl("create", "source", "team", "--git", git.bare, "--interval", "1h", "--hook-secret", "hub")
    daemon.pipeline({"pipeline": "p", "stages": [{"name": "count", "input": {"git": {"name": "docs", "source": "team"}}, "script": "true"}]})
    sync(daemon)
    sha = git.write("a.txt", "b").push()
    assert ask(daemon, {"Authorization": "Bearer " + SECRET})[0] in (200, 202, 204)
    wait_until(lambda: repo_of(daemon)["git"]["applied"] == sha, "the commit of the push")
