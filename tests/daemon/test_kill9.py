"""kill -9 of the daemon at many random moments, under a writing load and running stages: what was acknowledged is there, every run
ends, what it made is what its inputs make, and the store alone gives all of it again.

PL_KILL_SEED repeats a run's moments, PL_KILLS is their number (100; 48 in the README's command), in PARTS worlds."""

import http.client
import os
import random
import threading
import urllib.error

import pytest

from conftest import QUICK, HttpError, all_pages, everything, runs_end, sh

KILLS = int(os.environ.get("PL_KILLS") or ("48" if QUICK else "100"))
PARTS = 4
FILES = 6  # of each writer
MOMENTS = (0.003, 0.03, 0.1, 0.3, 0.6, 1.2)  # seconds between a start and its kill are drawn below one of these


class Writer(threading.Thread):
    """Pushes to paths of its own, again and again, and remembers what was acknowledged."""

    def __init__(self, daemon, repo, number, seed, up, end):
        super().__init__(daemon=True)
        self.d, self.repo, self.number, self.up, self.end = daemon, repo, number, up, end
        self.random = random.Random(seed * 10 + number)
        self.acknowledged = []  # (commit, path, content)
        self.may_be = {}        # path → contents that the head may have: the last acknowledged one and those tried since
        self.error = None

    def content(self):
        size = self.random.choice((10, 300, 70_000, 200_000))
        return self.random.randbytes(8) + bytes([self.random.randrange(256)]) * size

    def once(self, project, path, content):
        self.may_be.setdefault(path, []).append(content)
        try:
            reply = project.push(self.repo, path, content)
        except HttpError as e:
            assert e.status in (503, 500), e  # the daemon is on its way down
            return
        except (OSError, http.client.HTTPException, urllib.error.URLError, ValueError):
            return
        if reply["changed"]:
            self.acknowledged.append((reply["commit"], path, content))
        self.may_be[path] = [content]

    def run(self):
        try:
            project = self.d.default
            while not self.end.is_set():
                self.up.wait()
                self.once(project, f"w{self.number}-{self.random.randrange(FILES)}", self.content())
        except BaseException as e:  # told by the main thread
            self.error = e


def commits_of(daemon, repo):
    return {c["id"] for c in all_pages(daemon, f"/repos/default/{repo}/commits", "commits")}


def check_acknowledged(daemon, writers, checked):
    """Every acknowledged commit is there; those that were not looked at before have their content."""
    for w in writers:
        acknowledged = list(w.acknowledged)  # first: a writer may have begun anew
        there = commits_of(daemon, w.repo)
        missing = [(commit, path) for commit, path, _ in acknowledged if commit not in there]
        assert not missing, missing
        for commit, path, content in acknowledged[checked.get(w.number, 0):]:
            assert daemon.read(w.repo, path, commit) == content, (commit, path)
        checked[w.number] = len(acknowledged)


def kill_at_random(d, draw):
    """Spawns the daemon and kills it at a random moment, perhaps before it serves; true when it served."""
    if draw.random() < 0.15:
        wait_moment(draw.random() * 0.15)
        d.kill()
        return False
    d.ready()
    return True


def wait_moment(seconds):
    """The moment of a kill is what is tested: here time itself is waited for."""
    threading.Event().wait(seconds)


def tree(daemon, repo, ref):
    got = daemon.get(f"/repos/default/{repo}/refs/{ref}/list", recursive=1, limit=1000)
    return {f["path"]: f["id"] for f in got["files"]}


def check_copies(d, repo, copy):
    """Each output commit has the very files of the input commit that it names; the output commits."""
    commits = list(all_pages(d, f"/repos/default/{copy}/commits", "commits"))
    for commit in commits:
        source, = commit["provenance"]
        assert tree(d, copy, commit["id"]) == tree(d, repo, source["commit"]), commit["id"]
    return commits


def check_outputs(d):
    """What the stages made is what their inputs make; no command failed for our kills."""
    check_copies(d, "in", "each")
    queued = {c["id"] for c in check_copies(d, "queued", "keep")}
    assert queued == commits_of(d, "queued"), "a queue leaves no run out"
    for commit in all_pages(d, "/repos/default/all/commits", "commits"):
        source, = commit["provenance"]
        files = d.get(f"/repos/default/each/refs/{source['commit']}/list", recursive=1, limit=1000)["files"]
        assert d.read("all", "sizes", commit["id"]).decode().split() == [str(f["size"]) for f in files], commit["id"]
    failed = [(r["id"], j["stage"], j["state"], j["reason"]) for r in everything(d)["runs"] for j in r["jobs"] if j["state"] in ("failure", "unrunnable")]
    assert not failed, failed[:5]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS), ids=lambda part: f"alone-{part}")
def test_kills_lose_nothing(make_daemon, part):
    seed = int(os.environ.get("PL_KILL_SEED", "0")) or random.randrange(1, 1 << 30)
    print(f"PL_KILL_SEED={seed}")
    draw = random.Random(seed)
    store = make_daemon(name="store")
    d = make_daemon("--store", f"file://{store.root}/s", "--checkpoint-every", "20").start()
    d.default.repo("in", "queued").stages(sh("each", 'cp "$PL_INPUT_IN" "$PL_OUT/$(basename "$PL_INPUT_IN")"', glob="/*", workers=2),
                                sh("all", 'for f in "$PL_INPUT_EACH"/*; do wc -c <"$f"; done >"$PL_OUT/sizes"', "each"))
    d.default.stages(sh("keep", 'cp "$PL_INPUT_QUEUED"/* "$PL_OUT"', "queued", on_new="queue"), pipeline="q")
    up, end, checked = threading.Event(), threading.Event(), {}
    writers = [Writer(d, repo, i, seed, up, end) for i, repo in enumerate(("in", "in", "queued"))]
    for w in writers:
        w.start()
    served = True
    for _ in range(KILLS // PARTS):
        if served:
            up.set()
            wait_moment(draw.random() * draw.choice(MOMENTS))
            up.clear()
            d.kill()
        served = kill_at_random(d.spawn(), draw)
        if served:
            check_acknowledged(d, writers, checked)
        assert not [w.error for w in writers if w.error], [w.error for w in writers]
    end.set()
    up.set()
    for w in writers:
        w.join(60)
        assert not w.error, w.error
    if not served:
        d.spawn().ready()
    check_end(d, writers, checked)
    second = make_daemon("--store", f"file://{store.root}/s")
    check_recovery(d, second)
    print(f"part {part}: {KILLS // PARTS} kills, {sum(len(w.acknowledged) for w in writers)} acknowledged pushes, {len(commits_of(second, 'each')) + len(commits_of(second, 'keep'))} outputs")


def check_end(d, writers, checked):
    last = d.push("in", "last", "the last push")
    assert d.wait(last["run"], timeout=120)["state"] == "success"
    runs_end(d, 120)
    check_acknowledged(d, writers, checked)
    for w in writers:
        for path, contents in w.may_be.items():
            if any(path == p for _, p, _ in w.acknowledged):
                assert d.read(w.repo, path) in contents, path
    assert tree(d, "each", "master") == tree(d, "in", "master")
    check_outputs(d)
    report = d.post("/fsck?full=1")
    assert report["ok"], report


def check_recovery(d, second):
    """The store alone, in an empty folder, gives every logged record again."""
    before = everything(d)
    assert d.stop() == 0
    second.start()
    assert everything(second) == before
    assert second.post("/fsck?full=1")["ok"]
