"""Secrets of projects: kept, given to stages as variables and files, masked in what these print, and never told."""

import base64
import os
import stat
import subprocess

import pytest
from conftest import SANDBOX, sh, wait_until
from people import User

VALUE = "hunter2-and-more"
NOT_FOUND, CONFLICT, INVALID = 3, 4, 5


def secret(project, *args, **more):
    return project.d.ctl(*args, "--project", project.name, **more)


def folder_of(project, *names):
    return os.path.join(project.d.dir, "secrets", project.name, *names)


def test_they_are_kept_for_their_daemon_alone_and_nobody_is_told_a_value(project):
    d = project.d
    made = secret(project, "create", "secret", "pg", "--value", f"dsn={VALUE}", "--file", "key.pem=-", stdin=b"\0\1\2")
    assert '"key": "dsn", "env": "DSN"' in made.out + made.err or '"key": "key.pem"' in made.out + made.err
    for path, mode in ((folder_of(project), 0o700), (folder_of(project, "pg"), 0o700), (folder_of(project, "pg", "dsn"), 0o600),
                       (folder_of(project, "pg", "key.pem"), 0o600)):
        assert stat.S_IMODE(os.stat(path).st_mode) == mode
    with open(folder_of(project, "pg", "key.pem"), "rb") as f:
        assert f.read() == b"\0\1\2"
    listed = secret(project, "list", "secret", "--json")
    assert [(s["name"], s["keys"]) for s in listed.json["secrets"]] == [("pg", ["dsn", "key.pem"])]
    again = secret(project, "create", "secret", "pg", "--value", "a=b", ok=False)
    assert again.code == CONFLICT and "update secret pg" in again.err
    secret(project, "update", "secret", "pg", "--value", "dsn=other")
    assert sorted(os.listdir(folder_of(project, "pg"))) == ["dsn", "key.pem"]
    audit = [(a["verb"], a["target"]) for a in d.ctl("list", "audit", "--json").json["audit"]]
    assert ("define", "POST /api/v1/secrets pg") in audit
    secret(project, "delete", "secret", "pg")
    assert os.listdir(folder_of(project)) == []
    assert secret(project, "delete", "secret", "pg", ok=False).code == NOT_FOUND
    for wrong in (("Upper", "k=v"), ("a/b", "k=v"), ("ok", "../k=v"), ("ok", "..=v")):
        assert secret(project, "create", "secret", wrong[0], "--value", wrong[1], ok=False).code == INVALID
    for text in (VALUE, base64.b64encode(VALUE.encode()).decode()):
        assert subprocess.run(["grep", "-rlF", text, d.dir], capture_output=True, check=False).stdout == b""


@pytest.mark.skipif(SANDBOX == "none", reason="without a sandbox nothing can be mounted")
def test_a_stage_has_them_as_variables_and_files_and_does_not_show_them(project):
    secret(project, "create", "secret", "pg", "--value", f"dsn={VALUE}", "--value", "user=somebody")
    project.repo("in")
    script = ('test "$PG" = ' + VALUE + '; test "$(cat /keys/pg/user)" = somebody; ! touch /keys/pg/x 2>/dev/null; echo "as $PG, $(cat /keys/pg/user)";'
              ' echo "{\\"step\\": 1, \\"dsn\\": \\"$PG\\"}" > /pfs/out/metrics.jsonl; ls /keys/pg > /pfs/out/keys; exit $(cat /pfs/in/code)')
    project.stages(sh("s", script, secrets=[{"name": "pg", "key": "dsn", "env": "PG"}, {"name": "pg", "mount": "/keys/pg"}]))
    run = project.run("in", {"code": "0"})
    assert project.logs("s") == "as ***, ***\n"
    assert project.read("s", "keys") == b"dsn\nuser\n"
    metrics = project.d.get(f"/metrics/{project.name}/s")
    assert VALUE not in str(metrics) and "***" in str(metrics)
    run = project.run("in", {"code": "7"}, state="failure")
    assert "***" in run["job"]["s"]["reason"] and VALUE not in str(project.datums("s", run["id"]))


@pytest.mark.skipif(SANDBOX == "none", reason="without a sandbox nothing can be mounted")
def test_a_value_that_changes_under_a_worker_is_masked_too(project, gate):
    secret(project, "create", "secret", "pg", "--value", f"user={VALUE}")
    project.repo("in").stages(sh("s", f"echo it is $(cat /keys/pg/user); {gate.wait}", glob="/*", workers=1, secrets=[{"name": "pg", "mount": "/keys/pg"}]))
    run = project.commit("in", {"a": "1", "b": "2"})["run"]
    gate.arrived()
    secret(project, "update", "secret", "pg", "--value", "user=correct-horse-battery")
    gate.open()
    gate.arrived()
    gate.open()
    assert project.wait(run)["state"] == "success"
    assert project.logs("s") == "it is ***\nit is ***\n"


@pytest.mark.skipif(SANDBOX == "none", reason="without a sandbox nothing can be mounted")
def test_a_value_that_changes_under_a_command_is_masked_too(project, gate):
    secret(project, "create", "secret", "pg", "--value", f"user={VALUE}")
    script = f"echo it is $(cat /keys/pg/user); {gate.wait}; echo it is $(cat /keys/pg/user)"
    project.repo("in").stages(sh("s", script, secrets=[{"name": "pg", "mount": "/keys/pg"}]))
    run = project.commit("in", {"a": "1"})["run"]
    gate.arrived()
    secret(project, "update", "secret", "pg", "--value", "user=correct-horse-battery")
    gate.open()
    assert project.wait(run)["state"] == "success"
    assert project.logs("s") == "it is ***\nit is ***\n"


@pytest.mark.skipif(SANDBOX == "none", reason="without a sandbox nothing can be mounted")
def test_what_a_batch_command_says_of_a_datum_is_masked(project):
    secret(project, "create", "secret", "pg", "--value", f"dsn={VALUE}")
    project.repo("in").stages(sh("s", 'set --; while pl-next "$@"; do set -- --fail "no answer from $PG"; done', datum={"batch": True},
                                 secrets=[{"name": "pg", "key": "dsn", "env": "PG"}]))
    run = project.run("in", {"a": "1"}, state="failure")
    assert [datum["reason"] for datum in project.datums("s", run["id"])] == ["no answer from ***"]


def test_a_secret_that_is_not_there_is_waited_for_in_words(project):
    project.repo("in")
    project.stages(sh("s", "true", secrets=[{"name": "hub", "key": "token", "env": "TOKEN"}]))
    run = project.commit("in", {"x": "1"})["run"]
    words = f'has no secret "hub" with the key "token": pipelinectl create secret hub --project {project.name} --file token=FILE'

    def reason():
        return next((job["reason"] for job in project.d.get("/jobs", project=project.name)["jobs"] if job["run"] == run), "")

    wait_until(lambda: words in reason(), "why it waits")


def test_they_are_the_project_s_writers_and_go_with_it(make_daemon):
    d = make_daemon().start()
    d.ctl("create", "project", "vision")
    body = {"project": "vision", "name": "a", "values": {"k": "dg=="}}
    bob, eve = User(d, "bob", ("vision", "writer")), User(d, "eve", ("vision", "reader"))
    assert eve.status("POST", "/secrets", body) == 403 and bob.status("POST", "/secrets", body) == 200
    assert bob.status("POST", "/secrets", {**body, "project": "default"}) == 403
    assert eve.get("/secrets?project=vision")["secrets"][0]["keys"] == ["k"]
    assert bob.status("GET", "/secrets") == 403 and eve.status("DELETE", "/secrets/vision/a") == 403
    for wrong in ({"k": 1}, {"k": "no base64!"}, {}, {"a/b": "dg=="}):
        assert bob.status("POST", "/secrets", {**body, "name": "b", "values": wrong}) in (400, 422)
    d.ctl("create", "repo", "vision/in")
    assert d.ctl("delete", "project", "vision", ok=False).code == CONFLICT  # it stays, with what it has
    assert eve.get("/secrets?project=vision")["secrets"][0]["keys"] == ["k"]
    d.ctl("delete", "repo", "vision/in")
    d.ctl("delete", "project", "vision")
    assert not os.path.exists(os.path.join(d.dir, "secrets", "vision"))
    d.ctl("create", "project", "vision")
    assert d.get("/secrets", project="vision")["secrets"] == []


def test_a_project_is_not_made_over_secrets_that_are_there(make_daemon):
    """Of a daemon that was recovered without it, or put there by hand: whoever makes the project says whether they are its own."""
    d = make_daemon().start()
    own = os.path.join(d.dir, "secrets", "vision")
    os.makedirs(os.path.join(own, "pg"))
    with open(os.path.join(own, "pg", "dsn"), "w", encoding="ascii") as f:
        f.write(VALUE)
    said = d.ctl("create", "project", "vision", ok=False)
    assert said.code == CONFLICT and f'secrets of an earlier project "vision" are still there, in {own}: pg' in said.err, said.err
    assert f"rm -r {own}; or take them over: pipelinectl create project vision --with-secrets" in said.err
    d.ctl("create", "project", "vision", "--with-secrets")
    assert d.get("/secrets", project="vision")["secrets"][0]["keys"] == ["dsn"]
    assert d.ctl("delete", "project", "vision", "--json").json == {"deleted": "project vision", "warnings": []}
    d.ctl("create", "project", "vision")
    assert d.get("/secrets", project="vision")["secrets"] == []


@pytest.mark.parametrize("sandbox", sorted({SANDBOX, "none"}))
def test_try_takes_those_of_this_machine(make_daemon, tmp_path, sandbox):
    d = make_daemon().start()
    d.ctl("create", "secret", "pg", "--value", f"dsn={VALUE}")
    os.makedirs(tmp_path / "in")
    (tmp_path / "in" / "x").write_text("1")
    spec = d.write("p.json", '{"pipeline": "p", "stages": [{"name": "s", "input": {"repo": "in"}, "script": "echo it is $PG",'
                   ' "secrets": [{"name": "pg", "key": "dsn", "env": "PG"}]}]}')
    got = d.ctl("try", "-f", spec, "s", "--input", f"in={tmp_path}/in", "--sandbox", sandbox)
    assert "it is ***" in got.out
