"""kill -9 of agent, runner, sandbox and daemon, each after each other, while stages run: what was acknowledged is there, every run ends,
results are those of their inputs, and no process, mount or folder is left.

PL_KILL_SEED repeats a run's moments, PL_PAIR_ROUNDS says how often each pairing comes."""

import glob
import itertools
import json
import os
import random
import signal
import time

import pytest

from conftest import QUICK, SANDBOX, HttpError, cmdline, processes_with, runs_end, sh, wait_until, workers_of
from test_kill9 import check_acknowledged, check_copies, commits_of, everything, tree, wait_moment

ROUNDS = int(os.environ.get("PL_PAIR_ROUNDS") or ("3" if QUICK else "6"))  # 16 pairings of two kills: 192, and those of test_kill9
PARTS = 2  # worlds that share the rounds
KINDS = ["agent", "runner", "sandbox", "daemon"] if SANDBOX == "bwrap" else ["agent", "runner", "daemon"]
GAPS = (0, 0.002, 0.02, 0.2)  # seconds between the two kills are drawn below one of these
TRIES = 100                   # a datum's: kills of its sandbox are the test's doing


def parents():
    """Process → its parent, of all."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                text = f.read()
        except OSError:
            continue
        found[int(path.split("/")[2])] = int(text.rpartition(")")[2].split()[1])
    return found


def processes(d):
    """Kind → numbers of the daemon's processes of that kind that are there now."""
    agents = workers_of(d)
    parent = parents()
    below = lambda above: [p for p, q in parent.items() if q in above]
    named = lambda pids, name: [p for p in pids if os.path.basename(cmdline(p).split(b"\0")[0].decode()) == name]
    sandboxes = named(below(agents), "bwrap")
    return {"agent": agents, "sandbox": sandboxes, "runner": named(below(sandboxes or agents), "pl-runner"),
            "daemon": [d.process.pid] if d.process else []}


class Load:
    """Files that were pushed, and what was acknowledged of them; as a Writer of test_kill9 its checks read it."""

    def __init__(self, d, seed):
        self.d, self.random = d, random.Random(seed)
        self.repo, self.number, self.acknowledged = "in", 0, []
        self.pushed = 0

    def push(self):
        path = f"f{self.random.randrange(8)}"
        content = b"%d\n" % self.pushed * self.random.choice((1, 400, 30_000))
        self.pushed += 1
        reply = self.d.push("in", path, content)
        assert reply["changed"]
        self.acknowledged.append((reply["commit"], path, content))
        return reply["run"]


def kill(d, kind, draw):
    """One process of the kind, if one is there; the daemon is collected."""
    pids = processes(d)[kind]
    if not pids:
        return False
    if kind == "daemon":
        d.kill()
        return True
    try:
        os.kill(draw.choice(pids), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def stand_again(d):
    if d.process is None:
        d.start()


def wait_for(d, load, pair):
    """Until processes of both kinds are there; the kills that it took. Datums that were lost again wait for ten seconds and more, and so do
    stages whose workers did not come up: a push begins anew, and so does the daemon's next life."""
    patience, kills = 0.2, 0

    def there():
        found = processes(d)
        return all(found[kind] for kind in pair)

    def there_after_all():
        nonlocal patience, kills
        patience *= 2
        limit = time.monotonic() + patience
        while time.monotonic() < limit:
            if there():
                return True
        if patience > 3:
            kills += kill(d, "daemon", None)
            stand_again(d)
        load.push()
        return False
    wait_until(there_after_all, lambda: f"{pair} to be there: {processes(d)}; {d.log()[-2000:]}")
    return kills


def kill_pair(d, load, pair, draw):
    """Both kills, in this order; their number (the second has often gone with the first)."""
    kills = wait_for(d, load, pair)
    kills += kill(d, pair[0], draw)
    wait_moment(draw.random() * draw.choice(GAPS))
    kills += kill(d, pair[1], draw)
    stand_again(d)
    return kills


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS), ids=lambda part: f"alone-{part}")
def test_every_pair_of_kills_loses_nothing(make_daemon, part):
    seed = int(os.environ.get("PL_KILL_SEED", "0")) or random.randrange(1, 1 << 30)
    print(f"PL_KILL_SEED={seed}")
    draw = random.Random(seed)
    d = make_daemon().start()
    tries = {"datum": {"tries": TRIES}}
    d.default.repo("in").stages(
        sh("each", 'sleep 0.05; cp "$PL_INPUT_IN" "$PL_OUT/$(basename "$PL_INPUT_IN")"', glob="/*", workers=2, on_new="restart", **tries),
        sh("all", 'sleep 0.1; for f in "$PL_INPUT_EACH"/*; do wc -c <"$f"; done >"$PL_OUT/sizes"',
           "each", on_new="restart", **tries))
    load, checked, kills = Load(d, seed), {}, 0
    pairs = list(itertools.product(KINDS, KINDS)) * (ROUNDS // PARTS)
    draw.shuffle(pairs)
    for i, pair in enumerate(pairs):
        kills += kill_pair(d, load, pair, draw)
        if i % 16 == 15:
            check_acknowledged(d, [load], checked)
    check_end(d, load, checked)
    print(f"part {part}: {kills} kills in {len(pairs)} pairs, {len(load.acknowledged)} acknowledged pushes, {len(commits_of(d, 'each'))} outputs")
    assert kills > 1.5 * len(pairs)
    check_nothing_left(d)


def check_end(d, load, checked):
    assert d.wait(load.push(), timeout=120)["state"] == "success"
    runs_end(d, 120)
    check_acknowledged(d, [load], checked)
    assert tree(d, "each", "master") == tree(d, "in", "master")
    for commit in check_copies(d, "in", "each"):
        assert len([c for c in d.get("/repos/default/each/commits", limit=1000)["commits"] if c["id"] == commit["id"]]) == 1
    failed = [(r["id"], j["stage"], j["state"], j["reason"]) for r in everything(d)["runs"] for j in r["jobs"] if j["state"] in ("failure", "unrunnable")]
    assert not failed, failed[:5]
    report = d.post("/fsck?full=1")
    assert report["ok"], json.dumps(report)[:2000]


def check_nothing_left(d):
    """No worker outlives the daemon's end, no work folder, nothing mounted below the daemon's folder."""
    assert d.stop() == 0
    wait_until(lambda: not processes_with(d.dir), lambda: f"processes to end: {processes_with(d.dir)}", 45)
    assert os.listdir(os.path.join(d.dir, "work")) == []
    assert os.listdir(os.path.join(d.dir, "tmp")) == []
    with open("/proc/self/mounts", encoding="utf-8") as f:
        assert d.dir not in f.read()
