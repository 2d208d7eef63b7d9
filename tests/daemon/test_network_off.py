"""A project whose network an admin has switched off: what its stages have, who may say so, and that nothing of a spec gives it back."""

import contextlib
import json
import os
import shutil
import sqlite3

import pytest

from conftest import SANDBOX, HttpError, Project, sh, wait_until
from people import User

INVALID, USAGE = 5, 2
HERE = os.readlink("/proc/self/ns/net")
NAMESPACE = 'readlink /proc/self/ns/net >"$PL_OUT/$(basename "$PL_INPUT_IN")"'  # of this machine, or of the sandbox alone
bwrap = pytest.mark.skipif(SANDBOX != "bwrap", reason="without namespaces the network cannot be taken away")


def namespaces(project, stage="s"):
    """Path -> whether its command had the machine's network."""
    return {path: content.decode().strip() == HERE for path, content in project.contents(stage).items()}


def switch(project, network):
    return project.d.http("PATCH", f"/api/v1/projects/{project.name}", {"network": network})


def workers(project):
    return [w for w in project.d.get("/status")["live"]["workers"] if w["project"] == project.name]


@bwrap
def test_stages_that_are_there_have_none_until_it_is_lifted_and_no_datum_runs_for_it_again(project):
    project.repo("in").stages(sh("s", NAMESPACE, glob="/*"), sh("t", 'readlink /proc/self/ns/net >"$PL_OUT/t"', "s"))
    first = project.run("in", {"a": "1"})
    assert namespaces(project) == {"a": True}
    assert switch(project, False)["network"] is False
    again = project.run("in", {"b": "2"})
    assert namespaces(project) == {"a": True, "b": False} and namespaces(project, "t") == {"t": False}
    assert again["job"]["s"]["datums"]["reused"] == 1 and again["job"]["s"]["code"] == first["job"]["s"]["code"]
    assert not project.stages(sh("s", NAMESPACE, glob="/*"), sh("t", 'readlink /proc/self/ns/net >"$PL_OUT/t"', "s"), update=True)["changed"]
    switch(project, True)
    assert project.run("in", {"c": "3"})["job"]["s"]["datums"]["reused"] == 2
    assert namespaces(project) == {"a": True, "b": False, "c": True}


@bwrap
def test_a_warm_worker_that_has_the_network_ends_and_one_that_has_it_not_does_when_it_is_lifted(project):
    project.repo("in").stages(sh("s", NAMESPACE, glob="/*", keep_warm="1h"))
    project.run("in", {"a": "1"})
    warm, = workers(project)
    switch(project, False)
    project.run("in", {"b": "2"})
    cold, = wait_until(lambda: [w for w in workers(project) if not w["stopping"]], "a worker that stays")
    assert cold["id"] != warm["id"] and namespaces(project)["b"] is False
    switch(project, False)  # nothing changes by that
    assert [w["id"] for w in workers(project) if not w["stopping"]] == [cold["id"]]
    switch(project, True)
    project.run("in", {"c": "3"})
    assert namespaces(project)["c"] is True


@bwrap
def test_what_a_worker_has_begun_ends_with_the_network_and_what_it_has_not_goes_to_another(project, gate):
    wait = f'{NAMESPACE}; [ "$(readlink /proc/self/ns/net)" != "{HERE}" ] || {gate.wait}'
    project.repo("in").stages(sh("s", wait, glob="/*"))
    run = project.commit("in", {name: name for name in "abcdef"})["run"]
    gate.arrived()
    switch(project, False)
    gate.open()
    assert project.wait(run)["state"] == "success"
    had = namespaces(project)
    assert sorted(had.values()) == [False] * 5 + [True], had


@bwrap
def test_an_explicit_true_is_refused_and_the_pipeline_that_says_it_already_runs_without(project):
    d = project.d
    project.repo("in").stages({**sh("s", NAMESPACE, glob="/*"), "network": True})
    switch(project, False)
    project.run("in", {"a": "1"})
    assert namespaces(project) == {"a": False}
    for update, more in ((True, {"network": True}), (False, {"network": True, "name": "new"})):
        with pytest.raises(HttpError) as refused:
            project.stages({**sh("s", NAMESPACE), **more}, update=update, pipeline="p" if update else "q")
        says = refused.value.error
        assert refused.value.status == 422 and says["field"] == "stages[0].network"
        assert f'true is not accepted: the network is off in project "{project.name}"' in says["message"]
        assert f"ask an admin of the project for pipelinectl update project {project.name} --network on" in says["message"]
    with pytest.raises(HttpError) as refused:
        project.stages(sh("s", NAMESPACE), defaults={"network": True}, update=True)
    assert refused.value.error["field"] == "defaults.network"
    refused = d.ctl("update", "defaults", project.name, "-f", "-", stdin=b'{"network": true}', ok=False)
    assert refused.code == INVALID and f'network: true is not accepted: the network is off in project "{project.name}"' in refused.err
    d.ctl("update", "defaults", project.name, "-f", "-", stdin=b'{"network": false}')
    assert project.stages(sh("s", NAMESPACE), update=True)["changed"]


@bwrap
def test_a_spec_of_pachyderm_s_form_has_none_either(project):
    switch(project, False)
    project.without_images().repo("in")
    project.d.post("/pipelines", {"project": project.name, "spec": json.dumps({
        "pipeline": {"name": "s", "project": {"name": project.name}}, "input": {"pfs": {"repo": "in", "glob": "/*", "project": project.name}},
        "transform": {"image": "debian:12", "cmd": ["sh", "-ec", 'readlink /proc/self/ns/net >/pfs/out/said']}})})
    project.run("in", {"a": "1"})
    assert namespaces(project) == {"said": False}


@bwrap
def test_its_own_admins_switch_it_and_its_writers_do_not(project):
    d, path, body = project.d, f"/projects/{project.name}", {"network": False}
    tail = project.name[-4:]
    for name, scope, role in (("writer", project.name, "writer"), ("reader", project.name, "reader"), ("repo", f"{project.name}/in", "admin"),
                              ("other", "other", "admin"), ("all", "", "writer")):
        assert User(d, f"{name}-{tail}", (scope, role)).status("PATCH", path, body) == 403, name
    admin = User(d, f"admin-{tail}", (project.name, "admin"))
    assert User(d, f"limited-{tail}", (project.name, "admin"), role="writer").status("PATCH", path, body) == 403
    assert admin.status("PATCH", path, body) == 200 and admin.status("PATCH", path, {"network": "no"}) == 400 and admin.status("PATCH", path, {}) == 400
    assert next(p for p in admin.get("/projects")["projects"] if p["name"] == project.name)["network"] is False
    assert admin.status("PATCH", "/projects/nowhere-at-all", body) == 403
    assert d.ctl("update", "project", "nowhere", "--network", "off", ok=False).code == 3
    said = [(a["who"], a["target"]) for a in d.ctl("list", "audit", "--json").json["audit"] if a["verb"] == "update project"]
    assert (admin.name, f"{project.name} network off") in said


@bwrap
def test_the_command_line_sets_and_shows_it(make_daemon):
    d = make_daemon().start()
    d.ctl("create", "project", "patients", "--no-network")
    d.ctl("create", "project", "open")
    assert {line.split()[0]: line.split()[1] for line in d.ctl("list", "project").out.splitlines()} == {"PROJECT": "NETWORK", "patients": "off", "open": "on"}
    assert d.ctl("inspect", "project", "patients", "--json").json["network"] is False
    assert "network  off" in d.ctl("inspect", "project", "patients").out
    assert "may use the network" in d.ctl("update", "project", "patients", "--network=on").out
    assert d.ctl("inspect", "project", "patients", "--json").json["network"] is True
    assert "have no network" in d.ctl("update", "project", "default", "--network", "off").out  # made on the way
    assert d.ctl("inspect", "project", "default", "--json").json["network"] is False
    for wrong in ((), ("--network", "maybe")):
        assert d.ctl("update", "project", "open", *wrong, ok=False).code == USAGE


@bwrap
def test_it_is_kept_over_restarts_and_comes_back_from_the_store_alone(make_daemon, tmp_path):
    d = make_daemon().start()
    project, lifted = d.project("patients").repo("in"), d.project("lifted")
    project.stages(sh("s", NAMESPACE, glob="/*"))
    for one, network in ((project, False), (lifted, False), (lifted, True)):
        switch(one, network)
    assert d.stop() == 0
    d.start()
    project.run("in", {"a": "1"})
    assert namespaces(project) == {"a": False}
    assert d.stop() == 0
    store = shutil.copytree(os.path.join(d.dir, "store"), tmp_path / "store")
    other = make_daemon("--store", f"file://{store}")
    d.ctl("recover", "--store", f"file://{store}", "--data", other.dir)
    moved = Project(other.start(), "patients")
    assert {p["name"]: p["network"] for p in other.get("/projects")["projects"]} == {"patients": False, "lifted": True}
    moved.run("in", {"b": "2"})
    assert namespaces(moved) == {"a": False, "b": False}
    with pytest.raises(HttpError):
        moved.stages({**sh("s", NAMESPACE), "network": True}, update=True)


@bwrap
def test_a_daemon_that_was_killed_between_the_setting_and_its_workers_retires_them_at_its_start(make_daemon):
    d = make_daemon().start()
    project = d.project("patients").repo("in")
    project.stages(sh("s", NAMESPACE, glob="/*", keep_warm="1h"))
    project.run("in", {"a": "1"})
    warm, = workers(project)
    d.kill()
    with contextlib.closing(sqlite3.connect(f"{d.dir}/pipelined.db")) as db:  # as if the record had just been applied
        db.execute("UPDATE project SET options = '{\"network\":false}'")
        db.commit()
    d.start()
    project.run("in", {"b": "2"})
    assert namespaces(project) == {"a": True, "b": False}
    assert warm["id"] not in [w["id"] for w in workers(project) if not w["stopping"]]


@bwrap
@pytest.mark.parametrize("off", ["project", "stage"])
def test_without_a_sandbox_the_stage_waits_and_says_why(make_daemon, off):
    d = make_daemon(sandbox="bwrap").start()
    project = d.project("patients").repo("in")
    project.stages({**sh("s", 'echo ran >"$PL_OUT/x"'), **({"network": False} if off == "stage" else {})})
    if off == "project":
        switch(project, False)
    assert d.stop() == 0
    d.options[d.options.index("--sandbox") + 1] = "none"
    d.start()
    run = project.commit("in", {"a": "1"})["run"]
    whose = "project patients must run without network" if off == "project" else 'stage s must run without network ("network": false)'
    says = f"{whose}, which needs a sandbox: use bubblewrap, not --sandbox none"
    d.wait_job(run, "s", lambda job: says in job["reason"], f"to say: {says}")
    assert d.job(run, "s")["state"] in ("starting", "created") and not workers(project)
    d.post(f"/runs/{run}/stop")


def test_without_a_sandbox_it_cannot_be_set(make_daemon):
    d = make_daemon(sandbox="none").start()
    d.project("open")
    for method, path, body in (("POST", "/api/v1/projects", {"name": "patients", "network": False}), ("PATCH", "/api/v1/projects/open", {"network": False})):
        with pytest.raises(HttpError) as refused:
            d.http(method, path, body)
        assert refused.value.error["field"] == "network" and "--sandbox none" in refused.value.error["message"]
    assert d.http("PATCH", "/api/v1/projects/open", {"network": True})["network"] is True
    assert [p["name"] for p in d.get("/projects")["projects"]] == ["open"]
