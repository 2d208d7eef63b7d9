"""Notifications: events of the daemon that are sent to receivers on loopback."""

import contextlib
import hashlib
import hmac
import http.server
import json
import os
import re
import sqlite3
import ssl
import subprocess
import threading
import urllib.parse

import pytest
from by_path import load
from conftest import TOP, HttpError, sh, wait_until
from people import User

servers = load("s3_servers", "s3/servers.py")

NOT_FOUND = 3
HERE = ["--outbound-schemes", "http,https", "--outbound-networks", "127.0.0.0/8"]


class Receiver:
    """An HTTP server on loopback that keeps what it gets, and replies as it is told."""

    def __init__(self, port=0):
        self.got = []        # (path, headers, body), in order of arrival
        self.replies = []    # what to reply to the next requests: a status, or (status, headers)
        self.always = 200    # and to those after them
        self.hold = None     # an Event: no reply before it is set
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((self.path, dict(self.headers), body))
                if receiver.hold:
                    receiver.hold.wait(60)
                reply = receiver.replies.pop(0) if receiver.replies else receiver.always
                status, headers = reply if isinstance(reply, tuple) else (reply, {})
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    for name, value in {"Content-Length": "0", **headers}.items():
                        self.send_header(name, value)
                    self.end_headers()

            do_GET = do_POST

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def close(self):
        if self.hold:
            self.hold.set()
        self.server.shutdown()
        self.server.server_close()

    def bodies(self):
        return [json.loads(body) for _, _, body in list(self.got)]

    def wait(self, n, what="deliveries", timeout=60):
        wait_until(lambda: len(self.got) >= n, lambda: f"{n} {what}: {len(self.got)}, the last {[b for _, _, b in self.got[-20:]]}", timeout)
        return self.bodies()


@pytest.fixture
def receiver():
    one = Receiver()
    yield one
    one.close()


@pytest.fixture
def daemon(make_daemon):
    return make_daemon(*HERE).start()


def notify(daemon, receiver, name="n", on="repo", *options):
    return daemon.ctl("create", "notify", name, "--on", on, "--url", getattr(receiver, "url", receiver), *options)


def rule(daemon, name="n"):
    return daemon.get(f"/notifications/{name}")


def settled(daemon, name="n"):
    """Waits until nothing waits; the rule."""
    wait_until(lambda: rule(daemon, name)["waiting"] == 0, lambda: f"the end of deliveries: {rule(daemon, name)}")
    return rule(daemon, name)


@contextlib.contextmanager
def database(daemon):
    """The database of a daemon that does not run."""
    with contextlib.closing(sqlite3.connect(os.path.join(daemon.dir, "pipelined.db"))) as db:
        with db:
            yield db


def repos(bodies):
    return [b["data"]["repo"] for b in bodies]


# --- what arrives

def test_an_event_arrives_with_its_name_a_stable_id_and_a_signature(daemon, receiver):
    daemon.ctl("create", "secret", "sig", "--value", "hook=open sesame")
    daemon.default.repo("before")
    notify(daemon, receiver, "n", "repo.created,commit", "--secret", "sig")
    daemon.default.repo("in")
    daemon.push("in", "a", b"1")
    created, commit = receiver.wait(2)
    assert (created["event"], created["data"]["repo"], created["project"], created["notify"]) == ("repo.created", "in", "default", "n")
    assert (commit["event"], commit["data"]["files"]) == ("commit.finished", 1) and commit["id"] > created["id"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", commit["at"])
    for body, (path, headers, raw) in zip((created, commit), receiver.got):
        assert path == "/hook" and headers["X-Pipelined-Event"] == body["event"]
        assert headers["X-Pipelined-Delivery"] == body["delivery"] and body["delivery"].endswith(f"-n-{body['id']}")
        assert headers["X-Pipelined-Signature"] == "sha256=" + hmac.new(b"open sesame", raw, hashlib.sha256).hexdigest()
        assert headers["Content-Type"] == "application/json"
    shown = settled(daemon)
    assert (shown["state"], shown["sent"], shown["sent_event"], shown["error"], shown["given_up"]) == ("ok", 2, "commit.finished", "", 0)
    text = daemon.ctl("inspect", "notify", "n").out
    assert "commit.finished" in text and receiver.url in text
    assert "open sesame" not in daemon.log() and hashlib.sha256(b"open sesame").hexdigest() not in daemon.log()


def test_a_rule_gets_events_of_its_project_and_repo_only(daemon, receiver):
    other = daemon.project("other")
    for project in (daemon.default, other):
        project.repo("in", "more")
        project.stages(sh("copy", "cat $in/* >$PL_OUT/all"))
    notify(daemon, receiver, "jobs", "job.success,job.failure", "--repo", "copy", "--project", "other")
    notify(daemon, receiver, "runs", "run.success", "--project", "other")
    notify(daemon, receiver, "commits", "commit.finished", "--project", "other", "--repo", "in")
    daemon.default.run("in", {"a": b"1"})
    run = other.run("in", {"a": b"1"})["id"]
    bodies = {b["notify"]: b for b in receiver.wait(3)}
    assert bodies["jobs"]["data"]["run"] == bodies["runs"]["data"]["id"] == bodies["commits"]["data"]["commit"] == run
    daemon.default.run("in", {"b": b"1"})
    last = other.run("in", {"b": b"1"})["id"]
    receiver.wait(6)
    for name in bodies:
        settled(daemon, name)
    assert len(receiver.got) == 6 and {b["data"].get("run", b["data"].get("id", b["data"].get("commit"))) for b in receiver.bodies()} == {run, last}


def test_a_run_that_was_asked_for_is_told_when_it_begins_and_when_it_ends(daemon, receiver):
    daemon.default.repo("in")
    daemon.default.stages(sh("copy", "cat $in/* >$PL_OUT/all"))
    daemon.default.run("in", {"a": b"1"})
    notify(daemon, receiver, "n", "run.running,run.success")
    runs = [daemon.wait(daemon.post("/pipelines/default/p/run", {"force": True})["run"])["id"] for _ in range(3)]
    bodies = receiver.wait(6)
    assert [(b["event"], b["data"]["id"]) for b in bodies] == [(event, run) for run in runs for event in ("run.running", "run.success")]
    assert settled(daemon)["sent"] == 6


def test_people_get_sentences(daemon, receiver):
    notify(daemon, receiver, "chat", "job.failure", "--format", "slack")
    daemon.default.repo("in")
    daemon.default.stages(sh("train", "echo lost & exit 3"))
    daemon.default.run("in", {"a": b"1"}, state="failure")
    text = receiver.wait(1)[0]
    assert list(text) == ["text"] and re.match(r"job of stage train of run [0-9a-f]{8} in project default: failure: ", text["text"])


def test_commits_arrive_in_the_form_of_s3(daemon, receiver):
    vision = daemon.project("vision")
    vision.repo("images")
    notify(daemon, receiver, "files", "commit", "--format", "s3", "--project", "vision")
    assert daemon.ctl("test", "notify", "files").code == 0 and receiver.bodies()[0]["Event"] == "s3:TestEvent"
    del receiver.got[:]
    vision.commit("images", {"a b/ä.png": b"12345", "c": b"1"})
    vision.commit("images", {"c": b"22", "d": b"3"}, deletes=["a b/ä.png"])
    first, second = (body["Records"] for body in receiver.wait(2))
    def short(record):
        return record["eventName"], urllib.parse.unquote_plus(record["s3"]["object"]["key"]), record["s3"]["object"].get("size")
    assert [short(r) for r in first] == [("ObjectCreated:Put", "a b/ä.png", 5), ("ObjectCreated:Put", "c", 1)]
    assert [short(r) for r in second] == [("ObjectRemoved:Delete", "a b/ä.png", None), ("ObjectCreated:Put", "c", 2), ("ObjectCreated:Put", "d", 1)]
    record = first[0]
    assert record["s3"]["bucket"]["name"] == "master.images.vision" and record["eventSource"] == "aws:s3" and record["eventVersion"] == "2.1"
    assert second[0]["s3"]["object"]["sequencer"] > record["s3"]["object"]["sequencer"]


def test_a_large_commit_arrives_in_parts_that_go_on_after_a_restart(daemon, receiver):
    daemon.default.repo("in")
    notify(daemon, receiver, "files", "commit", "--format", "s3")
    receiver.replies = [200]
    receiver.always = 500
    daemon.default.commit("in", {f"{i:05}": b"x" for i in range(2500)})
    receiver.wait(2)
    daemon.stop()
    receiver.always = 200
    del receiver.got[1:]
    daemon.start()
    parts = [body["Records"] for body in receiver.wait(3)]
    assert [len(p) for p in parts] == [1000, 1000, 500]
    assert [r["s3"]["object"]["key"] for p in parts for r in p] == [f"{i:05}" for i in range(2500)]
    assert len({headers["X-Pipelined-Delivery"] for _, headers, _ in receiver.got}) == 3
    assert settled(daemon, "files")["sent"] == 1


# --- receivers that fail

def test_events_wait_in_order_while_the_receiver_fails(daemon, receiver):
    receiver.replies, receiver.always = [500, 404], 500
    notify(daemon, receiver)
    names = [f"r{i}" for i in range(5)]
    daemon.default.repo(*names)
    shown = wait_until(lambda: rule(daemon)["state"] == "failing" and rule(daemon), "a failure")
    assert re.search(r"status (500|404)", shown["error"]) and shown["waiting"] == 5 and shown["failures"] > 0
    assert "failing" in daemon.ctl("list", "notify").out
    receiver.always = 200
    shown = settled(daemon)
    bodies = receiver.bodies()
    tries = len(bodies) - 4
    assert tries >= 3 and repos(bodies) == ["r0"] * tries + names[1:] and len({body["delivery"] for body in bodies[:tries]}) == 1
    assert (shown["state"], shown["sent"], shown["given_up"]) == ("ok", 5, 0)


def test_a_receiver_that_hangs_holds_up_nobody_else(daemon, receiver):
    receiver.hold = threading.Event()
    quick = Receiver()
    for i in range(20):
        notify(daemon, receiver, f"slow{i:02}")
    notify(daemon, quick, "z-quick")
    daemon.default.repo("a", "b", "c")
    assert repos(quick.wait(3)) == ["a", "b", "c"]
    receiver.wait(20)
    hanging = daemon.ctl("test", "notify", "slow00", ok=False)
    assert hanging.code != 0 and "no reply within 10 s" in hanging.err
    wait_until(lambda: "no reply within 10 s" in rule(daemon, "slow00")["error"], "the time limit")
    daemon.default.repo("d")
    assert repos(quick.wait(4))[-1] == "d"
    quick.close()
    assert daemon.stop() == 0  # also while requests hang


def test_a_redirect_is_not_followed(daemon, receiver):
    for target in (receiver.url + "/other", "http://169.254.169.254/latest/meta-data/", "file:///etc/passwd"):
        receiver.replies.append((302, {"Location": target}))
    notify(daemon, receiver)
    for _ in range(3):
        refused = daemon.ctl("test", "notify", "n", ok=False)
        assert refused.code != 0 and "status 302: redirects are not followed" in refused.err
    assert [path for path, _, _ in receiver.got] == ["/hook"] * 3
    assert "status 200" in daemon.ctl("test", "notify", "n").out


def test_a_reply_without_end_is_cut(daemon):
    class Endless(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(b"x" * 65536)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    notify(daemon, f"http://127.0.0.1:{server.server_address[1]}/")
    assert daemon.get("/notifications")["notifications"][0]["state"] == "ok"
    said = daemon.ctl("test", "notify", "n", "--json").json
    assert said["error"] == "" and said["ms"] < 9000
    server.shutdown()
    server.server_close()


# --- where it may go

def test_private_addresses_are_refused_unless_they_are_allowed(make_daemon, receiver):
    daemon = make_daemon("--outbound-schemes", "http,https").start()
    for url in (receiver.url, f"http://localhost:{receiver.port}/hook", f"http://[::ffff:127.0.0.1]:{receiver.port}/", "http://169.254.169.254/"):
        daemon.ctl("create", "notify", "n", "--on", "repo", "--url", url)
        refused = daemon.ctl("test", "notify", "n", ok=False)
        assert refused.code != 0 and "outbound.networks" in refused.err, refused.err
        daemon.ctl("delete", "notify", "n")
    notify(daemon, receiver)
    daemon.default.repo("in")
    wait_until(lambda: "outbound.networks" in rule(daemon)["error"], "the refusal")
    daemon.stop()
    assert not receiver.got
    daemon.options += HERE[2:]
    daemon.start()
    assert repos(receiver.wait(1)) == ["in"]


def test_schemes_and_hosts_are_checked_when_a_rule_is_made_and_when_it_sends(make_daemon, receiver):
    daemon = make_daemon(*HERE).start()
    notify(daemon, receiver)
    daemon.stop()
    daemon.options = daemon.options[:-4] + ["--outbound-hosts", "*.example.org"]
    daemon.start()
    for url, word in ((receiver.url, "outbound.schemes"), ("https://example.com/", "outbound.hosts"), ("ssh://a.example.org/", "http"), ("https://u@a.example.org/", "user name")):
        refused = daemon.ctl("create", "notify", "m", "--on", "repo", "--url", url, ok=False)
        assert refused.code != 0 and word in refused.err, (url, refused.err)
    daemon.default.repo("in")
    wait_until(lambda: "outbound.schemes" in rule(daemon)["error"], "the refusal")
    assert not receiver.got


def test_certificates_are_verified(make_daemon, receiver, tmp_path):
    key, crt = tmp_path / "key.pem", tmp_path / "crt.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", crt, "-subj", "/CN=receiver", "-days", "30",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(crt, key)
    receiver.server.socket = context.wrap_socket(receiver.server.socket, server_side=True)
    daemon = make_daemon("--outbound-networks", "127.0.0.0/8").start()
    notify(daemon, receiver.url.replace("http:", "https:"))
    refused = daemon.ctl("test", "notify", "n", ok=False)
    assert refused.code != 0 and "certificate" in refused.err and not receiver.got
    daemon.stop()
    daemon.options += ["--outbound-ca", str(crt)]
    daemon.start()
    assert "status 200" in daemon.ctl("test", "notify", "n").out
    daemon.ctl("update", "notify", "n", "--url", f"https://localhost:{receiver.port}/")  # a name that the certificate does not have
    assert daemon.ctl("test", "notify", "n", ok=False).code != 0 and len(receiver.got) == 1


# --- nothing is lost

def test_an_event_whose_delivery_was_not_noted_is_sent_again(daemon, receiver):
    notify(daemon, receiver)
    receiver.hold = threading.Event()
    daemon.default.repo("a", "b")
    receiver.wait(1)
    daemon.kill()  # it was sent, and its reply never came
    receiver.hold.set()
    receiver.hold = None
    daemon.start()
    bodies = receiver.wait(3)
    assert repos(bodies) == ["a", "a", "b"] and bodies[0]["delivery"] == bodies[1]["delivery"]
    assert settled(daemon)["sent"] == 2


def test_ten_thousand_events_wait_in_the_database_not_in_memory(daemon):
    port = servers.free_port()
    notify(daemon, f"http://127.0.0.1:{port}/hook")
    daemon.stop()
    n = 10000
    with database(daemon) as db:
        at = db.execute("SELECT max(at_us) FROM event").fetchone()[0]
        db.executemany("INSERT INTO event(at_us, type, data) VALUES (?, 'repo', ?)",
                       [(at, json.dumps({"project": "default", "repo": f"r{i}", "change": "updated", "pad": "x" * 1000})) for i in range(n)])
    daemon.start()
    wait_until(lambda: rule(daemon)["failures"] > 1, "failures")
    assert rule(daemon)["waiting"] == n
    with open(f"/proc/{daemon.process.pid}/status", encoding="utf-8") as f:
        before = int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])
    receiver = Receiver(port)
    receiver.wait(n, timeout=300)
    assert repos(receiver.bodies()) == [f"r{i}" for i in range(n)]
    assert settled(daemon)["sent"] == n
    with open(f"/proc/{daemon.process.pid}/status", encoding="utf-8") as f:
        after = int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])
    assert after - before < 64 << 10, (before, after)  # KiB; the sanitizer keeps what was freed
    receiver.close()


def age(daemon, seconds):
    with database(daemon) as db:
        db.execute("UPDATE event SET at_us = at_us - ?", [seconds * 1000000])


def test_events_are_given_up_after_a_day_and_the_next_delivery_says_so(daemon, receiver):
    receiver.always = 503
    notify(daemon, receiver)
    daemon.default.repo("a", "b", "c")
    receiver.wait(1)
    daemon.stop()
    age(daemon, 25 * 3600)
    daemon.start()
    wait_until(lambda: rule(daemon)["given_up"] >= 1, "the end of patience")
    daemon.default.repo("d")
    shown = wait_until(lambda: rule(daemon)["given_up"] == 3 and rule(daemon), lambda: rule(daemon))
    assert shown["waiting"] == 1 and "given up" in daemon.ctl("inspect", "notify", "n").out
    receiver.always = 200
    wait_until(lambda: rule(daemon)["sent"] == 1, "the delivery")
    last = receiver.bodies()[-1]
    assert last["data"]["repo"] == "d" and last["missed"] == "3 events, which could not be delivered for a day"
    daemon.default.repo("e")
    wait_until(lambda: rule(daemon)["sent"] == 2, "the next delivery")
    assert "missed" not in receiver.bodies()[-1]


def test_events_that_are_no_longer_kept_are_told_of(daemon, receiver):
    receiver.always = 503
    notify(daemon, receiver)
    daemon.default.repo("a", "b", "c")
    receiver.wait(1)
    daemon.stop()
    with database(daemon) as db:
        db.execute("DELETE FROM event WHERE id < (SELECT max(id) FROM event)")
    receiver.always = 200
    del receiver.got[:]
    daemon.start()
    body = receiver.wait(1)[0]
    assert body["data"]["repo"] == "c" and re.fullmatch(r"up to \d+ older events, which the daemon no longer keeps", body["missed"])


def test_a_secret_that_is_missing_is_an_error_until_it_is_there(daemon, receiver):
    notify(daemon, receiver, "n", "repo", "--secret", "sig")
    daemon.default.repo("a")
    wait_until(lambda: "sig" in rule(daemon)["error"], "the error")
    assert not receiver.got
    daemon.ctl("create", "secret", "sig", "--value", "other=1")
    assert 'secret "sig" has no key "hook"' in daemon.ctl("test", "notify", "n", ok=False).err
    daemon.ctl("update", "secret", "sig", "--value", "hook=k")
    daemon.ctl("update", "notify", "n", "--on", "repo")
    assert repos(receiver.wait(1)) == ["a"]


# --- rules

def test_wrong_names_are_answered_with_the_right_ones(daemon, receiver):
    for on, words in (("jobs", ["job", "store.low", "run"]), ("job.failed", ["job.failure", "job.success"]), ("commit,source.broken", ["source.invalid"]), ("", ["job"])):
        refused = daemon.ctl("create", "notify", "n", "--on", on, "--url", receiver.url, ok=False)
        assert refused.code != 0 and all(w in refused.err for w in words), refused.err
    for options, word in ((["--repo", "in", "--on", "run"], "repo"), (["--format", "s3", "--on", "job"], "format"), (["--format", "xml", "--on", "job"], "format")):
        refused = daemon.ctl("create", "notify", "n", "--url", receiver.url, *options, ok=False)
        assert refused.code != 0 and word in refused.err
    assert daemon.ctl("create", "notify", "n", "--on", "job", ok=False).code == 2
    assert daemon.get("/notifications")["notifications"] == []


def test_every_type_that_the_daemon_writes_can_be_asked_for(daemon, receiver):
    written = set()
    for folder, _, files in os.walk(os.path.join(TOP, "pipelined")):
        for name in files:
            if name.endswith(".c"):
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    written |= set(re.findall(r'pl_tx_event\(tx, "([a-z._]+)"', f.read()))
    assert {"job", "run", "commit", "store.low"} <= written
    written -= {"gpu", "progress"}  # up to twice a second, for a page that is open
    notify(daemon, receiver, "all", ",".join(sorted(written | {"recovered"})))
    assert set(rule(daemon, "all")["on"]) == written | {"recovered"}


def test_rules_are_changed_listed_and_deleted(daemon, receiver):
    notify(daemon, receiver, "n", "repo")
    assert "exists already" in daemon.ctl("create", "notify", "n", "--on", "repo", "--url", receiver.url, ok=False).err
    daemon.ctl("update", "notify", "n", "--on", "commit", "--repo", "in")
    daemon.default.repo("in")
    daemon.push("in", "a", b"1")
    assert [b["event"] for b in receiver.wait(1)] == ["commit.finished"]
    assert (rule(daemon)["on"], rule(daemon)["repo"], rule(daemon)["format"]) == (["commit"], "in", "json")
    daemon.ctl("update", "notify", "n", "--repo", "")
    assert rule(daemon)["repo"] == ""
    receiver.always = 500
    daemon.push("in", "b", b"1")
    receiver.wait(2)
    daemon.ctl("delete", "notify", "n")
    assert daemon.ctl("inspect", "notify", "n", ok=False).code == NOT_FOUND and daemon.ctl("list", "notify", "--json").json == {"notifications": []}
    receiver.always = 200
    notify(daemon, receiver, "n", "commit")  # begins anew: with what comes from now on
    assert (rule(daemon)["sent"], rule(daemon)["error"], rule(daemon)["waiting"]) == (0, "", 0)
    changes = [e["data"]["change"] for e in daemon.http("GET", "/api/v1/events?since=0", headers={"Accept": "application/json"})["events"] if e["type"] == "notify"]
    assert changes == ["created", "updated", "updated", "deleted", "created"]


def test_a_project_takes_its_rules_along(daemon, receiver):
    daemon.project("other")
    receiver.always = 500
    notify(daemon, receiver, "n", "repo", "--project", "other")
    daemon.post("/repos", {"project": "other", "name": "in"})
    receiver.wait(1)
    daemon.http("DELETE", "/api/v1/repos/other/in", raw=True)
    daemon.http("DELETE", "/api/v1/projects/other", raw=True)
    assert daemon.get("/notifications")["notifications"] == []
    assert daemon.stop() == 0
    daemon.start()
    assert daemon.get("/notifications")["notifications"] == []


def test_rules_survive_the_loss_of_the_machine(make_daemon, receiver, tmp_path):
    store = f"file://{tmp_path}/store"
    daemon = make_daemon(*HERE, "--store", store).start()
    notify(daemon, receiver, "n", "repo,recovered")
    daemon.default.repo("a")
    receiver.wait(1)
    settled(daemon)
    daemon.kill()
    again = make_daemon(*HERE, "--store", store, name="again")
    again.ctl("recover", "--store", store, "--data", again.dir)
    again.start()
    again.default.repo("b")
    bodies = receiver.wait(2)
    wait_until(lambda: "b" in [b["data"].get("repo") for b in receiver.bodies()], "events after the recovery")
    assert "recovered" in bodies[1].get("missed", "") and rule(again)["on"] == ["repo", "recovered"]


def test_rights_are_those_of_the_project(daemon, receiver):
    vision = daemon.project("vision")
    vision.repo("in")
    ada, bob, eve = User(daemon, "ada", ("vision", "writer")), User(daemon, "bob", ("vision", "reader")), User(daemon, "eve", ("default", "writer"))
    url = receiver.url + "?token=SECRET"
    ada.ctl("create", "notify", "n", "--on", "commit", "--url", url, "--project", "vision")
    wide = ada.ctl("create", "notify", "w", "--on", "store.low", "--url", url, "--project", "vision", ok=False)
    assert wide.returncode != 0 and "whole daemon" in wide.stderr
    assert "whole daemon" in ada.ctl("update", "notify", "n", "--on", "gc", ok=False).stderr
    assert ada.get("/notifications/n")["url"] == url
    assert bob.get("/notifications/n")["url"] == f"http://127.0.0.1:{receiver.port}/…" and "SECRET" not in bob.ctl("list", "notify").stdout
    for method, path, body in (("POST", "/notifications", {"name": "m", "project": "vision", "settings": {"on": ["job"], "url": url}}), ("DELETE", "/notifications/n", None),
                               ("PATCH", "/notifications/n", {"settings": {"url": url}}), ("POST", "/notifications/n/test", None)):
        assert bob.status(method, path, body) == 403
        assert eve.status(method, path, body) == (403 if path == "/notifications" else 404)
    assert eve.get("/notifications")["notifications"] == [] and eve.status("GET", "/notifications/n") == 404
    vision.push("in", "a", b"1")
    assert receiver.wait(1)[0]["event"] == "commit.finished"
    receiver.always = 500
    vision.push("in", "b", b"1")
    receiver.wait(2)
    wait_until(lambda: ada.get("/notifications/n")["state"] == "failing", "a failure")
    assert "SECRET" not in daemon.log()


def test_bodies_of_the_api_are_checked(daemon, receiver):
    good = {"name": "n", "settings": {"on": ["job"], "url": receiver.url}}
    for change in ({"settings": []}, {"settings": {}}, {"name": "a b"}, {"name": ""}, {"settings": {"on": ["job"], "url": receiver.url, "x": 1}},
                   {"settings": {"on": "job", "url": receiver.url}}, {"settings": {"on": ["job"] * 65, "url": receiver.url}}, {"project": "nowhere"}):
        with pytest.raises(HttpError) as refused:
            daemon.post("/notifications", {**good, **change})
        assert refused.value.status in (400, 404, 422), refused.value


def test_changes_of_one_rule_at_the_same_time_are_all_kept(daemon):
    """Each thread changes a field that no other changes: it finds what it set."""
    daemon.post("/notifications", {"name": "n", "settings": {"on": ["commit"], "url": "http://127.0.0.1:1/0", "repo": "r0"}})
    lost = []

    def change(field, values):
        for value in values:
            daemon.http("PATCH", "/api/v1/notifications/n", {"settings": {field: value}})
            found = daemon.get("/notifications/n")[field]
            if found != value:
                lost.append((field, value, found))

    threads = [threading.Thread(target=change, args=args) for args in (
        ("url", [f"http://127.0.0.1:1/{i}" for i in range(100)]), ("repo", [f"r{i}" for i in range(100)]), ("on", [["commit"], ["commit.finished"]] * 50))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not lost
