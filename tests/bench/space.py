"""What garbage collection costs those who write meanwhile: half of a million files goes out of packs of which the other half is needed."""
import os
import threading
import time

import data
import measure
import ours
import spine

PERIOD_S = 0.1  # of the writer
ALONE_S = 30    # measured before
LEAST_S = 5


class Writer:
    """Commits one small file ten times a second, each at its time, and notes how long after that it was acknowledged."""

    def __init__(self, target):
        self.client, self.over, self.took_ms, self.failed = spine.Client(target), threading.Event(), [], None
        self.number = 0

    def write(self):
        due = time.monotonic()
        try:
            while not self.over.is_set():
                self.client.put("writer", f"f{self.number % 100}", b"%d" % self.number)
                self.took_ms.append((time.monotonic() - due) * 1000)
                self.number += 1
                due = max(due + PERIOD_S, time.monotonic() - 10 * PERIOD_S)  # who is late makes up for a second of it
                self.over.wait(max(0, due - time.monotonic()))
        except (measure.Failed, OSError) as failure:
            self.failed = failure

    def beside(self, work):
        """-> (work's result, 99th percentile in ms, commits)."""
        self.took_ms = []
        self.over.clear()
        thread = threading.Thread(target=self.write)
        thread.start()
        try:
            result = work()
        finally:
            self.over.set()
            thread.join()
        if self.failed:
            raise measure.Failed(f"a commit failed: {self.failed}")
        return result, sorted(self.took_ms)[int(len(self.took_ms) * 0.99)], len(self.took_ms)


def interleaved(bench, target):
    """Every pack of the store is needed by half, by another repo than the one that goes -> files there were."""
    count = bench.scaled(1_000_000)
    whole, half = bench.folder / "gc-whole", bench.folder / "gc-half"
    data.make_files(whole, count)
    for index in (i for i in range(count) if i % 4 < 2):
        path = data.path_of(half, index)
        path.parent.mkdir(parents=True, exist_ok=True)
        os.link(data.path_of(whole, index), path)
    for repo, folder in (("gone", whole), ("kept", half)):
        target.ctl("create", "repo", repo)
        target.ctl("put", "file", "-q", "-r", f"{repo}@master:/", "-f", folder)
    target.ctl("delete", "repo", "gone")
    return count


def collect(target):
    """-> the report, seconds; until nothing waits for anybody any more."""
    began = time.monotonic()
    freed = copied = 0
    while True:
        report, _ = target.ctl_json("gc")
        freed += report["freed_bytes"]
        copied += report["copied_bytes"]
        if report["waiting_packs"] == 0:
            return freed, copied, time.monotonic() - began
        time.sleep(0.2)


def gc(bench):
    bench.say("gc: half of 1,000,000 files goes while a writer commits 10 times a second")
    with ours.Daemon(bench.folder / "gc", ["--gc-every", "0s", "--linger", "0s"]) as target:
        count = interleaved(bench, target)
        target.ctl("create", "repo", "writer")
        writer = Writer(target)
        before = target.store_bytes()
        measure.settle()
        _, alone, _ = writer.beside(lambda: time.sleep(max(LEAST_S, ALONE_S * bench.scale)))
        with measure.Watch(target.pid) as watch:
            (freed, copied, seconds), busy, commits = writer.beside(lambda: collect(target))
        bench.say(f"  {commits} commits meanwhile, {copied / 1e6:.0f} MB copied, {freed / 1e6:.0f} MB freed, the store has "
                  f"{target.store_bytes() / before:.2f} of before, memory {watch.peak / data.MIB:.0f} MiB")
        bench.row(f"half of {count:,} files is collected", "s", {"ours": seconds}, "", None)
        bench.row("… a commit of one file, 99th of 100, before", "ms", {"ours": alone}, "", None)
        bench.row("… meanwhile", "ms", {"ours": busy}, "≤ 2 × before", busy <= 2 * alone)
        bench.row("… the store, of before", "share", {"ours": target.store_bytes() / before}, "", None)


EVERY = {"gc": gc}
