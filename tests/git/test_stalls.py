"""Servers that never finish: they are given up in time, and other sources do not wait for them."""
import os
import time

import faults
import pytest
from beside import OTHERS_S, answers, beside, nothing_left
from conftest import wait_until
from source_kit import copy, source_of, spec

# The first folder of the path names the fault.
ENDLESS = {
    "hang": faults.hang,
    "hang-refs": faults.at_refs(faults.hang_in_the_middle),
    "hang-pack": faults.at_pack(faults.hang_in_the_middle),
    "endless-refs": faults.at_refs(faults.endless_refs)}
DRIPS = 8  # more than the daemon has threads for sources


def by_path(handler, reply):
    """The fault that the first folder of the path names; the repository lies below it."""
    name, _, rest = handler.path.lstrip("/").partition("/")
    handler.path = "/" + rest
    return ENDLESS[name](handler, reply)


@pytest.mark.slow
def test_sources_that_hang_keep_nobody_waiting(make_daemon, authority, git, https, git_daemon, tmp_path):
    daemon, other = beside(make_daemon, authority, tmp_path)
    git.write("a", os.urandom(300_000)).write("pipelines/p.json", spec("p", copy())).push()
    https.fault, git_daemon.fault = by_path, faults.silent
    urls = {**{name: https.url(f"{name}/team.git") for name in ENDLESS}, "git": git_daemon.url("team.git")}
    began = time.monotonic()
    for name, url in urls.items():
        daemon.post("/sources", {"name": name, "settings": {"git": url, "interval": "1h"}})
    wait_until(lambda: https.asked or git_daemon.connections, "the first look at one that hangs")
    other.write("pipelines/r.json", spec("r", copy("third"))).push()
    daemon.post("/sources/good/sync")
    wait_until(lambda: answers(daemon, "r"), "the source beside those that hang", OTHERS_S)
    print(f"the other source went on after {time.monotonic() - began:.1f} s")
    wait_until(lambda: all(source_of(daemon, name)["state"] == "unreachable" for name in urls), "all to be given up", 280)
    print(f"all were given up after {time.monotonic() - began:.1f} s:", {name: source_of(daemon, name)["error"] for name in urls})
    nothing_left(daemon)


def test_servers_that_drip_keep_nobody_waiting(make_daemon, authority, git, https, tmp_path):
    """Each sends a little of a pack without end."""
    daemon, other = beside(make_daemon, authority, tmp_path)
    git.write("pipelines/p.json", spec("p", copy())).push()
    https.fault = faults.at_pack(faults.drip)
    for i in range(DRIPS):
        daemon.post("/sources", {"name": f"drip{i}", "settings": {"git": https.url("team.git"), "interval": "1h"}})
    wait_until(lambda: https.stages("pack"), "the question for objects")
    other.write("pipelines/r.json", spec("r", copy("third"))).push()
    daemon.post("/sources/good/sync")
    wait_until(lambda: answers(daemon, "r"), "the source beside those that drip", OTHERS_S)
    began = time.monotonic()
    assert daemon.stop() == 0 and time.monotonic() - began < 15
