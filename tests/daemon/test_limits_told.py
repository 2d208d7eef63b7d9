"""Where the workers of one machine cannot be held to `resources`, it is said: when a pipeline is made, by its jobs, status, doctor and try.
(tests/cgroup: where they can.)"""
import json
import os

import pytest
from conftest import sh


@pytest.fixture
def why(shared):
    """What the daemon says of itself."""
    limits = shared.get("/status")["live"]["limits"]
    if not limits["not_held"]:
        pytest.skip(f"cgroups are delegated here: {limits['held']} hold")
    if "memory" not in limits["not_held"] or "cpu" not in limits["not_held"]:
        pytest.skip(f"some cgroups are delegated here: {limits['held']}")
    assert limits["why"] and limits["remedy"] and "folder" not in limits, limits
    return f"{limits['why']}: {limits['remedy']}"


@pytest.mark.parametrize("resources, said", [
    ({"memory": "1Gi"}, "resources.memory is not enforced here, it is only reserved"),
    ({"cpu": 1}, "resources.cpu is not enforced here, it is only reserved"),
    ({"cpu": 1, "memory": "1Gi"}, "resources.memory and resources.cpu are not enforced here, they are only reserved"),
    ({"disk": "1Gi"}, None),
    (None, None),
], ids=["memory", "cpu", "both", "disk", "none"])
def test_who_makes_a_pipeline_is_warned(project, why, resources, said):
    more = {"resources": resources} if resources else {}
    warnings = project.repo("in").stages(sh("s", "echo >$PL_OUT/f", **more))["warnings"]
    assert warnings == ([f"stage s: {said}: {why}"] if said else [])
    assert project.stages(sh("s", "true; echo >$PL_OUT/f", **more), update=True)["warnings"] == warnings
    run = project.run("in", {"f": "1"})
    assert run["job"]["s"]["warnings"] == ([f"{said}: {why}"] if said and "memory" in said else [])


def test_pipelinectl_says_it_once_and_a_strict_one_is_made_nevertheless(project, why):
    d = project.d
    project.repo("in")
    stage = sh("s", "true", resources={"memory": "1Gi"})
    for words, script in ((("create", "pipeline", "--strict"), "true"), (("update", "pipeline", "--dry-run"), "true; true"), (("update", "pipeline"), "true; true")):
        spec = d.write(f"{project.name}.json", json.dumps({"pipeline": "p", "project": project.name, "stages": [{**stage, "run": ["sh", "-c", script]}]}))
        done = d.ctl(*words, "-f", spec)
        assert done.err == f"stage s: resources.memory is not enforced here, it is only reserved: {why} (warning)\n", (words, done.err)


def test_status_and_doctor_say_it_in_a_line(shared, why):
    limits = shared.get("/status")["live"]["limits"]
    assert f"\nnot limited: {limits['not_held']} of workers: {why}\n" in shared.ctl("status").out
    line, remedy = shared.ctl("doctor").out.partition("warn  limits")[2].splitlines()[:2]
    assert line.strip() == f"{limits['not_held']} of workers are not limited: {limits['why']}" and remedy.strip() == f"→ {limits['remedy']}"


def test_a_try_says_it_of_itself(project, why):
    d = project.d
    for resources, warned in (({"memory": "1Gi"}, True), ({"disk": "1Gi"}, False)):
        spec = d.write(f"{project.name}/spec.json", json.dumps({"pipeline": "p", "stages": [sh("s", "true", resources=resources)]}))
        folder = os.path.dirname(d.write(f"{project.name}/in/f", "1"))
        done = d.ctl("try", "-f", spec, "s", "--input", f"in={folder}")
        assert done.err.count("stage s: resources.memory is not enforced here, it is only reserved: ") == warned, done.err
        assert "success in" in done.err, done.err
