"""POST /check: all mistakes of a spec with their places, what it would change, and the datums that it would give; nothing is stored."""
import json

import pytest
from conftest import HttpError, sh
from people import User


def check(asker, spec, **more):
    return asker.post("/check", {"spec": spec if isinstance(spec, str) else json.dumps(spec), **more})


def test_all_mistakes_come_with_line_and_column(daemon):
    daemon.default.repo("in")
    said = check(daemon, '{"pipeline": "p",\n "stages": [\n  {"name": "a", "run": ["true"], "input": {"repo": "in"}, "on_error": "retry"},\n  {"name": "b", "rum": ["true"], "input": {"repo": "none"}}]}')
    places = [(one["line"], one["path"]) for one in said["errors"]]
    assert (3, "stages[0].on_error") in places and (4, "stages[1].rum") in places and len(places) >= 3, said
    mistake = next(one for one in said["errors"] if one["path"].endswith("on_error"))
    assert mistake["column"] > 60 and "skip" in mistake["text"] and not mistake["text"].startswith("spec.json"), mistake
    assert "datums" not in said and said["more"] == 0
    broken = check(daemon, '{"pipeline": "p",\n "stages": [}')
    assert [(one["line"], one["column"]) for one in broken["errors"]] == [(2, 13)], broken


def test_a_good_spec_says_its_datums_and_stores_nothing(daemon):
    d, p = daemon, daemon.default
    p.repo("in", "empty")
    p.push("in", "a", b"1")
    p.push("in", "b", b"2")
    spec = {"pipeline": "p", "stages": [sh("each", "true", glob="/*"), sh("all", "true", repo="in"), sh("after", "true", repo="each"), sh("none", "true", repo="empty")]}
    ids = lambda: [run["id"] for run in d.get("/runs")["runs"]]
    runs = ids()
    said = check(d, spec)
    assert said["errors"] == [] and (said["project"], said["pipeline"], said["changed"]) == ("default", "p", True), said
    datums = {one["stage"]: one for one in said["datums"]}
    assert (datums["each"]["datums"], datums["each"]["first"]) == (2, ["in=/a", "in=/b"]) and datums["all"]["datums"] == 1, datums
    assert datums["after"] == {"stage": "after", "why": "depends on what stage each writes"}
    assert "datums" not in datums["none"] and datums["none"]["why"] == 'default/empty has no branch "master"', datums
    assert d.get("/pipelines")["pipelines"] == [] and [one["name"] for one in d.get("/repos")["repos"]] == ["empty", "in"]
    assert ids() == runs


def test_what_it_would_change_is_said(daemon):
    p = daemon.default
    p.repo("in")
    p.stages(sh("a", "true"))
    said = check(daemon, {"pipeline": "p", "stages": [sh("a", "false")]})
    assert said["version"] == 2 and [one["stage"] for one in said["stages"]] == ["a"] and said["changed"], said
    assert daemon.get("/pipelines/default/p")["version"] == 1


def test_a_spec_with_code_is_checked_without_its_code(daemon):
    daemon.default.repo("in").push("in", "a", b"1")
    said = check(daemon, {"pipeline": "p", "stages": [sh("a", "true", code=".")]})
    assert said["errors"] == [] and "refused" not in said and "changed" not in said and said["datums"][0]["datums"] == 1, said


def test_one_who_may_not_define_is_refused(daemon):
    daemon.default.repo("in")
    ana = User(daemon, "ana", ("default", "reader"))
    with pytest.raises(HttpError) as e:
        daemon.http("POST", "/api/v1/check", {"spec": json.dumps({"pipeline": "p", "stages": [sh("a", "true")]})}, token=ana.token)
    assert e.value.status == 403
