"""Containers as processes of this machine: bubblewrap shows the image and the volumes, pl-enter becomes the user, a cgroup bounds memory.

What differs from a real runtime: the network is the machine's; of a root that may be written to only what the image has not is writable; no seccomp."""
import asyncio
import contextlib
import dataclasses
import datetime
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

BIN = pathlib.Path(os.environ.get("PL_BIN", ""))
TEST_BIN = pathlib.Path(os.environ.get("PL_TEST_BIN") or BIN)  # programs that belong to the tests
# CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE NET_RAW SYS_CHROOT MKNOD AUDIT_WRITE SETFCAP: what runtimes leave to root
RUNTIME_CAPABILITIES = sum(1 << bit for bit in (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31))
HOST_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "opt")
SCRATCH = ("/run", "/root", "/home", "/var", "/var/tmp", "/tmp")
RUNTIME_SAYS = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: " \
               "unable to start container process: {}: unknown"


@dataclasses.dataclass(frozen=True)
class Image:
    """A root ("/": the part of this machine's that has no secrets), folders of it replaced, and what an image's configuration says."""

    root: str = "/"
    replace: dict = dataclasses.field(default_factory=dict)  # {"/usr/bin": folder}
    env: dict = dataclasses.field(default_factory=dict)
    user: int = 0
    entrypoint: tuple = ()
    cmd: tuple = ()
    workdir: str = "/"
    digest: str = ""  # "sha256:…" of the registry; "": its nodes say the name


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def stamp(moment=None):
    return (moment or now()).strftime("%Y-%m-%dT%H:%M:%SZ")


@functools.cache
def why_not():
    """Why containers cannot be had here; None: they can."""
    if os.geteuid() != 0:
        return "not root: the users of containers cannot be had here"
    if not shutil.which("bwrap"):
        return "bubblewrap is missing: apt-get install bubblewrap"
    done = subprocess.run(["bwrap", "--unshare-pid", "--as-pid-1", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "/bin/true"],
                          capture_output=True, text=True, check=False)
    return f"bubblewrap does not work here: {done.stderr.strip()}" if done.returncode else None


class Cgroup:
    """A bound on memory. `whole`: all of the container is killed when it needs more, as kubelets have it on version 2, whatever this machine has;
    else one process, as on version 1 and by `singleProcessOOMKill`."""

    ROOTS = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"), ("/sys/fs/cgroup", "memory.max", "memory.events"))

    def __init__(self, name, limit_bytes, whole):
        root, limit, self.events = self.place()
        self.folder = pathlib.Path(root) / f"pl-kubelet-{os.getpid()}-{name}"
        self.folder.mkdir()
        self.eventfd, self.short = None, False
        (self.folder / limit).write_text(str(limit_bytes))
        self.watched = whole and limit != "memory.max"
        if self.watched:  # who needs more waits until all of it is killed
            (self.folder / self.events).write_text("1")
        elif whole:
            (self.folder / "memory.oom.group").write_text("1")

    @classmethod
    @functools.cache
    def place(cls):
        """The row of ROOTS that works here, or None."""
        for root, limit, events in cls.ROOTS:
            probe = pathlib.Path(root) / f"pl-kubelet-probe-{os.getpid()}"
            try:
                probe.mkdir()
                try:
                    (probe / limit).write_text(str(1 << 30))
                    return root, limit, events
                finally:
                    probe.rmdir()
            except OSError:
                continue
        return None

    def kills(self):
        found = re.search(r"^oom_kill (\d+)$", (self.folder / self.events).read_text(), re.M)
        return int(found[1]) if found else 0

    def watch(self, loop, on_kill):
        """Version 1 knows no killing of all: it tells by an eventfd that somebody waits for memory."""
        if not self.watched:
            return
        self.eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        with open(self.folder / self.events, "rb") as control:
            (self.folder / "cgroup.event_control").write_text(f"{self.eventfd} {control.fileno()}")

        def told():
            os.eventfd_read(self.eventfd)
            self.short = True
            on_kill()

        loop.add_reader(self.eventfd, told)

    async def close(self, loop):
        """True when somebody was killed for want of memory."""
        killed = self.short or self.kills() > 0
        if self.eventfd is not None:
            loop.remove_reader(self.eventfd)
            os.close(self.eventfd)
            self.eventfd = None
        for _ in range(500):
            with contextlib.suppress(OSError):
                self.folder.rmdir()
                return killed
            await asyncio.sleep(0.01)
        return killed


def layers(image, targets):
    """bubblewrap's words for an image whose volumes lie at `targets`: a folder that lacks a place for one is laid out piece by piece."""
    words = []

    def show(path):
        host = image.replace.get(path) or os.path.join(image.root, path.lstrip("/"))
        inside = [target for target in targets if target.startswith(path + "/")]
        inside += [other for other in image.replace if other.startswith(path + "/")]
        if os.path.islink(host):
            words.extend(("--symlink", os.readlink(host), path))
        elif os.path.isdir(host) and any(not os.path.exists(os.path.join(image.root, target.lstrip("/"))) for target in inside):
            words.extend(("--dir", path))
            for name in sorted(os.listdir(host)):
                show(f"{path}/{name}")
        else:
            words.extend(("--ro-bind", host, path))
            for other in sorted(inside):
                if other in image.replace:
                    words.extend(("--ro-bind", image.replace[other], other))

    top = [name for name in HOST_FOLDERS if os.path.lexists(f"/{name}")] if image.root == "/" else \
        sorted(set(os.listdir(image.root)) - {"proc", "dev", "sys"})
    for name in top:
        show(f"/{name}")
    return words


def security(pod, container, image):
    """-> (uid, gid, groups, capabilities, keep privileges). ValueError: the kubelet's reason not to create it."""
    of_pod, own = pod["spec"].get("securityContext", {}), container.get("securityContext", {})
    uid = own.get("runAsUser", of_pod.get("runAsUser", image.user))
    gid = own.get("runAsGroup", of_pod.get("runAsGroup", 0))
    if own.get("runAsNonRoot", of_pod.get("runAsNonRoot")) and uid == 0:
        raise ValueError(f'container has runAsNonRoot and image will run as root (pod: "{pod["metadata"]["name"]}_{pod["metadata"]["namespace"]}'
                         f'({pod["metadata"]["uid"]})", container: {container["name"]})')
    groups = [*([of_pod["fsGroup"]] if "fsGroup" in of_pod else []), *of_pod.get("supplementalGroups", [])]
    capabilities = 0 if "ALL" in own.get("capabilities", {}).get("drop", []) else RUNTIME_CAPABILITIES
    return uid, gid, groups, capabilities, own.get("allowPrivilegeEscalation", True)


class Process:
    """A container that runs. `started` is when its command did; `log` its output, a line as the CRI writes it."""

    def __init__(self, name, folder, whole=True):
        self.name, self.whole = name, whole
        self.log = pathlib.Path(folder) / f"{name}.log"
        self.message = pathlib.Path(folder) / f"{name}.message"
        self.more = asyncio.Condition()  # of the log, or its end
        self.process = self.pid = self.cgroup = None
        self.ended = False

    def words(self, pod, container, image, mounts, env, report_fd, info_fd):
        uid, gid, groups, capabilities, keep = security(pod, container, image)
        readonly = container.get("securityContext", {}).get("readOnlyRootFilesystem")
        places = sorted((mount["mountPath"].rstrip("/"), mount) for mount in container.get("volumeMounts", []))
        words = ["bwrap", "--unshare-pid", "--as-pid-1", "--unshare-uts", "--hostname", pod["metadata"]["name"], "--die-with-parent", "--new-session",
                 "--info-fd", str(info_fd), "--clearenv"]
        for key, value in env.items():
            words += ["--setenv", key, value]
        words += layers(image, [place for place, _ in places])
        shown = {word for word in words if word.startswith("/")}
        for folder in SCRATCH:
            if folder not in shown and image.root == "/":
                words += ["--perms", "1777" if folder.endswith("tmp") else "0755", "--dir" if readonly else "--tmpfs", folder]
        words += ["--proc", "/proc", "--dev", "/dev", "--ro-bind-try", "/sys", "/sys", "--perms", "0755", "--dir", "/.enter",
                  "--ro-bind", str(TEST_BIN / "pl-enter"), "/.enter/pl-enter", "--bind", str(self.message), "/dev/termination-log"]
        if self.cgroup:
            words += ["--ro-bind", str(self.cgroup.folder), str(self.cgroup.folder.parent)]
        for place, mount in places:
            for above in reversed([str(one) for one in pathlib.PurePosixPath(place).parents][:-1]):  # what bubblewrap makes itself is root's alone
                words += ["--perms", "0755", "--dir", above]
            words += ["--ro-bind" if mount.get("readOnly") else "--bind", str(mounts(mount)), place]
        words += ["--remount-ro", "/"] if readonly else []
        command = container.get("command") or list(image.entrypoint)
        args = container.get("args") or ([] if container.get("command") else list(image.cmd))
        return [*words, "/.enter/pl-enter", str(report_fd), str(uid), str(gid), ",".join(map(str, groups)) or "-", f"{capabilities:x}", str(int(keep)),
                container.get("workingDir", image.workdir), *command, *args]

    async def start(self, pod, container, image, mounts, env, memory_bytes):
        """Its command runs, or the text why it does not (StartError). ValueError: it may not be created."""
        self.message.parent.mkdir(parents=True, exist_ok=True)
        self.message.touch()
        os.chmod(self.message, 0o666)
        report, reported = os.pipe()
        info, informed = os.pipe()
        try:
            if memory_bytes and Cgroup.place():
                self.cgroup = Cgroup(f"{pod['metadata']['uid']}-{self.name}", memory_bytes, self.whole)
            words = self.words(pod, container, image, mounts, env, reported, informed)
            if self.cgroup:
                words = ["/bin/sh", "-c", 'echo 0 >"$1"; shift; exec "$@"', "sh", str(self.cgroup.folder / "cgroup.procs"), *words]
            self.process = await asyncio.create_subprocess_exec(*words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                                                pass_fds=(reported, informed), limit=1 << 17)
        except BaseException:
            os.close(report)
            os.close(info)
            raise
        finally:
            os.close(reported)
            os.close(informed)
        loop = asyncio.get_running_loop()
        self.copies = [loop.create_task(self.copy(self.process.stdout, "stdout")), loop.create_task(self.copy(self.process.stderr, "stderr"))]
        with contextlib.suppress(ValueError):
            self.pid = json.loads(await read_all(info) or b"null")["child-pid"] if self.process else None
        if self.cgroup:
            self.cgroup.watch(loop, self.kill)
        said = await read_all(report)
        if said != b"\0":
            await self.end()
        if not said:
            raise RuntimeError(f"bubblewrap: {self.log.read_text() if self.log.exists() else 'no word'}: {words}")
        return said[1:].decode()

    async def copy(self, stream, name):
        """Lines as they come; longer ones than 16 KiB in parts ("P"), the last of which is "F"."""
        rest = b""
        with open(self.log, "ab", buffering=0) as log:
            while piece := await stream.read(1 << 14):
                *lines, rest = (rest + piece).split(b"\n")
                while len(rest) >= 1 << 14:
                    lines, rest = [*lines, rest[:1 << 14]], rest[1 << 14:]
                    log.write(b"".join(line_of(name, line, b"F") for line in lines[:-1]) + line_of(name, lines.pop(), b"P"))
                    lines = []
                log.write(b"".join(line_of(name, line, b"F") for line in lines))
                async with self.more:
                    self.more.notify_all()
            if rest:
                log.write(line_of(name, rest, b"F"))

    def signal(self, number):
        if self.pid and not self.ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self):
        self.signal(signal.SIGKILL)

    async def end(self):
        """-> (exit code, whether for want of memory), once all of it is gone."""
        code = await self.process.wait()
        self.ended = True
        await asyncio.gather(*self.copies)
        async with self.more:
            self.more.notify_all()
        oom = await self.cgroup.close(asyncio.get_running_loop()) if self.cgroup else False
        return (code if code >= 0 else 128 - code), oom

    def last_words(self, policy, failed):
        """What it left at /dev/termination-log, or, if it failed and the policy says so, of its output."""
        left = self.message.read_bytes()[:4096]
        if not left and failed and policy == "FallbackToLogsOnError" and self.log.exists():
            text = b"".join(line.split(b" ", 3)[3] + (b"\n" if line.split(b" ", 3)[2] == b"F" else b"")
                            for line in self.log.read_bytes().splitlines()[-80:])
            left = text[-2048:]
        return left.decode("utf-8", "replace")


def line_of(stream, line, flag):
    return now().strftime("%Y-%m-%dT%H:%M:%S.%f000Z ").encode() + stream.encode() + b" " + flag + b" " + line + b"\n"


async def read_all(fd):
    """A pipe to its end; closes it."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb"))
    try:
        return await reader.read()
    finally:
        transport.close()
