"""Sources: git repositories whose specs become pipelines. Repositories of this machine, changed with git itself."""

import ctypes
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import time

import pytest
from conftest import BIN, HttpError, processes_with, runs_end, wait_until
from people import User
from source_kit import Repository, copy, follow, pipelines, source_of, spec, sync

USAGE, CONFLICT, INVALID = 2, 4, 5
LANDLOCK = ctypes.CDLL(None).syscall(444, None, 0, 1) > 0  # landlock_create_ruleset, asked for its version
TOP = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def git(tmp_path):
    folder = tmp_path / "repositories"
    folder.mkdir()
    return Repository(folder)


@pytest.fixture
def daemon(make_daemon, git):
    return make_daemon("--git-local-folders", git.bare.parent).start()


# --- from a push to pipelines

def test_the_specs_on_a_branch_become_pipelines_that_name_their_commit(daemon, git):
    sha = git.write("pipelines/a/p.json", spec("p", copy())).write("README.md", "hello").push("The first pipeline\n\nWith more text.")
    said = follow(daemon, git).out
    assert f"source team is at {sha[:12]}: The first pipeline" in said and "  pipeline p" in said
    source = source_of(daemon)
    assert (source["state"], source["applied"], source["commit"], source["pipelines"]) == ("following", sha, sha, ["p"])
    origin = daemon.get("/pipelines/default/p")["origin"]
    assert origin == {"source": "team", "url": str(git.bare), "branch": "", "commit": sha, "path": "pipelines/a/p.json",
                      "author": "Ada <ada@example.org>", "message": "The first pipeline\n\nWith more text.\n", "at": origin["at"]}
    run = daemon.default.run("in", {"f": b"1"})
    assert run["job"]["copy"]["origin"]["commit"] == sha
    assert sha[:12] in daemon.ctl("inspect", "job", "copy").out and sha[:12] in daemon.ctl("inspect", "pipeline", "p").out
    why = daemon.ctl("why", "copy@master:/all").out
    assert f"git {sha[:12]}" in why and "Ada <ada@example.org>" in why
    assert [r["id"] for r in daemon.get("/runs", commit=sha[:8])["runs"]] == [run["id"]]
    assert daemon.get("/runs", commit="f" * 8)["runs"] == []


def test_a_push_reruns_the_stages_whose_code_changed_and_what_follows(daemon, git):
    stage = {"input": {"repo": "in", "name": "x", "glob": "/"}, "run": ["sh", "one.sh"], "code": {"path": "code", "files": ["one.sh"]}}
    git.write("pipelines/p.json", spec("p", {"name": "one", **stage},
                                       {**stage, "name": "two", "run": ["sh", "two.sh"], "code": {"path": "code", "files": ["two.sh"]}},
                                       copy("three", "one")))
    git.write("pipelines/code/one.sh", "echo 1 >$PL_OUT/all").write("pipelines/code/two.sh", "echo 2 >$PL_OUT/all").push()
    follow(daemon, git)
    daemon.default.run("in", {"f": b"1"})
    sha = git.write("pipelines/code/one.sh", "echo one >$PL_OUT/all").push("Say one")
    sync(daemon)
    run = daemon.run_of_git(sha)
    jobs = {j["stage"]: j for j in daemon.wait(run["id"])["jobs"]}
    assert set(jobs) == {"one", "three"} and daemon.read("three", "all") == b"one\n"
    assert jobs["one"]["origin"]["commit"] == sha and run["message"] == f"source team at {sha[:12]}"
    git.write("README.md", "no code").push()
    sync(daemon)
    assert daemon.get("/runs", limit=1)["runs"][0]["id"] == run["id"] and pipelines(daemon)["p"]["version"] == 2


def test_a_source_is_looked_at_by_itself_and_no_process_stays(daemon, git):
    git.write("pipelines/p.json", spec("p", copy())).push()
    daemon.ctl("create", "source", "team", "--git", f"file://{git.bare}", "--interval", "1s")
    git.write("pipelines/q.json", spec("q", copy("other"))).push()
    wait_until(lambda: "q" in pipelines(daemon), "the new pipeline")
    daemon.ctl("update", "source", "team", "--interval", "1h")
    wait_until(lambda: not processes_with(os.path.join(daemon.dir, "cache", "git")), "the end of pl-git")


def test_an_invalid_commit_changes_nothing_and_says_where_it_is_wrong(daemon, git):
    good = git.write("pipelines/p.json", spec("p", copy())).push()
    follow(daemon, git)
    git.write("pipelines/new.json", spec("new", copy("fresh")))
    git.write("pipelines/p.json", '{"pipeline": "p",\n "stages": [{"name": "copy", "input": {"repo": "in"},\n  "run": ["true"], "runn": 1}, {}]}')
    bad = git.push("Break it")

    def told():
        return [one for one in daemon.get("/needs")["needs"] if one["kind"] == "source"]

    refused = sync(daemon, ok=False)
    assert refused.code == INVALID and re.search(r"pipelines/p\.json:3:\d+: .*runn", refused.err), refused.err
    source = source_of(daemon)
    assert (source["state"], source["commit"], source["applied"]) == ("invalid", bad, good) and "pipelines/p.json:3:" in source["error"]
    assert len(source["errors"]) > 1 and "stages[1]" in source["errors"][1]
    # the lines around each mistake, for one source, not for the list of all
    problem = source["problems"][0]
    assert (problem["path"], problem["line"], problem["field"], problem["first"]) == ("pipelines/p.json", 3, "stages[0].runn", 1)
    assert problem["lines"][2] == '  "run": ["true"], "runn": 1}, {}]}' and problem["lines"][2][problem["mark"] - 1:].startswith('"runn"')
    assert "runn" in problem["text"] and not problem["text"].startswith("pipelines/") and len(source["problems"]) == len(source["errors"])
    assert "problems" not in daemon.get("/sources")["sources"][0]
    shown = daemon.ctl("inspect", "source", "team").out
    assert '>     3 |   "run": ["true"], "runn": 1}, {}]}\n        | ' + " " * (problem["mark"] - 1) + "^\n" in shown
    daemon.ctl("diff", "source", "team", ok=False)
    assert daemon.get("/sources/team/diff")["problems"] == source["problems"]
    assert set(pipelines(daemon)) == {"p"} and pipelines(daemon)["p"]["version"] == 1
    assert "invalid" in daemon.ctl("list", "source").out
    need, = told()
    assert need["kind"] == "source" and "the specs of team are not accepted: " in need["text"] and "pipelines/p.json:3:" in need["text"], need
    git.write("pipelines/p.json", spec("p", copy(workers=2))).push("Mend it")
    sync(daemon)
    assert told() == []
    assert source_of(daemon)["state"] == "following" and set(pipelines(daemon)) == {"p", "new"}


def test_a_commit_is_applied_later_when_what_it_lacks_is_there(daemon, git):
    git.write("pipelines/p.json", {"pipeline": "p", "stages": [copy(repo="missing")]}).push()
    assert "missing" in follow(daemon, git, ok=False).err
    daemon.default.repo("missing")
    sync(daemon)
    assert "p" in pipelines(daemon)


def test_pipelines_of_one_commit_may_read_each_other(daemon, git):
    chain = [spec(f"p{i}", copy(f"s{i}", "in" if i == 0 else f"s{i - 1}"), repos={"in": {}} if i == 0 else {}) for i in range(6)]
    random.Random(3).shuffle(chain)
    for i, one in enumerate(chain):
        git.write(f"pipelines/{i}.json", one)
    git.push()
    follow(daemon, git)
    run = daemon.default.run("in", {"f": b"1"})
    assert set(run["job"]) == {f"s{i}" for i in range(6)}


REFUSED_COMMITS = [
    ({"a": spec("a", copy("x", "y")), "b": spec("b", copy("y", "x"))}, "read each other's outputs in a circle"),
    ({"a": spec("a", copy()), "b": spec("a", copy("other"))}, "pipelines/b.json: pipeline \"a\" is also in pipelines/a.json"),
    ({"a": spec("a", copy()), "b": spec("b", copy())}, "pipelines/b.json: stage \"copy\" is also in pipelines/a.json"),
    ({"a": spec("a", copy(), project="other")}, "\"project\": \"other\" is not accepted: source \"team\" sets pipelines of project \"default\""),
    ({"a": spec("a", copy(code="code"))}, "the commit has no folder pipelines/code"),
    ({"a": spec("a", copy(), defaults={"colour": "red"})}, "pipelines/a.json:"),
    ({}, "no file of the commit matches \"pipelines/**/*.json\" (path)")]


def test_commits_that_are_refused_whole(daemon, git):
    git.push()
    follow(daemon, git, ok=False)
    for files, why in REFUSED_COMMITS:
        git("rm", "-q", "-r", "--ignore-unmatch", ".")
        for name, content in files.items():
            git.write(f"pipelines/{name}.json", content)
        git.push()
        refused = sync(daemon, ok=False)
        assert refused.code == INVALID and why in refused.err, (why, refused.err)
        assert pipelines(daemon) == {} and source_of(daemon)["state"] == "invalid"


def test_diff_says_what_a_sync_would_do_and_changes_nothing(daemon, git):
    git.write("pipelines/p.json", spec("p", copy(code="code"))).write("pipelines/code/run.sh", "1").push()
    follow(daemon, git)
    assert daemon.ctl("diff", "source", "team").out == "pipeline p unchanged (pipelines/p.json)\n"
    daemon.default.run("in", {"f": b"1"})
    before = source_of(daemon)
    git.write("pipelines/code/run.sh", "2").write("pipelines/q.json", spec("q", copy("other"))).push()
    said = daemon.ctl("diff", "source", "team").out
    assert "pipeline p would be updated (pipelines/p.json)" in said and "code (run.sh): 1 of 1 datum to run" in said, said
    assert "pipeline q would be created (pipelines/q.json)" in said
    after = source_of(daemon)
    assert {**after, "looks": 0, "looked_us": 0} == {**before, "looks": 0, "looked_us": 0} and set(pipelines(daemon)) == {"p"}
    (git.clone / "pipelines/p.json").unlink()
    git.push()
    assert "pipeline p is in no file any more and would stay" in daemon.ctl("diff", "source", "team").out
    git.write("pipelines/q.json", "{").push()
    refused = daemon.ctl("diff", "source", "team", ok=False)
    assert refused.code == INVALID and "pipelines/q.json:1:" in refused.err
    sync(daemon, ok=False)
    assert daemon.ctl("diff", "source", "team", "--json", ok=False).code == INVALID


def test_one_file_may_hold_several_specs(daemon, git):
    git.write("pipelines/all.json", json.dumps(spec("a", copy("x"))) + "\n---\n" + json.dumps(spec("b", copy("y")))).push()
    follow(daemon, git)
    assert set(pipelines(daemon)) == {"a", "b"}


# --- who sets a pipeline

def test_a_pipeline_of_a_source_is_set_by_hand_only_when_it_is_detached(daemon, git):
    git.write("pipelines/p.json", spec("p", copy())).push()
    follow(daemon, git)
    by_hand = daemon.write("p.json", json.dumps(spec("p", copy("mine"))))
    refused = daemon.ctl("update", "pipeline", "-f", by_hand, ok=False)
    assert refused.code == CONFLICT and f"is set by source \"team\", from pipelines/p.json in {git.bare}" in refused.err and "--detach" in refused.err
    refused = daemon.ctl("delete", "pipeline", "p", ok=False)
    assert refused.code == CONFLICT and "remove its file from the repository first" in refused.err
    daemon.ctl("update", "pipeline", "-f", by_hand, "--detach", "--yes")
    assert pipelines(daemon)["p"]["source"] == "" and "origin" not in daemon.get("/pipelines/default/p")
    git.write("pipelines/p.json", spec("p", copy("theirs"))).write("pipelines/q.json", spec("q", copy("other"))).push()
    assert "pipeline \"p\" was detached and is set by hand" in sync(daemon).out
    daemon.ctl("update", "pipeline", "-f", daemon.write("p.json", json.dumps(spec("p", copy("mine", workers=2)))), "--yes")
    assert daemon.stop() == 0
    daemon.start()
    sync(daemon)
    assert pipelines(daemon)["p"]["version"] == 3 and [s["name"] for s in pipelines(daemon)["p"]["stages"]] == ["mine"]
    daemon.ctl("delete", "pipeline", "p")
    sync(daemon)
    assert [s["name"] for s in pipelines(daemon)["p"]["stages"]] == ["theirs"]


def test_a_pipeline_is_not_deleted_while_a_commit_that_is_refused_hides_its_file(daemon, git):
    good = git.write("pipelines/p.json", spec("p", copy())).push("Good")
    follow(daemon, git)
    git.write("pipelines/p.json", "{").push("Bad")
    sync(daemon, ok=False)
    assert "remove its file" in daemon.ctl("delete", "pipeline", "p", ok=False).err
    git("reset", "-q", "--hard", good)
    git("push", "-q", "--force", "origin", f"{good}:refs/heads/main")
    sync(daemon)
    source = source_of(daemon)
    assert (source["state"], source["subject"], source["commit"], "errors" in source) == ("following", "Good", good, False)


def test_a_project_with_a_source_is_not_deleted(daemon, git):
    git.push()
    daemon.project("a")
    daemon.ctl("create", "source", "s", "--git", git.bare, "--project", "a", ok=False)
    refused = daemon.ctl("delete", "project", "a", ok=False)
    assert refused.code == CONFLICT and "still has 1 sources" in refused.err
    daemon.ctl("delete", "source", "s")
    daemon.ctl("delete", "project", "a")


def test_pipelines_stay_when_their_source_goes_and_can_be_taken_over(daemon, git):
    git.write("pipelines/p.json", spec("p", copy())).push()
    daemon.ctl("create", "pipeline", "-f", daemon.write("p.json", json.dumps(spec("p", copy()))))
    follow(daemon, git)
    assert pipelines(daemon)["p"]["source"] == "team" and pipelines(daemon)["p"]["version"] == 2
    daemon.ctl("delete", "source", "team")
    assert pipelines(daemon)["p"]["source"] == "" and daemon.get("/sources")["sources"] == []
    wait_until(lambda: not os.listdir(os.path.join(daemon.dir, "cache", "git")), "the end of the copy")
    daemon.ctl("delete", "pipeline", "p")


def test_two_sources_do_not_set_the_same_pipeline(daemon, git):
    git.write("pipelines/p.json", spec("p", copy())).push()
    follow(daemon, git)
    refused = follow(daemon, git, "second", ok=False)
    assert refused.code == INVALID and "source \"team\"" in refused.err and "source \"second\"" in refused.err


def test_a_renamed_file_is_no_deletion_and_a_removed_one_leaves_its_pipeline(daemon, git):
    git.write("pipelines/p.json", spec("p", copy())).write("pipelines/q.json", spec("q", copy("other"))).push()
    follow(daemon, git)
    (git.clone / "pipelines/p.json").rename(git.clone / "pipelines/renamed.json")
    git.push()
    sync(daemon)
    assert pipelines(daemon)["p"]["version"] == 2 and source_of(daemon)["warnings"] == [] and daemon.get("/runs")["runs"] == []
    assert daemon.get("/pipelines/default/p")["origin"]["path"] == "pipelines/renamed.json"
    (git.clone / "pipelines/renamed.json").unlink()
    git.push()
    assert "pipeline \"p\" is in no file any more" in sync(daemon).out
    assert set(pipelines(daemon)) == {"p", "q"}
    daemon.ctl("delete", "pipeline", "p")


# --- branches

def test_a_rewritten_branch_is_followed_and_said(daemon, git):
    git.write("pipelines/p.json", spec("p", copy())).push()
    git.write("pipelines/q.json", spec("q", copy("other"))).push()
    follow(daemon, git)
    git("reset", "-q", "--hard", "HEAD~1")
    sha = git.write("pipelines/r.json", spec("r", copy("third"))).push("Rewritten", "--force")
    assert "the branch was rewritten" in sync(daemon).out
    assert source_of(daemon)["applied"] == sha and set(pipelines(daemon)) == {"p", "q", "r"}


def test_a_branch_that_goes_is_said_and_stops_nothing(daemon, git):
    git.write("pipelines/p.json", spec("p", copy())).push()
    git.branch = "release"
    git.push()
    follow(daemon, git, "team", "--branch", "release")
    git("push", "-q", "origin", ":release")
    assert "no branch \"release\"; it has main" in sync(daemon, ok=False).err
    assert source_of(daemon)["state"] == "unreachable" and "p" in pipelines(daemon)


def test_a_repository_that_goes_and_comes_back(daemon, git):
    git.write("pipelines/p.json", spec("p", copy())).push()
    follow(daemon, git)
    git.bare.rename(git.bare.parent / "away")
    assert "there is no folder" in sync(daemon, ok=False).err
    (git.bare.parent / "away").rename(git.bare)
    sync(daemon)
    assert source_of(daemon)["state"] == "following" and source_of(daemon)["error"] == ""


def test_a_damaged_copy_is_fetched_anew(daemon, git):
    sha = git.write("pipelines/p.json", spec("p", copy())).push()
    follow(daemon, git)
    copied = pathlib.Path(daemon.dir) / "cache/git/team.git"
    (copied / "refs/pipelined/tip.lock").write_text("")
    sync(daemon)
    for file in (copied / "objects").rglob("*.pack"):
        file.chmod(0o600)
        file.write_bytes(b"")
    assert sync(daemon).out.startswith(f"source team is at {sha[:12]}")
    shutil.rmtree(copied)
    sync(daemon)
    assert source_of(daemon)["state"] == "following"


def test_an_empty_repository_is_said(daemon, git):
    assert "no commit yet" in follow(daemon, git, ok=False).err or "has no branch" in source_of(daemon)["error"]


# --- trees that attack

def raw_tree(git, *entries):
    """Commits a tree of (mode, name, content) that git add would not make; the commit's id."""
    rows, known = b"", {}
    for mode, name, content in entries:
        if isinstance(content, bytes) and content not in known:
            known[content] = git("hash-object", "-w", "--stdin", input=content)
        oid = known.get(content, content)
        rows += b"%s %s %s\t%s\0" % (mode, b"commit" if mode == b"160000" else b"tree" if mode == b"040000" else b"blob", oid.encode(), name)
    tree = git("mktree", "-z", "--missing", input=rows)
    commit = git("commit-tree", tree, "-m", "raw")
    git("push", "-q", "--force", "origin", f"{commit}:refs/heads/{git.branch}")
    return commit


GOOD = json.dumps(spec("p", copy())).encode()


REFUSED_TREES = [
    ([(b"120000", b"p.json", b"/etc/passwd")], "p.json: is a symbolic link"),
    ([(b"100644", b"\xff\xfe.json", GOOD)], "no file of the commit matches"),
    ([(b"100644", b"p.json", json.dumps(spec("p", copy(code="."))).encode()), (b"100644", b"\xff\xfe", b"")], "the name is not UTF-8"),
    ([(b"100644", b"p.json", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")], "p.json: is a pointer of git LFS"),
    ([(b"100644", b"p.json", GOOD + b" " * (33 << 20))], "p.json has 346"),
    ([(b"100644", b"p.json", b"\0\0")], "p.json: holds a NUL byte"),
    ([(b"100644", b"p.json", b"\xff\xff")], "p.json: is not UTF-8"),
    ([(b"160000", b"p.json", "1" * 40)], "no file of the commit matches"),
    ([(b"100644", b"%d.json" % i, b"{}") for i in range(1001)], "more than 1000 files match")]


def test_trees_that_are_no_specs(daemon, git):
    git.push()
    follow(daemon, git, "team", "--path", "*.json", ok=False)
    for entries, why in REFUSED_TREES:
        raw_tree(git, *entries)
        refused = sync(daemon, ok=False)
        assert why in refused.err, (why, refused.err)
        assert pipelines(daemon) == {}


def test_a_tree_of_the_same_trees_and_a_file_of_many_specs_end_soon(daemon, git):
    git.push()
    tree = git("mktree", input=b"100644 blob " + git("hash-object", "-w", "--stdin", input=b"x").encode() + b"\tx\n")
    for _ in range(9):
        tree = git("mktree", input=b"".join(b"040000 tree %s\t%d\n" % (tree.encode(), i) for i in range(10)))
    git("push", "-q", "--force", "origin", git("commit-tree", tree, "-m", "bomb") + ":refs/heads/main")
    assert "more than 300000 files and folders" in follow(daemon, git, "team", "--path", "**/*.json", ok=False).err
    git.write("pipelines/all.json", "{}" * 5000).push("many", "--force")
    daemon.ctl("update", "source", "team", "--path", "pipelines/*.json")
    assert "more than 1000 specs" in sync(daemon, ok=False).err


def test_a_commit_at_the_end_of_time(daemon, git):
    git.write("pipelines/p.json", spec("p", copy()))
    git.env |= {"GIT_COMMITTER_DATE": "@99999999999999 +0000", "GIT_AUTHOR_DATE": "@99999999999999 +0000"}
    git.push()
    follow(daemon, git)
    assert source_of(daemon)["at"] == 253402300799000000


def test_links_in_code_stay_inside(daemon, git):
    git.write("pipelines/p.json", spec("p", copy(code="code"))).write("pipelines/code/x", "x")
    link = git.clone / "pipelines/code/link"
    os.symlink("/etc/passwd", link)
    git.push()
    assert "leads out of the code folder" in follow(daemon, git, ok=False).err
    for target, why in (("../../../../etc/passwd", "leads out of the code folder"), ("x", "")):
        link.unlink()
        os.symlink(target, link)
        git.push()
        assert why in sync(daemon, ok=not why).err
    assert "p" in pipelines(daemon)


def test_code_leaves_out_what_pipelinedignore_names(daemon, git):
    git.write("pipelines/p.json", spec("p", copy(code="code", script="ls -A >$PL_OUT/all")))
    git.write("pipelines/code/run.sh", "").write("pipelines/code/notes.md", "").write("pipelines/code/.pipelinedignore", "*.md\n").push()
    follow(daemon, git)
    daemon.default.run("in", {"f": b"1"})
    assert daemon.read("copy", "all") == b"run.sh\n"


# --- rights

def test_local_repositories_lie_where_the_operator_allows_them(make_daemon, git, tmp_path):
    git.write("pipelines/p.json", spec("p", copy())).push()
    plain = make_daemon().start()
    assert "git.local_folders" in follow(plain, git, ok=False).err
    inside = make_daemon("--git-local-folders", git.bare.parent).start()
    (tmp_path / "elsewhere").mkdir()
    outside = Repository(tmp_path / "elsewhere")
    outside.write("pipelines/p.json", spec("p", copy())).push()
    assert "does not lie in" in follow(inside, outside, ok=False).err
    os.symlink(outside.bare, git.bare.parent / "link.git")
    refused = inside.ctl("create", "source", "x", "--git", git.bare.parent / "link.git", ok=False)
    assert "does not lie in" in refused.err
    texts = {inside.ctl("create", "source", "x", "--git", path, ok=False).err.replace(path, "") for path in ("/etc/passwd", "/etc/none")}
    assert len(texts) == 1
    (git.bare / "objects/info/alternates").write_text(f"{outside.bare}/objects\n")
    assert "uses objects of another repository" in follow(inside, git, "borrower", ok=False).err and pipelines(inside) == {}
    (tmp_path / "file").write_text("")
    broken = make_daemon("--git-local-folders", tmp_path / "file").start(expect_failure=True)
    assert "is not a folder" in broken.log()
    broken.process = None
    broken = make_daemon("--git-local-folders", tmp_path).start(expect_failure=True)
    assert "lies in or above the daemon's data folder" in broken.log()
    broken.process = None


RULES = json.dumps({"schemes": "https,ssh", "hosts": "*", "networks": "", "ca": ""})


def test_pl_git_reads_and_writes_nothing_but_its_folders(git, tmp_path):
    """Whatever it is asked for, where the kernel has Landlock."""
    git.write("pipelines/p.json", spec("p", copy())).push()
    (tmp_path / "work").mkdir()
    ask = {"do": "look", "copy": "x", "url": str(git.bare), "branch": "", "have": "", "secret": {}}

    def answer(*readable):
        done = subprocess.run([os.path.join(BIN, "pl-git"), "serve", tmp_path / "work", RULES, *readable], input=json.dumps(ask).encode() + b"\n",
                              capture_output=True, check=False)
        return json.loads(done.stdout.splitlines()[-1])  # lines before it report progress

    assert "id" in answer(git.bare.parent)
    if LANDLOCK:
        assert "error" in answer()


def test_pl_git_does_nothing_for_a_daemon_that_is_gone(git, tmp_path):
    """Its request lies in the pipe; the next daemon's pl-git may be at work in the same copy."""
    ask = {"do": "look", "copy": "x", "url": str(git.bare), "branch": "", "have": "", "secret": {}}
    reads, writes = os.pipe()
    os.close(reads)
    (tmp_path / "work").mkdir()
    done = subprocess.run([os.path.join(BIN, "pl-git"), "serve", tmp_path / "work", RULES, git.bare.parent], input=json.dumps(ask).encode() + b"\n",
                          stdout=writes, check=False)
    os.close(writes)
    assert done.returncode == 0 and not os.listdir(tmp_path / "work")


def test_pl_git_answers_what_is_no_request_with_an_error(tmp_path):
    lines = [b"", b"{}", b"[]", b"{\"do\": \"look\"}", b"{\"do\": \"read\", \"copy\": \"x\"}", b"{\"do\": \"x\", \"copy\": \"x\"}",
             b"{\"do\": \"look\", \"copy\": \"../x\", \"url\": \"\", \"branch\": \"\", \"have\": \"\"}", b"\xff", b"{\"do\": 1, \"copy\": 2}"]
    done = subprocess.run([os.path.join(BIN, "pl-git"), "serve", tmp_path, RULES], input=b"\n".join(lines) + b"\n", capture_output=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and len(answers) == len(lines) and all("error" in answer for answer in answers), done


def test_readers_see_sources_and_writers_set_them(daemon, git):
    git.write("pipelines/p.json", spec("p", copy())).push()
    daemon.project("a")
    daemon.project("b")
    users = {}
    for name, scope, role in (("reader", "a", "reader"), ("writer", "a", "writer"), ("other", "b", "writer")):
        users[name] = User(daemon, name, (scope, role))
    settings = {"git": str(git.bare)}

    def status(user, method, path, body=None):
        return users[user].status(method, path, body)

    assert status("reader", "POST", "/sources", {"name": "s", "project": "a", "settings": settings}) == 403
    assert status("other", "POST", "/sources", {"name": "s", "project": "a", "settings": settings}) == 403
    assert status("writer", "POST", "/sources", {"name": "s", "project": "a", "settings": settings}) == 200
    assert status("reader", "GET", "/sources/s") == 200 and status("other", "GET", "/sources/s") == 404
    assert status("reader", "POST", "/sources/s/sync") == 403 and status("other", "DELETE", "/sources/s") == 404
    assert status("reader", "PATCH", "/sources/s", {"settings": {"paused": True}}) == 403
    assert status("writer", "DELETE", "/sources/s") == 200


REFUSED = [
    ({"git": ""}, "git", "an address"), ({"git": "ftp://x/y"}, "git", "begins with none of https://"),
    ({"git": "../x"}, "git", "USER@HOST:PATH"), ({"git": "http://x/y"}, "git", "outbound.schemes allows https,ssh"),
    ({"git": "file:///srv/%2e%2e/x"}, "git", "a path without % and ' is expected"),
    ({"git": "https://a:b@x/y"}, "git", "in a secret"), ({"secret": "A B"}, "secret", "name of a secret"), ({"git": "/a/../b"}, "git", "without \"..\""), ({"git": 7}, "git", "a text is expected"),
    ({"branch": "a b"}, "branch", "not the name of a git branch"), ({"branch": "-x"}, "branch", "not the name"),
    ({"path": "a{"}, "path", "glob"), ({"path": "/"}, "path", "a pattern for spec files"), ({"interval": "1ms"}, "interval", "between 1s and 24h"),
    ({"interval": "soon"}, "interval", "interval"), ({"paused": 1}, "paused", "true or false"), ({"colour": "red"}, "colour", "no such setting")]


def test_settings_that_are_refused_by_name(daemon, git):
    for change, field, why in REFUSED:
        with pytest.raises(HttpError) as refused:
            daemon.post("/sources", {"name": "team", "settings": {"git": str(git.bare), **change}})
        assert refused.value.error["field"] == field and why in refused.value.error["message"], refused.value


def test_an_address_with_a_token_in_it_is_not_repeated(daemon):
    for address in ("https://hunter2@x/y", "bob:hunter2@x:y", "https://bob:hun/hunter2@x/y"):
        refused = daemon.ctl("create", "source", "team", "--git", address, ok=False)
        assert refused.code == INVALID and "hunter2" not in refused.out + refused.err + daemon.log(), refused.err


def test_a_paused_source_is_looked_at_only_on_request(daemon, git):
    git.write("pipelines/p.json", spec("p", copy())).push()
    follow(daemon, git)
    daemon.ctl("pause", "source", "team")
    assert source_of(daemon)["state"] == "paused"
    git.write("pipelines/r.json", spec("r", copy("third"))).push()
    sync(daemon)
    assert "r" in pipelines(daemon)
    git.write("pipelines/q.json", spec("q", copy("other"))).push()
    daemon.ctl("resume", "source", "team")
    wait_until(lambda: "q" in pipelines(daemon), "the new pipeline")


def test_a_source_from_a_file_and_its_name_twice(daemon, git):
    git.write("pipelines/p.json", spec("p", copy())).push()
    file = daemon.write("source.json", json.dumps({"name": "team", "project": "default", "git": str(git.bare), "interval": "2h"}))
    daemon.ctl("create", "source", "-f", file)
    assert source_of(daemon)["interval"] == "2h"
    assert "exists already" in daemon.ctl("create", "source", "-f", file, ok=False).err
    assert daemon.ctl("create", "source", "x", ok=False).code == USAGE and daemon.ctl("update", "source", "team", ok=False).code == USAGE


# --- restarts

def test_a_restart_and_a_recovery_go_on_where_the_branch_is(daemon, git):
    git.write("pipelines/p.json", spec("p", copy())).push()
    follow(daemon, git)
    daemon.kill()
    sha = git.write("pipelines/q.json", spec("q", copy("other"))).push()
    daemon.start()
    wait_until(lambda: source_of(daemon)["applied"] == sha, "the commit of the time of the outage")
    assert pipelines(daemon)["p"]["version"] == 1 and pipelines(daemon)["q"]["source"] == "team"
    assert daemon.stop() == 0
    for left in pathlib.Path(daemon.dir).glob("pipelined.db*"):
        left.unlink()
    daemon.start()
    wait_until(lambda: source_of(daemon)["state"] == "following", "the look after the recovery")
    assert {name: p["version"] for name, p in pipelines(daemon).items()} == {"p": 1, "q": 1}
    assert daemon.get("/pipelines/default/q")["origin"]["commit"] == sha


def test_a_daemon_that_is_killed_while_it_applies_a_commit_has_all_of_it_or_nothing(daemon, git):
    draw = random.Random(5)

    def push(round_):
        for i in range(5):
            git.write(f"pipelines/p{i}.json", spec(f"p{i}", copy(f"s{i}", code=f"code{i}"))).write(f"pipelines/code{i}/x", f"{round_}")
        return git.push()

    push(0)
    follow(daemon, git)
    for round_ in range(1, 7):
        sha = push(round_)
        daemon.post("/sources/team/sync")
        time.sleep(draw.uniform(0, 0.15))  # somewhere between the question for the tip and the end
        daemon.kill()
        daemon.start("--linger", "0s")
        found = {p["version"] for p in pipelines(daemon).values()}  # by one request: the daemon may apply it now
        assert found in ({round_}, {round_ + 1}), found
        wait_until(lambda: source_of(daemon)["applied"] == sha, "the commit")
        assert {daemon.get(f"/pipelines/default/p{i}")["origin"]["commit"] for i in range(5)} == {sha}


# --- properties

def shape(daemon):
    """What the pipelines do, without versions and times."""
    out = {}
    for name in pipelines(daemon):
        whole = daemon.get(f"/pipelines/default/{name}")
        out[name] = (whole["spec"], whole["origin"]["path"], [(s["name"], s["code"]) for s in whole["stages"]])
    return out


@pytest.mark.parametrize("seed", range(2))
def test_any_sequence_of_pushes_ends_where_the_last_one_alone_does(make_daemon, git, seed):
    draw = random.Random(seed)
    followed = make_daemon("--git-local-folders", git.bare.parent).start()
    git.write("pipelines/p0.json", spec("p0", copy("s0"))).push()
    follow(followed, git)
    for _ in range(8):
        i = draw.randrange(4)
        if draw.random() < 0.3:  # not valid: must leave no trace
            git.write(f"pipelines/p{i}.json", "{\"pipeline\": ")
        else:
            git.write(f"pipelines/p{i}.json", spec(f"p{i}", copy(f"s{i}", code=f"code{i}")))
            git.write(f"pipelines/code{i}/run.sh", f"{draw.random()}")
        git.push()
        sync(followed, ok=False)
    for i in range(4):
        git.write(f"pipelines/p{i}.json", spec(f"p{i}", copy(f"s{i}", code=f"code{i}"))).write(f"pipelines/code{i}/run.sh", f"{i % 2}")
    git.push()
    sync(followed)
    fresh = make_daemon("--git-local-folders", git.bare.parent).start()
    follow(fresh, git)
    assert shape(followed) == shape(fresh)


# --- the whole way

def test_the_digits_are_followed_from_empty_to_trained_through_an_edit_a_mistake_and_its_repair(daemon, git):
    pytest.importorskip("numpy")
    subprocess.run(["cp", "-r", TOP / "pipelines", git.clone], check=True)
    first = git.push("The digits")
    daemon.default.without_images()  # for the example of them
    follow(daemon, git)
    run = daemon.ctl("put", "file", "digits@master:/", "-r", "-f", TOP / "pipelines/digits/data", "--json")
    run = daemon.wait(json.loads(run.out)["run"], timeout=240)
    assert run["state"] == "success" and {j["origin"]["commit"] for j in run["jobs"]} == {first}
    train = git.clone / "pipelines/digits/code/train.py"
    train.write_text(train.read_text() + "\n# a change\n")
    edit = git.push("Change the training")
    sync(daemon)
    run = daemon.wait(daemon.run_of_git(edit)["id"], timeout=240)
    assert run["state"] == "success" and {j["stage"] for j in run["jobs"]} == {"train", "infer", "report"}
    assert daemon.get("/jobs/default/train/" + run["id"])["origin"]["commit"] == edit
    good = (git.clone / "pipelines/digits/pipeline.json").read_text()
    git.write("pipelines/digits/pipeline.json", good.replace('"prepare"', '"prepare', 1)).push("Break the spec")
    assert "pipelines/digits/pipeline.json:" in sync(daemon, ok=False).err
    assert source_of(daemon)["applied"] == edit
    mended = git.write("pipelines/digits/pipeline.json", good).push("Mend the spec")
    sync(daemon)
    assert source_of(daemon)["applied"] == mended and pipelines(daemon)["digits"]["version"] == 2


def test_a_stage_that_reads_another_project_is_refused_with_what_to_do(daemon, git):
    """Who may push to the branch is not known to the daemon: a source has rights in its own project alone."""
    daemon.ctl("create", "project", "other")
    daemon.ctl("create", "repo", "other/data")
    daemon.ctl("put", "file", "other/data@master:/f", "-f", daemon.write("f", "over there"))
    git.write("pipelines/p.json", spec("p", copy(repo="other/data"))).push()
    said = follow(daemon, git, ok=False).err
    assert 'stage "copy": input "x": source "team" may not read other/data: it has the rights of a writer of project "default" alone' in said, said
    assert "pipelinectl create pipeline" in said and "update user" not in said and source_of(daemon)["state"] == "invalid"
    git.write("pipelines/p.json", spec("p", copy(repo="other/none"))).push()
    assert 'source "team" may not read other/none' in sync(daemon, ok=False).err
    # what the words and the page say
    page = (TOP / "docs/git.md").read_text(encoding="utf-8")
    bring = daemon.write("bring.json", re.search(r"^echo '(.*)' >bring.json$", page, re.M)[1])
    daemon.wait(json.loads(daemon.ctl("create", "pipeline", "-f", bring, "--json").out)["run"])
    git.write("pipelines/p.json", spec("p", copy(repo="data"))).push()
    sync(daemon)
    runs_end(daemon)
    assert daemon.read("copy", "all") == b"over there"
