"""Bad input: refused at once, with an error that names the field, the value and the remedy, and nothing half-done."""

import http.client
import json
import os
import subprocess
import urllib.parse

import pytest

from conftest import BIN, HttpError, sh, wait_until
from people import worker_token


def refused(status, call, *args, **more):
    """The error of a call that must be refused with this status."""
    with pytest.raises(HttpError) as e:
        call(*args, **more)
    assert e.value.status == status, e.value
    return e.value.error


def raw(daemon, method, path, headers, body=None):
    """Status and error code of a request with exactly these headers."""
    connection = http.client.HTTPConnection(urllib.parse.urlparse(daemon.url).netloc, timeout=30)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    if body is not None:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    try:
        return reply.status, json.loads(text)["error"]["code"]
    except (ValueError, KeyError, TypeError):
        return reply.status, ""


# --- who may ask

@pytest.mark.parametrize("token", [False, "0" * 64, "wrong", "plw_1_" + "0" * 64])
@pytest.mark.parametrize("path", ["/api/v1/status", "/api/v1/repos", "/api/v1/events", "/api/v1/no-such-thing", "/api/v1/openapi.json"])
def test_without_the_token_nothing_is_told(shared, token, path):
    assert refused(401, shared.http, "GET", path, token=token)["code"] == "unauthorized"


def test_health_is_told_to_everyone(shared):
    for path in ("/healthz", "/readyz"):
        assert shared.http("GET", path, token=False, raw=True).strip() == b"ok"


def test_a_foreign_host_is_refused(shared):
    own = urllib.parse.urlparse(shared.url)
    auth = {"Authorization": "Bearer " + shared.token}
    for host in ("evil.example", f"evil.example:{own.port}", "127.0.0.1:1", f"127.0.0.1.evil.example:{own.port}"):
        assert raw(shared, "GET", "/api/v1/status", {"Host": host, **auth}) == (421, "wrong_host")
    assert raw(shared, "GET", "/api/v1/status", {"Host": f"localhost:{own.port}", **auth})[0] == 200


def test_a_foreign_origin_may_not_change_anything(shared):
    own = urllib.parse.urlparse(shared.url).netloc
    headers = {"Host": own, "Authorization": "Bearer " + shared.token, "Content-Type": "application/json"}
    body = b'{"name": "from-afar"}'
    for origin in ("http://evil.example", "null", f"https://{own}.evil.example"):
        assert raw(shared, "POST", "/api/v1/repos", {**headers, "Origin": origin}, body) == (403, "foreign_origin")
    assert refused(404, shared.get, "/repos/default/from-afar")["code"] == "not_found"
    assert raw(shared, "POST", "/api/v1/repos", {**headers, "Origin": f"http://{own}"}, body)[0] in (200, 201)


def test_a_workers_token_opens_no_more_than_a_worker_needs(project, gate):
    project.repo("in").stages(sh("s", gate.wait))
    run = project.commit("in", {"f": "1"})["run"]
    gate.arrived()
    worker, = [w["id"] for w in project.d.get("/status")["live"]["workers"] if w["project"] == project.name]
    token = worker_token(project.d, worker)
    assert project.d.http("GET", "/api/v1/status", token=token)["version"]
    for method, path in (("GET", "/api/v1/repos"), ("DELETE", f"/api/v1/repos/{project.name}/in"), ("GET", "/api/v1/events"), ("POST", f"/api/v1/runs/{run}/stop")):
        assert refused(403, project.d.http, method, path, token=token)["code"] == "forbidden"
    renew = {"worker": str(worker + 1), "incarnation": "1", "tasks": []}
    assert refused(403, project.d.http, "POST", "/api/v1/worker/renew", renew, token=token)["code"] == "forbidden", "it is no other worker"
    gate.open()
    project.wait(run)


# --- names, paths, bodies

@pytest.mark.parametrize("name", ["", "a b", "-a", "_a", "a/b", "ä", "x" * 52, "0" * 32, "f" * 64, "a\nb", ".."])
def test_a_name_that_is_not_allowed_is_refused(shared, name):
    error = refused(400, shared.post, "/repos", {"name": name})
    assert error["code"] == "invalid_name"


@pytest.mark.parametrize("path", ["a//b", "a/../b", "./a", "a/", "x" * 256, "/".join(["d" * 200] * 6), "a\tb", "del\x7f"])
def test_a_path_that_is_not_allowed_is_refused(project, path):
    project.repo("in")
    assert refused(400, project.commit, "in", {path: "1"})["code"] in ("invalid_path", "invalid", "protocol")
    assert project.commits("in") == []


def test_a_file_below_a_file_is_refused_naming_both(project):
    project.repo("in").commit("in", {"a": "1"})
    error = refused(409, project.commit, "in", {"a/b": "1"})
    assert "a/b" in error["message"] and "a" in error["message"] and error["code"] == "path_collision"
    assert project.files("in") == {"a": "file"}


def test_what_is_not_there_is_named(project):
    project.repo("digits")
    assert 'repo "digit" does not exist' in refused(404, project.push, "digit", "f", "1")["message"]
    project.commit("digits", {"f": "1"})
    assert "nothing" in refused(404, project.read, "digits", "nothing")["message"]
    assert "nobranch" in refused(404, project.read, "digits", "f", "nobranch")["message"]
    assert refused(404, project.d.get, "/runs/ffffffff")["code"] == "not_found"


@pytest.mark.parametrize("body, code", [(b"{", "invalid"), (b"[]", "invalid"), (b'{"name": 3}', "invalid"), (b'{"nam": "x"}', "invalid"), (b'{"name": "x", "name": "y"}', "invalid"),
                                        (b'{"name": "x", "more": 1}', "invalid"), (b"\xff\xfe", "invalid")])
def test_a_malformed_body_is_refused(shared, body, code):
    assert refused(400, shared.http, "POST", "/api/v1/repos", body, headers={"Content-Type": "application/json"})["code"] == code


@pytest.mark.parametrize("body", [b"", b"PLOP", b"PLOP\x01", b"PLOP\x02\x00\x00", b"nonsense" * 100, b"PLOP\x01\x01\x01a\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"])
def test_a_malformed_stream_of_operations_is_refused(project, body):
    project.repo("in")
    error = refused(400, project.d.http, "POST", f"/api/v1/repos/{project.name}/in/branches/master/commits", body, headers={"Content-Type": "application/x-pl-ops"})
    assert error["message"]
    assert project.commits("in") == []


def test_a_body_that_is_too_large_is_refused_naming_the_limit(shared):
    error = refused(413, shared.http, "POST", "/api/v1/repos", b" " * (20 << 20), headers={"Content-Type": "application/json"})
    assert error["code"] == "too_large" and any(c.isdigit() for c in error["message"])


# --- specs

def spec_error(project, text, status=422, **more):
    return refused(status, project.d.post, "/pipelines", {"spec": text if isinstance(text, str) else json.dumps(text), "filename": "p.json", "project": project.name, **more})


def pipeline(*stages, **more):
    return {"pipeline": "p", "stages": list(stages), **more}


STAGE = {"name": "s", "input": {"repo": "in"}, "run": ["true"]}


def test_a_spec_that_does_not_parse_names_line_and_column(project):
    error = spec_error(project, '{\n  "pipeline": "p",\n  "stages": [}\n}')
    assert error["code"] == "invalid_spec" and error["message"].startswith("p.json:3:14:"), error


def test_a_spec_that_would_hold_up_everybodys_commits_is_refused(project):
    project.repo("in")
    error = spec_error(project, pipeline(*({**STAGE, "name": f"s{i}"} for i in range(60000))))
    assert "60000 stages are not accepted: at most 1000" in error["message"], error
    error = spec_error(project, pipeline(*({**STAGE, "name": f"s{i}"} for i in range(30)), defaults={"env": {"A": "x" * 100000}}))
    assert error["code"] == "limit" and 'with their "defaults"' in error["message"], error


def test_an_unknown_field_is_named_with_what_was_meant(project):
    project.repo("in")
    error = spec_error(project, '{"pipeline": "p",\n "stages": [{"name": "s", "input": {"repo": "in", "globs": "/*"}, "run": ["true"]}]}')
    assert "p.json:2:" in error["message"] and 'did you mean "glob"' in error["message"], error


def test_a_field_that_is_not_there_yet_is_refused_by_name(project):
    project.repo("in")
    for field, value in (("schedule", {"every": "1h"}), ("replicas", 2)):
        error = spec_error(project, pipeline({**STAGE, field: value}))
        assert field in error["message"] and "not available yet" in error["message"], error


def test_a_cycle_of_stages_is_named(project):
    error = spec_error(project, pipeline({"name": "a", "input": {"repo": "b"}, "run": ["true"]}, {"name": "b", "input": {"repo": "a"}, "run": ["true"]}))
    assert "the stages form a circle: a reads b reads a" in error["message"], error


def test_a_stage_that_reads_itself_is_a_cycle(project):
    assert "s" in spec_error(project, pipeline({"name": "s", "input": {"repo": "s"}, "run": ["true"]}))["message"]


def test_two_stages_of_one_name_are_refused(project):
    project.repo("in")
    error = spec_error(project, pipeline(STAGE, STAGE))
    assert '"s"' in error["message"], error


def test_a_missing_input_repo_is_named_with_the_remedy(project):
    error = spec_error(project, pipeline({"name": "s", "input": {"repo": "digits"}, "run": ["true"]}))
    assert 'repo "digits" does not exist' in error["message"] and "create repo digits" in error["message"] + error.get("hint", ""), error
    assert project.d.get("/repos", project=project.name)["repos"] == [], "nothing is half-done"
    error = spec_error(project, pipeline({"name": "s", "input": {"repo": "nosuch/data"}, "run": ["true"]}))
    assert 'project "nosuch" does not exist: pipelinectl create project nosuch' in error["message"], error


def test_the_remedy_for_a_missing_repo_names_its_project(project):
    for repo, hint in ((f"{project.name}/weather", f"create repo {project.name}/weather"), ("nosuch/data", "create project nosuch")):
        said = project.d.ctl("list", "file", f"{repo}@master", ok=False).err
        assert f"pipelinectl {hint}\n" in said, said


def test_a_repo_that_the_spec_asks_for_is_made(project):
    project.d.pipeline({"pipeline": "p", "project": project.name, "repos": {"digits": {}}, "stages": [{"name": "s", "input": {"repo": "digits"}, "run": ["true"]}]})
    assert {r["name"] for r in project.d.get("/repos", project=project.name)["repos"]} == {"digits", "s"}


@pytest.mark.parametrize("change, word", [
    ({"name": "a b"}, "name"), ({"name": "x" * 52}, "name"), ({"run": []}, "run"), ({"run": ["true"], "script": "true"}, "script"), ({"run": "true"}, "run"),
    ({"workers": 0}, "workers"), ({"gpu": -1}, "gpu"), ({"gpu": {"required": "yes"}}, "required"), ({"timeout": "soon"}, "timeout"), ({"resources": {"memory": "lots"}}, "memory"),
    ({"datum": {"tries": 0}}, "tries"), ({"on_new": "never"}, "on_new"), ({"on_error": "panic"}, "on_error"), ({"env": {"A": [1]}}, "A"), ({"env": {"A=B": "1"}}, "A=B"),
    ({"input": {"repo": "in", "glob": "/[a"}}, "glob"), ({"input": {"repo": "in", "glob": "/@(a)"}}, "glob"), ({"input": {}}, "input"), ({"input": {"cross": []}}, "cross"),
    ({"input": {"repo": "in", "files": ["/{a"]}}, "files"), ({"output": {"prefix": "${no.stem}/"}}, "prefix"), ({"output": {"prefix": "../x/"}}, "prefix"),
    ({"output": {"expect": ["["]}}, "expect"), ({"code": "../elsewhere"}, "code"), ({"cache": {"code": 1}}, "cache")])
def test_a_bad_value_is_refused_naming_its_field(project, change, word):
    project.repo("in")
    error = spec_error(project, pipeline({**STAGE, **change}))
    assert error["code"] in ("invalid_spec", "invalid_name", "invalid_glob") and word in error["message"] and "p.json:1:" in error["message"], error


def test_the_first_of_several_errors_says_how_many_more_there_are(project):
    project.repo("in")
    error = spec_error(project, pipeline({**STAGE, "workers": 0, "gpu": -1}))
    assert "workers" in error["message"] and "(and 1 more)" in error["message"], error


def test_a_stage_name_that_another_pipeline_has_is_refused_naming_it(project):
    project.repo("in").stages(STAGE)
    error = refused(422, project.stages, STAGE, pipeline="q")
    assert 'stage "s" already belongs to pipeline "p"' in error["message"], error


def test_a_stage_may_not_take_over_an_input_repo(project):
    project.repo("in", "s")
    with pytest.raises(HttpError) as e:
        project.stages(STAGE)
    assert e.value.status in (409, 422) and '"s"' in e.value.error["message"]


def test_creating_a_pipeline_twice_is_refused(project):
    project.repo("in").stages(STAGE)
    error = refused(409, project.stages, {**STAGE, "run": ["false"]})
    assert error["code"] == "exists" and "update" in error["message"] + error.get("hint", "")


def test_code_that_was_not_sent_is_asked_for(project):
    project.repo("in")
    assert "code" in refused(400, project.stages, {**STAGE, "code": "src"})["message"]


def test_a_repo_that_a_stage_reads_is_not_deleted(project):
    project.repo("in").stages(STAGE)
    error = refused(409, project.d.http, "DELETE", f"/api/v1/repos/{project.name}/in")
    assert error["code"] == "in_use" and '"s"' in error["message"]


def test_a_deep_or_large_spec_is_refused(project):
    assert spec_error(project, '{"pipeline": ' + "[" * 100 + "]" * 100 + "}")["message"]
    assert refused(413, project.d.post, "/pipelines", {"spec": " " * (13 << 20)})["code"] == "too_large"


# --- starting

def test_a_second_daemon_on_the_folder_names_the_first(shared, tmp_path):
    process = subprocess.run([os.path.join(BIN, "pipelined"), "--data", shared.dir, "--listen", "127.0.0.1:0"], capture_output=True, timeout=60, check=False)
    assert process.returncode == 1
    assert str(shared.process.pid) in process.stderr.decode() and shared.dir in process.stderr.decode(), process.stderr
    assert shared.get("/status")["version"], "the first one is unharmed"


@pytest.mark.parametrize("option, word", [(["--liste", "x"], "--listen"), (["--gpus", "many"], "gpus"), (["--sandbox", "wood"], "wood"), (["--executor", "moon"], "moon"),
                                          (["--store", "http://x"], "http://x"), (["--listen", "0.0.0.0:0"], "0.0.0.0"), (["--config", "/no/such/file"], "/no/such/file")])
def test_a_bad_option_is_refused_by_name(tmp_path, option, word):
    process = subprocess.run([os.path.join(BIN, "pipelined"), "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *option], capture_output=True, timeout=60, check=False)
    assert process.returncode in (1, 2) and word in process.stderr.decode(), process.stderr
    assert b"Sanitizer" not in process.stderr


def test_an_unknown_key_of_the_configuration_is_refused(tmp_path):
    (tmp_path / "c.json").write_text('{"data": "x", "lisen": "127.0.0.1:0"}')
    process = subprocess.run([os.path.join(BIN, "pipelined"), "--config", str(tmp_path / "c.json")], capture_output=True, timeout=60, check=False)
    assert process.returncode in (1, 2) and b"lisen" in process.stderr and b'"listen"' in process.stderr


def test_the_secrets_are_the_owners_alone(shared):
    for name in ("token", "master.key", "pipelined.url"):
        assert os.stat(os.path.join(shared.dir, name)).st_mode & 0o077 == 0, name
    assert os.stat(shared.dir).st_mode & 0o077 == 0


def test_wrong_tokens_do_not_lock_out_the_right_one(make_daemon):
    d = make_daemon().start()
    codes = set()
    for _ in range(200):
        with pytest.raises(HttpError) as e:
            d.http("GET", "/api/v1/status", token="f" * 64)
        codes.add(e.value.status)
    assert codes <= {401, 429, 503}
    wait_until(lambda: d.get("/status")["version"], "the status")
