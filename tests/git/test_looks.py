"""Looks at sources, whatever else is asked of the daemon meanwhile: each is done, and none does what its source no longer says."""
import concurrent.futures
import os
import pathlib
import threading

import faults
import pytest
from conftest import HttpError, cmdline, processes_with, reading, wait_until
from source_kit import copy, follow, pipelines, source_of, spec, sync

LIMIT_S = 60  # only ends a hang
BESIDE, THREADS, ROUNDS = 100, 6, 20


@pytest.fixture
def daemon(make_daemon, authority, git):
    return make_daemon(*reading(authority), "--git-local-folders", git.bare.parent).start()


class Gate:
    """A fault that holds replies back until it is opened."""

    def __init__(self, stage="refs"):
        self.stage = stage
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, handler, _):
        if handler.stage == self.stage:
            self.reached.set()
            self.opened.wait(LIMIT_S)
        return False

    def wait(self):
        assert self.reached.wait(LIMIT_S), "the server was not asked"

    def open(self):
        self.opened.set()


# --- each look is done

def test_a_source_whose_first_look_ends_is_followed_beside_servers_that_hang(daemon, git, https):
    """Three threads look at servers that hang; the fourth learns that this source is one for it."""
    git.write("pipelines/p.json", spec("p", copy())).push()
    gate = Gate()
    https.fault = lambda handler, reply: (faults.hang if handler.path.startswith("/hang") else gate)(handler, reply)

    def asked(word):
        return sum(path.startswith(f"/{word}") for _, path, _ in https.asked)

    def make(name, path, interval="1h"):
        daemon.post("/sources", {"name": name, "settings": {"git": https.url(path), "interval": interval}})

    make("hang0", "hang0/team.git")
    make("hang1", "hang1/team.git")
    wait_until(lambda: asked("hang") == 2, "two servers that hang")
    make("good", "team.git", "1s")
    gate.wait()
    make("hang2", "hang2/team.git")  # the last request: nothing else wakes a thread
    gate.open()
    wait_until(lambda: asked("hang") == 3, "the third server that hangs")
    before = asked("team.git")
    wait_until(lambda: asked("team.git") >= before + 2, "two more looks at the good one")
    assert source_of(daemon, "good")["state"] == "following"
    assert [source_of(daemon, f"hang{i}")["state"] for i in range(3)] == ["new"] * 3  # none was given up meanwhile


@pytest.mark.parametrize("kind", ["sync", "diff"])
def test_a_look_is_done_though_another_is_asked_for_during_each(daemon, git, https, kind):
    git.write("pipelines/p.json", spec("p", copy())).push()
    follow(daemon, https.url("team.git"))
    https.forget()
    https.fault = lambda *_: daemon.post("/sources/team/sync") and False
    daemon.post("/sources/team/sync")
    wait_until(lambda: https.asked, "the first look of many")
    mine = daemon.post(f"/sources/team/{kind}")["look"]
    wait_until(lambda: source_of(daemon)["looks"] >= mine, lambda: f"look {mine}, after {len(https.asked)} requests", 20)
    https.fault = None


def test_pl_git_ends_with_its_daemon_in_the_middle_of_a_look(daemon, https):
    """The next daemon's would work in the same copy. By itself it would give up the server after 30 s."""
    https.fault = gate = Gate()
    daemon.post("/sources", {"name": "team", "settings": {"git": https.url("team.git")}})
    gate.wait()
    of_it = lambda: [line for line in processes_with(daemon.dir) if "pl-git" in line]
    assert of_it()
    daemon.kill()
    wait_until(lambda: not of_it(), "its end", 15)
    gate.open()


def test_sources_that_are_created_and_deleted_beside_many_are_looked_at(daemon, git):
    settings = {"git": str(git.bare), "secret": "none", "interval": "24h", "paused": True}  # a look that ends before pl-git is asked
    for i in range(BESIDE):
        daemon.post("/sources", {"name": f"z{i}", "settings": settings})

    def create_and_delete(thread):
        for i in range(ROUNDS):
            name = f"c{thread}-{i % 5}"
            look = daemon.post("/sources", {"name": name, "settings": settings})["look"]
            assert look > 0, name
            wait_until(lambda name=name, look=look: source_of(daemon, name)["looks"] >= look, f"look {look} at {name}", 20)
            daemon.http("DELETE", f"/api/v1/sources/{name}", raw=True)

    with concurrent.futures.ThreadPoolExecutor() as threads:
        list(threads.map(create_and_delete, range(THREADS)))


# --- what changes during a look

def test_a_comparison_is_not_shown_by_a_later_source_of_the_name(daemon, git, https):
    git.write("pipelines/plan.json", spec("plan", copy("topsecret"))).push()
    daemon.project("alpha")
    daemon.project("beta")
    follow(daemon, https.url("team.git"), "team", "--project", "alpha")
    daemon.ctl("diff", "source", "team")
    https.fault = gate = Gate()
    daemon.post("/sources/team/sync")
    gate.wait()
    daemon.ctl("delete", "source", "team")
    look = daemon.post("/sources", {"name": "team", "project": "beta", "settings": {"git": https.url("nothing.git"), "interval": "1h"}})["look"]

    def not_compared():
        with pytest.raises(HttpError) as refused:
            daemon.get("/sources/team/diff")
        return refused.value.status == 404

    source = source_of(daemon)
    assert not_compared() and (source["project"], source["looks"], source["state"]) == ("beta", 0, "new")
    gate.open()
    wait_until(lambda: source_of(daemon)["looks"] >= look, "the look at the later source")
    source = source_of(daemon)
    assert not_compared() and (source["state"], source["commit"], source["applied"]) == ("unreachable", "", "")


def test_a_commit_is_not_applied_with_settings_that_came_during_the_look(daemon, git, https):
    git.write("pipelines/p.json", spec("p", copy("one"))).push()
    git("checkout", "-q", "-b", "two")
    git.branch = "two"
    two = git.write("pipelines/q.json", spec("q", copy("other"))).push()
    follow(daemon, https.url("team.git"), "team", "--branch", "two")
    daemon.default.run("in", {"f": b"1"})
    daemon.ctl("update", "source", "team", "--branch", "main")
    assert "pipeline \"q\" is in no file any more, and still runs" in sync(daemon).out
    before, commits = pipelines(daemon), daemon.default.commits("other")
    git("checkout", "-q", "main")
    git.branch = "main"
    git.write("README.md", "hello").push()
    https.fault = gate = Gate("pack")
    daemon.post("/sources/team/sync")
    gate.wait()
    daemon.ctl("update", "source", "team", "--branch", "two", "--prune", "delete")
    gate.open()
    sync(daemon)
    assert source_of(daemon)["applied"] == two and source_of(daemon)["warnings"] == []
    assert {name: p["created_us"] for name, p in pipelines(daemon).items()} == {name: p["created_us"] for name, p in before.items()}
    assert daemon.default.commits("other") == commits and daemon.read("other", "all") == b"1"


# --- pl-git

def test_pl_git_does_not_get_the_environment_of_the_daemon(make_daemon, authority, git, https):
    """It reads data of strangers."""
    git.push()
    daemon = make_daemon(*reading(authority)).start(env={"AWS_SECRET_ACCESS_KEY": "never-told"})
    https.fault = gate = Gate()
    daemon.post("/sources", {"name": "team", "settings": {"git": https.url("team.git"), "interval": "1h"}})
    gate.wait()
    folder = os.path.join(daemon.dir, "cache", "git").encode()
    of_git = [path for path in pathlib.Path("/proc").glob("[0-9]*") if folder in cmdline(path.name)]
    assert len(of_git) == 1 and b"never-told" not in (of_git[0] / "environ").read_bytes()
    assert b"never-told" in pathlib.Path(f"/proc/{daemon.process.pid}/environ").read_bytes()
    gate.open()
