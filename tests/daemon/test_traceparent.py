"""The trace of the request that starts a run: in the run's JSON, and in the environment of its commands, also after a restart of the daemon."""

import http.client
import json
import urllib.parse

import pytest
from conftest import sh, wait_until

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
SAY = 'printf "%s" "${TRACEPARENT-none}" >$PL_OUT/trace'


def ask(d, method, path, trace, body=b"", kind="application/json"):
    url = urllib.parse.urlsplit(d.url)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    connection.request(method, "/api/v1" + path, body=body, headers={"Authorization": "Bearer " + d.token, "Content-Type": kind, **({"traceparent": trace} if trace else {})})
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    assert reply.status < 300, text
    return json.loads(text)


def put(d, repo, path, content, trace):
    return ask(d, "PUT", f"/repos/default/{repo}/branches/master/files/{path}", trace, content, "application/octet-stream")


def newest(d):
    return d.get("/runs", limit=1)["runs"][0]


def ended(d, run):
    return wait_until(lambda: (lambda r: r if r["state"] != "running" else None)(d.get(f"/runs/{run}")), "the run ends")


def test_a_put_hands_its_trace_to_the_commands_of_its_run(daemon):
    d, p = daemon, daemon.default.repo("in")
    p.stages(sh("s", SAY))
    put(d, "in", "a", b"1", TRACE)
    run = newest(d)["id"]
    assert ended(d, run)["traceparent"] == TRACE == newest(d)["traceparent"]
    assert p.read("s", "trace") == TRACE.encode()
    put(d, "in", "a", b"2", None)
    assert "traceparent" not in ended(d, newest(d)["id"])
    assert p.read("s", "trace") == b"none"


def test_runs_that_are_started_by_other_requests_have_theirs(daemon):
    """A pipeline that is run, an open commit that is finished, and a rerun."""
    d, p = daemon, daemon.default.repo("in")
    put(d, "in", "a", b"1", TRACE)
    p.stages(sh("s", SAY))
    wait_until(lambda: newest(d)["state"] == "success", "the first run")
    ask(d, "POST", "/pipelines/default/p/run", OTHER, json.dumps({"force": True}).encode())
    run = newest(d)["id"]
    assert ended(d, run)["traceparent"] == OTHER
    assert p.read("s", "trace") == OTHER.encode()
    ask(d, "POST", f"/runs/{run}/rerun", TRACE, b"{}")
    assert newest(d)["id"] != run and ended(d, newest(d)["id"])["traceparent"] == TRACE
    commit = d.post("/repos/default/in/branches/master/open", {})["id"]
    d.http("PUT", f"/api/v1/repos/default/in/open/{commit}/files/b", b"2")
    ask(d, "POST", f"/repos/default/in/open/{commit}/finish", OTHER, b"{}")
    assert newest(d)["cause"] == "push" and ended(d, newest(d)["id"])["traceparent"] == OTHER


@pytest.mark.parametrize("text", ["", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", TRACE.upper(), TRACE[:-1], TRACE + "-x", "01" + TRACE[2:], "$(touch /tmp/x)"])
def test_what_is_no_traceparent_is_ignored(shared, request, text):
    d = shared
    d.default.repo("in") if not [r for r in d.get("/repos")["repos"] if r["name"] == "in"] else None
    put(d, "in", "a", text.encode() + b"!", text)
    assert "traceparent" not in newest(d)


def test_a_restart_keeps_it(daemon, gate):
    d, p = daemon, daemon.default.repo("in")
    p.stages(sh("first", f"{gate.wait}; echo 1 >$PL_OUT/x"), sh("second", SAY, repo="first"))
    put(d, "in", "a", b"1", TRACE)
    gate.arrived()
    run = newest(d)["id"]
    d.kill()
    gate.leave_open()
    d.start()
    assert ended(d, run)["traceparent"] == TRACE
    assert p.read("second", "trace") == TRACE.encode()
