"""pipelinectl plan: the datums that folders of this machine would give, without a daemon; held against a daemon's own."""

import json
import os
import subprocess

import pytest
from conftest import BIN, SANITIZER, TOP

USAGE, NOT_FOUND, INVALID = 2, 3, 5
DIGITS = os.path.join(TOP, "pipelines", "digits")


@pytest.fixture
def ctl(tmp_path):
    def run(*args, ok=True, stdin=""):
        done = subprocess.run([os.path.join(BIN, "pipelinectl"), *map(str, args)], input=stdin, capture_output=True, text=True, cwd=tmp_path,
                              env={**os.environ, "HOME": str(tmp_path)}, check=False, timeout=60)
        assert not SANITIZER.search(done.stderr), done.stderr
        assert not ok or done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture
def spec(tmp_path):
    """Writes a spec of these stages."""
    def write(*stages):
        repos = {"in": {}, "more": {}}
        (tmp_path / "s.json").write_text(json.dumps({"pipeline": "p", "repos": repos, "stages": [{"run": ["true"], **s} for s in stages]}))
        return "s.json"

    return write


def files(top, *paths):
    for path in paths:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(path)
    return top


def rows(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_match_is_a_datum_in_the_order_of_paths(ctl, spec, tmp_path):
    files(tmp_path / "data", "b.csv", "a.csv", "sub/c.csv", "a.txt")
    done = ctl("plan", "-f", spec({"name": "s", "input": {"repo": "in", "glob": "/*.csv"}, "output": {"prefix": "${in.stem}/"}}), "-i", "in=data")
    assert [(r["stage"], r["datum"], r["inputs"], r["prefix"]) for r in rows(done)] == [
        ("s", 0, {"in": "/a.csv"}, "a/"), ("s", 1, {"in": "/b.csv"}, "b/")]
    assert len({r["id"] for r in rows(done)}) == 2
    assert done.stderr == "stage s: 2 datums\n"


def test_the_digits_as_the_readme_has_them(ctl):
    done = ctl("plan", "-f", f"{DIGITS}/pipeline.json", "prepare", "--input", f"digits={DIGITS}/data")
    batches = sorted(name for name in os.listdir(f"{DIGITS}/data/train") if name.endswith(".csv"))
    assert [r["inputs"]["digits"] for r in rows(done)] == [f"/train/{name}" for name in batches]


def test_stages_whose_inputs_are_not_given_are_left_out_with_a_word(ctl, spec, tmp_path):
    files(tmp_path / "data", "a")
    name = spec({"name": "one", "input": {"repo": "in"}}, {"name": "two", "input": {"cross": [{"repo": "in"}, {"repo": "one"}]}})
    done = ctl("plan", "-f", name, "-i", "in=data")
    assert [r["stage"] for r in rows(done)] == ["one"]
    assert "stage two: skipped, because it also reads one: give --input one=DIR" in done.stderr
    assert ctl("plan", "-q", "-f", name, "-i", "in=data").stderr == ""
    assert [r["stage"] for r in rows(ctl("plan", "-f", name, "-i", "in=data", "-i", "one=data"))] == ["one", "two"]


def test_a_product_runs_through_its_last_input_first(ctl, spec, tmp_path):
    files(tmp_path / "data", "a", "b")
    files(tmp_path / "more", "x/1", "y/2")
    name = spec({"name": "s", "input": {"cross": [{"repo": "in", "glob": "/*"}, {"repo": "more", "glob": "/*", "name": "m"}]}})
    got = [(r["inputs"]["in"], r["inputs"]["m"]) for r in rows(ctl("plan", "-f", name, "-i", "in=data", "-i", "more=more"))]
    assert got == [("/a", "/x"), ("/a", "/y"), ("/b", "/x"), ("/b", "/y")]


def test_a_folder_may_be_given_by_the_name_of_the_input(ctl, spec, tmp_path):
    files(tmp_path / "a", "1")
    files(tmp_path / "b", "2", "3")
    name = spec({"name": "s", "input": {"cross": [{"repo": "in", "name": "x", "glob": "/*"}, {"repo": "in", "name": "y", "glob": "/*"}]}})
    assert len(rows(ctl("plan", "-f", name, "s", "-i", "x=a", "-i", "y=b"))) == 2
    assert len(rows(ctl("plan", "-f", name, "s", "-i", "in=b"))) == 4
    assert len(rows(ctl("plan", "-f", name, "s", "-i", "default/in@master=b"))) == 4


def test_nothing_that_matches_is_no_datum_and_says_of_which_input(ctl, spec, tmp_path):
    files(tmp_path / "data", "a")
    done = ctl("plan", "-f", spec({"name": "s", "input": {"repo": "in", "glob": "/*.csv"}}), "-i", "in=data")
    assert done.stdout == ""
    assert 'stage s: no datum: nothing in in matches "/*.csv"' in done.stderr


@pytest.mark.parametrize("line, code, said", [
    (["plan"], USAGE, "Give -f SPEC"),
    (["plan", "-f", "s.json"], USAGE, "no stage has all its inputs: give --input REPO=DIR"),
    (["plan", "-f", "s.json", "s"], USAGE, "stage s reads in: give --input in=DIR"),
    (["plan", "-f", "s.json", "t", "-i", "in=data"], NOT_FOUND, 'pipeline p has no stage "t": it has s'),
    (["plan", "-f", "s.json", "s", "-i", "in"], USAGE, "give REPO=DIR"),
    (["plan", "-f", "s.json", "s", "-i", "in="], USAGE, "give REPO=DIR"),
    (["plan", "-f", "s.json", "s", "-i", "in=nowhere"], NOT_FOUND, "nowhere"),
    (["plan", "-f", "s.json", "s", "-i", "in=data/a"], USAGE, "data/a is not a folder: give the folder that has the repo's files"),
    (["plan", "-f", "s.json", "s", "-i", "in=data", "-i", "more=data"], USAGE, 'stage s does not read a repo "more"'),
    (["plan", "-f", "s.json", "-i", "in=data", "-i", "more=data"], USAGE, 'the spec does not read a repo "more"'),
    (["plan", "-f", "s.json", "-i", "im=data"], USAGE, 'the spec does not read a repo "im"'),
    (["plan", "-f", "s.json", "-i", "in=data", "-i", "in=more"], USAGE, "--input in is given twice, as data and as more"),
    (["plan", "-f", "s.json", "s", "-i", "in@a^2=data"], USAGE, "REPO or REPO@BRANCH"),
    (["plan", "-f", "nothing.json", "s", "-i", "in=data"], NOT_FOUND, "nothing.json"),
])
def test_what_is_missing_is_named(ctl, spec, tmp_path, line, code, said):
    files(tmp_path / "data", "a")
    files(tmp_path / "more", "a")
    spec({"name": "s", "input": {"repo": "in"}})
    done = ctl(*line, ok=False)
    assert (done.returncode, said in done.stderr, done.stdout) == (code, True, ""), done.stderr


def test_an_input_of_a_stage_that_is_left_out_is_no_wrong_name(ctl, spec, tmp_path):
    files(tmp_path / "data", "a")
    two = {"cross": [{"repo": "absent"}, {"repo": "more"}]}
    done = ctl("plan", "-f", spec({"name": "absent", "input": {"repo": "in"}}, {"name": "t", "input": two}), "-i", "in=data", "-i", "more=data")
    assert [row["stage"] for row in rows(done)] == ["absent"] and "stage t: skipped, because it also reads absent" in done.stderr


def test_a_name_that_no_repo_can_hold_is_refused(ctl, spec, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a\nb").write_text("x")
    done = ctl("plan", "-f", spec({"name": "s", "input": {"repo": "in"}}), "-i", "in=data", ok=False)
    assert (done.returncode, "\\x0A" in done.stderr) == (INVALID, True), done.stderr


def test_the_daemon_plans_the_same(project, tmp_path):
    """Ids and order of a job's datums are those of the plan."""
    stages = [{"name": "s", "input": {"repo": "in", "glob": "/**/*.txt", "files": ["*.txt"]}, "run": ["true"], "output": {"prefix": "${datum}/"}}]
    paths = ["a.txt", "b/c.txt", "b/d/e.txt", "b.txt", "b!x.txt", "no.csv"]
    project.repo("in").stages(*stages)
    run = project.run("in", {path: path for path in paths})
    files(tmp_path / "data", *paths)
    (tmp_path / "s.json").write_text(json.dumps({"pipeline": "p", "project": project.name, "repos": {"in": {}}, "stages": stages}))
    planned = [json.loads(line) for line in project.d.ctl("plan", "-f", tmp_path / "s.json", "-i", f"in={tmp_path}/data").out.splitlines()]
    assert sorted(r["id"] for r in planned) == sorted(a["id"] for a in project.datums("s", run["id"]))
    assert len(planned) == 5
    assert all(r["prefix"] == r["id"][:12] + "/" for r in planned)
