"""GET /find: stages, pipelines, repos, runs, jobs and commits by a part of their name or the beginning of their id."""
import urllib.parse

import pytest
from conftest import HttpError, sh
from people import User


def find(asker, text, **more):
    return asker.get("/find?" + urllib.parse.urlencode({"q": text, **more}))


def named(asker, text, **more):
    return [f"{one['kind']} {one['name']}" for one in find(asker, text, **more)["found"]]


def test_names_are_found_by_a_part_the_best_first(daemon):
    d, p = daemon, daemon.default
    p.repo("train", "restraint", "train-data")
    p.stages(sh("trainer", "true", repo="train"), pipeline="train")
    assert named(d, "Train") == ["pipeline train", "repo train", "stage trainer", "repo trainer", "repo train-data", "repo restraint"]
    assert named(d, "straint") == ["repo restraint"]
    assert named(d, "default/train-") == ["repo train-data"]
    assert named(d, "nowhere/train") == [] and named(d, "zebra") == []
    two = find(d, "train", limit=2)
    assert [one["name"] for one in two["found"]] == ["train", "train"] and two["more"]
    # what SQL or a pattern would mean is text
    assert named(d, "%") == [] and named(d, "' OR 1=1 --") == [] and named(d, "tr_in") == []


def test_runs_jobs_and_commits_are_found_by_the_beginning_of_their_id(daemon):
    d, p = daemon, daemon.default
    p.repo("in")
    p.stages(sh("work", "cp -r $PL_INPUT_IN/. $PL_OUT/"))
    run = p.run("in", {"a": "1"})["id"]
    assert named(d, run) == ["run ", "commit in", "commit work"]
    found = find(d, run[:8])["found"]
    assert [(one["kind"], one["id"]) for one in found] == [("run", run), ("commit", run), ("commit", run)]
    assert named(d, run[:3]) == []  # too short for an id
    assert [(one["kind"], one["name"], one["text"]) for one in find(d, f"work@{run[:6]}")["found"]] == [("job", "work", "success"), ("commit", "work", "")]
    assert named(d, f"in@{run[:6]}") == ["commit in"] and named(d, f"other@{run[:6]}") == []
    assert find(d, "work")["found"][0]["id"] == run  # the stage leads to its newest job


@pytest.mark.parametrize("q, said", [("", "q is empty"), ("x" * 201, "q is too long")])
def test_a_text_that_asks_for_nothing_is_refused(shared, q, said):
    with pytest.raises(HttpError) as e:
        find(shared, q)
    assert e.value.status == 400 and said in str(e.value)


def test_only_what_one_may_read_is_found(daemon):
    d, p = daemon, daemon.default
    p.repo("secret-a", "open-a")
    p.stages(sh("secret-s", "true", repo="secret-a"))
    run = p.run("secret-a", {"a": "1"})["id"]
    ana = User(d, "ana", ("default/open-a", "reader"))
    assert named(d, "-a") == ["repo open-a", "repo secret-a"]
    assert named(ana, "-a") == ["repo open-a"]
    assert named(ana, "secret") == [] and named(ana, run) == [] and named(ana, f"secret-s@{run}") == []


def test_the_message_of_a_run_that_is_seen_in_part_is_not_told(daemon):
    d = daemon
    d.post("/projects", {"name": "open"})
    d.default.repo("in")
    d.default.stages(sh("hidden", "cp -r $PL_INPUT_IN/. $PL_OUT/", repo="in"))
    d.post("/pipelines", {"spec": '{"project": "open", "pipeline": "p", "stages": [{"name": "seen", "run": ["true"], "input": {"repo": "default/hidden", "name": "x", "glob": "/"}}]}', "filename": "p.json"})
    made = d.http("PUT", "/api/v1/repos/default/in/branches/master/files/a?message=a%20secret&base=", b"1")
    d.wait(made["run"])
    ana = User(d, "ana", ("open", "reader"))
    seen = [one for one in ana.get(f"/find?q={made['run'][:12]}")["found"] if one["kind"] == "run"]
    assert [one["text"] for one in seen] == ["push"], seen
    assert [one["text"] for one in find(d, made["run"][:12])["found"] if one["kind"] == "run"] == ["a secret"]
