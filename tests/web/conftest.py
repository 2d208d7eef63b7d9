"""A daemon with data for each page, and a browser. Both are made once for a file of tests."""
import http.client
import http.server
import importlib.util
import os
import pathlib
import subprocess
import sys
import threading
import urllib.parse

import pytest

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path.insert(0, str(HERE))

_spec = importlib.util.spec_from_file_location("daemon_conftest", TOP / "tests" / "daemon" / "conftest.py")
kit = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(kit)

from browser import Browser  # noqa: E402  (its folder is on the path only now)
import seed  # noqa: E402

DIGITS = TOP / "pipelines" / "digits"


class World:
    """The daemon with what the tests ask for by name."""

    def __init__(self, daemon, folder):
        self.daemon, self.folder = daemon, folder
        for words in (["create", "pipeline", "-f", str(DIGITS / "pipeline.json")], ["put", "file", "digits@master:/", "-r", "-f", str(self.first_batches())], ["wait", "run", "digits@master", "--timeout", "300s"],
                      ["put", "file", "digits@master:/train/b3.csv", "-f", str(DIGITS / "data/train/b3.csv"), "-m", "batch 3"], ["wait", "run", "digits@master", "--timeout", "300s"]):
            self.ctl(*words)
        spec = folder / "street.json"
        spec.write_text(seed.json.dumps(seed.street(), indent=1), encoding="utf-8")
        photos, labels = seed.files(folder)
        self.ctl("create", "pipeline", "-f", str(spec))
        self.ctl("put", "file", "labels@master:/", "-r", "-f", str(labels), "-m", "relabel crossings")
        self.ctl("put", "file", "photos@master:/", "-r", "-f", str(photos), "-m", "Lisbon, batch 7")
        kit.wait_until(lambda: {job["stage"]: job for job in self.jobs("street")}.get("evaluate", {}).get("state") == "failure", "evaluate to fail", 300)

    def first_batches(self):
        folder = self.folder / "digits"
        for name in ("train/b1.csv", "train/b2.csv", "test/b1.csv"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((DIGITS / "data" / name).read_bytes())
        return folder

    def ctl(self, *words):
        done = subprocess.run([os.path.join(self.daemon.bin, "pipelinectl"), "--data", self.daemon.dir, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"pipelinectl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def jobs(self, pipeline):
        """The newest job of each stage of a pipeline."""
        jobs = [job for job in self.daemon.http("GET", "/api/v1/jobs?limit=1000")["jobs"] if job["pipeline"] == pipeline]
        return list({job["stage"]: job for job in reversed(jobs)}.values())

    def job(self, stage):
        return self.daemon.http("GET", f"/api/v1/jobs?stage={stage}&limit=1")["jobs"][0]

    def commits(self, repo):
        return [commit["id"] for commit in self.daemon.http("GET", f"/api/v1/repos/default/{repo}/commits")["commits"]]


def worlds(tmp_path_factory):
    """A daemon with the story of seed.py, until the generator is closed."""
    root = tmp_path_factory.mktemp("web")
    daemon = kit.Daemon(root, "--sandbox", "none").start(env={"PATH": "/usr/bin:/bin"})
    (root / "files").mkdir()
    yield World(daemon, root / "files")
    assert daemon.stop() == 0


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """Shared by all tests: what one adds must not push the story of seed.py from the start page."""
    yield from worlds(tmp_path_factory)


@pytest.fixture(scope="session")
def chromium():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def page(chromium, world):
    """A fresh browser that is signed in at the start page. What the console complained of fails the test."""
    yield chromium.open(world.daemon)
    assert chromium.do("complaints") == []


@pytest.fixture
def proxy(world):
    """The URL of a proxy that shows the daemon below /some/where, as nginx would: the path is taken away."""
    daemon = urllib.parse.urlsplit(world.daemon.url)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"  # the end of the connection ends a reply

        def pass_on(self):
            if not self.path.startswith("/some/where/"):
                self.send_error(404)
                return
            behind = http.client.HTTPConnection(daemon.hostname, daemon.port, timeout=60)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            sent = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection", "origin")}
            behind.request(self.command, self.path.removeprefix("/some/where"), body or None, {**sent, "Host": daemon.netloc})
            reply = behind.getresponse()
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in ("connection", "transfer-encoding", "date"):
                    self.send_header(name, value)
            self.end_headers()
            while piece := reply.read1(65536):
                try:
                    self.wfile.write(piece)
                    self.wfile.flush()
                except OSError:
                    break
            behind.close()

        do_GET = do_POST = do_DELETE = do_PUT = pass_on

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/some/where"
    server.shutdown()
    server.server_close()
