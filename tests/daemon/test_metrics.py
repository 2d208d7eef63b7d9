"""GET /metrics: what it says of jobs that wait, run and have ended; that it is strict OpenMetrics; who may read it; its size with many stages."""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.parse

import openmetrics
import pytest
from conftest import TOP, HttpError, runs_end, sh, wait_until, workers_of
from people import User
from s3_mock_server import S3Mock

DEPLOY = os.path.join(TOP, "pipelined", "deploy", "monitoring")
OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def text_of(d, token=None, accept=None):
    """(status, Content-Type, body) of GET /metrics."""
    url = urllib.parse.urlsplit(d.url)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    connection.request("GET", "/metrics", headers={"Authorization": "Bearer " + (token or d.token), **({"Accept": accept} if accept else {})})
    reply = connection.getresponse()
    body = reply.read().decode()
    connection.close()
    return reply.status, reply.getheader("Content-Type"), body


def metrics_of(d):
    status, kind, body = text_of(d)
    assert (status, kind) == (200, OPEN), body
    return openmetrics.read(body)


def test_it_counts_what_waits_runs_and_has_ended(daemon, gate):
    """Two datums of the first run end well, and one of the second run fails, while another stage is held at a gate."""
    d, p = daemon, daemon.default
    p.repo("in", "slow")
    p.stages(sh("s", 'test "$(cat $PL_INPUT_IN)" != bad; cp $PL_INPUT_IN $PL_OUT', glob="/*"), sh("held", gate.wait, repo="slow"))
    p.run("in", {"a": b"good", "b": b"good"})
    m = metrics_of(d)
    assert openmetrics.value(m, "pipelined_datums_ended", state="success") == 2
    assert openmetrics.value(m, "pipelined_jobs_ended", state="success") == 1
    assert openmetrics.value(m, "pipelined_stage_datums_ended", project="default", stage="s", state="success") == 2
    assert openmetrics.value(m, "pipelined_datum_bytes", direction="in") == 8
    p.push("slow", "x", b"1")
    gate.arrived()
    m = metrics_of(d)
    assert openmetrics.value(m, "pipelined_jobs", state="running") == 1
    assert openmetrics.value(m, "pipelined_runs") == 1
    assert openmetrics.value(m, "pipelined_datums", state="leased") == 1
    assert openmetrics.value(m, "pipelined_tasks", state="held") == 1
    assert openmetrics.value(m, "pipelined_workers", state="busy") == 1
    assert openmetrics.value(m, "pipelined_stage_workers", project="default", stage="held") == 1
    assert openmetrics.value(m, "pipelined_queue_jobs") == 0
    p.push("slow", "x", b"2")  # its job waits for the one before it
    m = wait_until(lambda: (lambda now: now if openmetrics.value(now, "pipelined_queue_jobs") else None)(metrics_of(d)), "the second job waits")
    assert openmetrics.value(m, "pipelined_jobs", state="created") == 1
    age = openmetrics.value(m, "pipelined_queue_oldest_age_seconds")
    wait_until(lambda: openmetrics.value(metrics_of(d), "pipelined_stage_oldest_age_seconds", project="default", stage="held") > age, "it grows older")
    gate.leave_open()
    p.run("in", {"c": b"bad"}, state="failure")
    m = metrics_of(d)
    assert openmetrics.value(m, "pipelined_datums_ended", state="failed") == 1
    assert openmetrics.value(m, "pipelined_jobs_ended", state="failure") == 1
    assert openmetrics.value(m, "pipelined_datums_reused") == 2, "a and b, whose results the second run used"
    assert openmetrics.value(m, "pipelined_datum_phase_seconds", phase="compute") > 0
    assert openmetrics.value(m, "pipelined_store_calls", operation="put", result="ok") > 0
    assert openmetrics.value(m, "pipelined_log_position_objects") > 0
    assert openmetrics.value(m, "pipelined_http_requests") > 0
    assert not m["pipelined_kube_requests"].samples and not m["pipelined_store_requests"].samples, "neither pods nor a bucket here"


def test_requests_to_the_bucket_are_counted_with_its_refusals(make_daemon, tmp_path):
    """A bucket that is busy three times, has a fault twice and says no once: each refusal is counted as what it is, and each but the last is tried again."""
    mock, config = S3Mock(), tmp_path / "config.json"
    config.write_text(json.dumps({"store": mock.store}))
    d = make_daemon("--config", str(config)).start()
    p = d.default.repo("in")

    def counted():
        m = metrics_of(d)
        kinds = {kind: openmetrics.value(m, "pipelined_store_refusals", kind=kind) for kind in ("forbidden", "busy", "error")}
        return *(openmetrics.value(m, f"pipelined_store_{name}") for name in ("requests", "retries")), kinds

    def uncounted():
        """Read while none comes: the daemon watches the log by itself."""
        while True:
            came = mock.requests()
            left = came - counted()[0]
            if mock.requests() == came:
                return left

    p.push("in", "a", b"1")
    runs_end(d)  # of each push: its end is written to the bucket, too
    requests, retries, refused = counted()
    probes = uncounted()  # with which the start finds out what the bucket can do
    assert requests > 0 and retries == 0 and refused == {"forbidden": 0, "busy": 0, "error": 0}
    mock.fault("503", "PUT", times=3)
    mock.fault("500", "PUT", times=2)
    p.push("in", "b", b"2")
    runs_end(d)
    more, again, refused = counted()
    assert more >= requests + 6 and again == 5 and refused == {"forbidden": 0, "busy": 3, "error": 2}
    assert abs(uncounted() - probes) <= 1, "each request is counted; one may come between the two readings"
    mock.fault("403", "PUT", times=1)
    with pytest.raises(HttpError):
        p.push("in", "c", b"3")
    assert counted()[1:] == (5, {"forbidden": 1, "busy": 3, "error": 2})
    assert openmetrics.value(metrics_of(d), "pipelined_store_calls", operation="put", result="refused") == 1
    assert d.stop() == 0
    mock.close()


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "gives back"])
def test_attempts_that_were_lost_with_their_worker_count(make_daemon, tmp_path, ending):
    """As the job's own figures do: one lost attempt, and the GPU time that it held."""
    d = make_daemon("--gpus", "1", sandbox="none").start()
    p = d.default.repo("in")
    p.stages(sh("s", f"if mkdir {tmp_path}/began 2>/dev/null; then sleep 600; fi", gpu={"count": 1, "required": True}))
    run = p.commit("in", {"f": "1"})["run"]
    wait_until((tmp_path / "began").exists, "the command to run")
    os.kill(*workers_of(d), ending)
    assert p.wait(run)["state"] == "success"
    gpu, m = d.get(f"/jobs/default/s/{run}")["gpu"], metrics_of(d)
    for state, n in (("lost", 1), ("success", 1), ("retry", 0), ("failed", 0)):
        assert openmetrics.value(m, "pipelined_datums_ended", state=state) == n, state
        assert openmetrics.value(m, "pipelined_stage_datums_ended", project="default", stage="s", state=state) == n, state
    seconds = {use: openmetrics.value(m, "pipelined_gpu_seconds", use=use) for use in ("held", "computing", "lost")}
    expected = {"held": gpu["held_ms"], "computing": gpu["held_ms"] - gpu["waiting_ms"] - gpu["lost_ms"], "lost": gpu["lost_ms"]}
    assert seconds == {use: pytest.approx(ms / 1000) for use, ms in expected.items()} and gpu["lost_ms"] > 0
    assert openmetrics.value(m, "pipelined_stage_gpu_seconds", project="default", stage="s") == pytest.approx(gpu["held_ms"] / 1000)


def test_no_label_is_of_a_datum_a_run_or_a_user(daemon):
    p = daemon.default.repo("in")
    p.stages(sh("s", "true"))
    p.run("in", {"a": b"1"})
    for family in metrics_of(daemon).values():
        for labels in family.samples:
            assert {n for n, _ in labels} <= {"version", "executor", "state", "phase", "direction", "use", "project", "stage", "method", "operation",
                                              "result", "kind"}, family.name


def test_the_role_metrics_reads_it_and_nothing_else(daemon):
    d = daemon
    watcher, reader, one, none = User(d, "prometheus", ("", "metrics")), User(d, "bob", ("", "reader")), User(d, "eve", ("default", "admin")), User(d, "ann")
    assert [text_of(d, u.token)[0] for u in (watcher, reader, one, none)] == [200, 200, 403, 403]
    for path in ("/status", "/repos", "/jobs", "/events", "/whoami", "/tokens", "/users", "/openapi.json"):
        assert watcher.status("GET", path) == 403, path
    for method, path, body in (("POST", "/repos", {"name": "x"}), ("POST", "/tokens", {}), ("POST", "/login-links", {})):
        assert watcher.status(method, path, body) == 403, path
    with pytest.raises(HttpError) as refused:
        watcher.get("/status")
    assert "only the role metrics" in refused.value.error["message"]
    assert text_of(d, token="0" * 64)[0] == 401
    for body, field in (({"roles": [{"scope": "default", "role": "metrics"}]}, "scope"),):
        with pytest.raises(HttpError) as refused:
            d.http("PATCH", "/api/v1/users/ann", body)
        assert (refused.value.status, refused.value.error["field"]) == (400, field)
    with pytest.raises(HttpError) as refused:
        d.post("/tokens", {"user": "bob", "role": "metrics"})
    assert (refused.value.status, refused.value.error["field"]) == (400, "role")


def test_the_role_survives_a_restart_and_a_recovery(make_daemon, tmp_path):
    """The role is a word in what the log holds of a user: no new record and no new column."""
    store = tmp_path / "store"
    store.mkdir()
    d = make_daemon("--store", f"file://{store}").start()
    token = User(d, "prometheus", ("", "metrics")).token
    assert d.stop() == 0
    d.start()
    assert text_of(d, token)[0] == 200
    assert d.stop() == 0
    anew = make_daemon("--store", f"file://{store}", name="anew").start()
    assert text_of(anew, token)[0] == 200
    assert anew.stop() == 0


def test_a_client_that_knows_only_the_older_format_gets_it(daemon):
    status, kind, body = text_of(daemon, accept="text/plain;version=0.0.4")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "# EOF" not in body and "# TYPE pipelined_jobs_ended_total counter\n" in body


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed (Debian package prometheus)")
def test_promtool_has_nothing_to_say(daemon):
    body = text_of(daemon, accept="text/plain")[2]
    checked = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True, text=True, timeout=60, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    rules = subprocess.run(["promtool", "check", "rules", os.path.join(DEPLOY, "alerts.yaml")], capture_output=True, text=True, timeout=60, check=False)
    assert rules.returncode == 0, rules.stdout + rules.stderr


def test_a_thousand_stages_stay_small_and_quick(daemon, gate):
    """1,000 stages with a job each that waits: 50 of them have labels, the rest share one."""
    d, p, n = daemon, daemon.default.repo("in"), 1000
    p.push("in", "a", b"1")
    d.pipeline({"pipeline": "many", "stages": [sh(f"stage-with-a-rather-long-name-to-fill-the-text-{i:03}", gate.wait) for i in range(n)]})
    jobs = lambda m: sum(m["pipelined_jobs"].samples.values())
    wait_until(lambda: jobs(metrics_of(d)) == n, "their jobs wait")
    body = text_of(d)[2]
    families = openmetrics.read(body)
    assert len(families["pipelined_stage_jobs"].samples) == 51
    assert openmetrics.value(families, "pipelined_stage_jobs", project="", stage="other") == n - 50
    assert sum(families["pipelined_stage_jobs"].samples.values()) == n
    assert len(body) <= 200_000
    took = []
    for _ in range(21):
        began = time.monotonic()
        text_of(d)
        took.append(time.monotonic() - began)
    print(f"/metrics with 1,000 stages: {len(body)} bytes, median {sorted(took)[10] * 1000:.1f} ms")
    assert sorted(took)[10] < 5, "far above what it takes: only a search that grows with the square would"
    gate.leave_open()


# --- the files beside the program


def table_of_the_page():
    with open(os.path.join(TOP, "docs", "metrics.md"), encoding="utf-8") as f:
        return re.findall(r"^\| `(pipelined_\w+)` \| (\w+) \| (.*?) \| (.*) \|$", f.read(), re.M)


def test_the_page_has_every_metric(daemon):
    families = metrics_of(daemon).values()
    rows = {name: (kind, meaning) for name, kind, _, meaning in table_of_the_page()}
    assert rows == {f.name + openmetrics.SUFFIX[f.type]: (f.type, f.help) for f in families}
    labels = {name: said.strip("`").split() for name, _, said, _ in table_of_the_page()}
    for f in families:
        for key in f.samples:
            assert [n for n, _ in key] == labels[f.name + openmetrics.SUFFIX[f.type]]


def test_alerts_and_dashboard_name_metrics_that_exist():
    known = {name for name, *_ in table_of_the_page()}
    with open(os.path.join(DEPLOY, "alerts.yaml"), encoding="utf-8") as f:
        rules = f.read()
    with open(os.path.join(DEPLOY, "dashboard.json"), encoding="utf-8") as f:
        board = json.load(f)
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    assert len(asked) >= 10 and rules.count("alert:") >= 8
    for text in [rules, *asked]:
        used = set(re.findall(r"\bpipelined_\w+", text))
        assert used <= known, used - known
    assert all(re.search(r"\bpipelined_", text) for text in asked)
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
