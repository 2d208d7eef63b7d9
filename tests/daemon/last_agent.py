#!/usr/bin/python3
"""An agent of the last minor version, as docs/protocol.md describes it: it sends no fence with what a command printed. It runs one datum at
a time, without a sandbox, and its datums have no output. As a program it takes the place of pipelined-worker (folder_with)."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

NO_OUTPUT = {"ops": "UExPUAEAAA=="}  # an ops stream without operations


def folder_with(folder, programs):
    """A folder of pipelined's programs with this agent in it, for Daemon.bin."""
    folder.mkdir()
    for program in pathlib.Path(programs).iterdir():
        if program.name == "pipelined":
            shutil.copy2(program, folder / program.name)  # the daemon looks for the agent beside itself
        elif program.name in ("pl-git", "pl-runner", "pl-next"):
            (folder / program.name).symlink_to(program)
    shutil.copy2(__file__, folder / "pipelined-worker")
    (folder / "pipelined-worker").chmod(0o755)
    return str(folder)


class Agent:
    def __init__(self, options, token):
        self.options = options
        self.token = token
        self.me = {"worker": options["--worker"], "incarnation": f"{options['--incarnation']}-{os.urandom(16).hex()}"}
        self.held = []
        self.stage = None

    def call(self, path, body):
        """One call, repeated while the daemon is away; None after 404."""
        while True:
            data, kind = (body, "application/octet-stream") if isinstance(body, bytes) else (json.dumps(body).encode(), "application/json")
            try:
                url = pathlib.Path(self.options["--url-file"]).read_text(encoding="utf-8").strip()
                request = urllib.request.Request(url + "/api/v1/worker/" + path, data, {"Authorization": f"Bearer {self.token}", "Content-Type": kind})
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    return None
                if error.code != 503:
                    raise
            except OSError:
                pass  # the daemon is away
            time.sleep(0.1)

    def attach(self):
        answer = self.call("attach", {**self.me, "protocol": 1, "exchange": True, "host": "here", "pid": os.getpid(), "held": self.held})
        self.token, self.stage = answer["token"], answer["stage"]
        print(f"last agent {self.me['worker']}: attached, holding {len(self.held)}", file=sys.stderr, flush=True)

    def known(self, path, body):
        """A call that is repeated after an attach if the daemon does not know the worker."""
        while (answer := self.call(path, {**self.me, **body()})) is None:
            self.attach()
        return answer

    def renew(self):
        while True:
            self.known("renew", lambda: {"wait_ms": 2000, "tasks": self.held})

    def compute(self, task, row):
        command = subprocess.Popen(self.stage["run"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        offset = 0
        while piece := os.read(command.stdout.fileno(), 65536):
            query = f"worker={self.me['worker']}&task={task['id']}&datum={row['datum']}&attempt={row['attempt']}&offset={offset}"
            self.call(f"log?{query}", piece)
            offset += len(piece)
        code = command.wait()
        return {"index": row["index"], "state": "failed" if code else "success", "exit_code": code, "signal": 0, "oom": False, "timed_out": False,
                "reason": f"exit code {code}" if code else "", "tail": "", "ms": dict.fromkeys(("wait", "fetch", "compute", "upload", "held"), 1),
                "bytes": {"in": 0, "out": 0}, "rusage": {}, "output": NO_OUTPUT}

    def work(self):
        self.attach()
        threading.Thread(target=self.renew, daemon=True).start()
        while "end" not in (answer := self.known("next", lambda: {"results": [], "wait_ms": 25000})):
            if "idle" in answer:
                continue
            task = answer["task"]
            lease = {"task": task["id"], "fence": task["fence"]}
            self.held = [lease]
            result = {**lease, "rows": [self.compute(task, row) for row in task["rows"]], "gave_back": []}
            self.known("next", lambda: {"results": [result], "wait_ms": 0})
            self.held = []


if __name__ == "__main__":
    Agent(dict(zip(sys.argv[1::2], sys.argv[2::2])), os.environ["PIPELINED_WORKER_TOKEN"]).work()
