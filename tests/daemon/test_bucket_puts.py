"""What gathers for a bucket: one that refuses for a while, one that has it alone, and a daemon that was taken over."""

import shutil

import pytest

from conftest import wait_until
from test_open_commit import Writer, events, start
from test_store_s3 import mock, over  # noqa: F401  (fixtures)


@pytest.fixture
def daemon_of(mock, over):  # noqa: F811
    def start(*options):
        d = over(mock)
        d.options += ["--gc-every", "0s", *options]
        return d.start()
    return start


def ready(d):
    return d.http("GET", "/readyz", token=False, raw=True).decode()


def test_a_refusal_of_the_bucket_is_told_everywhere_and_nothing_is_lost(daemon_of, mock):  # noqa: F811
    d = daemon_of()
    d.post("/repos", {"name": "in", "commit_window": "100ms"})
    mock.fault("403", "PUT")  # before the push: it gathers on this machine, and is finished 100 ms later
    first = d.push("in", "a", "1")["commit"]
    wait_until(lambda: d.get("/status")["stalled"], "the refusal to be told")
    stalled = d.get("/status")["stalled"][0]
    assert (stalled["id"], stalled["repo"], stalled["set_aside"]) == (first, "in", False) and "AccessDenied" in stalled["blocked"]
    assert "forbidden" in ready(d) and "AccessDenied" not in ready(d)
    assert "AccessDenied" in d.ctl("status").out and "tried again" in d.ctl("status").out
    assert "repair the store" in d.ctl("doctor", ok=False).out
    assert wait_until(lambda: events(d, "refused"), "an event")[0]["commit"] == first
    assert d.read("in", "a", first) == b"1", "what was answered is there"
    mock.order("chaos", 0, 0)
    wait_until(lambda: not d.get("/status")["stalled"], "it to be finished")
    assert [c["id"] for c in d.default.commits("in")] == [first]
    assert ready(d) == "ok\n" and d.read("in", "a") == b"1"


def test_a_restart_while_the_bucket_refuses_loses_nothing_and_keeps_the_order(daemon_of, mock):  # noqa: F811
    d = daemon_of()
    d.post("/repos", {"name": "in", "commit_window": "100ms"})
    older, newer = b"older", b"newer"
    mock.fault("403", "PUT", "/p/default/")  # packs: a daemon can start
    first = d.push("in", "a", older)["commit"]
    wait_until(lambda: d.get("/status")["stalled"], "the refusal to be told")
    second = d.push("in", "a", newer)["commit"]
    for _ in range(2):
        assert d.read("in", "a", second) == newer and d.read("in", "a", first) == (newer if first == second else older)
        d.kill()
        d.start()
        wait_until(lambda: d.get("/status")["stalled"], "the refusal to be told again")
    mock.order("chaos", 0, 0)
    wait_until(lambda: not d.get("/status")["stalled"] and not d.get("/repos/default/in/open")["commits"], "all to be finished")
    assert {c["id"] for c in d.default.commits("in")} == {first, second}
    assert d.read("in", "a") == newer and d.read("in", "a", first) == (newer if first == second else older)


def test_a_daemon_that_was_taken_over_ends_by_itself(daemon_of):
    old = daemon_of()
    old.default.repo("in")
    new = daemon_of()
    assert old.process.wait(timeout=60) == 75, "nobody asked it anything"
    assert "another daemon" in old.log()
    old.process = None
    new.push("in", "a", "1")
    assert new.read("in", "a") == b"1"


class Gatherer(Writer):
    """Puts into what gathers on the branch."""

    def run(self):
        try:
            for i in range(100000):
                path, content = f"g{self.number}/{i:05}", b"%d-" % i * (5 if i % 3 else 2000)
                self.d.push("in", path, content)
                self.answered[path] = content
        except (OSError, ValueError, AssertionError, Exception):  # noqa: B014  the daemon was killed
            return


def open_commits(d):
    return d.get("/repos/default/in/open")["commits"]


def test_what_was_answered_outlives_the_data_folder(make_daemon, tmp_path):
    """durable: bucket: kill, lose the folder, start: the store alone gives back all that was answered."""
    d = make_daemon("--store", f"file://{tmp_path}/store", "--gc-every", "0s").start()
    d.post("/repos", {"name": "in", "commit_window": "1s", "durable": "bucket"})
    d.push("in", "old", "old")
    started, gathered = {}, {}
    commit = start(d)
    for kill in range(12):
        writers = [Writer(d, commit, 10 * kill + i) for i in range(3)]
        gatherers = [Gatherer(d, None, 10 * kill + i) for i in range(3)]
        for w in writers + gatherers:
            w.start()
        wait_until(lambda: min(sum(len(w.answered) for w in ws) for ws in (writers, gatherers)) > 20 + 3 * kill, "puts to be answered")
        d.kill()
        for w in writers + gatherers:
            w.join()
            (started if w in writers else gathered).update(w.answered)
        shutil.rmtree(d.dir)
        d.start()
        files = {f["path"] for f in d.get(f"/repos/default/in/refs/{commit}/list", recursive=1, limit=10000)["files"]}
        assert not started.keys() - files, f"kill {kill}"
    wait_until(lambda: [c["id"] for c in open_commits(d)] == [commit], "what gathered to be finished")
    files = {f["path"] for f in d.get("/repos/default/in/refs/master/list", recursive=1, limit=10000)["files"]}
    assert not gathered.keys() - files
    d.post(f"/repos/default/in/open/{commit}/finish", {})
    for path, content in {**started, **gathered}.items():
        assert d.read("in", path) == content, path
    assert d.read("in", "old") == b"old" and not list((tmp_path / "store" / "open").glob("*/*"))
    assert d.post("/fsck?full=1")["ok"]
