#!/usr/bin/env python3
"""A kernel of its own for tests of cgroups: user-mode Linux over this machine's files. All controllers of version 2 are free there, whatever this
machine has given them to.

    kernel.py can             whether it starts here; else prints why not and exits with 1
    kernel.py run COMMAND…    runs the command there, as root, with this environment and folder; its exit status

In it /run and /dev/shm are empty, /sys/fs/cgroup is writable, the loopback is the only network, and the rest is this machine's, which can be
written to. Nothing of it outlives this process.
"""
import ctypes
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile

PROGRAM = "linux.uml"  # of Debian's user-mode-linux
MEMORY = "1200M"
START_S = 60
POWER_OFF = 0x4321FEDC
ALONE = ["unshare", "--pid", "--fork", "--kill-child"]  # its processes are this machine's, and end with the first of them


def reason_not():
    """Why it cannot be had, "" when it can."""
    if not shutil.which(PROGRAM):
        return f"{PROGRAM} is not installed: apt-get install user-mode-linux"
    if os.geteuid() != 0:
        return "only root has files of several users in it"
    try:
        done = subprocess.run([sys.executable, "-B", __file__, "run", "grep", "-q", "cpu.*memory.*pids", "/sys/fs/cgroup/cgroup.controllers"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=START_S, check=False)
    except subprocess.TimeoutExpired:
        return f"{PROGRAM} did not come to its end in {START_S} s"
    return "" if done.returncode == 0 else f"{PROGRAM} does not start here: {' '.join(done.stdout.splitlines()[-2:])}"


def run(command):
    with tempfile.TemporaryDirectory(prefix="pl-kernel-") as folder:
        wanted = pathlib.Path(folder, "wanted.json")
        wanted.write_text(json.dumps({"command": command, "cwd": os.getcwd(), "env": dict(os.environ)}), encoding="utf-8")
        words = [*ALONE, PROGRAM, f"mem={MEMORY}", "rootfstype=hostfs", "rootflags=/", "rw", f"uml_dir={folder}", "con=null", "con0=null,fd:1", "quiet", "loglevel=0",
                 f"init={sys.executable}", "--", "-B", os.path.abspath(__file__), "first", str(wanted)]
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, env={**os.environ, "TMPDIR": "/dev/shm"},
                                 preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: child.kill())
        child.wait()
        status = wanted.with_suffix(".status")
        return int(status.read_text(encoding="ascii")) if status.exists() else 1


def mount(kind, folder):
    os.makedirs(folder, exist_ok=True)
    subprocess.run(["/bin/mount", "-t", kind, kind, folder], check=True)


def first(wanted):
    """As the first process of that kernel: readies it, runs the command, buries whoever has no parent any more, and ends it all."""
    asked = json.loads(pathlib.Path(wanted).read_text(encoding="utf-8"))
    for kind, folder in (("proc", "/proc"), ("sysfs", "/sys"), ("cgroup2", "/sys/fs/cgroup"), ("tmpfs", "/run"), ("tmpfs", "/dev/shm"), ("devpts", "/dev/pts")):
        mount(kind, folder)
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # SIOCSIFFLAGS: up and running
    child = subprocess.Popen(asked["command"], cwd=asked["cwd"], env={**asked["env"], "TMPDIR": "/run"}, stdin=subprocess.DEVNULL)
    pid = 0
    while pid != child.pid:
        pid, status = os.wait()
    pathlib.Path(wanted).with_suffix(".status").write_text(str(os.waitstatus_to_exitcode(status)), encoding="ascii")
    sys.stdout.flush()
    os.sync()
    ctypes.CDLL(None).reboot(POWER_OFF)


def main():
    if sys.argv[1:] == ["can"]:
        reason = reason_not()
        print(reason, end="\n" if reason else "")
        return 1 if reason else 0
    if len(sys.argv) > 2 and sys.argv[1] in ("run", "first"):
        status = run(sys.argv[2:]) if sys.argv[1] == "run" else first(sys.argv[2])
        return status if status >= 0 else 128 - status
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())
