"""Users of a daemon, who ask as themselves."""

import contextlib
import hmac
import os
import sqlite3
import subprocess

from conftest import BIN, SANITIZER, HttpError


def status_of(daemon, method, path, body=None, **more):
    try:
        daemon.http(method, "/api/v1" + path, body, raw=True, **more)
        return 200
    except HttpError as e:
        return e.status


class User:
    """A user of the daemon with one token; asks as themselves."""

    def __init__(self, daemon, name, *roles, **token):
        self.d, self.name = daemon, name
        daemon.post("/users", {"name": name, "roles": [{"scope": scope, "role": role} for scope, role in roles]})
        self.made = daemon.post("/tokens", {"user": name, **token})
        self.token = self.made["token"]

    def status(self, method, path, body=None):
        return status_of(self.d, method, path, body, token=self.token)

    def get(self, path):
        return self.d.http("GET", "/api/v1" + path, token=self.token)

    def ctl(self, *args, ok=True, home=None, env=None):
        """pipelinectl with nothing but the address, the token and `env` in its environment."""
        home = home or self.d.root
        process = subprocess.run([os.path.join(BIN, "pipelinectl"), *map(str, args)], capture_output=True, text=True, cwd=home, timeout=120, check=False,
                                 env={"PATH": os.environ["PATH"], "HOME": str(home), "XDG_DATA_HOME": str(home) + "/none", "PIPELINED_URL": self.d.url,
                                      "PIPELINED_TOKEN": self.token, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", ""), **(env or {})})
        assert not SANITIZER.search(process.stderr), process.stderr
        assert not ok or process.returncode == 0, process.stderr
        return process


# --- workers


def first_token(daemon, worker):
    """The one a worker is started with, as the daemon makes it: no secret beside DIR/master.key is behind it."""
    with open(os.path.join(daemon.dir, "master.key"), encoding="utf-8") as f:
        key = bytes.fromhex(f.read().strip())
    return f"plw_{worker}_" + hmac.new(key, b"worker" + worker.to_bytes(8, "little"), "sha256").hexdigest()


def worker_token(daemon, worker):
    """The one it has now."""
    with contextlib.closing(sqlite3.connect(f"file:{daemon.dir}/pipelined.db?mode=ro", uri=True)) as db:
        row = db.execute("SELECT incarnation FROM worker WHERE id = ?", [worker]).fetchone()
    if not row or "-" not in (row[0] or ""):
        return first_token(daemon, worker)
    with open(os.path.join(daemon.dir, "master.key"), encoding="utf-8") as f:
        key = bytes.fromhex(f.read().strip())
    return f"plw_{worker}_{row[0]}_" + hmac.new(key, b"session" + worker.to_bytes(8, "little") + row[0].encode(), "sha256").hexdigest()


def leases(daemon):
    """worker → (task, fence), as the daemon has them."""
    with contextlib.closing(sqlite3.connect(f"file:{daemon.dir}/pipelined.db?mode=ro", uri=True)) as db:
        return {worker: (task, fence) for worker, task, fence in db.execute("SELECT worker, task, fence FROM lease")}
