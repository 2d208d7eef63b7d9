"""docs/operations.md, as an operator would do it: every command of its sh blocks in order, against a daemon with some history."""

import json
import os
import re
import shutil
import subprocess
import tempfile

import pytest

from conftest import BIN, TOP, Daemon, cmdline, everything, sh, workers_of
from test_restart import busy, flip_bit

NOBODY = 65534  # a user without rights
ROOTS = ("/srv/", "/mnt/", "/tmp/drill", "/etc/pipelined.json")


def sections():
    """[(title, [command])] of the page."""
    with open(os.path.join(TOP, "docs", "operations.md"), encoding="utf-8") as f:
        text = f.read()
    found = []
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        commands = [line for block in re.findall(r"^```sh\n(.*?)^```", part, flags=re.M | re.S) for line in block.splitlines()]
        found.append((part.splitlines()[0], commands))
    return found


class Machine:
    """A folder as /: its daemon, and a shell in which the page's paths lie below it."""

    def __init__(self, daemon):
        self.d, self.root = daemon, daemon.root
        for folder in ("srv", "mnt", "etc", "tmp"):
            os.makedirs(os.path.join(self.root, folder))
        with open(os.path.join(self.root, "etc", "pipelined.json"), "w", encoding="utf-8") as f:
            json.dump({"store": f"file://{self.root}/srv/store"}, f)
        daemon.dir = os.path.join(self.root, "srv", "pipelined")
        daemon.options = ["--config", os.path.join(self.root, "etc", "pipelined.json")]

    def run(self, command):
        """-> what it printed."""
        if command == "systemctl stop pipelined":
            assert self.d.stop() == 0
            return ""
        if command == "systemctl start pipelined":
            self.d.start()
            return ""
        for path in ROOTS:
            command = command.replace(path, self.root + path)
        env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "TMPDIR": os.path.join(self.root, "tmp")}
        if self.d.process:
            env.update(PIPELINED_URL=self.d.url, PIPELINED_TOKEN=self.d.token)
        done = subprocess.run(["sh", "-ec", command], capture_output=True, text=True, cwd=self.root, env=env, timeout=120, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


def test_every_command_of_the_page_does_what_it_says(make_daemon):
    d = make_daemon("--checkpoint-every", "10")
    machine = Machine(d)
    d.start()
    busy(d)
    before, said, done = everything(d), {}, []
    for title, commands in sections():
        if title == "Something is damaged":  # of what the mirror has
            folder = os.path.join(machine.root, "srv", "store", "p", "default")
            victims = [os.path.join(base, name) for base, _, names in os.walk(folder) for name in names]
            commands = [c for c in commands if c != "pipelinectl fsck --full" or c is commands[-1]]
            flip_bit(max(victims, key=os.path.getsize), 300)
        for command in commands:
            if title == "Something is damaged" and command == "pipelinectl mirror file:///srv/store file:///mnt/backup/store":
                command += " || test $? = 1"  # as the page says: the damaged one is named
            said[command] = machine.run(command)
            done.append(command)
        if title == "What repos keep":  # which is a change
            assert "archive" in said["pipelinectl keep --dry-run"] and "commits=10,days=30" in said["pipelinectl inspect repo archive"]
            before = everything(d)
        if d.process:
            assert everything(d) == before, title
    assert len(done) > 30, done
    printed = said["pipelinectl recover --store file:///srv/store --data /srv/pipelined"]
    runs = len(before["runs"])
    for line in (f"restored:     {runs} runs, of which 0 continue; ", "not restored: open commits", "created new:  DIR/token", "next:         pipelined --data "):
        assert f"\n{line}" in printed, printed
    drill = said["pipelinectl recover --store file:///mnt/backup/store --data /tmp/drill"]
    counts = json.loads(said["pipelinectl status --json"])["counts"]
    assert f"recovered {counts['repos']} repos, {counts['commits']} commits and {counts['pipelines']} pipelines" in drill
    assert "1 of them damaged and replaced" in said["pipelinectl mirror file:///mnt/backup/store file:///srv/store --full"]
    assert d.get("/status")["store"] == f"file://{machine.root}/mnt/new/store"


# --- the processes


@pytest.fixture
def of_a_user(gate):
    """A daemon of an ordinary user, whose folders and programs that user can reach."""
    root = tempfile.mkdtemp(prefix="pl-test-user-")
    daemon = Daemon(os.path.join(root, "d"), "--sandbox", "none")
    os.makedirs(daemon.root)
    os.makedirs(os.path.join(root, "bin"))
    for name in os.listdir(BIN):
        if name.startswith(("pipelined", "pl-")):
            shutil.copy(os.path.join(BIN, name), os.path.join(root, "bin"))
    for path in (root, daemon.root):
        os.chmod(path, 0o755)
    daemon.before = ["env", "HOME=" + root]
    if os.geteuid() == 0:
        os.chown(daemon.root, NOBODY, NOBODY)
        daemon.before = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *daemon.before]
    daemon.bin = os.path.join(root, "bin")
    yield daemon
    daemon.stop()
    shutil.rmtree(root)


def test_nobody_but_root_can_look_into_the_daemon_or_an_agent(of_a_user, gate):
    """Not even the user who runs them: what /proc has of their memory and environment is root's. And they leave no core."""
    daemon = of_a_user.start()
    daemon.default.repo("in").stages(sh("s", gate.wait))
    run = daemon.default.commit("in", {"f": "1"})["run"]
    gate.arrived()
    agents = workers_of(daemon)
    assert agents
    for pid in [daemon.process.pid, *agents]:
        with open(f"/proc/{pid}/status", encoding="utf-8") as f:
            user = int(re.search(r"^Uid:\s+(\d+)", f.read(), re.M)[1])
        assert user != 0 and os.stat(f"/proc/{pid}/environ").st_uid == 0, cmdline(pid)
        with open(f"/proc/{pid}/limits", encoding="utf-8") as f:
            assert re.search(r"^Max core file size +0 +0 ", f.read(), re.M), cmdline(pid)
    gate.open()
    assert daemon.default.wait(run)["state"] == "success"


# --- the unit


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
def test_the_unit_is_sound_and_leaves_what_bubblewrap_needs(tmp_path):
    with open(os.path.join(TOP, "pipelined", "deploy", "systemd", "pipelined.service"), encoding="utf-8") as f:
        text = f.read()
    settings = {line.split("=")[0] for line in text.splitlines() if "=" in line and not line.startswith("#")}
    unit = tmp_path / "pipelined.service"
    unit.write_text(re.sub("^Documentation=.*", "", text, flags=re.M).replace("/usr/bin/pipelined", "/bin/true"))
    verified = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, ""), verified.stderr
    judged = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=40", unit], capture_output=True, text=True, check=False)
    assert judged.returncode == 0, judged.stdout[-200:]
    assert {"User", "NoNewPrivileges", "CapabilityBoundingSet", "ProtectSystem", "SystemCallFilter"} <= settings
    assert not settings & {"RestrictNamespaces", "ProtectKernelTunables", "ProtectKernelLogs", "ProtectProc", "PrivateDevices", "ProtectClock", "MemoryDenyWriteExecute"}
    assert "\nDelegate=cpu memory pids\n" in text and "ProtectControlGroups" not in settings, "workers have cgroups with limits"
