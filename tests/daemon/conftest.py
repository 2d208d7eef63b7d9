"""Fixtures that own a daemon: its folder, its port, its end. A test that leaves sanitizer output, a process or a folder behind fails."""

import contextlib
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib

import pytest

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and programs inherit that

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("PL_BIN", os.path.join(TOP, "build", "asan", "bin"))
TEST_BIN = os.environ.get("PL_TEST_BIN", BIN)  # programs that belong to the tests
SANITIZER = re.compile(r"ERROR: (Address|Leak|Thread|Undefined)\w*|runtime error:|WARNING: ThreadSanitizer")


def wait_until(check, what, timeout=60.0):
    """Calls check() until it gives something true; the pause is short, the timeout only ends a hang."""
    deadline = time.monotonic() + timeout
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"waited {timeout:.0f} s for: {what() if callable(what) else what}")
        time.sleep(0.01)


class HttpError(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status}: {body[:300]!r}")
        self.status = status
        self.body = body
        try:
            self.error = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError):
            self.error = {"code": "", "message": ""}


class Result:
    """What a run of pipelinectl gave."""

    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout.decode("utf-8", "replace")
        self.err = process.stderr.decode("utf-8", "replace")

    @property
    def json(self):
        return json.loads(self.out)


class Daemon:
    def __init__(self, root, *options):
        self.root = str(root)
        self.dir = os.path.join(self.root, "data")
        self.options = list(options)
        self.before = []  # a command that starts the daemon: its words
        self.bin = BIN
        self.tls = None  # an ssl.SSLContext, where its certificate is not of an authority that all know
        self.process = None
        self.starts = 0
        self.logs = []

    # --- life
    def spawn(self, *more, env=None):
        """Starts the process and waits for nothing."""
        self.starts += 1
        self.logs.append(os.path.join(self.root, f"daemon-{self.starts}.log"))
        url = os.path.join(self.dir, "pipelined.url")
        if os.path.exists(url):
            os.unlink(url)
        no_images = [] if "--podman" in (*self.options, *more) else ["--podman", ""]  # the same where podman is installed and where it is not
        with open(self.logs[-1], "wb") as out:
            self.process = subprocess.Popen(
                [*self.before, os.path.join(self.bin, "pipelined"), "--data", self.dir, "--listen", "127.0.0.1:0", *no_images, *self.options, *more],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, **(env or {})})
        return self

    def ready(self):
        """Waits until it serves."""
        url = os.path.join(self.dir, "pipelined.url")
        wait_until(lambda: os.path.exists(url) or self.process.poll() is not None, "the daemon's URL")
        if self.process.poll() is not None:
            pytest.fail(f"the daemon did not start: {self.log()}")
        with open(url, encoding="utf-8") as f:
            self.url = f.read().strip()
        with open(os.path.join(self.dir, "token"), encoding="utf-8") as f:
            self.token = f.read().strip()
        return self

    def start(self, *more, expect_failure=False, env=None):
        self.spawn(*more, env=env)
        if expect_failure:
            self.process.wait(timeout=60)
            return self
        return self.ready()

    def log(self):
        with open(self.logs[-1], encoding="utf-8", errors="replace") as f:
            return f.read()

    def stop(self, timeout=60):
        """SIGTERM; the exit code."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            pytest.fail(f"the daemon did not stop within {timeout} s:\n{self.log()[-3000:]}")
        self.process = None
        return code

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    # --- faces
    def http(self, method, path, body=None, headers=None, token=True, raw=False, timeout=150):
        data = body
        sent = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, bytearray)):
            data = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        if token:
            sent["Authorization"] = "Bearer " + (self.token if token is True else token)
        request = urllib.request.Request(self.url + path, data=data, headers=sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout, context=self.tls) as reply:
                got = reply.read()
                return got if raw else json.loads(got)
        except urllib.error.HTTPError as e:
            raise HttpError(e.code, e.read()) from None

    def get(self, path, **query):
        query = {k: v for k, v in query.items() if v is not None}
        return self.http("GET", "/api/v1" + path + ("?" + urllib.parse.urlencode(query) if query else ""))

    def post(self, path, body=None):
        return self.http("POST", "/api/v1" + path, body)

    def ctl(self, *args, stdin=None, ok=True, cwd=None, timeout=240, env=None):
        """Runs pipelinectl against this daemon."""
        process = subprocess.run([os.path.join(BIN, "pipelinectl"), "--data", self.dir, *map(str, args)], input=stdin, capture_output=True,
                                 cwd=cwd or self.root, timeout=timeout, env={**os.environ, "XDG_CACHE_HOME": os.path.join(self.root, "xdg"), **(env or {})},
                                 check=False)
        result = Result(process)
        assert not SANITIZER.search(result.err), result.err
        if ok:
            assert result.code == 0, f"pipelinectl {' '.join(map(str, args))}: exit {result.code}\n{result.out}\n{result.err}"
        return result

    # --- shortcuts
    def write(self, path, content):
        """A file below the test's folder; gives its path."""
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        return full

    def project(self, name):
        """A new project."""
        self.post("/projects", {"name": name})
        return Project(self, name)

    @property
    def default(self):
        return Project(self, "default")

    def push(self, repo, path, content, branch="master"):
        return self.default.push(repo, path, content, branch)

    def read(self, repo, path, ref="master"):
        return self.default.read(repo, path, ref)

    def pipeline(self, spec, update=False, **more):
        """Sets a pipeline from a dict, without code folders."""
        return self.post("/pipelines", {"spec": json.dumps(spec), "filename": "spec.json", "update": update, **more})

    def wait(self, run, timeout=60):
        """The run's end, with its jobs."""
        deadline = time.monotonic() + timeout
        while True:
            state = self.get(f"/runs/{run}/wait", timeout_ms=5000)
            if state["done"]:
                return self.get(f"/runs/{run}")
            if time.monotonic() > deadline:
                pytest.fail(f"run {run[:8]} did not end: {json.dumps(self.get(f'/runs/{run}'), indent=1)}\n{self.log()[-3000:]}")

    def run_of_git(self, sha):
        """The newest run of a commit of a source: it has one once the run has jobs, which is soon after the stages are set."""
        return wait_until(lambda: self.get("/runs", commit=sha)["runs"], f"a run of commit {sha[:8]}")[0]

    def job(self, run, stage):
        """The stage's job, None before it is there."""
        return next((j for j in self.get(f"/runs/{run}")["jobs"] if j["stage"] == stage), None)

    def wait_job(self, run, stage, check, what, timeout=60.0):
        """Waits until check(job) holds; the job."""
        def probe():
            job = self.job(run, stage)
            return job if job and check(job) else None
        return wait_until(probe, lambda: f"job {stage} {what}: {self.job(run, stage)}", timeout)


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


class Link(str):
    """A symbolic link's target, among the contents of a push."""


class Exec(bytes):
    """An executable file's bytes."""


def ops_stream(puts, deletes):
    """storage/tree_edit/tree_ops.h, with contents small enough to lie inline."""
    out = bytearray(b"PLOP\x01")
    for path in sorted([*puts, *deletes], key=lambda p: p.encode()):
        name = path.encode()
        out += bytes([1 if path in puts else 2]) + varint(len(name)) + name
        if path in puts:
            content = puts[path]
            kind = 3 if isinstance(content, Link) else 2 if isinstance(content, Exec) else 1
            content = content.encode() if isinstance(content, str) else content
            assert len(content) <= 64, path
            out += bytes([kind, 1]) + varint(len(content)) + content
    return bytes(out) + b"\0" + varint(len(puts) + len(deletes))


class Project:
    """One project of a daemon: what a test has to itself when it shares the daemon."""

    def __init__(self, daemon, name):
        self.d = daemon
        self.name = name

    def repo(self, *names):
        for name in names:
            self.d.post("/repos", {"project": self.name, "name": name})
        return self

    def without_images(self):
        """Stages that name an image run with this machine's files, as there is no podman."""
        self.d.ctl("update", "defaults", self.name, "-f", "-", stdin=b'{"image_required": false}')
        return self

    def push(self, repo, path, content, branch="master"):
        """One file into a repo; the reply."""
        content = content.encode() if isinstance(content, str) else content
        return self.d.http("PUT", f"/api/v1/repos/{self.name}/{repo}/branches/{branch}/files/{urllib.parse.quote(path)}", bytes(content))

    def commit(self, repo, puts=None, deletes=(), branch="master"):
        """Several small files (path → bytes, str, Exec or Link) at once; the reply."""
        return self.d.http("POST", f"/api/v1/repos/{self.name}/{repo}/branches/{branch}/commits", ops_stream(puts or {}, deletes),
                           headers={"Content-Type": "application/x-pl-ops"})

    def read(self, repo, path, ref="master"):
        return self.d.http("GET", f"/api/v1/repos/{self.name}/{repo}/refs/{ref}/files/{urllib.parse.quote(path)}", raw=True)

    def files(self, repo, ref="master"):
        """Path → kind of everything in a commit."""
        got = self.d.get(f"/repos/{self.name}/{repo}/refs/{ref}/list", recursive=1, limit=1000)
        return {f["path"]: f["kind"] for f in got["files"]}

    def contents(self, repo, ref="master"):
        return {path: self.read(repo, path, ref) for path, kind in self.files(repo, ref).items() if kind != "dir"}

    def commits(self, repo):
        return self.d.get(f"/repos/{self.name}/{repo}/commits", limit=1000)["commits"]

    def stages(self, *stages, pipeline="p", update=False, **more):
        """Sets a pipeline of these stages; the reply."""
        return self.d.pipeline({"pipeline": pipeline, "project": self.name, "stages": list(stages), **more}, update=update)

    def run(self, repo, puts, deletes=(), state="success", timeout=60):
        """Pushes, waits for the run to end in this state, and gives it with its jobs by stage."""
        run = self.wait(self.commit(repo, puts, deletes)["run"], timeout)
        assert run["state"] == state, json.dumps(run, indent=1)
        return run

    def wait(self, run, timeout=60):
        run = self.d.wait(run, timeout)
        run["job"] = {j["stage"]: j for j in run["jobs"]}
        return run

    def datums(self, stage, run):
        """The attempts kept of a job, each with its tail."""
        rows = self.d.get(f"/jobs/{self.name}/{stage}/{run}/datums")["datums"]
        ids = dict.fromkeys(r["id"] for r in rows if r["state"] != "reused")
        return [a for i in ids for a in self.d.get(f"/jobs/{self.name}/{stage}/{run}/datums/{i}")["attempts"]]

    def logs(self, stage, **query):
        return self.d.http("GET", f"/api/v1/logs/{self.name}/{stage}?" + urllib.parse.urlencode(query), raw=True).decode()


def sh(name, script, repo="in", glob="/", **more):
    """A stage that runs a shell command over one input."""
    return {"name": name, "input": {"repo": repo, "glob": glob}, "run": ["sh", "-ec", script], **more}


class Gate:
    """Where a command stops until the test lets it on: it connects here (the network of the host is kept), and reads until the end."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.settimeout(60)
        self.held = []
        port = self.socket.getsockname()[1]
        self.wait = f"/usr/bin/python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port})).recv(1)'"

    def arrived(self, n=1):
        """Waits until n commands more stand here."""
        for _ in range(n):
            self.held.append(self.socket.accept()[0])

    def open(self):
        """Lets those go that stand here."""
        while self.held:
            self.held.pop().close()

    def leave_open(self):
        """Lets those go that stand here, and all that come later at once."""
        self.open()
        threading.Thread(target=self.pass_all, daemon=True).start()

    def pass_all(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                self.socket.accept()[0].close()

    def close(self):
        self.open()
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes pass_all
        self.socket.close()


@pytest.fixture
def gate():
    g = Gate()
    yield g
    g.close()


def runs_end(daemon, timeout=60.0):
    """Waits until no run is running; one of a push that no stage reads ends soon after the push, too."""
    running = lambda: daemon.get("/runs", state="running")["runs"]
    wait_until(lambda: not running(), lambda: f"all runs to end: {running()}", timeout)


def gone(call):
    """What the error says. Earlier commits are searched for a moment only: what is not found then, is by a later request."""
    def error():
        with pytest.raises(HttpError) as e:
            call()
        return e.value
    last = wait_until(lambda: (lambda e: e if e.status != 404 else None)(error()), error)
    assert (last.status, last.error["code"]) == (410, "gone"), last
    return last.error["message"]


def logs_are_sealed(daemon):
    """Waits until the logs of ended jobs are in the store: they come there after the end of their run."""
    folder = os.path.join(daemon.dir, "logs")
    still_open = lambda: [f for f in os.listdir(folder) if f.endswith(".log") and f != "workers.log"]
    wait_until(lambda: not still_open(), lambda: f"logs to be sealed: {still_open()}")


def everything(daemon):
    """All that the log records, as REST gives it once all runs have ended: what a restart keeps and a recovery brings back."""
    runs_end(daemon)
    pages = lambda path, key, **query: list(all_pages(daemon, path, key, **query))
    out = {"projects": pages("/projects", "projects"), "repos": pages("/repos", "repos"), "pipelines": [], "commits": {}, "branches": {}, "runs": []}
    for p in pages("/pipelines", "pipelines"):
        out["pipelines"].append(daemon.get(f"/pipelines/{p['project']}/{p['name']}"))
    for r in out["repos"]:
        name = f"{r['project']}/{r['name']}"
        out["commits"][name] = pages(f"/repos/{name}/commits", "commits")
        out["branches"][name] = pages(f"/repos/{name}/branches", "branches")
    for run in pages("/runs", "runs"):
        got = daemon.get(f"/runs/{run['id']}")
        got.pop("agent", None)  # who asked is known to this machine only
        if got["cause"] == "manual":
            got.pop("author", None)
        got["jobs"].sort(key=lambda j: (j["project"], j["stage"]))
        out["runs"].append(got)
    for one in [*out["repos"], *(stage for p in out["pipelines"] for stage in p["stages"])]:
        for key in ("datums", "text"):  # how many datums a stopped job left is known where its results are kept
            one.get("freshness", {}).pop(key, None)
    return out


def all_pages(daemon, path, key, **query):
    after = None
    while True:
        got = daemon.get(path, after=after, limit=500, **query)
        yield from got[key]
        after = got.get("next")
        if not after:
            return


def processes_with(text):
    """Command lines of processes that mention a text."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                line = f.read().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if text in line and int(path.split("/")[2]) != os.getpid():
            found.append(line)
    return found


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read()
    except OSError:
        return b""


def workers_of(daemon):
    """Process numbers of its agents."""
    return [int(p) for p in os.listdir("/proc") if p.isdigit() and b"--worker" in cmdline(p) and daemon.dir.encode() in cmdline(p)]


def check_log(path):
    """A sanitizer's report fails the test with its text."""
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8", errors="replace") as f:
        text = f.read()
    found = SANITIZER.search(text)
    if found:
        pytest.fail(f"{path}:\n{text[max(0, found.start() - 300):found.start() + 6000]}")


def check_clean(daemon):
    for log in [*daemon.logs, os.path.join(daemon.dir, "logs", "workers.log")]:
        check_log(log)
    wait_until(lambda: not processes_with(daemon.dir), lambda: f"processes of {daemon.dir} to end: {processes_with(daemon.dir)}", 45)


def remove(daemon):
    """Stops it, looks for what it left behind, removes its folder."""
    code = daemon.stop()
    assert code in (None, 0), f"the daemon ended with {code}: {daemon.log()[-4000:]}"
    check_clean(daemon)
    shutil.rmtree(daemon.root, ignore_errors=True)


@pytest.fixture
def make_daemon(tmp_path):
    """Makes daemons (not started) with options; stops and checks them all at the end."""
    made = []

    def make(*options, name="d", sandbox=None):
        root = tmp_path / (name + str(len(made)))
        root.mkdir()
        daemon = Daemon(root, "--sandbox", sandbox or SANDBOX, *options)
        made.append(daemon)
        return daemon

    yield make
    for daemon in made:
        remove(daemon)


@pytest.fixture
def daemon(make_daemon):
    return make_daemon().start()


@pytest.fixture(scope="module")
def shared(request, tmp_path_factory):
    """One daemon for all tests of a module that leave it as it was but for their project. DAEMON_OPTIONS of the module are its options."""
    options = getattr(request.module, "DAEMON_OPTIONS", [])
    daemon = Daemon(tmp_path_factory.mktemp("shared"), "--sandbox", SANDBOX, *options).start()
    yield daemon
    remove(daemon)


@pytest.fixture
def project(request, shared):
    """A project of the shared daemon, named after the test."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name.removeprefix("test_"))[:44].strip("-")
    return shared.project(f"{name}-{zlib.crc32(request.node.name.encode()) % 10000:04}")


def bwrap_works():
    worker = os.path.join(BIN, "pipelined-worker")
    return os.path.exists(worker) and subprocess.run([worker, "--probe-sandbox"], capture_output=True, check=False).returncode == 0


SANDBOX = "bwrap" if bwrap_works() else "none"
QUICK = os.environ.get("PL_GROUP") == "daemon"  # part of the README's command: random worlds are half as long as in the group daemon-asan
