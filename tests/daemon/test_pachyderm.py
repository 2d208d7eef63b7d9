"""Pipelines in Pachyderm's form, as they are written there."""

import json

import pytest

from conftest import SANDBOX


def spec(name, cmd, repo, glob="/*", stdin=None, **more):
    transform = {"image": "ubuntu:20.04", "cmd": cmd, **({"stdin": stdin} if stdin else {}), **more.pop("transform", {})}
    return {"pipeline": {"name": name}, "transform": transform, "input": {"pfs": {"repo": repo, "glob": glob}}, **more}


def create(project, *specs, ok=True):
    path = project.d.write("specs.json", "\n---\n".join(json.dumps(s) for s in specs))
    return project.d.ctl("create", "pipeline", "-f", path, "--project", project.name, ok=ok)


@pytest.mark.skipif(SANDBOX != "bwrap", reason="a spec of this form names /pfs")
def test_several_documents_of_one_file_become_pipelines_that_read_each_other(project):
    project.repo("in")
    create(project, spec("upper", ["sh"], "in", stdin=['for f in /pfs/in/*; do', 'tr a-z A-Z <$f >/pfs/out/$(basename $f)', 'done']),
           spec("count", ["sh", "-c", "cat /pfs/upper/* | wc -c >/pfs/out/n"], "upper", "/", parallelism_spec={"constant": 2}))
    run = project.run("in", {"a": "one", "b": "two"})
    assert run["job"]["upper"]["datums"]["total"] == 2
    assert project.contents("upper") == {"a": b"ONE", "b": b"TWO"} and project.read("count", "n").split() == [b"6"]
    assert run["job"]["upper"]["pipeline"] == "upper" and run["job"]["count"]["pipeline"] == "count"


def test_a_datum_has_three_tries_and_accepted_codes_are_no_failure(project):
    project.repo("in")
    create(project, spec("accepts", ["sh", "-c", 'cp "$in" "$PL_OUT/"; exit 7'], "in", transform={"accept_return_code": [7]}),
           spec("fails", ["sh", "-c", "exit 3"], "in"))
    run = project.run("in", {"a": "1"}, state="failure")
    assert run["job"]["accepts"]["state"] == "success" and project.contents("accepts") == {"a": b"1"}
    assert [a["attempt"] for a in project.datums("fails", run["id"])] == [1, 2, 3]


def test_err_cmd_recovers_what_it_can(project):
    project.repo("in")
    create(project, spec("s", ["sh", "-c", 'test "$(cat "$in")" = good && cp "$in" "$PL_OUT/"'], "in", datum_tries=1, transform={"err_cmd": ["true"]}))
    run = project.run("in", {"a": "good", "b": "bad"})
    assert run["job"]["s"]["datums"] == {"total": 2, "reused": 0, "done": 1, "failed": 0, "recovered": 1}
    assert project.contents("s") == {"a": b"good"}


def test_a_mistake_in_a_later_document_is_told_at_its_line(project):
    project.repo("in")
    got = create(project, spec("one", ["true"], "in"), spec("two", ["true"], "in", autoscaling=True), ok=False)
    assert got.code == 5
    assert "specs.json:3:" in got.err and ': autoscaling: "autoscaling" of Pachyderm\'s form is not available yet' in got.err
    assert project.d.get("/pipelines", project=project.name)["pipelines"] == []  # nothing was begun
