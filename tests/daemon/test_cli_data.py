"""pipelinectl and data: files put and got, listed, compared, taken away; repos, branches, commits."""

import json
import os
import signal
import subprocess
import time

import pytest
from conftest import BIN, wait_until

FAILED, USAGE, NOT_FOUND, CONFLICT, INVALID = 1, 2, 3, 4, 5


class Cli:
    """pipelinectl in a project of its own."""

    def __init__(self, project, folder):
        self.d, self.name, self.folder = project.d, project.name, folder

    def __call__(self, *args, **more):
        return self.d.ctl("--project", self.name, *args, cwd=str(self.folder), **more)

    def fails(self, code, *args, **more):
        result = self(*args, ok=False, **more)
        assert result.code == code, f"{result.code}\n{result.out}\n{result.err}"
        return result.err

    def json(self, *args, **more):
        return self("--json", *args, **more).json

    def write(self, path, content=b"x"):
        full = self.folder / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(content if isinstance(content, bytes) else content.encode())
        return full

    def paths(self, where):
        return [f["path"] for f in self.json("list", "file", where, "-r")["files"]]


@pytest.fixture
def ctl(project, tmp_path):
    cli = Cli(project, tmp_path)
    cli("create", "repo", "r")
    return cli


# --- put

def test_one_small_file(ctl):
    ctl.write("f", "hello")
    done = ctl.json("put", "file", "r@master:/a/f", "-f", "f")
    assert (done["changed"], done["commit"], done["files"], done["bytes"]) == (True, done["run"], 1, 5)
    assert ctl("get", "file", "r@master:/a/f").out == "hello"


@pytest.mark.parametrize("target, sources, paths", [
    ("r@master:/a", ["f"], ["a"]),
    ("r@master:/a/", ["f"], ["a/f"]),
    ("r@master", ["f"], ["f"]),
    ("r@master:/", ["f"], ["f"]),
    ("r@master:/a", ["f", "g"], ["a/f", "a/g"]),
    ("r", ["f"], ["f"]),
])
def test_where_files_go(ctl, target, sources, paths):
    for source in sources:
        ctl.write(source)
    ctl("put", "file", target, *[word for source in sources for word in ("-f", source)])
    assert ctl.paths("r@master") == paths


@pytest.mark.parametrize("target, paths", [("r@master", ["f", "sub/g"]), ("r@master:/", ["f", "sub/g"]), ("r@master:/in", ["in/f", "in/sub/g"]),
                                           ("r@master:/in/", ["in/f", "in/sub/g"])])
def test_what_is_in_a_folder_goes_below_the_path(ctl, target, paths):
    ctl.write("d/f")
    ctl.write("d/sub/g")
    ctl("put", "file", target, "-r", "-f", "d")
    assert ctl.paths("r@master") == paths


def test_files_named_by_the_shell(ctl):
    ctl.write("1.csv")
    ctl.write("2.csv")
    ctl("put", "file", "r@master:/t/", "-f", "1.csv", "2.csv")
    assert ctl.paths("r@master") == ["t/1.csv", "t/2.csv"]


@pytest.mark.parametrize("size", [0, 5, 64, 65, 256 << 10, (256 << 10) + 1, 3000000])
def test_standard_input_of_any_size(ctl, size):
    content = os.urandom(size)
    ctl("put", "file", "r@master:/x", "-f", "-", stdin=content)
    ctl.write("same", content)
    assert not ctl.json("put", "file", "r@master:/x", "-f", "same")["changed"]
    ctl("get", "file", "r@master:/x", "-o", "back")
    assert (ctl.folder / "back").read_bytes() == content


def test_some_files_of_a_folder(ctl):
    for name in ("a", "b/c", "b/d", "e"):
        ctl.write(f"d/{name}", f"this is {name}" * 100)
    ctl("put", "file", "r@master:/in", "-r", "-f", "d")
    ctl.write("chosen", "e\n\nb/c\n")
    assert ctl.json("get", "file", "r@master:/in", "--files-from", "chosen", "-o", "out") == {"files": 2, "bytes": len("this is e" + "this is b/c") * 100}
    assert sorted(str(p.relative_to(ctl.folder / "out")) for p in (ctl.folder / "out").rglob("*")) == ["b", "b/c", "e"]
    assert (ctl.folder / "out" / "b" / "c").read_text() == "this is b/c" * 100
    ctl("get", "file", "r@master", "--files-from", "-", "-o", "all", stdin=b"in/a")
    assert (ctl.folder / "all" / "in" / "a").exists()
    for names, said in ((b"b/c\nb\n", "/in/b"), (b"nothing", "/in/nothing"), (b"../a", "line 1")):
        refused = ctl("get", "file", "r@master:/in", "--files-from", "-", "-o", "none", stdin=names, ok=False)
        assert refused.code != 0 and said in refused.err, refused.err
    assert not (ctl.folder / "none").exists()
    assert ctl("get", "file", "r@master:/in", "--files-from", "chosen", ok=False).code == 2


def test_kinds_of_files_come_back(ctl):
    ctl.write("d/big", os.urandom(9 << 20))
    ctl.write("d/run.sh", "#!/bin/sh\n").chmod(0o755)
    ctl.write("d/a/b/c", "deep")
    (ctl.folder / "d" / "empty").mkdir()
    (ctl.folder / "d" / "link").symlink_to("a/b/c")
    ctl("put", "file", "r@master:/d", "-r", "-f", "d")
    ctl("get", "file", "r@master:/d", "-r", "-o", "out")
    subprocess.run(["diff", "-r", "--no-dereference", "d", "out"], cwd=ctl.folder, check=True)
    assert os.readlink(ctl.folder / "out" / "link") == "a/b/c"
    assert os.access(ctl.folder / "out" / "run.sh", os.X_OK)
    (ctl.folder / "out" / "a" / "b" / "c").write_text("mine now")


def test_one_executable_file(ctl):
    ctl.write("run.sh").chmod(0o755)
    ctl("put", "file", "r@master:/", "-f", "run.sh")
    assert ctl.json("inspect", "file", "r@master:/run.sh")["kind"] == "exec"


def test_nothing_changed(ctl):
    ctl.write("d/f")
    first = ctl.json("put", "file", "r@master", "-r", "-f", "d")
    assert "nothing changed" in ctl("put", "file", "r@master", "-r", "-f", "d").out
    again = ctl.json("put", "file", "r@master", "-r", "-f", "d")
    assert (again["changed"], again["commit"], again["run"]) == (False, first["commit"], "")


def test_only_what_changed_is_stored(ctl):
    for i in range(50):
        ctl.write(f"d/{i}", os.urandom(100000))
    assert ctl.json("put", "file", "r@master", "-r", "-f", "d")["new_bytes"] > 4000000
    ctl.write("d/7", os.urandom(100000))
    assert 90000 < ctl.json("put", "file", "r@master", "-r", "-f", "d")["new_bytes"] < 150000
    assert ctl.json("put", "file", "r@master:/copy", "-r", "-f", "d", "--no-cache")["new_bytes"] < 50000


def test_mirror(ctl):
    ctl.write("d/a/1")
    ctl.write("d/b/2")
    ctl("put", "file", "r@master", "-r", "-f", "d")
    (ctl.folder / "d" / "a" / "1").unlink()
    ctl.write("d/a/3")
    ctl("put", "file", "r@master:/a", "-r", "-f", "d/a", "--mirror")
    assert ctl.paths("r@master") == ["a/3", "b/2"]


def test_a_base_refuses_what_others_changed(ctl):
    ctl.write("f", "1")
    base = ctl.json("put", "file", "r@master:/f", "-f", "f")["commit"]
    ctl.write("f", "2")
    ctl("put", "file", "r@master:/f", "-f", "f")
    ctl.write("f", "3")
    ctl.fails(CONFLICT, "put", "file", "r@master:/f", "-f", "f", "--base", base)
    ctl("put", "file", "r@master:/g", "-f", "f", "--base", base)


def test_a_message_is_kept(ctl):
    ctl.write("f")
    ctl("put", "file", "r@master", "-f", "f", "-m", "the first & only")
    assert ctl.json("inspect", "commit", "r@master")["message"] == "the first & only"
    assert "the first & only" in ctl("list", "commit", "r").out


@pytest.mark.parametrize("code, args, said", [
    (NOT_FOUND, ["r@master", "-f", "nothing"], "nothing"),
    (NOT_FOUND, ["nope@master", "-f", "f"], "nope"),
    (USAGE, ["r@master", "-f", "d"], "give -r"),
    (USAGE, ["r@master", "-f", "-"], "needs a name"),
    (USAGE, ["r@master:/x", "-f", "-", "-f", "f"], "needs a name"),
    (USAGE, ["r@master^", "-f", "f"], "never changes"),
    (INVALID, ["r@master:/a/../b", "-f", "f"], ".."),
    (INVALID, ["r@master", "-r", "-f", "fifo"], "fifo"),
    (INVALID, ["r@master", "-r", "-f", "leaves"], "leaves"),
])
def test_what_cannot_be_put(ctl, code, args, said):
    ctl.write("f")
    ctl.write("d/f")
    ctl.write("leaves/f")
    (ctl.folder / "leaves" / "out").symlink_to("../f")
    (ctl.folder / "fifo").mkdir()
    os.mkfifo(ctl.folder / "fifo" / "x")
    err = ctl.fails(code, "put", "file", *args, stdin=b"x")
    assert said in err
    assert ctl.json("list", "commit", "r")["commits"] == []


def test_a_file_where_a_folder_is(ctl):
    ctl.write("f")
    ctl("put", "file", "r@master:/a/b", "-f", "f")
    err = ctl.fails(CONFLICT, "put", "file", "r@master:/a", "-f", "f")
    assert '"a/b"' in err and "output.prefix" not in err


# --- get

def test_get_to_names_and_folders(ctl):
    ctl.write("f", "text")
    ctl("put", "file", "r@master:/a/f", "-f", "f")
    (ctl.folder / "there").mkdir()
    for out, path in [("back", "back"), ("there", "there/f"), ("new/", None)]:
        result = ctl("get", "file", "r@master:/a/f", "-o", out, ok=False)
        if path:
            assert result.code == 0 and (ctl.folder / path).read_text() == "text"
    assert sorted(os.listdir(ctl.folder / "there")) == ["f"]


def test_get_replaces_what_is_there(ctl):
    ctl.write("d/f", "new")
    ctl("put", "file", "r@master", "-r", "-f", "d")
    ctl.write("back", "old")
    ctl.write("out/f", "old")
    ctl.write("out/other", "stays")
    ctl("get", "file", "r@master:/f", "-o", "back")
    ctl("get", "file", "r@master", "-r", "-o", "out")
    assert (ctl.folder / "back").read_text() == (ctl.folder / "out" / "f").read_text() == "new"
    assert (ctl.folder / "out" / "other").read_text() == "stays"


def test_get_of_an_older_commit(ctl):
    for text in ("1", "2", "3"):
        ctl.write("f", text)
        ctl("put", "file", "r@master", "-f", "f")
    assert [ctl("get", f"r@master{back}:/f").out for back in ("", "^", "^2")] == ["3", "2", "1"]
    commit = ctl.json("inspect", "commit", "r@master^")["id"]
    assert ctl("cat", f"r@{commit[:8]}:/f").out == "2"


@pytest.mark.parametrize("code, args", [(NOT_FOUND, ["r@master:/nope"]), (NOT_FOUND, ["r@nope:/f"]), (NOT_FOUND, ["r@master:/nope", "-o", "x"]),
                                        (NOT_FOUND, ["r@master:/nope", "-r", "-o", "x"]), (INVALID, ["r@master:/d"]), (USAGE, ["r@master:/d", "-o", "x"])])
def test_what_cannot_be_got(ctl, code, args):
    ctl.write("d/d/f")
    ctl("put", "file", "r@master", "-r", "-f", "d")
    ctl.fails(code, "get", "file", *args)
    assert not (ctl.folder / "x").exists()


# --- list, glob, inspect, diff, delete

@pytest.fixture
def filled(ctl):
    for path in ("d/a/1.csv", "d/a/2.csv", "d/b/odd [1]*.csv", "d/top"):
        ctl.write(path)
    ctl("put", "file", "r@master", "-r", "-f", "d")
    return ctl


def test_lists(filled):
    rows = filled("list", "file", "r@master").out.splitlines()
    assert rows[0].split() == ["PATH", "KIND", "SIZE", "FILES"]
    assert [row.split()[0] for row in rows[1:]] == ["/a/", "/b/", "/top"]
    assert filled.paths("r@master:/a") == ["a/1.csv", "a/2.csv"]
    assert [f["path"] for f in filled.json("list", "file", "r@master", "-r", "-n", "3")["files"]] == ["a/1.csv", "a/2.csv", "b/odd [1]*.csv"]
    filled.fails(NOT_FOUND, "list", "file", "r@master:/nope")


def test_a_long_list_comes_page_by_page(ctl):
    for i in range(2500):
        ctl.write(f"d/{i:04}", str(i))
    ctl("put", "file", "r@master", "-r", "-f", "d")
    assert ctl.paths("r@master") == [f"{i:04}" for i in range(2500)]
    rows = ctl("list", "file", "r@master").out.splitlines()
    assert len(rows) == 2501 and rows[0].startswith("PATH")


def test_globs(filled):
    assert [f["path"] for f in filled.json("glob", "file", "r@master:/*/*.csv")["files"]] == ["a/1.csv", "a/2.csv", "b/odd [1]*.csv"]
    assert [f["path"] for f in filled.json("glob", "file", "r@master:/{a,top}")["files"]] == ["a", "top"]
    assert "nothing matches" in filled("glob", "file", "r@master:/x*").err


@pytest.mark.parametrize("path, kind", [("a", "dir"), ("top", "file"), ("b/odd [1]*.csv", "file"), ("", "dir")])
def test_inspect_takes_a_path_as_it_is(filled, path, kind):
    got = filled.json("inspect", "file", f"r@master:/{path}")
    assert (got["path"], got["kind"]) == (path, kind)
    filled.fails(NOT_FOUND, "inspect", "file", f"r@master:/{path}x")


def test_diffs(filled):
    filled.write("e/top", "changed")
    filled.write("e/new")
    filled("put", "file", "r@master", "-r", "-f", "e")
    filled("delete", "file", "r@master:/a/1.csv")
    assert [c["path"] for c in filled.json("diff", "file", "r@master")["changes"]] == ["a/1.csv"]
    both = filled.json("diff", "file", "r@master^2", "r@master")["changes"]
    assert [(c["change"], c["path"]) for c in both] == [("removed", "a/1.csv"), ("added", "new"), ("changed", "top")]
    assert [row.split()[:2] for row in filled("diff", "file", "r@master^2", "r@master").out.splitlines()[1:]] == [
        ["-", "/a/1.csv"], ["+", "/new"], ["*", "/top"]]
    assert filled.json("diff", "file", "r@master^2", "r@master:/a")["changes"][0]["path"] == "a/1.csv"
    assert "no difference" in filled("diff", "file", "r@master", "r@master").err


def test_deletes(filled):
    filled.fails(USAGE, "delete", "file", "r@master:/a")
    filled.fails(NOT_FOUND, "delete", "file", "r@master:/nope")
    filled.fails(USAGE, "delete", "file", "r@master")
    filled("delete", "file", "r@master:/a/1.csv", "-m", "not needed")
    assert filled.json("inspect", "commit", "r@master")["message"] == "not needed"
    filled("rm", "r@master:/a", "-r")
    assert filled.paths("r@master") == ["b/odd [1]*.csv", "top"]
    filled("delete", "file", "r@master:/", "-r")
    assert filled.paths("r@master") == []


# --- projects, repos, branches, commits

def test_repos(ctl):
    assert f"put file {ctl.name}/s@master" in ctl("create", "repo", "s", "-d", "about s").out
    assert ctl.json("inspect", "repo", "s")["description"] == "about s"
    assert [repo["name"] for repo in ctl.json("list", "repos")["repos"]] == ["r", "s"]
    assert "did you mean" in ctl.fails(NOT_FOUND, "inspect", "repo", "ss")
    ctl.fails(CONFLICT, "create", "repo", "s")
    assert ctl.json("delete", "repo", "s") == {"deleted": "repo s"}
    ctl.fails(NOT_FOUND, "delete", "repo", "s")


def test_projects(ctl):
    name = ctl.name[:40] + "-2"
    ctl("create", "project", name)
    ctl("create", "repo", f"{name}/q")
    assert [repo["name"] for repo in ctl.d.ctl("--json", "--project", name, "list", "repo").json["repos"]] == ["q"]
    assert name in ctl("list", "project").out
    assert ctl.json("inspect", "project", name)["name"] == name
    ctl.write("f", "over there")
    ctl("put", "file", f"{name}/q@master", "-f", "f")
    assert ctl("cat", f"{name}/q@master:/f").out == "over there"
    ctl.fails(CONFLICT, "delete", "project", name)
    ctl("delete", "repo", f"{name}/q")
    ctl("delete", "project", name)


def test_the_line_that_a_create_says_next_works_when_it_is_typed(ctl):
    """In another project than the one that is meant without a name, too; of a user and a key it is said."""
    ctl.write("f")
    ctl.write("d/f")
    ctl.write("spec.json", json.dumps({"pipeline": "p", "repos": {"made": {}}, "stages": [{"name": "s", "input": {"repo": "made"}, "run": ["true"]}]}))
    lines = {"FOLDER": "d", "FILE": "f"}
    for args in (["create", "repo", "q"], ["create", "branch", "q@side"], ["start", "commit", "q@side"], ["create", "pipeline", "-f", "spec.json"]):
        said = ctl(*args).out
        assert "next: pipelinectl put file " in said, said
        words = said.split("next: pipelinectl ", 1)[1].splitlines()[0].replace("/PATH", "/f").split()
        done = ctl.d.ctl(*[lines.get(word, word) for word in words], cwd=str(ctl.folder))
        if args[0] == "create":
            assert "commit" in done.out and "run" in done.out, done.out
        else:
            assert "added to open commit" in done.out and f"finish commit {ctl.name}/q@" in done.out, done.out
    user = f"u-{ctl.name[:30]}"
    assert f"next: pipelinectl create token {user}" in ctl("create", "user", user).out
    assert f"next, on the machine that uses it: pipelinectl login {ctl.d.url}" in ctl("create", "token", user).out
    assert "next: give both to the client; pipelinectl s3 env" in ctl("create", "s3-key", user).out


def test_branches_and_commits(ctl):
    for text in ("1", "2"):
        ctl.write("f", text)
        ctl("put", "file", "r@master", "-f", "f")
    ctl("create", "branch", "r@old", "--from", "master^")
    assert ctl("cat", "r@old:/f").out == "1"
    assert [b["name"] for b in ctl.json("list", "branch", "r")["branches"]] == ["master", "old"]
    assert ctl.json("inspect", "branch", "r@old")["commit"] == ctl.json("inspect", "commit", "r@master^")["id"]
    assert len(ctl.json("list", "commit", "r@master")["commits"]) == 2
    assert len(ctl.json("list", "commit", "r@old")["commits"]) == 1
    assert len(ctl.json("list", "commit", "r", "-n", "1")["commits"]) == 1
    ctl("delete", "branch", "r@old")
    ctl.fails(NOT_FOUND, "inspect", "branch", "r@old")
    ctl("delete", "commit", "r@master")
    assert ctl("cat", "r@master:/f").out == "1"
    ctl.fails(NOT_FOUND, "inspect", "commit", "r@master^")
    ctl.fails(USAGE, "delete", "commit", "r")


def test_a_branch_moves_and_what_reads_it_runs(ctl, project):
    project.stages({"name": "s", "input": {"repo": "r", "glob": "/*"}, "run": ["sh", "-c", "cp $PL_INPUT_R $PL_OUT/"]})
    for text in ("1", "2"):
        ctl.write("f", text)
        run = ctl.json("put", "file", "r@dev" if text == "2" else "r@master", "-f", "f").get("run")
        ctl("wait", "run", run) if text == "1" else None
    dev = ctl.json("inspect", "branch", "r@dev")["commit"]
    assert "update branch r@master --head COMMIT" in ctl.fails(CONFLICT, "create", "branch", "r@master", "--from", "dev")
    assert ctl("update", "branch", "r@master", "--head", "dev").out.endswith(f"r@master is at commit {dev[:8]}\n")
    newest = lambda: ctl.json("list", "run", "-n", "1")["runs"][0]

    def moved_to(commit):
        """Waits for the run of the move, which is of this project once it has a job here."""
        run = wait_until(lambda: newest()["message"] == f"branch r@master was moved to commit {commit[:8]}" and newest(), "the run of the move")
        ctl("wait", "run", run["id"])

    moved_to(dev)
    assert ctl("cat", "s@master:/f").out == "2"
    old = [c["id"] for c in ctl.json("list", "commit", "r")["commits"] if c["id"] != dev]
    assert ctl("cat", f"r@{old[0][:12]}:/f").out == "1", "the commit that it left stays"
    # back again, and again: what is there already starts nothing
    assert ctl("create", "branch", "r@master", "--from", old[0], "--force", "--json").json["commit"] == old[0]
    moved_to(old[0])
    runs = len(ctl.json("list", "run")["runs"])
    ctl("update", "branch", "r@master", "--head", old[0][:12])
    assert len(ctl.json("list", "run")["runs"]) == runs
    assert ctl.json("inspect", "branch", "r@master")["commit"] == old[0]
    for code, says, args in ((INVALID, "only the stage that writes it can", ["s@master", "--head", "master"]), (NOT_FOUND, 'no branch "none"', ["r@none", "--head", "dev"]),
                             (NOT_FOUND, "nowhere", ["r@master", "--head", "nowhere"]), (USAGE, "--head REF", ["r@master"]), (USAGE, "not a branch", ["r", "--head", "dev"])):
        assert says in ctl.fails(code, "update", "branch", *args), says
    assert "--from REF" in ctl.fails(USAGE, "create", "branch", "r@master", "--force")


def test_what_is_not_there_is_no_empty_list(ctl, project):
    project.stages({"name": "s", "input": {"repo": "r"}, "run": ["true"]})
    for noun in ("pipeline", "run", "job", "repo", "source", "secret", "notify"):
        said = ctl.fails(NOT_FOUND, "--project", "nowhere", "list", noun)
        assert 'project "nowhere" does not exist' in said, said
        assert "There are: " in said, said
    assert 'state "foo": use created, starting' in ctl.fails(INVALID, "list", "job", "--state", "foo")
    assert 'state "foo": use running' in ctl.fails(INVALID, "list", "run", "--state", "foo")
    said = ctl.fails(NOT_FOUND, "list", "job", "--stage", "t")
    assert f'there is no stage "t" in project {project.name}' in said and "There are: s" in said, said
    for verb in ("logs", "metrics"):
        assert f'there is no stage "t" in project' in ctl.fails(NOT_FOUND, verb, "t")
    run = project.push("r", "f", "1")["run"]
    ctl("wait", "run", run)
    assert [job["stage"] for job in ctl.d.ctl("--json", "list", "job", "--stage", f"{ctl.name}/s").json["jobs"]] == ["s"]
    assert ctl("list", "run", "--state", "running").err == "no run is running\n"
    assert ctl("list", "datum", f"s@{run}", "--state", "failed").err == "no datum of this job is failed\n"
    mine, = ctl.json("list", "run")["runs"]
    assert mine["message"] != "" or mine["cause"] == "push"
    assert len(ctl.json("--project", "default", "list", "run", "-n", "1000")["runs"]) < len(ctl.d.ctl("--json", "list", "run", "-a").json["runs"])


# --- who is asked

def test_address_and_token(ctl):
    asked = [os.path.join(BIN, "pipelinectl"), "--quiet", "status"]
    plain = {k: v for k, v in os.environ.items() if not k.startswith("PIPELINED")}

    def ask(*options, **env):
        return subprocess.run([*asked, *options], env={**plain, **env, "XDG_DATA_HOME": ctl.d.root}, capture_output=True, check=False).returncode

    assert ask(PIPELINED_URL=ctl.d.url, PIPELINED_TOKEN=ctl.d.token) == 0
    assert ask("--server", ctl.d.url, PIPELINED_TOKEN=ctl.d.token) == 0
    assert ask("--server", ctl.d.url, "--data", ctl.d.dir) == 0
    assert ask("--data", ctl.d.dir, PIPELINED_URL="http://127.0.0.1:1", PIPELINED_TOKEN="wrong") == 0
    assert ask(PIPELINED_URL=ctl.d.url, PIPELINED_TOKEN="wrong") == FAILED


def test_the_page_opens_by_a_link(ctl):
    link = ctl("open", "--print").out.strip()
    assert link.startswith(ctl.d.url + "/login?token=")


# --- interrupts

def started(ctl, *args, **more):
    return subprocess.Popen([os.path.join(BIN, "pipelinectl"), "--data", ctl.d.dir, "--project", ctl.name, *args], cwd=ctl.folder,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def test_an_interrupted_put_is_no_commit(ctl):
    put = started(ctl, "put", "file", "r@master:/x", "-f", "-")
    put.stdin.write(bytes(1 << 20))
    put.stdin.flush()
    put.send_signal(signal.SIGINT)
    assert put.wait(timeout=30) == 130
    put.communicate()
    assert ctl.json("list", "commit", "r")["commits"] == []


def test_an_interrupted_get_leaves_nothing(ctl):
    ctl.write("d/big", os.urandom(64 << 20))
    ctl("put", "file", "r@master", "-r", "-f", "d")
    for args in (["r@master:/big", "-o", "back"], ["r@master", "-r", "-o", "out"]):
        get = started(ctl, "get", "file", *args)
        wait_until(lambda: get.poll() is not None or any(name.startswith(".pipelinectl") or name == "out" for name in os.listdir(ctl.folder)),
                   "the file to be begun")
        get.send_signal(signal.SIGINT)
        code = get.wait(timeout=60)
        get.communicate()
        names = set(os.listdir(ctl.folder)) - {"d"}
        assert code in (0, 130)
        assert names == (set() if code else {args[-1]})
        for name in names:
            subprocess.run(["rm", "-r", name], cwd=ctl.folder, check=True)
    ctl("get", "file", "r@master:/big", "-o", "back")
    subprocess.run(["cmp", "d/big", "back"], cwd=ctl.folder, check=True)


def test_small_puts_are_quick(ctl):
    """Not a measurement: only that a small push does not take the long way by mistake."""
    began = time.monotonic()
    for i in range(5):
        ctl.write("f", str(i))
        ctl("put", "file", "r@master", "-f", "f")
    assert time.monotonic() - began < 20
    assert len(json.loads(ctl("--json", "list", "commit", "r").out)["commits"]) == 5
