"""A daemon that speaks only the workers' side of the API: it hands out the tasks that a test gives it and keeps what comes back."""

import base64
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BIN = pathlib.Path(os.environ.get("PL_BIN", "build/asan/bin")).resolve()
DATUM = hashlib.sha256(b"datum").hexdigest()
KEY = "01" * 32
EMPTY_ROOT = "00" * 32


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, status, body, content_type="application/json"):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_any(self):
        url = urllib.parse.urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if self.headers.get("Authorization") != "Bearer secret":
            return self.answer(401, {"error": {"code": "unauthorized", "message": "no"}})
        query = {k: v[0] for k, v in urllib.parse.parse_qs(url.query).items()}
        return self.server.daemon.serve(self, url.path, query, body)

    do_GET = do_POST = do_PUT = handle_any


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A worker that was killed leaves a broken connection: no news."""


class FakeDaemon:
    def __init__(self, stage=None, **attach):
        self.stage = {"name": "st", "run": ["sh", "-c", "true"], "env": {}, **(stage or {})}
        self.attach_reply = {"protocol": 1, "lease_ms": 3000, "renew_ms": 100, "project": "default", "pipeline": "pipe", **attach}
        self.changed = threading.Condition()
        self.tasks = []  # waiting to be handed out
        self.leased = {}  # id → fence, not yet answered
        self.open = {}  # id → its rows that have not ended
        self.results = []  # RESULT, as they came
        self.attaches, self.nexts, self.renews = [], [], []
        self.came = []  # words of requests that were held back
        self.logs = {}  # (datum, attempt) → bytes
        self.log_fences = set()  # that came with them
        self.metric_lines, self.metric_requests = [], []  # all, and how many each request had
        self.checkpoints = []
        self.sessions = 0
        self.packs = {}
        self.asked, self.has_all = [], False  # `have`: the questions; whether all is said to be there
        self.renew_reply = {}  # of every renewal
        self.lost = []  # of one renewal, which it ends
        self.held_back = set()  # last words of paths: such a request gets no answer while its word is here
        self.refuse = {}  # path's last word (hand_in: a next with results) → (status, code), once, or a list of those
        self.ending = False
        self.known = set()
        self.server = None
        self.port = 0
        self.up()

    # --- life ---
    def up(self, port=None):
        self.server = Server(("127.0.0.1", self.port if port is None else port), Handler)
        self.server.daemon = self
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        with self.changed:
            self.changed.notify_all()

    def down(self):
        self.server.shutdown()
        self.server.server_close()
        with self.changed:
            self.changed.notify_all()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    # --- what a test does ---
    def give(self, task_id, rows, fence=1, run="ab" * 16):
        with self.changed:
            self.tasks.append({"id": task_id, "fence": fence, "job": "job", "run": run, "rows": rows})
            self.changed.notify_all()

    def take_back(self, task, fence=1):
        """The lease of a task: the worker's open renewal says so, or the next one."""
        with self.changed:
            self.lost.append({"task": task, "fence": fence})
            self.changed.notify_all()

    def hold_back(self, *words):
        with self.changed:
            self.held_back = set(words)
            self.changed.notify_all()

    def end(self):
        with self.changed:
            self.ending = True
            self.changed.notify_all()

    def wait(self, condition, seconds=60):
        with self.changed:
            if not self.changed.wait_for(condition, seconds):
                raise TimeoutError(f"results {self.results} logs {self.logs}")

    def result(self, n=1):
        """The nth RESULT, when it has come."""
        self.wait(lambda: len(self.results) >= n)
        return self.results[n - 1]

    def holds(self, *tasks):
        """When the worker's newest renewal names just these tasks: an answer that is on its way is held by nobody."""
        self.wait(lambda: self.renews and {held["task"] for held in self.renews[-1]["tasks"]} == set(tasks))

    # --- routes ---
    def serve(self, http, path, query, body):
        word = "pack" if "/packs/" in path else path.rsplit("/", 1)[-1]
        if word == "next" and json.loads(body)["results"]:
            word = "hand_in"
        with self.changed:
            if word in self.held_back:
                self.came.append(word)
                self.changed.notify_all()
                self.changed.wait_for(lambda: word not in self.held_back or self.server is not http.server)
            if word in self.refuse:
                refusals = self.refuse.pop(word)
                (status, code), *more = refusals if isinstance(refusals, list) else [refusals]
                if more:
                    self.refuse[word] = more
                return http.answer(status, {"error": {"code": code, "message": "refused by the test"}})
        if path.startswith("/api/v1/worker/"):
            return getattr(self, "next" if word == "hand_in" else word)(http, query, body)
        if path == "/api/v1/status":
            return http.answer(200, {"version": "0", "store": "s3://elsewhere", "store_dir": None})
        if path == "/api/v1/sessions":
            with self.changed:
                self.sessions += 1
                return http.answer(200, {"session": f"s{self.sessions}", "nonce": "00" * 16})
        if path.endswith("/have"):
            with self.changed:
                self.asked.append(body)
            return http.answer(200, (b"\xff" if self.has_all else b"\0") * (len(body) // 32), "application/octet-stream")
        if "/packs/" in path:
            with self.changed:
                self.packs[path] = body
                self.changed.notify_all()
            return http.answer(201, {})
        return http.answer(404, {"error": {"code": "not_found", "message": path}})

    def attach(self, http, _query, body):
        body = json.loads(body)
        with self.changed:
            self.attaches.append(body)  # whoever asked before does not any more
            self.known.add(body["worker"])
            self.changed.notify_all()
        return http.answer(200, {**self.attach_reply, "stage": self.stage})

    def next(self, http, _query, body):
        body = json.loads(body)
        server = self.server
        with self.changed:
            if body["worker"] not in self.known:
                return http.answer(404, {"error": {"code": "not_found", "message": "unknown worker"}})
            self.nexts.append(body)
            for result in body["results"]:
                if result["task"] not in self.leased:
                    continue
                self.results.append(result)
                left = self.open[result["task"]]
                left -= {row["index"] for row in result["rows"]} | set(result["gave_back"])
                if not left:
                    del self.leased[result["task"]]
            self.changed.notify_all()
            if body["wait_ms"] == 0:  # results only
                return http.answer(200, {"end" if body.get("leaving") else "idle": True})
            attached = len(self.attaches)
            over = lambda: self.server is not server or len(self.attaches) > attached
            self.changed.wait_for(lambda: self.tasks or self.ending or over(), body["wait_ms"] / 1000)
            if self.ending and not self.tasks:
                return http.answer(200, {"end": True})
            if not self.tasks or over():
                return http.answer(200, {"idle": True})
            task = self.tasks.pop(0)
            self.leased[task["id"]] = task["fence"]
            self.open[task["id"]] = {row["index"] for row in task["rows"]}
            self.changed.notify_all()
        return http.answer(200, {"task": task})

    def renew(self, http, _query, body):
        body = json.loads(body)
        with self.changed:
            if body["worker"] not in self.known:
                return http.answer(404, {"error": {"code": "not_found", "message": "unknown worker"}})
            self.renews.append(body)
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.lost or self.renew_reply or self.server is not http.server, body["wait_ms"] / 1000)
            if self.server is not http.server:  # it died with the renewal
                http.close_connection = True
                return None
            lost, self.lost = self.lost, []
            return http.answer(200, {"lost": lost, "stop": False, "abandon": [], **self.renew_reply})

    def log(self, http, query, body):
        with self.changed:
            self.log_fences.add(query["fence"])
            key = (query["datum"], int(query["attempt"]))
            have = self.logs.setdefault(key, bytearray())
            repeated = len(have) - int(query["offset"])  # of a request whose answer the worker did not wait for
            assert 0 <= repeated <= len(body) and have[len(have) - repeated:] == body[:repeated], "output arrives in order, without gaps"
            have += body[repeated:]
            self.changed.notify_all()
        return http.answer(200, {})

    def checkpoint(self, http, _query, body):
        with self.changed:
            self.checkpoints.append(json.loads(body))
            self.changed.notify_all()
        return http.answer(200, {})

    def metrics(self, http, _query, body):
        body = json.loads(body)
        lines = body["lines"]
        with self.changed:
            assert body["first"] == len(self.metric_lines), "lines arrive in order, each with its number"
            self.metric_lines += lines
            self.metric_requests.append(len(lines))
            self.changed.notify_all()
        return http.answer(200, {})


def row(index=0, datum=DATUM, attempt=1, timeout_ms=0, inputs=()):
    return {"index": index, "datum": datum, "key": KEY, "attempt": attempt, "timeout_ms": timeout_ms, "inputs": list(inputs)}


class Worker:
    """A pipelined-worker process."""

    def __init__(self, daemon, tmp, *options, sandbox="none", env=None):
        self.work = tmp / "work"
        self.errors = open(tmp / "stderr", "ab+")
        environment = {**os.environ, "PIPELINED_WORKER_TOKEN": "secret", **(env or {})}
        arguments = ["--url", daemon.url, "--worker", "w1", "--incarnation", "1", "--work", self.work, "--cache", tmp / "cache"]
        self.process = subprocess.Popen([BIN / "pipelined-worker", *arguments, "--sandbox", sandbox, *options], env=environment,
                                        stderr=self.errors, stdin=subprocess.DEVNULL)

    def said(self):
        self.errors.seek(0)
        return self.errors.read().decode()

    def end(self, seconds=20):
        """Waits for its end: the exit code."""
        return self.process.wait(seconds)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.errors.close()


def eventually(condition, seconds=20):
    """Until what no event tells of is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def decode_ops(result_row, ids=False):
    """The inline output of a row: path → (kind, inline bytes, or None, or with `ids` what the content's id is in hex)."""
    data = base64.b64decode(result_row["output"]["ops"])
    assert data[:5] == b"PLOP\x01"
    at, entries = 5, {}

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while data[at] != 0:
        assert data[at] == 1
        at += 1
        n = varint()
        path = data[at : at + n].decode()
        at += n
        kind, content = data[at], data[at + 1]
        at += 2
        size = varint()
        if content == 1:
            entries[path] = (kind, data[at : at + size])
            at += size
        elif content in (2, 3):
            entries[path] = (kind, data[at : at + 32].hex() if ids else None)
            at += 32
        else:
            entries[path] = (kind, b"")
    return entries


def processes_with(text):
    """Ids of processes whose command line holds `text`."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if text.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
    return found
