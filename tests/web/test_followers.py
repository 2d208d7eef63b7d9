"""What it costs that many people have a page open."""
import os
import select
import socket
import time
import urllib.parse

import pytest

from conftest import kit

FOLLOWERS = 100
SHARE = 0.05  # of one core, when nothing happens


def processor_seconds(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def quiet(tmp_path):
    """A daemon that has nothing to do."""
    daemon = kit.Daemon(tmp_path, "--sandbox", "none").start()
    yield daemon
    assert daemon.stop() == 0


def test_a_hundred_that_follow_cost_little_while_nothing_happens(quiet):
    """From one comment, which keeps the connection alive, to the next: 15 s. The smaller of two such times counts."""
    at = urllib.parse.urlsplit(quiet.url)
    request = f"GET /api/v1/events HTTP/1.1\r\nHost: {at.netloc}\r\nAuthorization: Bearer {quiet.token}\r\nAccept: text/event-stream\r\n\r\n".encode()
    followers = [socket.create_connection((at.hostname, at.port), timeout=60) for _ in range(FOLLOWERS)]
    for follower in followers:
        follower.sendall(request)

    def each_hears_a_comment():
        silent = {follower: b"" for follower in followers}
        while silent:
            ready, _, _ = select.select(list(silent), [], [], 60)
            assert ready, f"{len(silent)} of {FOLLOWERS} followers hear nothing for 60 s"
            for follower in ready:
                heard = follower.recv(65536)
                assert heard, f"a follower's connection ended after {silent[follower]!r}"
                silent[follower] += heard
                if b"\n:" in silent[follower]:
                    del silent[follower]

    def share_of_a_core():
        before, began = processor_seconds(quiet.process), time.monotonic()
        each_hears_a_comment()
        return (processor_seconds(quiet.process) - before) / (time.monotonic() - began)

    each_hears_a_comment()
    share = min(share_of_a_core(), share_of_a_core())
    for follower in followers:
        follower.close()
    print(f"{FOLLOWERS} followers: {100 * share:.2f} % of a core")
    assert share <= SHARE
