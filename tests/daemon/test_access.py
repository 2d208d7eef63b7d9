"""Who may do what, over the real daemon: users with roles, tokens that end, workers that stay in their project."""

import contextlib
import hashlib
import http.client
import json
import os
import pwd
import re
import signal
import sqlite3
import stat
import threading

import pytest
from conftest import HttpError, sh, wait_until, workers_of
from people import User, first_token, leases, status_of, worker_token
from slow_request import SlowRequest

FAILED, USAGE, NOT_FOUND, CONFLICT, INVALID = 1, 2, 3, 4, 5


def names(project, *words):
    return [f"{word}-{project.name[-4:]}" for word in words]


def refusal(user, method, path):
    """(status, message) of a request that is refused."""
    with pytest.raises(HttpError) as refused:
        user.d.http(method, "/api/v1" + path, {} if path.endswith("/rerun") else None, token=user.token)
    return refused.value.status, refused.value.error["message"]


@pytest.mark.parametrize("method, path, status", [("GET", "/status", 200), ("GET", "/status", 401), ("GET", "/nothing", 404), ("DELETE", "/status", 405),
                                                  ("GET", "/runs/x", 400), ("POST", "/repos", 400), ("GET", "/events", 200)])
def test_an_answer_of_the_api_is_kept_by_nobody(shared, method, path, status):
    host = shared.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=60)
    sent = {"Host": host, "Authorization": f"Bearer {shared.token}"} if status != 401 else {"Host": host}
    connection.request(method, "/api/v1" + path, headers=sent)
    answer = connection.getresponse()
    assert answer.status == status, answer.read()
    said = {name.lower(): value for name, value in answer.getheaders()}
    assert len(said) == len(answer.getheaders()), "each header once"
    assert said["cache-control"] == "no-store"
    assert said["cross-origin-resource-policy"] == said["cross-origin-opener-policy"] == "same-origin"
    connection.close()


# --- roles


def test_a_writer_of_a_project_deploys_code_into_it(project):
    """Code is stored before the pipeline is made: for that nobody needs to be an admin of everything, where the project is there."""
    d, (name,) = project.d, names(project, "deployer")
    project.repo("in")
    deployer = User(d, name, (project.name, "writer"), role="writer", scope=project.name)
    d.write(f"{name}/code/main.sh", "echo deployed\n")
    stage = sh("s", "sh main.sh >$PL_OUT/said")
    spec = d.write(f"{name}/p.json", json.dumps({"pipeline": "p", "project": project.name, "stages": [{**stage, "code": "code"}]}))
    deployer.ctl("create", "pipeline", "-f", spec)
    assert project.wait(project.push("in", "f", "x")["run"])["state"] == "success"
    assert project.read("s", "said") == b"deployed\n"
    elsewhere = d.write(f"{name}/q.json", json.dumps({"pipeline": "p", "project": f"{project.name}-x", "stages": [{**stage, "code": "code"}]}))
    refused = deployer.ctl("create", "pipeline", "-f", elsewhere, ok=False)
    assert refused.returncode == FAILED and "the role" in refused.stderr, refused.stderr


def test_the_words_of_the_command_line(project):
    d, (bob,) = project.d, names(project, "bob")
    project.repo("data", "more")
    project.push("data", "x", b"1")
    d.ctl("create", "user", bob)
    token = d.ctl("create", "token", bob, "--name", "laptop", "-q").out.strip()
    assert token.startswith("plt_") and len(token) == 44
    bob = User.__new__(User)
    bob.d, bob.token = d, token
    here = f"{project.name}/data"
    refused = bob.ctl("list", "file", f"{here}@master", ok=False)
    assert refused.returncode == FAILED and f'"read" needs the role reader over {here}' in refused.stderr
    hint = [line for line in refused.stderr.splitlines() if "pipelinectl update user" in line][0]
    d.ctl(*hint.split("pipelinectl ")[1].split())  # what it says is what it takes
    assert "x" in bob.ctl("list", "file", f"{here}@master").stdout
    assert bob.ctl("get", "file", f"{here}@master:/x", "-o", "-").stdout == "1"
    bob.ctl("get", "file", f"{here}@master", "-r", "-o", os.path.join(d.root, "bobs"))  # by packs
    assert f"reader of {here}" in bob.ctl("inspect", "user").stdout
    wrong = bob.ctl("put", "file", f"{here}@master:/y", "-f", os.path.join(d.dir, "token"), ok=False)
    assert wrong.returncode == FAILED and "the role writer" in wrong.stderr
    d.ctl("update", "user", bob_name(bob), "--role", "writer", "--over", here)
    bob.ctl("put", "file", f"{here}@master:/y", "-f", d.write("y", "2"))
    assert "laptop" in bob.ctl("list", "token").stdout
    assert bob.ctl("list", "user", ok=False).returncode == FAILED
    whole = json.loads(bob.ctl("create", "token", "--role", "reader", "--expires", "1h", "--json").stdout)
    assert (whole["role"], whole["user"], whole["expires_us"] > 0) == ("reader", bob_name(bob), True)
    d.ctl("delete", "token", whole["id"][:6])
    assert status_of(d, "GET", "/whoami", token=whole["token"]) == 401
    audit = [(a["who"], a["verb"], a["target"]) for a in d.ctl("list", "audit", "--json").json["audit"]]
    assert ("daemon", "create user", bob_name(bob)) in audit and ("daemon", "delete token", f"{bob_name(bob)} {whole['id']}") in audit
    assert (bob_name(bob), "create token", f"{bob_name(bob)} {whole['id']}") in audit
    me = pwd.getpwuid(os.geteuid()).pw_name
    assert {a["peer"] for a in d.get("/audit", user="daemon")["audit"] if bob_name(bob) in a["target"]} == {f"127.0.0.1, user {me}"}
    assert {a["peer"] for a in d.get("/audit", user=bob_name(bob))["audit"]} == {"127.0.0.1"}, "a token of a user says who it is"
    d.ctl("delete", "user", bob_name(bob))
    gone = bob.ctl("list", "repo", ok=False)
    assert gone.returncode == FAILED and "was deleted" in gone.stderr


def bob_name(user):
    if not hasattr(user, "name"):
        user.name = user.get("/whoami")["name"]
    return user.name


@pytest.mark.parametrize("role, may", [("reader", {"read"}), ("writer", {"read", "write", "define"}), ("admin", {"read", "write", "define", "remove"})])
@pytest.mark.parametrize("level", ["project", "repo"])
def test_a_role_and_what_it_does(project, role, may, level):
    project.repo("data", "more")
    project.push("data", "x", b"1")
    (name,) = names(project, "u")
    user = User(project.d, name, (project.name if level == "project" else f"{project.name}/data", role))
    at = f"/repos/{project.name}/data"
    spec = json.dumps({"project": project.name, "pipeline": "p", "stages": [sh("s", "true", repo="data")]})
    asked = [
        ("read", "GET", f"{at}/refs/master/list", None), ("read", "GET", f"{at}/refs/master/files/x", None), ("read", "GET", at, None),
        ("write", "PUT", f"{at}/branches/master/files/y", b"1"), ("write", "PATCH", at, {"description": "d"}),
        ("define", "POST", "/repos", {"project": project.name, "name": "made"}), ("define", "POST", "/pipelines", {"spec": spec}),
        ("remove", "DELETE", at + "?force=1", None),
    ]
    for verb, method, path, body in asked:
        want = verb in may and not (verb == "define" and level == "repo")
        got = user.status(method, path, body)
        assert (got == 403) != want and got in (200, 403, 409), (verb, method, path, got)


def test_a_foreign_project_is_not_there(project):
    """What one may not read answers alike whether it is there or not."""
    project.repo("data")
    project.push("data", "x", b"1")
    other = project.d.project(project.name + "o")
    other.repo("own")
    (name,) = names(project, "u")
    user = User(project.d, name, (other.name, "admin"))
    for path in (f"/repos/{project.name}/data", f"/repos/{project.name}/nothing", f"/repos/{project.name}-none/data", f"/logs/{project.name}/data",
                 f"/jobs/{project.name}/data/0000", f"/why/{project.name}/data/master/x", f"/projects/{project.name}/packs/{'0' * 64}",
                 f"/trees/{project.name}/{'0' * 64}/entries", f"/pipelines/{project.name}/p", f"/repos?project={project.name}"):
        assert user.status("GET", path) == 403, path
    assert [p["name"] for p in user.get("/projects")["projects"]] == [other.name]
    assert [r["name"] for r in user.get("/repos")["repos"]] == ["own"]
    assert user.get("/runs")["runs"] == [] and user.get("/jobs")["jobs"] == []
    assert user.get("/status")["counts"]["repos"] == 1
    events = project.d.http("GET", "/api/v1/events?since=0&limit=10000", token=user.token, headers={"Accept": "application/json"})["events"]
    assert events and {e["data"]["project"] for e in events} == {other.name}


def test_an_open_commit_is_nobodys_who_may_not_read_its_repo(project):
    project.repo("in")
    commit = project.d.http("POST", f"/api/v1/repos/{project.name}/in/branches/master/open", {})["id"]
    one, two = names(project, "reads", "does_not")
    user, none = User(project.d, one, (f"{project.name}/in", "reader")), User(project.d, two)
    for text in (commit, commit[:8]):
        assert user.get(f"/runs/{text}/wait?timeout_ms=1")["state"] == "running"
        assert none.status("GET", f"/runs/{text}/wait?timeout_ms=1") == 404


def test_a_run_shows_the_jobs_that_one_may_read(project):
    project.repo("in")
    project.stages(sh("open", "cp $PL_INPUT_IN/* $PL_OUT"), sh("shut", "cp $PL_INPUT_IN/* $PL_OUT"), sh("last", "cp $PL_INPUT_SHUT/* $PL_OUT", repo="shut"))
    run = project.run("in", {"x": "1"})["id"]
    one, two = names(project, "one", "two")
    user, none = User(project.d, one, (f"{project.name}/open", "writer")), User(project.d, two)
    assert [j["stage"] for j in user.get(f"/runs/{run}")["jobs"]] == ["open"]
    assert [j["stage"] for j in user.get("/jobs?limit=10000")["jobs"] if j["project"] == project.name] == ["open"]
    assert user.get(f"/runs/{run}/wait")["state"] == "success"
    assert [r["id"] for r in user.get("/runs")["runs"]] == [run]
    assert none.status("GET", f"/runs/{run}") == 404 and none.status("GET", f"/runs/{run}/wait") == 404 and none.get("/runs")["runs"] == []
    unknown = run[:-1] + ("0" if run[-1] != "0" else "1")
    for path in (f"/runs/{run}/stop", f"/runs/{run}/rerun"):  # whether there is such a run is nobody's business who sees nothing of it
        told, of_none = (refusal(none, "POST", asked) for asked in (path, path.replace(run, unknown)))
        assert told == (404, of_none[1].replace(unknown, run)), (told, of_none)
    project.repo("aside")
    aside = project.push("aside", "x", b"1")["run"]
    unseen = [(user, f"/jobs/{project.name}/open/", aside), (user, f"/logs/{project.name}/open?run=", aside), (user, "/jobs?run=", aside)]
    for who, path, there in [*unseen, (none, "/jobs?run=", run), (none, "/runs/", run)]:
        told, of_none = (refusal(who, "GET", path + asked) for asked in (there, unknown))
        assert told == (404, of_none[1].replace(unknown, there)), (told, of_none)
    assert user.status("POST", f"/runs/{run}/stop") == 403 and user.status("POST", f"/runs/{run}/rerun", {}) == 403, "it has stages of others"
    assert user.status("POST", f"/jobs/{project.name}/open/{run}/stop") != 403
    why = user.get(f"/why/{project.name}/open/master/x")
    assert "you may not read" in json.dumps(why["inputs"]) and "commit" not in why["inputs"][0]
    project.d.http("PATCH", f"/api/v1/users/{one}", {"roles": [{"scope": f"{project.name}/{r}", "role": "writer"} for r in ("shut", "last", "in")]})
    assert user.get(f"/why/{project.name}/open/master/x")["inputs"][0]["repo"] == "in"
    assert user.status("POST", f"/runs/{run}/rerun", {}) == 200


# --- tokens


def test_a_token_ends_when_it_was_said_to(project):
    (name,) = names(project, "u")
    user = User(project.d, name, ("", "reader"), expires="2s")
    wait_until(lambda: user.status("GET", "/whoami") == 401, "the token to expire")
    row = [t for t in project.d.get("/tokens", user=name)["tokens"] if t["id"] == user.made["id"]]
    assert row[0]["state"] == "expired"


def test_a_rotated_token_is_another_with_the_same_limit_and_end(project):
    """In one step, so that nothing is between the two; what asks with less than the token has makes no more than it has itself."""
    d, (name,) = project.d, names(project, "turner")
    project.repo("data")
    user = User(d, name, (project.name, "writer"))
    ask = lambda *args: d.http(*args, token=user.token)
    kept = ask("POST", "/api/v1/tokens", {"name": "laptop", "role": "reader", "scope": f"{project.name}/data", "expires": "2h"})
    d.ctl("rotate", "token", kept["id"][:6], "-q")
    assert status_of(d, "GET", "/whoami", token=kept["token"]) == 401
    (now,) = [t for t in ask("GET", "/api/v1/tokens")["tokens"] if t["name"] == "laptop"]
    assert now["id"] != kept["id"] and {k: now[k] for k in ("user", "role", "scope", "expires_us")} == {k: kept[k] for k in ("user", "role", "scope", "expires_us")}
    made = ask("POST", f"/api/v1/tokens/{now['id']}/rotate")
    assert status_of(d, "GET", f"/repos/{project.name}/data", token=made["token"]) == 200
    whole = ask("POST", "/api/v1/tokens", {"name": "whole"})
    assert status_of(d, "POST", f"/tokens/{whole['id']}/rotate", token=made["token"]) == 403, "it would be more than asks"
    assert status_of(d, "POST", f"/tokens/{made['id']}/rotate", token=User(d, name + "x").token) == 404
    assert status_of(d, "GET", "/whoami", token=whole["token"]) == 200
    assert ("rotate token", f"{name} {kept['id']} by {now['id']}") in [(a["verb"], a["target"]) for a in d.get("/audit", user="daemon")["audit"]]


def test_users_and_tokens_outlive_the_daemon_and_deleted_ones_do_not(make_daemon):
    d = make_daemon().start()
    kept, gone, cut = User(d, "kept", ("", "reader")), User(d, "gone", ("", "admin")), User(d, "cut", ("", "writer"))
    d.http("DELETE", "/api/v1/users/gone")
    d.http("DELETE", f"/api/v1/tokens/{cut.made['id']}")
    key = d.post("/s3-keys", {"user": "kept"})
    d.kill()
    d.start()
    assert [u.status("GET", "/whoami") for u in (kept, gone, cut)] == [200, 401, 401]
    assert [(k["access_key"], k["state"]) for k in d.get("/s3-keys")["s3_keys"]] == [(key["access_key"], "good")]


def test_secrets_are_nowhere_as_they_are(make_daemon):
    """Neither in the database nor in the log of the store."""
    d = make_daemon().start()
    user = User(d, "bob", ("", "admin"))
    key = d.post("/s3-keys", {"user": "bob"})
    d.stop()
    needles = [user.token.encode(), key["secret_key"].encode()]
    seen = 0
    for folder, _, files in os.walk(d.dir):
        for name in files:
            with open(os.path.join(folder, name), "rb") as f:
                text = f.read()
            assert not any(n in text for n in needles), os.path.join(folder, name)
            seen += key["access_key"].encode() in text
            mode = stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode)
            assert name not in ("token", "master.key") or mode == 0o600
    assert seen, "the key's name is in the log, or the search finds nothing"


def test_keys_whose_secret_is_lost_are_told(make_daemon):
    d = make_daemon().start()
    User(d, "bob", ("", "writer"))
    key = d.post("/s3-keys", {"user": "bob"})["access_key"]
    d.stop()
    os.unlink(os.path.join(d.dir, "pipelined.db"))
    for tail in ("-wal", "-shm"):
        if os.path.exists(os.path.join(d.dir, "pipelined.db" + tail)):
            os.unlink(os.path.join(d.dir, "pipelined.db" + tail))
    d.start()  # from the log
    assert [(k["access_key"], k["state"]) for k in d.get("/s3-keys")["s3_keys"]] == [(key, "lost")]
    assert "lost" in d.ctl("list", "s3-key").out


def secret_file(path, text):
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w", encoding="utf-8") as f:
        f.write(text)


def test_another_master_key_is_told_of_and_the_right_one_opens_again(make_daemon):
    d = make_daemon().start()
    User(d, "bob", ("", "writer"))
    key = d.post("/s3-keys", {"user": "bob"})["access_key"]
    d.stop()
    path = os.path.join(d.dir, "master.key")
    with open(path, encoding="utf-8") as f:
        right = f.read()
    for other in (None, "0" * 64):
        os.unlink(path)  # without one another is drawn
        if other:
            secret_file(path, other)
        d.start()
        assert "1 S3 keys cannot be used, because they were sealed with another master.key" in d.log() and "restore that file" in d.log()
        assert [(k["access_key"], k["state"]) for k in d.get("/s3-keys")["s3_keys"]] == [(key, "lost")]
        assert d.get("/whoami")["name"] == "daemon", "all else goes on"
        d.stop()
    secret_file(path, "not hex")
    d.start(expect_failure=True)
    d.process = None
    assert "put the old file back" in d.log()
    secret_file(path, right)
    d.start()
    assert [(k["access_key"], k["state"]) for k in d.get("/s3-keys")["s3_keys"]] == [(key, "good")]


def test_nothing_that_the_daemon_writes_is_for_others(make_daemon, tmp_path):
    """Also in a folder that was there, and was open to all."""
    d = make_daemon()
    os.makedirs(d.dir, exist_ok=True)
    os.chmod(d.dir, 0o755)
    d.start()
    d.default.repo("in")
    d.default.push("in", "x", b"1")
    d.stop()
    for name in ("token", "master.key", "pipelined.db", "store", "logs"):
        assert os.stat(os.path.join(d.dir, name)).st_mode & 0o077 == 0, name
    for folder, _, files in os.walk(os.path.join(d.dir, "store")):
        assert os.stat(folder).st_mode & 0o077 == 0, folder
        assert all(os.stat(os.path.join(folder, f)).st_mode & 0o077 == 0 for f in files), folder


def test_wrong_tokens_of_one_address_are_slowed_and_right_ones_are_not(make_daemon):
    d = make_daemon().start()
    user = User(d, "bob", ("", "reader"))
    codes = []
    while 503 not in codes and len(codes) < 2000:
        codes.append(status_of(d, "GET", "/whoami", token="plt_" + "0" * 40))
    assert set(codes[:199]) == {401} and codes[-1] == 503
    assert user.status("GET", "/whoami") == 200 and status_of(d, "GET", "/whoami") == 200
    assert "wrong or missing tokens" in d.log()
    told = lambda: [(a["verb"], a["who"], a["peer"], a["target"]) for a in d.get("/audit")["audit"]]
    wait_until(lambda: ("refused", "", "127.0.0.1", "requests with wrong or missing tokens") in told(), "the audit to tell")
    assert len([a for a in told() if a[0] == "refused"]) == 1


def test_s3_env_is_refused_without_a_gateway(shared):
    done = shared.ctl("s3", "env", ok=False)
    assert done.code == INVALID and "no S3 gateway" in done.err


def test_s3_env_makes_a_key_and_keeps_it(make_daemon, tmp_path):
    d = make_daemon("--s3-listen", "127.0.0.1:0").start()
    bob = User(d, "bob", ("", "writer"))
    first, again = json.loads(bob.ctl("s3", "env", "--json").stdout), json.loads(bob.ctl("s3", "env", "--json").stdout)
    assert first == again and first["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")
    assert f"export AWS_SECRET_ACCESS_KEY='{first['AWS_SECRET_ACCESS_KEY']}'" in bob.ctl("s3", "env").stdout
    kept = os.path.join(d.root, ".config", "pipelined", "contexts.json")
    assert stat.S_IMODE(os.stat(kept).st_mode) == 0o600
    d.http("DELETE", f"/api/v1/s3-keys/{first['AWS_ACCESS_KEY_ID']}")
    assert json.loads(bob.ctl("s3", "env", "--json").stdout)["AWS_ACCESS_KEY_ID"] != first["AWS_ACCESS_KEY_ID"], "one that is gone is made anew"
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    d.ctl("s3", "env", "--user", "bob", env=env)


# --- workers


def test_a_worker_stays_in_its_project_and_its_tasks(project, gate):
    """While it lives: its own project's packs, its own tasks. Then nothing."""
    d = project.d
    project.repo("in")
    project.stages(sh("s", gate.wait))
    project.push("in", "x", b"1")
    gate.arrived()
    (worker,) = [w for w in d.get("/status")["live"]["workers"] if w["project"] == project.name]
    token = worker_token(d, worker["id"])
    foreign = hashlib.sha256(project.name.encode()).hexdigest()
    assert status_of(d, "GET", f"/projects/{project.name}/packs/{foreign}", token=token) == 404
    assert status_of(d, "GET", f"/projects/default/packs/{foreign}", token=token) == 403
    assert status_of(d, "POST", "/sessions", {"project": project.name}, token=token) == 200
    assert status_of(d, "POST", "/sessions", {"project": "default"}, token=token) == 403
    for method, path in (("GET", "/repos"), ("GET", "/runs"), ("GET", "/events"), ("GET", f"/repos/{project.name}/in"), ("POST", "/tokens"), ("GET", "/whoami")):
        assert status_of(d, method, path, {} if method == "POST" else None, token=token) == 403, path
    assert status_of(d, "POST", "/worker/renew", {"worker": str(worker["id"] + 1), "tasks": []}, token=token) == 403
    gone = worker_token(d, worker["id"] + (1 << 40))
    assert status_of(d, "GET", f"/projects/{project.name}/packs/{foreign}", token=gone) == 403, "one that is not there has no project"
    assert status_of(d, "GET", "/status", token=gone) == 403
    assert status_of(d, "GET", "/status", token=token) == 200
    gate.open()
    d.http("DELETE", f"/api/v1/pipelines/{project.name}/p")
    wait_until(lambda: not [w for w in d.get("/status")["live"]["workers"] if w["project"] == project.name], "its worker to be gone")
    for method, path in (("GET", "/status"), ("GET", "/whoami"), ("GET", f"/projects/{project.name}/packs/{foreign}")):
        assert status_of(d, method, path, token=token) in (401, 403), path


# --- what comes late


def test_what_is_asked_before_a_token_is_deleted_and_told_behind_is_refused(project):
    """A thief who keeps a request open must not make a token of their own with it when the stolen one is gone."""
    d, (name,) = project.d, names(project, "late")
    project.repo("data")
    user = User(d, name, (project.name, "writer"))
    files = f"/api/v1/repos/{project.name}/data/branches/master/files/"
    session = d.http("POST", "/api/v1/sessions", {"project": project.name}, token=user.token)["session"]
    bearer = {"Authorization": f"Bearer {user.token}", "Content-Type": "application/json"}
    begin = lambda method, path, length: SlowRequest(d.url, method, path, bearer, length)
    token, late, pack = begin("POST", "/api/v1/tokens", 2), begin("PUT", files + "late", 4), begin("PUT", f"/api/v1/projects/{project.name}/packs/{'0' * 64}?session={session}", 4)
    kept = begin("PUT", files + "kept", 4)
    d.http("PATCH", f"/api/v1/users/{name}", {"roles": [{"scope": "", "role": "reader"}]})
    status, said = kept.end(b"kept")  # another role that takes nothing away changes nothing
    assert status == 201 and project.read("data", "kept") == b"kept", said
    d.http("DELETE", f"/api/v1/tokens/{user.made['id']}")
    assert [token.end(b"{}")[0], late.end(b"late")[0], pack.end(b"pack")[0]] == [401, 401, 401]
    assert d.get("/tokens", user=name)["tokens"] == [] and set(project.files("data")) == {"kept"}


def test_who_loses_a_role_while_a_body_comes_is_refused_by_name(project):
    d, (name,) = project.d, names(project, "demoted")
    project.repo("data")
    user = User(d, name, (f"{project.name}/data", "writer"))
    late = SlowRequest(d.url, "PUT", f"/api/v1/repos/{project.name}/data/branches/master/files/late", {"Authorization": f"Bearer {user.token}"}, 4)
    d.http("PATCH", f"/api/v1/users/{name}", {"roles": [{"scope": f"{project.name}/data", "role": "reader"}]})
    status, said = late.end(b"late")
    assert status == 403 and "needs the role writer" in json.loads(said)["error"]["message"]


def test_a_stolen_workers_token_opens_its_own_lease_and_no_other(project, gate):
    """docs/security.md says what it is good for: this is the other half."""
    d = project.d
    project.repo("in").stages(sh("mine", f"{gate.wait}; echo mine >$PL_OUT/f"), sh("theirs", f"{gate.wait}; echo theirs >$PL_OUT/f"))
    run = project.commit("in", {"x": "1"})["run"]
    gate.arrived(2)
    by_stage = {w["stage"]: w["id"] for w in d.get("/status")["live"]["workers"] if w["project"] == project.name}
    wait_until(lambda: {by_stage["mine"], by_stage["theirs"]} <= set(leases(d)), "both leases")
    mine, theirs = by_stage["mine"], by_stage["theirs"]
    token, (task, fence), (own, own_fence) = worker_token(d, mine), leases(d)[theirs], leases(d)[mine]
    post = lambda path, body: d.http("POST", "/api/v1/worker" + path, body, token=token)
    log = lambda task, worker: status_of(d, "POST", f"/worker/log?worker={worker}&task={task}&datum={'0' * 64}&attempt=1&offset=0", b"text", token=token)
    assert post("/renew", {"worker": str(mine), "tasks": [{"task": own, "fence": own_fence}]})["lost"] == []
    assert post("/renew", {"worker": str(mine), "tasks": [{"task": task, "fence": fence}]})["lost"] == [{"task": task, "fence": fence}]
    assert post("/renew", {"worker": str(mine), "tasks": [{"task": own, "fence": own_fence + 1}]})["lost"] == [{"task": own, "fence": own_fence + 1}]
    assert (log(own, mine), log(task, mine), log(task, theirs)) == (200, 409, 403)
    assert status_of(d, "POST", "/worker/metrics", {"worker": str(mine), "task": task, "index": 0, "lines": ["{}"]}, token=token) == 409
    for body in ({"worker": str(mine), "task": task, "fence": fence, "index": 0}, {"worker": str(mine), "task": own, "fence": own_fence + 1, "index": 0}):
        assert status_of(d, "POST", "/worker/checkpoint", {**body, "root": "0" * 64}, token=token) == 409
    assert status_of(d, "POST", "/worker/checkpoint", {"worker": str(mine), "task": own, "fence": own_fence, "index": 1, "root": "0" * 64}, token=token) == 400
    result = {"task": task, "fence": fence, "rows": [], "gave_back": [], "all": "killed"}
    post("/next", {"worker": str(mine), "wait_ms": 0, "results": [result, {**result, "task": own, "fence": own_fence + 1}]})
    assert leases(d)[theirs] == (task, fence), "a result of it counts for nothing"
    assert status_of(d, "POST", "/worker/attach", {"protocol": 1, "worker": str(theirs), "held": []}, token=token) == 403
    assert status_of(d, "GET", "/repos", token=token) == 403
    gate.open()
    assert project.wait(run)["state"] == "success" and project.read("theirs", "f") == b"theirs\n" and project.read("mine", "f") == b"mine\n"
    told = lambda: {a["target"] for a in d.get("/audit", user=f"worker {mine}")["audit"] if a["verb"] == "refused"}
    wait_until(lambda: {"POST /api/v1/worker/attach", "POST /api/v1/worker/log", "GET /api/v1/repos"} <= told(), lambda: f"the audit to tell of it: {told()}")


def test_the_token_a_worker_is_started_with_is_exchanged_once(project, gate):
    """By its agent: what stands in the pod opens nothing afterwards, also to a daemon that comes back."""
    d = project.d
    project.repo("in").stages(sh("s", f"{gate.wait}; echo done >$PL_OUT/f"))
    run = project.commit("in", {"x": "1"})["run"]
    gate.arrived()
    worker, = [w["id"] for w in d.get("/status")["live"]["workers"] if w["project"] == project.name]
    wait_until(lambda: worker in leases(d), "its lease")
    first = first_token(d, worker)
    exchange = {"protocol": 1, "worker": str(worker), "incarnation": "1-" + "f" * 32, "exchange": True, "held": []}
    for path, body in (("/worker/renew", {"worker": str(worker), "tasks": []}), ("/worker/attach", exchange), ("/worker/attach", {**exchange, "exchange": False})):
        assert status_of(d, "POST", path, body, token=first) == 401, path
    own = worker_token(d, worker)
    assert "-" in own and status_of(d, "POST", "/worker/attach", exchange, token=own) == 403, "another start of it gets none"
    assert status_of(d, "POST", "/worker/attach", {**exchange, "incarnation": "1"}, token=own) == 400
    assert status_of(d, "GET", "/status", token=own) == 200
    gate.open()
    assert project.wait(run)["state"] == "success"


def test_an_exchanged_token_opens_nothing_to_a_daemon_that_comes_back(make_daemon, gate):
    """Before the worker has come to it, too: nobody takes its place, or what it holds."""
    d = make_daemon(sandbox="none").start()
    project = d.default.repo("in").stages(sh("s", f"{gate.wait}; echo done >$PL_OUT/f")) and d.default
    run = project.commit("in", {"x": "1"})["run"]
    gate.arrived()
    worker, = [w["id"] for w in d.get("/status")["live"]["workers"]]
    wait_until(lambda: worker in leases(d), "its lease")
    (task, fence), (agent,), first, own = leases(d)[worker], workers_of(d), first_token(d, worker), worker_token(d, worker)
    os.kill(agent, signal.SIGSTOP)
    try:
        d.kill()
        d.start()
        renew = {"worker": str(worker), "tasks": []}
        wait_until(lambda: status_of(d, "POST", "/worker/renew", renew, token=first) != 503, "the daemon to know its workers")
        incarnation = own.split("_")[2]
        exchange = {"protocol": 1, "worker": str(worker), "incarnation": incarnation, "exchange": True, "held": [{"task": task, "fence": fence}]}
        for method, path, body in (("POST", "/worker/renew", renew), ("POST", "/worker/attach", {**exchange, "exchange": False}),
                                   ("POST", "/worker/next", {"worker": str(worker), "results": [], "wait_ms": 0}), ("GET", "/status", None),
                                   ("POST", "/sessions", {"project": "default"})):
            assert status_of(d, method, path, body, token=first) == 401, path
        assert status_of(d, "POST", "/worker/attach", {**exchange, "incarnation": "1-" + "f" * 32}, token=first) == 403
        assert leases(d)[worker] == (task, fence)
        assert d.http("POST", "/api/v1/worker/attach", exchange, token=first)["token"] == own, "an answer that was lost is given again"
    finally:
        os.kill(agent, signal.SIGCONT)
    gate.open()
    assert project.wait(run)["state"] == "success" and project.datums("s", run)[0]["attempt"] == 1


def test_an_exchange_is_answered_once_it_is_written_down(project, gate):
    d = project.d
    project.repo("in").stages(sh("s", f"{gate.wait}; echo done >$PL_OUT/f"))
    run = project.commit("in", {"x": "1"})["run"]
    gate.arrived()
    worker, = [w["id"] for w in d.get("/status")["live"]["workers"] if w["project"] == project.name]
    wait_until(lambda: worker in leases(d), "its lease")
    (task, fence), own, answers = leases(d)[worker], worker_token(d, worker), []
    exchange = {"protocol": 1, "worker": str(worker), "incarnation": own.split("_")[2], "exchange": True, "held": [{"task": task, "fence": fence}]}
    ask = threading.Thread(target=lambda: answers.append(d.http("POST", "/api/v1/worker/attach", exchange, token=own)))
    with contextlib.closing(sqlite3.connect(f"{d.dir}/pipelined.db", isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        ask.start()
        for _ in range(5):
            d.get("/status")
        early = list(answers)
        db.execute("ROLLBACK")
    ask.join()
    assert early == [] and answers[0]["token"] == own
    gate.open()
    assert project.wait(run)["state"] == "success"


def test_every_route_is_closed_to_strangers_and_workers_have_theirs(shared):
    """Over the daemon's whole interface, the workers' part too; api's own routes by roles: tests/component/api/test_access.c."""
    user = User(shared, "no-roles")
    document = shared.http("GET", "/api/v1/openapi.json")
    open_to_all = {"/healthz", "/readyz", "/login", "/ui/{path}"}
    open_to_all |= {path for path, methods in document["paths"].items() if methods.get("get", {}).get("summary", "").startswith("Returns the web page,")}
    assert "/runs/{path}" in open_to_all and not any(path.startswith("/api/") for path in open_to_all)
    seen = set()
    for path, methods in document["paths"].items():
        for method in methods:
            target = "".join("x" if part.startswith("{") else part for part in re.split(r"(\{[^}]*\})", path))
            got = raw_status(shared, method.upper(), target, None)
            assert path in open_to_all or got in (401, 503), (method, path, got)
            if path.startswith("/api/v1/worker/"):
                seen.add(path)
                assert raw_status(shared, method.upper(), target, user.token) == 403, path
    assert len(seen) >= 6, seen


def raw_status(daemon, method, path, token):
    c = http.client.HTTPConnection(daemon.url.removeprefix("http://"), timeout=60)
    c.request(method, path, headers={"Authorization": "Bearer " + token} if token else {})
    status = c.getresponse().status
    c.close()
    return status
