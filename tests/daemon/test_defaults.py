"""Fields that every stage has beneath its own: of the cluster, of a project; who may set them, and when they count."""

import json

from conftest import sh
from people import User

INVALID = 5


def env_of(d, project, stage="s"):
    got = d.get(f"/pipelines/{project.name}/p")
    return {s["name"]: s["spec"] for s in got["stages"]}[stage]


def test_a_stage_has_what_the_cluster_its_project_and_its_file_say(project):
    d = project.d
    project.repo("in")
    try:
        d.ctl("update", "defaults", "-f", "-", stdin=b'{"env": {"A": "cluster", "B": "cluster", "C": 1, "D": "x"}, "workers": 3, "timeout": "1h"}')
        assert "set" in d.ctl("update", "defaults", project.name, "-f",
                              d.write("own.json", '{"env": {"B": "project", "D": null}, "timeout": null}')).out
        project.stages(sh("s", "true", env={"E": "stage"}), sh("t", "true", workers=1), defaults={"env": {"A": "file"}})
        spec = env_of(d, project)
        assert spec["env"] == {"A": "file", "B": "project", "C": "1", "E": "stage"} and spec["workers"] == 3 and "timeout" not in spec
        assert env_of(d, project, "t")["workers"] == 1
        assert d.ctl("inspect", "defaults", project.name).json == {"env": {"B": "project", "D": None}, "timeout": None}
        assert d.ctl("inspect", "defaults").json["workers"] == 3
        assert set(d.ctl("inspect", "defaults", project.name, "--json").json) == {"cluster", "project"}
        # what is there stays as it is until it is updated; then it is another spec
        d.ctl("update", "defaults", project.name, "-f", "-", stdin=b"{}")
        assert env_of(d, project)["env"]["B"] == "project"
        changed = project.stages(sh("s", "true", env={"E": "stage"}), sh("t", "true", workers=1), defaults={"env": {"A": "file"}}, update=True)
        assert changed["changed"] and env_of(d, project)["env"]["B"] == "cluster" and env_of(d, project)["timeout"] == "1h"
    finally:
        d.ctl("update", "defaults", "-f", "-", stdin=b"{}")
    audit = [(a["verb"], a["target"]) for a in d.ctl("list", "audit", "--json").json["audit"]]
    assert ("govern", "PUT /api/v1/defaults") in audit


def test_they_outlive_the_daemon_and_go_with_their_project(make_daemon):
    d = make_daemon().start()
    d.ctl("create", "project", "vision")
    d.ctl("update", "defaults", "vision", "-f", "-", stdin=b'{"workers": 2}')
    assert d.stop() == 0
    d.start()
    assert d.ctl("inspect", "defaults", "vision").json == {"workers": 2}
    d.ctl("delete", "project", "vision")
    d.ctl("create", "project", "vision")
    assert d.ctl("inspect", "defaults", "vision").json == {}


def test_mistakes_are_found_when_they_are_set(project):
    d = project.d
    for text, says in ((b'{"workers": 0}', '<stdin>:1:13: workers: 0 is not accepted'),
                       (b'{"wrokers": 1}', 'unknown field "wrokers"; did you mean "workers"?'),
                       (b'{"nope": null}', 'unknown field "nope"'), (b"[]", "an object with fields of a stage"), (b"{", "<stdin>:1:2")):
        refused = d.ctl("update", "defaults", project.name, "-f", "-", stdin=text, ok=False)
        assert refused.code == INVALID and says in refused.err, refused.err
    refused = d.ctl("update", "defaults", "nowhere", "-f", "-", stdin=b"{}", ok=False)
    assert refused.code == 3 and 'project "nowhere" does not exist' in refused.err


def test_a_project_s_are_its_admin_s_and_the_cluster_s_everything_s(project):
    d = project.d
    bob = User(d, f"bob-{project.name[-4:]}", (project.name, "writer"))
    body = {"project": project.name, "spec": json.dumps({"workers": 1})}
    assert bob.status("PUT", "/defaults", body) == 403
    assert bob.status("GET", f"/defaults?project={project.name}") == 200
    d.ctl("update", "user", bob.name, "--role", "admin", "--over", project.name)
    assert bob.status("PUT", "/defaults", body) == 200
    assert bob.status("PUT", "/defaults", {"spec": "{}"}) == 403
    assert bob.status("GET", "/defaults?project=other") in (403, 404)
