"""A corner of this machine for a node of Kubernetes: namespaces of its own for processes, mounts and network, and a group of cgroups.

    inside.py can                whether this machine allows it; else prints why not and exits with 1
    inside.py run COMMAND…       runs the command there; its exit status. $PL_CORNER is a folder, $PL_CGROUP the cgroup, both gone afterwards

When it ends, however it ends, the kernel ends every process of the corner and removes its mounts and its network: the first process dies with
this one. What a run that was killed left on the disk, the next one removes.
"""
import ctypes
import fcntl
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile

NAME = "pl-kube-real-"
CGROUPS = pathlib.Path("/sys/fs/cgroup")
NAMESPACES = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc"]
ADDRESS = "10.89.0.1"  # of this corner: a kubelet wants one that is not loopback's, and a way out; this one leads nowhere
PRIVATE = ["/run", "/var/log", "/var/lib/kubelet", "/var/lib/cni", "/var/cache"]  # what node programs write to wherever they are told to be


def hierarchies():
    """Folders in which a cgroup is made: one with version 2, else one for each controller."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [path for path in sorted(CGROUPS.iterdir()) if path.is_dir() and not path.is_symlink() and (path / "cgroup.procs").exists()]


def remove_cgroup(name):
    for hierarchy in hierarchies():
        for folder, _, _ in os.walk(hierarchy / name, topdown=False):
            for left in (pathlib.Path(folder) / "cgroup.procs").read_text(encoding="ascii").split():
                os.kill(int(left), signal.SIGKILL)
            try:
                os.rmdir(folder)
            except OSError:
                pass  # still emptying: the next run removes it


def forget(folder):
    remove_cgroup(folder.name)
    shutil.rmtree(folder, ignore_errors=True)


def remove_what_was_left():
    """Of runs whose process is gone: they hold a lock on their folder while they live."""
    for folder in pathlib.Path(tempfile.gettempdir()).glob(NAME + "*"):
        try:
            with open(folder / "lock", "ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                forget(folder)
        except BlockingIOError:
            pass
        except OSError:
            forget(folder)


def reason_not():
    """Why this machine forbids it, "" when it does not."""
    if os.geteuid() != 0:
        return "only root may make the namespaces and mounts of a node"
    try:
        for hierarchy in hierarchies() or [CGROUPS]:
            (hierarchy / (NAME + "probe")).mkdir()
            (hierarchy / (NAME + "probe")).rmdir()
    except OSError as failure:
        return f"no cgroup may be made here: {failure}"
    script = ("mount -t tmpfs tmpfs /run && cd /run && mkdir l u w m && mount -t overlay overlay -o lowerdir=l,upperdir=u,workdir=w m"
              " && ip link add pl-a type veth peer name pl-b && ip link add pl-c type bridge")
    done = subprocess.run([*NAMESPACES, "sh", "-c", script], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"no namespaces, overlays or bridges may be made here: {done.stderr.strip()}"


def run(command):
    remove_what_was_left()
    folder = pathlib.Path(tempfile.mkdtemp(prefix=NAME))
    with open(folder / "lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for hierarchy in hierarchies():
            (hierarchy / folder.name).mkdir()
        enable_controllers(folder.name)
        env = {**os.environ, "PL_CORNER": str(folder), "PL_CGROUP": "/" + folder.name}
        inner = subprocess.Popen([*NAMESPACES, sys.executable, __file__, "first", *command], env=env, start_new_session=True,
                                 preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: pass_on(inner.pid, number))
        try:
            return inner.wait()
        finally:
            inner.kill()
            inner.wait()
            forget(folder)


def enable_controllers(name):
    """Version 2: children of the cgroup get the controllers that it has."""
    if hierarchies() == [CGROUPS]:
        controllers = (CGROUPS / name / "cgroup.controllers").read_text(encoding="ascii").split()
        (CGROUPS / name / "cgroup.subtree_control").write_text(" ".join(f"+{one}" for one in controllers), encoding="ascii")


def pass_on(pid, number):
    """To the first process of the corner, the child of unshare."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    for child in children:
        os.kill(int(child), number)


def first(command):
    """As the first process: readies the corner, runs the command, buries whoever has no parent any more."""
    for path in PRIVATE:
        os.makedirs(path, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", path], check=True)
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # SIOCSIFFLAGS: up and running
    for words in ("link add pl-here type bridge", f"address add {ADDRESS}/24 dev pl-here", "link set pl-here up", "route add default dev pl-here"):
        subprocess.run(["ip", *words.split()], check=True)
    child = subprocess.Popen(command)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: child.send_signal(number))
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            return os.waitstatus_to_exitcode(status)


def main():
    if sys.argv[1:] == ["can"]:
        reason = reason_not()
        print(reason, end="\n" if reason else "")
        return 1 if reason else 0
    if len(sys.argv) > 2 and sys.argv[1] in ("run", "first"):
        status = (run if sys.argv[1] == "run" else first)(sys.argv[2:])
        return status if status >= 0 else 128 - status
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
