"""Users of a daemon, who ask as themselves."""

import os
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

    def ctl(self, *args, ok=True, home=None):
        """pipelinectl with nothing but the address and the token in its environment."""
        home = home or self.d.root
        process = subprocess.run([os.path.join(BIN, "pipelinectl"), *map(str, args)], capture_output=True, text=True, cwd=home, timeout=120, check=False,
                                 env={"PATH": os.environ["PATH"], "HOME": str(home), "XDG_DATA_HOME": str(home) + "/none", "PIPELINED_URL": self.d.url,
                                      "PIPELINED_TOKEN": self.token, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")})
        assert not SANITIZER.search(process.stderr), process.stderr
        assert not ok or process.returncode == 0, process.stderr
        return process
