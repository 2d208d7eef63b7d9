"""How things are measured: one command's wall time, processor time and memory; a process looked at while it runs; bytes on disk."""
import os
import pathlib
import statistics
import subprocess
import threading
import time

TICK = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """A command that was to be measured did not work."""


class Timed:
    """wall and cpu in seconds, rss_bytes at its highest, out: what it printed."""

    def __init__(self, wall, cpu, rss_bytes, out):
        self.wall, self.cpu, self.rss_bytes, self.out = wall, cpu, rss_bytes, out


def run(argv, env=None, cwd=None, then_sync=False):
    """Runs a command to its end -> Timed; with then_sync until the disk has what it wrote. Raises Failed with what it said."""
    began = time.monotonic()
    process = subprocess.Popen(argv, env={**os.environ, **(env or {})}, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if then_sync:
        os.sync()
    wall = time.monotonic() - began
    process.stdout.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise Failed(f"{' '.join(map(str, argv[:4]))} …: exit {process.returncode}: {out.decode(errors='replace')[-500:]}")
    return Timed(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, out.decode(errors="replace"))


def settle():
    """What was written before shall not be paid for by what is measured next."""
    os.sync()


def cpu_of(pid):
    """Seconds of processor time that a living process has used, its ended children included."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / TICK


def cpu_below(pid):
    """The same of the process and all that live below it: a worker outlives the job that it did."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            pass  # it has just ended
    below = [pid]
    for one in below:
        below += [child for child, parent in parents.items() if parent == one]
    total = 0
    for one in below:
        try:
            total += cpu_of(one)
        except OSError:
            pass
    return total


def anonymous_of(pid):
    """RssAnon of a process in bytes."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


class Watch:
    """with Watch(pid) as w: … ; w.peak is the highest RssAnon that was seen, 50 looks a second."""

    def __init__(self, pid):
        self.pid, self.peak = pid, 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)

    def look(self):
        while not self.over.wait(0.02):
            self.peak = max(self.peak, anonymous_of(self.pid))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def bytes_below(folder):
    """Sizes of all files below a folder."""
    total = 0
    for base, _, names in os.walk(folder):
        total += sum(os.lstat(os.path.join(base, name)).st_size for name in names)
    return total


median = statistics.median
