"""The document of the REST interface (/api/v1/openapi.json) against the daemon that serves it, by schemathesis: a program that makes requests up from the document, sensible and
not, and holds each answer against what the document promises."""
import json
import os
import re
import subprocess

import pytest

from by_path import load
from conftest import DIGITS, kit

pytestmark = pytest.mark.timeout(900)  # schemathesis may have to come from a package index first

servers = load("s3_servers", "s3/servers.py")
SCHEMATHESIS = "4.32.5"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
STREAMS = "/api/v1/(events|runs/[^/]*/wait|logs/)"  # they answer for as long as one listens


@pytest.fixture(scope="module")
def schemathesis():
    return servers.venv(f"schemathesis-{SCHEMATHESIS}", f"schemathesis=={SCHEMATHESIS}") / "bin" / "python"


@pytest.fixture
def digits(tmp_path):
    """A daemon of this test alone, which has run the digits pipeline once."""
    daemon = kit.Daemon(tmp_path, "--sandbox", "none").start(env={"PATH": "/usr/bin:/bin"})
    daemon.ctl("create", "pipeline", "-f", str(DIGITS / "pipeline.json"))
    daemon.ctl("put", "file", "digits@master:/", "-r", "-f", str(DIGITS / "data"))
    daemon.ctl("wait", "run", "digits@master", "--timeout", "300s")
    yield daemon
    assert daemon.stop() == 0


def names(daemon):
    """For each parameter in a path, the name of something that is there."""
    job = daemon.http("GET", "/api/v1/jobs?stage=train&limit=1")["jobs"][0]
    datum = daemon.http("GET", f"/api/v1/jobs/default/train/{job['run']}/datums")["datums"][0]["id"]
    commit = daemon.http("GET", "/api/v1/repos/default/digits/commits")["commits"][0]["id"]
    return {"project": "default", "pipeline": "digits", "stage": "train", "repo": "digits", "branch": "master", "ref": "master", "commit": commit, "run": job["run"], "datum": datum,
            "user": "daemon", "path": "train/b1.csv"}


def check(daemon, schemathesis, folder, *words):
    """Runs schemathesis with the names of what is there, and those statuses that an operation may answer with though nothing is wrong with the daemon."""
    config = folder / "schemathesis.toml"
    config.write_text("[parameters]\n" + "".join(f"{json.dumps('path.' + name)} = {json.dumps(value)}\n" for name, value in names(daemon).items()) +
                      '[checks.not_a_server_error]\nexpected-statuses = ["2xx", "3xx", "4xx", 501, 503]\n', encoding="utf-8")
    done = subprocess.run([schemathesis, "-m", "schemathesis.cli", "--config-file", config, "run", daemon.url.rstrip("/") + "/api/v1/openapi.json", "-H", f"Authorization: Bearer {daemon.token}",
                           "--phases", "coverage,fuzzing", "--max-examples", "8", "--seed", "1", "--request-timeout", "30", "--continue-on-failure", "--checks", CHECKS, *words],
                          capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}, timeout=600)
    assert done.returncode == 0, done.stdout[-12000:] + done.stderr[-2000:]
    return done.stdout


def test_what_is_read_is_as_the_document_says(digits, schemathesis, tmp_path):
    said = check(digits, schemathesis, tmp_path, "--include-method", "GET", "--exclude-path-regex", STREAMS)
    assert int(re.search(r"(\d+) generated", said)[1]) > 500, said


def test_nothing_that_is_asked_for_breaks_the_daemon(digits, schemathesis, tmp_path):
    """Each operation, with bodies made up, too. Tokens and users are left out: a body that takes the rights away from this token would end the test."""
    check(digits, schemathesis, tmp_path, "--exclude-path-regex", STREAMS + "|/api/v1/(tokens|users|sessions)", "--exclude-method", "GET",
          "--exclude-path", "/api/v1/repos/{project}/{repo}/branches/{branch}/commits", "--exclude-path", "/api/v1/repos/{project}/{repo}/open/{commit}/ops")
    assert digits.http("GET", "/api/v1/whoami")["name"] == "daemon"
