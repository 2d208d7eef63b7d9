"""pipelinectl without a daemon: its words, its exit codes, specs and globs on this machine, and what git says of a code folder."""

import json
import os
import re
import subprocess
import time

import pytest
from conftest import BIN, SANITIZER, TOP

USAGE, NOT_FOUND, INVALID, NO_SERVER = 2, 3, 5, 6


@pytest.fixture
def ctl(tmp_path):
    def run(*args, stdin="", env=None):
        done = subprocess.run([os.path.join(BIN, "pipelinectl"), *map(str, args)], input=stdin, capture_output=True, text=True, cwd=tmp_path,
                              env={**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), **(env or {})}, check=False, timeout=60)
        assert not SANITIZER.search(done.stderr), done.stderr
        return done

    return run


@pytest.mark.parametrize("line, said", [
    (["wiat", "run", "x"], 'did you mean "wait"'),
    (["list", "repso"], "did you mean list repo?"),
    (["list"], "Give one of: project, repo, branch"),
    (["repo", "create"], "the verb comes first: pipelinectl create repo"),
    (["create", "commit", "x"], "put file and delete file make commits"),
    (["create", "run"], "every commit and every create or update pipeline starts a run"),
    (["put", "file"], "put file REPO@BRANCH[:/PATH] -f LOCAL [-r]"),
    (["put", "file", "r@master"], "put what?"),
    (["list", "repo", "a"], 'unexpected argument "a"; usage: pipelinectl list repo'),
    (["list", "repo", "--jsn"], "did you mean --json?"),
    (["list", "run", "--limit"], "--limit needs a value"),
    (["list", "run", "--limit", "0"], "a number from 1"),
    (["list", "run", "--all=1"], "--all takes no value"),
    (["list", "repo", "-x"], "unknown option -x of list repo"),
    (["-x"], "unknown option -x before the subcommand"),
    (["create", "pipeline"], "-f SPEC"),
    (["get", "file", "r@master"], "get what?"),
    (["get", "file", "r@master:/x", "-r"], "-o FOLDER"),
    (["put", "file", "r@0123456789abcdef0123456789abcdef^", "-f", "x"], "never changes"),
    (["wait", "run", "xyz"], "is not a run"),
    (["recover"], "--store file:///DIR"),
])
def test_a_slip_is_a_usage_error_that_says_what_was_meant(ctl, line, said):
    done = ctl(*line)
    assert done.returncode == USAGE, done.stderr
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("line, said", [
    (["create", "repo", "a b"], "not allowed"),
    (["list", "branch", "a/b/c"], "not allowed"),
    (["put", "file", "a b@master", "-f", "x"], "a b"),
    (["glob", "/(a"], "column 2"),
])
def test_what_can_never_be_is_refused_as_invalid(ctl, line, said):
    done = ctl(*line)
    assert (done.returncode, said in done.stderr) == (INVALID, True), done.stderr


@pytest.mark.parametrize("line, said", [
    (["--server", "http://127.0.0.1:1", "status"], "http://127.0.0.1:1"),
    (["--data", "nowhere", "list", "repo"], "pipelined --data nowhere"),
    (["status"], "http://127.0.0.1:7380"),
    ([], "\n  pipelined starts a daemon on this machine; pipelinectl login URL uses one on another machine; pipelinectl help lists all subcommands"),
])
def test_no_server(ctl, line, said):
    done = ctl(*line)
    if done.returncode == 0:
        pytest.skip("a daemon runs on the default port")
    assert (done.returncode, said in done.stderr) == (NO_SERVER, True), done.stderr


def test_errors_as_json(ctl):
    done = ctl("--json", "--server", "http://127.0.0.1:1", "status")
    assert json.loads(done.stderr)["error"]["code"] == "unreachable"
    assert done.stdout == ""


def test_help_shows_every_verb_with_examples(ctl):
    every = ctl("help").stdout
    headings = re.findall(r"^[a-z, ]+$", every, re.M)
    assert headings == ["data", "pipelines", "runs", "status, why and logs", "without a server", "access", "upkeep", "help"]
    lines = re.findall(r"^  ([a-z]\S*(?: \S+)?)  +([A-Z].*)", every.split("\noptions of")[0], re.M)
    assert len(lines) > 70 and max(len(line) for line in every.splitlines()) <= 127
    for words, about in lines:
        shown = ctl("help", *words.split()).stdout
        assert f"\n  {about}" in shown and "examples:\n  " in shown, words
    assert ctl("put", "file", "--help").stdout == ctl("help", "put", "file").stdout
    for words, says in ((["nonsense"], "pipelinectl help lists all subcommands"), (["lst"], 'did you mean "list"?'), (["list", "reppo"], "did you mean list repo?"), (["apply"], "create pipeline -f SPEC")):
        done = ctl("help", *words)
        assert (done.returncode, done.stdout) == (USAGE, "") and says in done.stderr, done.stderr
    for words in (["create", "nonsense", "--help"], ["lst", "--help"]):
        assert ctl(*words).returncode == USAGE


@pytest.mark.parametrize("line, same", [(["ls", "repo", "--help"], ["help", "list", "repo"]), (["cat", "x@y:/z", "-h"], ["help", "get", "file"]),
                                        (["put", "r@b", "--help"], ["help", "put", "file"]), (["rm", "-h"], ["help", "delete", "file"]),
                                        (["list", "branches", "x", "--help"], ["help", "list", "branch"]), (["--help"], ["help"]), (["-h"], ["help"]),
                                        (["create", "--help"], ["help", "create"]), (["--help", "create"], ["help", "create"]), (["list", "-h"], ["help", "list"]),
                                        (["--help", "put", "file"], ["help", "put", "file"])])
def test_other_words_for_the_same(ctl, line, same):
    done = ctl(*line)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout == ctl(*same).stdout


def test_version(ctl):
    assert ctl("--version").stdout == ctl("version").stdout
    assert json.loads(ctl("version", "--json").stdout)["version"] in ctl("version").stdout


# --- validate

GOOD = {"pipeline": "p", "repos": {"in": {}}, "stages": [{"name": "a", "input": {"repo": "in"}, "run": ["true"]}]}


def test_a_good_spec(ctl):
    done = ctl("validate", "-f", os.path.join(TOP, "pipelines", "digits", "pipeline.json"))
    assert done.returncode == 0
    assert "pipeline digits, 4 stages" in done.stdout
    assert ctl("validate", "-f", "-", stdin=json.dumps(GOOD)).returncode == 0


def test_mistakes_have_file_line_and_column(ctl, tmp_path):
    (tmp_path / "s.json").write_text('{"pipeline": "p", "stages": [\n  {"name": "a", "input": {"repo": "in"},\n   "runn": ["true"], "workers": "x"}]}\n')
    done = ctl("validate", "-f", "s.json")
    assert done.returncode == INVALID
    lines = done.stderr.splitlines()
    assert any(line.startswith("s.json:3:") and "runn" in line for line in lines)
    assert any("workers" in line for line in lines)
    assert lines[-1] == f"pipelinectl: s.json has {len(lines) - 1} errors"
    problems = json.loads(ctl("validate", "-f", "s.json", "--json").stdout)
    assert problems["valid"] is False
    assert {problem["line"] for problem in problems["errors"]} <= {2, 3}


def test_warnings_are_no_errors(ctl, tmp_path):
    spec = {**GOOD, "stages": [{**GOOD["stages"][0], "workers": 4}]}
    (tmp_path / "s.json").write_text(json.dumps(spec))
    done = ctl("validate", "-f", "s.json")
    assert done.returncode == 0
    assert "(warning)" in done.stderr and "with warnings" in done.stdout
    assert ctl("validate", "-f", "s.json", "--quiet").stderr == ""


def test_a_code_folder_that_is_not_there(ctl, tmp_path):
    spec = {**GOOD, "stages": [{**GOOD["stages"][0], "code": "src"}]}
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "s.json").write_text(json.dumps(spec))
    done = ctl("validate", "-f", "sub/s.json")
    assert (done.returncode, "sub/src" in done.stderr) == (INVALID, True), done.stderr
    (tmp_path / "sub" / "src").mkdir()
    assert ctl("validate", "-f", "sub/s.json").returncode == 0


def test_an_empty_file_is_no_spec(ctl, tmp_path):
    (tmp_path / "s.json").write_text("")
    done = ctl("validate", "-f", "s.json")
    assert (done.returncode, "s.json" in done.stderr) == (INVALID, True), done.stderr


def test_a_spec_that_is_not_there(ctl):
    done = ctl("validate", "-f", "nothing.json")
    assert (done.returncode, "nothing.json" in done.stderr) == (NOT_FOUND, True)


# --- glob

@pytest.mark.parametrize("pattern, paths, matches", [
    ("/*", ["a", "/b", "a/c", "d/"], ["a", "b", "d"]),
    ("/train/*.csv", ["train/b1.csv", "test/b1.csv", "train/x/y.csv"], ["train/b1.csv"]),
    ("/**/*.jpg", ["x.jpg", "a/b/y.jpg", "y.png"], ["x.jpg", "a/b/y.jpg"]),
])
def test_globs_over_paths_of_stdin(ctl, pattern, paths, matches):
    done = ctl("glob", pattern, stdin="".join(path + "\n" for path in paths))
    assert (done.returncode, done.stdout.splitlines()) == (0, matches)


def test_templates_are_rendered_for_matches(ctl):
    paths = "train/b1.csv\ntrain/b2.csv\n"
    assert ctl("glob", "/train/(*).csv", "--template", "${input.1}/", stdin=paths).stdout == "train/b1.csv\tb1/\ntrain/b2.csv\tb2/\n"
    lines = ctl("glob", "/train/(*).csv", "--template", "${x.stem}/", "--name", "x", "--json", stdin=paths).stdout.splitlines()
    assert json.loads(lines[0]) == {"path": "train/b1.csv", "captures": ["b1"], "rendered": "b1/"}


def test_a_glob_that_matches_nothing(ctl):
    assert ctl("glob", "/x", stdin="a\n").returncode == NOT_FOUND


# --- pl-git

def git_code(folder):
    done = subprocess.run([os.path.join(BIN, "pl-git"), "code", folder], capture_output=True, text=True, check=False, timeout=60)
    assert not SANITIZER.search(done.stderr), done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def code(tmp_path):
    """A folder with rules, below tmp_path/repo."""
    folder = tmp_path / "repo" / "code"
    for path, text in {".gitignore": "*.o\n!keep.o\nbuild/\n", "run.sh": "x", "a.o": "x", "keep.o": "x", "build/x": "x", "sub/.gitignore": "/only",
                       "sub/only": "x", "sub/deep/only": "x", "sub/b.o": "x"}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.fixture
def git(tmp_path):
    def run(*args):
        return subprocess.run(["git", "-C", tmp_path / "repo", "-c", "user.name=a", "-c", "user.email=a@example.org", *args], capture_output=True,
                              text=True, check=True).stdout.strip()

    return run


IGNORED = ["a.o", "build", "sub/b.o", "sub/only"]


def test_rules_hold_without_a_repository(code):
    told = git_code(code)
    assert told["git"] is None
    assert sorted(told["ignored"]) == IGNORED


def test_a_folder_of_a_repository(code, git):
    (code.parent / ".gitignore").write_text("run.sh\n")
    git("init", "-q")
    assert git_code(code)["git"] == {"head": "", "dirty": True, "path": "code"}
    git("add", ".")
    git("commit", "-qm", "first")
    told = git_code(code)
    assert told["git"] == {"head": git("rev-parse", "HEAD"), "dirty": False, "path": "code"}
    assert sorted(told["ignored"]) == sorted([*IGNORED, "run.sh"])
    assert git_code(code.parent)["git"]["path"] == ""


def test_what_makes_it_dirty(code, git):
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    (code.parent / "beside").write_text("x")
    assert git_code(code)["git"]["dirty"] is False
    (code / "new.o").write_text("ignored")
    assert git_code(code)["git"]["dirty"] is False
    (code / "new").write_text("x")
    assert git_code(code)["git"]["dirty"] is True
    (code / "new").unlink()
    (code / "run.sh").write_text("y")
    assert git_code(code)["git"]["dirty"] is True


def test_what_git_tracks_is_taken_whatever_the_rules_say(code, git):
    git("init", "-q")
    git("add", "-f", "code/a.o", "code/build/x")
    assert sorted(git_code(code)["ignored"]) == ["sub/b.o", "sub/only"]


def test_nobodys_own_rules_count(code, git, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text(f"[core]\n\texcludesFile = {tmp_path}/mine\n")
    (tmp_path / "mine").write_text("run.sh\n")
    git("init", "-q")
    assert "run.sh" not in git_code(code)["ignored"]


def test_a_folder_that_is_not_there(tmp_path):
    assert "error" in git_code(tmp_path / "nothing")


@pytest.mark.parametrize("verb", [["put", "file", "in@master:/f", "-f", "f"], ["put", "file", "in@master:/f", "-r", "-f", "."], ["finish", "commit", "in@master"]])
def test_where_no_daemon_is_known_to_have_been_nothing_is_waited_for(tmp_path, verb):
    (tmp_path / "f").write_text("x")
    began = time.monotonic()
    got = subprocess.run([os.path.join(BIN, "pipelinectl"), "--server", "http://127.0.0.1:1", *verb], capture_output=True, text=True, cwd=tmp_path, check=False,
                         env={**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)})
    assert got.returncode == 6 and "no server at http://127.0.0.1:1" in got.stderr and "trying again" not in got.stderr
    assert time.monotonic() - began < 30


def test_a_server_whose_name_cannot_be_resolved_is_none_to_start():
    """The name has a part of 64 characters: no resolver looks for it."""
    url = f"http://{'a' * 64}.invalid:7380"
    got = subprocess.run([os.path.join(BIN, "pipelinectl"), "--server", url, "status"], capture_output=True, text=True, check=False)
    assert got.returncode == 6 and f"no server at {url}: its name cannot be resolved: check the address in --server" in got.stderr, got.stderr
    assert "start pipelined" not in got.stderr
