"""The protocol of garbage collection (gc.pml), proved by spin for small worlds; and each of its rules, left out, is missed."""

import concurrent.futures
import os
import pathlib
import re
import subprocess

import pytest

MODEL = pathlib.Path(__file__).with_name("gc.pml")

SOUND = {
    "a worker, three packs, the daemon dies": "PACKS=3 WORKING DYING",
    "a pusher": "PACKS=2 PUSHING",
    "a pusher of one content, the daemon dies": "PACKS=2 PUSHING DYING ONE",
    "a pusher and a worker with the same content": "PACKS=2 PUSHING WORKING ONE",
    "two collectors": "PACKS=2 WORKING TWO",
    "a worker that says what it was told, the daemon dies": "PACKS=2 WORKING TELLING DYING",
}

DATA_LOST = "commits& ~"
TOLD_AGAIN = "alive&"

# The rule left out: the world in which it is missed, and the claim that fails there.
BROKEN = {
    "who asks is not shown what is condemned": ("PACKS=2 WORKING BREAK_HAVE", DATA_LOST),
    "a pack is hidden before it is condemned": ("PACKS=2 WORKING BREAK_ORDER", DATA_LOST),
    "the start reads what is condemned": ("PACKS=2 WORKING DYING BREAK_START", DATA_LOST),
    "doom waits for who was there": ("PACKS=2 WORKING BREAK_WAIT", DATA_LOST),
    "doom wants a second mark": ("PACKS=2 WORKING BREAK_MARK", DATA_LOST),
    "only what is doomed is removed": ("PACKS=2 WORKING BREAK_DOOM", DATA_LOST),
    "a commit revives what is condemned, refuses what is doomed": ("PACKS=2 PUSHING BREAK_COMMIT", DATA_LOST),
    "a result counts with its lease": ("PACKS=2 WORKING BREAK_LEASE", DATA_LOST),
    "a lease is renewed with the session in which all was told": ("PACKS=2 WORKING TELLING BREAK_TOLD", DATA_LOST),
    "and not while something of that is condemned": ("PACKS=2 WORKING TELLING BREAK_TOLD_LIVE", DATA_LOST),
    "one collector at a time": ("PACKS=2 WORKING TWO BREAK_LOCK", DATA_LOST),
    "what is marked is durable": ("PACKS=2 WORKING DYING BREAK_FLUSH", DATA_LOST),
    "what is said to be there is durable": ("PACKS=2 PUSHING WORKING DYING BREAK_ANSWER", DATA_LOST),
    "what a session was told is pinned": ("PACKS=2 PUSHING BREAK_PIN", TOLD_AGAIN),
}


def search(folder, defines):
    """All that can happen in the world of these defines: (states seen, the assertion that failed or "")."""
    folder.mkdir(parents=True)
    subprocess.run(["spin", *(f"-D{name}" for name in defines.split()), "-a", str(MODEL)], cwd=folder, check=True, timeout=60)
    subprocess.run(["gcc", "-O2", "-w", "-DSAFETY", "-DHC4", "-DMEMLIM=4000", "-o", "pan", "pan.c"], cwd=folder, check=True, timeout=120)
    found = subprocess.run(["./pan", "-m1000000", "-w24", "-n"], cwd=folder, check=True, timeout=600, capture_output=True, text=True).stdout
    failed = re.search(r"assertion violated (.*) \(at depth", found)
    assert failed or "max search depth too small" not in found
    errors = re.search(r"errors: (\d+)", found)
    assert errors and int(errors.group(1)) == bool(failed), found
    return int(re.search(r"(\d+) states, stored", found).group(1)), failed.group(1) if failed else ""


@pytest.fixture(scope="session")
def searched(tmp_path_factory):
    """Each world's search, begun at once, so many at a time as there are cores; the long ones first."""
    base = tmp_path_factory.mktemp("gc")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        worlds = [*SOUND.items(), *((name, world) for name, (world, _) in BROKEN.items())]
        yield {name: pool.submit(search, base / str(i), world) for i, (name, world) in enumerate(worlds)}


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_lost(searched, name):
    states, failed = searched[name].result()
    assert failed == ""
    assert states > 10000, "the model does hardly anything"


@pytest.mark.parametrize("name", BROKEN)
def test_each_rule_is_needed(searched, name):
    assert BROKEN[name][1] in searched[name].result()[1]
