"""What goes on beside a server that does wrong: the daemon answers, another source is followed, and nothing is left over."""
import os
import time

from conftest import processes_with, reading, wait_until
from source_kit import Repository, copy, follow, pipelines, spec

ANSWER_S = 30  # an answer of the API; a bound on hangs, not on speed
OTHERS_S = 30  # until another source is looked at


def beside(make_daemon, authority, tmp_path):
    """A daemon that follows a repository of this machine, and that repository."""
    good = tmp_path / "good"
    good.mkdir()
    other = Repository(good)
    daemon = make_daemon(*reading(authority), "--git-local-folders", good).start()
    other.write("pipelines/q.json", spec("q", copy("other"))).push()
    follow(daemon, other, "good")
    return daemon, other


def answers(daemon, pipeline):
    """True if the pipeline is there; the daemon must say so soon."""
    asked = time.monotonic()
    there = set(pipelines(daemon))
    assert time.monotonic() - asked < ANSWER_S
    return pipeline in there


def nothing_left(daemon):
    wait_until(lambda: not processes_with(os.path.join(daemon.dir, "cache", "git")), "the end of pl-git")
    for base, _, names in os.walk(os.path.join(daemon.dir, "cache", "git")):
        for name in names:
            assert not name.startswith("pack_git2_") and not name.endswith(".lock"), os.path.join(base, name)
