"""Jobs that are planned from the commit before them: how much is looked at, and that it comes to the same as in full."""

import random

import pytest

from conftest import sh

COPY = 'cp -r "$PL_INPUT_IN" "$PL_OUT/"'


def datums(run, stage="s"):
    job = run["job"][stage]
    return {k: job["datums"].get(k, job.get(k)) for k in ("total", "planned", "reused", "done")}


def owners(project, stage):
    """Which inputs each output comes from, and which run made it."""
    out = {}
    for path in project.contents(stage):
        why = project.d.get(f"/why/{project.name}/{stage}/master/{path}")
        out[path] = [(i["repo"], i["path"]) for i in why["inputs"]]
    return out


def same_as_in_full(project, stage, again):
    """A stage made just now has no commit to be planned from."""
    run = project.wait(project.stages(again, pipeline=again["name"])["run"])
    assert run["state"] == "success"
    counts = datums(run, again["name"])
    assert counts["planned"] == counts["total"]
    assert project.contents(again["name"]) == project.contents(stage)
    assert owners(project, again["name"]) == owners(project, stage)


def test_only_what_a_push_touches_is_looked_at(project):
    project.repo("in").stages(sh("s", COPY, glob="/*"))
    run = project.run("in", {f"f{i:03}": str(i) for i in range(200)})
    assert datums(run) == {"total": 200, "planned": 200, "reused": 0, "done": 200}
    run = project.run("in", {"f007": "x", "g": "y"}, deletes=["f100", "f101"])
    assert datums(run) == {"total": 199, "planned": 2, "reused": 197, "done": 2}
    same_as_in_full(project, "s", sh("full", COPY, glob="/*"))


def test_what_comes_back_is_found_in_an_older_commit(project):
    project.repo("in").stages(sh("s", COPY, glob="/*"))
    project.run("in", {"a": "1", "b": "2"})
    project.run("in", {"a": "3"})
    run = project.run("in", {"a": "1"})
    assert datums(run) == {"total": 2, "planned": 1, "reused": 2, "done": 0}
    assert project.contents("s") == {"a": b"1", "b": b"2"}


def test_a_stage_that_is_not_the_same_is_planned_in_full(project):
    project.repo("in").stages(sh("s", COPY, glob="/*"))
    project.run("in", {"a": "1", "b": "2"})
    run = project.wait(project.stages(sh("s", COPY + "; true", glob="/*"), update=True)["run"])
    assert datums(run) == {"total": 2, "planned": 2, "reused": 0, "done": 2}
    run = project.wait(project.stages(sh("s", COPY + "; true", glob="/*", workers=2), update=True)["run"])  # no datum knows of that
    assert datums(run) == {"total": 2, "planned": 0, "reused": 2, "done": 0}


def test_without_a_cache_every_datum_is_planned_and_run(project):
    project.repo("in").stages(sh("s", COPY, glob="/*", cache=False))
    project.run("in", {"a": "1", "b": "2"})
    assert datums(project.run("in", {"a": "3"})) == {"total": 2, "planned": 2, "reused": 0, "done": 2}


def test_a_collision_with_a_datum_that_did_not_change_is_told_as_ever(project):
    script = 'cp "$PL_INPUT_IN" "$PL_OUT/$(cat "$PL_INPUT_IN")"'
    project.repo("in").stages(sh("s", script, glob="/*"))
    project.run("in", {"a": "one", "b": "two", "c": "three"})
    run = project.run("in", {"c": "two"}, state="failure")
    assert run["job"]["s"]["reason"].endswith(
        "/two was written by two datums (in=/b, in=/c): give each a folder with \"output\": {\"prefix\": \"${in.stem}/\"}")
    assert datums(project.run("in", {"c": "four"})) == {"total": 3, "planned": 1, "reused": 2, "done": 1}
    assert sorted(project.contents("s")) == ["four", "one", "two"]


def test_an_expectation_that_no_longer_holds_is_told_as_ever(project):
    script = 'cp "$PL_INPUT_IN" "$PL_OUT/$(cat "$PL_INPUT_IN")"'
    project.repo("in").stages(sh("s", script, glob="/*", output={"expect": ["/model"]}))
    project.run("in", {"a": "model", "b": "two"})
    run = project.run("in", {"a": "one"}, state="failure")
    assert "stage s succeeded but wrote nothing matching /model; it wrote /one, /two" in run["job"]["s"]["reason"]


def test_a_job_planned_from_a_commit_goes_on_after_a_restart(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    p = daemon.default.repo("in")
    go = tmp_path / "go"
    script = f'while grep -q wait "$PL_INPUT_IN" && ! test -e {go}; do sleep 0.05; done; cp "$PL_INPUT_IN" "$PL_OUT/"'
    p.stages(sh("s", script, glob="/*", workers=1))
    p.run("in", {f"f{i}": str(i) for i in range(20)})
    run = p.commit("in", {"f3": "new", "f5": "wait", "f7": "new too"}, deletes=["f9"])["run"]
    daemon.wait_job(run, "s", lambda j: j["datums"]["done"] >= 1, "a result")
    daemon.kill()
    daemon.start()
    go.touch()
    done = p.wait(run)
    assert done["state"] == "success"
    assert datums(done) == {"total": 19, "planned": 3, "reused": 16, "done": 3}
    want = {f"f{i}": str(i).encode() for i in range(20) if i != 9}
    want.update({"f3": b"new", "f5": b"wait", "f7": b"new too"})
    assert p.contents("s") == want


SPECS = [
    {"input": {"repo": "in", "glob": "/*"}, "output": {}},
    {"input": {"cross": [{"repo": "in", "glob": "/*"}, {"repo": "other", "glob": "/*"}]}, "output": {"prefix": "${other.stem}/"}},
    {"input": {"union": [{"repo": "in", "glob": "/*"}, {"repo": "other", "name": "in", "glob": "/*/*"}]}, "output": {"prefix": "${datum}/"}},
    {"input": {"cross": [{"repo": "in", "glob": "/*", "files": ["x", "f*"]}, {"params": {"k": [1, 2]}}]}, "output": {"prefix": "${params.k}/"}},
]


@pytest.mark.parametrize("spec", SPECS, ids=["repo", "cross", "union", "params"])
def test_after_many_pushes_all_is_as_in_full(project, spec):
    rng = random.Random(7)
    stage = {"name": "s", "run": ["sh", "-c", COPY + '; mkdir "$PL_OUT/empty"'], **spec}
    project.repo("in", "other").stages(stage)
    names = ["f1", "f2", "d/x", "d/y", "e/x", "e/f3"]
    there = {"in": {}, "other": {}}
    for i in range(12):
        repo = rng.choice(["in", "in", "other"])
        puts = {n: str(rng.randrange(3)) for n in rng.sample(names, 2)}
        gone = [n for n in there[repo] if rng.random() < 0.2 and n not in puts]
        if all(there[repo].get(n) == c for n, c in puts.items()) and not gone:
            continue
        there[repo].update(puts)
        for n in gone:
            del there[repo][n]
        project.run(repo, puts, deletes=gone)
    same_as_in_full(project, "s", {**stage, "name": "full"})
