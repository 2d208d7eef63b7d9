"""kill -9 of the daemon at every step of an apply: at each call that changes one of its files or makes it durable, from the request for a look to
the end of the look. A reader of the API sees all of the old commit or all of the new one; after a restart everything is as in a daemon that was
not disturbed. Events of a transaction that is in the log but was not committed to the database are lost, and an event says so."""
import contextlib
import http.client
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import threading
import time

import pytest
from conftest import HttpError, wait_until
from source_kit import copy, follow, pipelines, source_of, spec

OFF = 0
STEPS_MIN = 30    # of one apply; fewer would say that calls are not counted
DOWN = (HttpError, OSError, http.client.HTTPException, ValueError)  # what a request gives that meets a kill
OWN = {"at", "at_us", "looks", "looked_us", "changed_us", "created_us", "updated_us", "freshness"}  # what differs from daemon to daemon: times, names of runs


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("killed") / "killed_at.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", path, pathlib.Path(__file__).with_name("killed_at.c")], check=True)
    return path


class Killer:
    """Kills a daemon that runs with `env` at its Nth step from now."""

    def __init__(self, library, path):
        self.path = path
        path.write_bytes(bytes(32))
        options = os.environ.get("ASAN_OPTIONS", "")
        self.env = {"LD_PRELOAD": str(library), "KILLED_AT": str(path), "ASAN_OPTIONS": options + ":verify_asan_link_order=0"}

    def arm(self, n):
        with open(self.path, "r+b") as f:
            f.write(struct.pack("<q", n))

    @property
    def call(self):
        """The call at which it was killed."""
        return self.path.read_bytes()[8:].split(b"\0")[0].decode()


class Reader(threading.Thread):
    """Reads the list of pipelines again and again; `seen` has all answers, as shapes."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.daemon_, self.seen, self.end = daemon, set(), threading.Event()

    def run(self):
        while not self.end.wait(0.02):
            try:
                self.seen.add(shape(self.daemon_))
            except DOWN:
                continue  # it is down

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        self.join()


def shape(daemon):
    """One answer of the API: pipelines and their versions."""
    return frozenset((name, p["version"], p["state"]) for name, p in pipelines(daemon).items())


def without_own(thing):
    if isinstance(thing, dict):
        return {key: without_own(value) for key, value in thing.items() if key not in OWN}
    return [without_own(value) for value in thing] if isinstance(thing, list) else thing


class View:
    """What a user sees of a daemon: all of it, or what came about since the last time."""

    def __init__(self, daemon):
        self.daemon, self.last = daemon, 0

    def events(self):
        """Of sources, pipelines and repos, since the last time; and whether an event says that some are lost."""
        page = self.daemon.http("GET", f"/api/v1/events?since={self.last}&limit=1000", headers={"Accept": "application/json"})
        self.last = page["last"]
        return ([without_own(e["data"]) for e in page["events"] if e["type"] in ("source", "pipeline", "repo")],
                any(e["type"] == "recovered" for e in page["events"]))

    def now(self, sha):
        get = self.daemon.get
        runs = get("/runs", commit=sha)["runs"]
        return without_own({
            "pipelines": {name: get(f"/pipelines/default/{name}") for name in pipelines(self.daemon)},
            "repos": sorted(r["name"] for r in get("/repos", limit=500)["repos"]),
            "source": source_of(self.daemon),
            "runs": [(run["message"], sorted(job["stage"] for job in get(f"/runs/{run['id']}")["jobs"])) for run in runs]})


def differing(one, other):
    """The fields in which two objects differ, each with both values."""
    return {key: differing(one[key], other[key]) if isinstance(one.get(key), dict) and isinstance(other.get(key), dict) else (one.get(key), other.get(key))
            for key in one.keys() | other.keys() if one.get(key) != other.get(key)}


def now(views, sha):
    """What both show. The warning that a pipeline was deleted is not repeated by the look after a restart."""
    killed_one, calm = (view.now(sha) for view in views)
    told = killed_one["source"]["warnings"]
    calm["source"]["warnings"] = [one for one in calm["source"]["warnings"] if one in told or "was deleted with its outputs" not in one]
    return killed_one, calm


def compare(views, sha, what):
    """Both show the same as soon as their runs of the commit have their jobs."""
    deadline = time.monotonic() + 60
    while (shown := now(views, sha))[0] != shown[1] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert shown[0] == shown[1], f"{what}: {differing(*shown)}"
    assert len(shown[0]["runs"]) == 1, what


def push(git, round_):
    """Pipelines that read each other, of which each push updates two with their code, creates one, and drops one. The push starts a run,
    whose first job waits for a machine of such a size."""
    shutil.rmtree(git.clone / "pipelines", ignore_errors=True)
    git.write("pipelines/p.json", spec("p", copy("s", code="code", resources={"memory": "100Ti"})))
    git.write("pipelines/code/run.sh", f"{round_}").write("pipelines/code/deep/data", f"{round_}" * 1000)
    name = "ab"[round_ % 2]
    git.write(f"pipelines/{name}.json", {"pipeline": name, "stages": [copy(f"{name}s", "s")]})
    git.write("pipelines/last.json", {"pipeline": "last", "stages": [copy("lasts", f"{name}s", code="code")]})
    return git.push(f"Round {round_}\n\nWith more text.")


def ended(daemon, sha):
    """True when the daemon was killed or has applied the commit."""
    if daemon.process.poll() is not None:
        return True
    try:
        return source_of(daemon)["applied"] == sha
    except DOWN:
        return False


def killed(daemon):
    """Collects a daemon that was killed."""
    try:
        daemon.get("/status")
    except DOWN:
        daemon.process.wait(60)
    if daemon.process.poll() is None:
        return False
    assert daemon.process.returncode == -signal.SIGKILL, daemon.log()[-3000:]
    daemon.process = None
    return True


# Three worlds share the steps. With prune: stop they are the same kinds of writes: every third.
@pytest.mark.parametrize("prune, first, stride", [("delete", 1, 3), ("delete", 2, 3), ("delete", 3, 3), ("stop", 1, 3)])
def test_a_kill_at_any_step_of_an_apply_leaves_all_of_it_or_nothing(make_daemon, git, library, tmp_path, prune, first, stride):
    options = ("--git-local-folders", git.bare.parent)
    killer = Killer(library, tmp_path / "killed-at")
    victim, calm = make_daemon(*options).start(env=killer.env), make_daemon(*options).start()
    sha = push(git, 0)
    for daemon in (victim, calm):
        follow(daemon, git, "team", "--prune", prune)
        daemon.push("in", "f", b"1")
    views, calls, gaps = [View(victim), View(calm)], [], []
    for view in views:
        view.events()
    with Reader(victim) as reader:
        step, dies = first - stride, True
        while dies:
            step += stride
            old, sha = shape(calm), push(git, len(calls) + 1)
            calm.post("/sources/team/sync")
            wait_until(lambda sha=sha: source_of(calm)["applied"] == sha, "the commit")
            new = shape(calm)
            reader.seen.clear()
            killer.arm(step)
            with contextlib.suppress(*DOWN):
                victim.post("/sources/team/sync")
            wait_until(lambda sha=sha: ended(victim, sha), "the end of the apply")
            killer.arm(OFF)
            dies = killed(victim)
            what = f"step {step} ({killer.call})" if dies else "no kill"
            if dies:
                calls.append(killer.call)
                victim.start(env=killer.env)
                assert shape(victim) in (old, new), what
                wait_until(lambda sha=sha: source_of(victim)["applied"] == sha, f"the commit after {what}")
            assert reader.seen <= {old, new}, (what, old, new, reader.seen)
            compare(views, sha, what)
            (events, lost), (expected, _) = (view.events() for view in views)
            assert [e for e in expected if e in events or not lost] == events, what
            gaps += [step] if lost else []
    print(f"killed at {calls}; events were lost at steps {gaps}")
    assert step > STEPS_MIN and gaps
    assert victim.post("/fsck?full=1")["ok"]
