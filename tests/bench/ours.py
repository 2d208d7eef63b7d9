"""One daemon of ours with a folder of its own, spoken to by pipelinectl."""
import json
import os
import pathlib
import signal
import subprocess
import time

import measure

START_S = 20


def programs():
    return pathlib.Path(os.environ["BENCH_BIN"])


class Daemon:
    """with Daemon(folder) as d: … A folder that was used before is gone on with."""

    def __init__(self, folder, options=(), **env):
        self.folder = folder
        self.options = list(options)
        self.more = env
        self.env = {"XDG_CACHE_HOME": str(folder / "home"), "PIPELINED_URL": "", "PIPELINED_TOKEN": ""}

    def __enter__(self):
        (self.folder / "home").mkdir(parents=True, exist_ok=True)
        self.data = self.folder / "data"
        (self.data / "pipelined.url").unlink(missing_ok=True)
        log = open(self.folder / "daemon.log", "wb")
        self.process = subprocess.Popen([programs() / "pipelined", "--data", self.data, "--listen", "127.0.0.1:0", *self.options] + self.sandbox(),
                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self.more})
        until = time.monotonic() + START_S
        while not (self.data / "pipelined.url").exists():
            if self.process.poll() is not None or time.monotonic() > until:
                raise measure.Failed(f"the daemon does not start: {(self.folder / 'daemon.log').read_text()[-800:]}")
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @staticmethod
    def sandbox():
        probe = subprocess.run([programs() / "pipelined-worker", "--probe-sandbox"], capture_output=True)
        return [] if probe.returncode == 0 else ["--sandbox", "none"]

    @property
    def pid(self):
        return self.process.pid

    @property
    def url(self):
        return (self.data / "pipelined.url").read_text().strip()

    @property
    def token(self):
        return (self.data / "token").read_text().strip()

    def ctl(self, *argv):
        """pipelinectl -> Timed, the daemon's processor time included."""
        before = measure.cpu_of(self.pid)
        timed = measure.run([programs() / "pipelinectl", "--data", self.data, *argv], {k: v for k, v in self.env.items() if v})
        timed.cpu += measure.cpu_of(self.pid) - before
        return timed

    def ctl_json(self, *argv):
        """-> what pipelinectl --json printed, Timed."""
        timed = self.ctl("--json", *argv)
        return json.loads(timed.out), timed

    def pipeline(self, spec):
        """Creates a pipeline -> the answer."""
        path = self.folder / "spec.json"
        path.write_text(json.dumps(spec))
        return self.ctl_json("create", "pipeline", "-f", path)[0]

    def store_bytes(self):
        return measure.bytes_below(self.data / "store")

    def anonymous(self):
        return measure.anonymous_of(self.pid)
