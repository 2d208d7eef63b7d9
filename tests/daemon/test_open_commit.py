"""Open commits: files gather in one until it is finished; what was answered is there after any end of the daemon."""

import glob
import json
import os
import pathlib
import random
import subprocess
import threading
import urllib.parse

import pytest

from by_path import load
from conftest import BIN, HttpError, ops_stream, runs_end, sh, wait_until

servers = load("s3_servers", "s3/servers.py")

DAY = 24 * 3600
FAILED, NOT_FOUND = 1, 3


def start(d, repo="in", branch="master", **body):
    return d.post(f"/repos/default/{repo}/branches/{branch}/open", body)["id"]


def put(d, commit, path, content, repo="in", **query):
    content = content.encode() if isinstance(content, str) else content
    query = "?" + urllib.parse.urlencode(query) if query else ""
    return d.http("PUT", f"/api/v1/repos/default/{repo}/open/{commit}/files/{urllib.parse.quote(path)}{query}", content)


def apply(d, commit, puts, deletes=(), repo="in"):
    return d.http("POST", f"/api/v1/repos/default/{repo}/open/{commit}/ops", ops_stream(puts, deletes),
                  headers={"Content-Type": "application/x-pl-ops"})


def finish(d, commit, repo="in", **body):
    return d.post(f"/repos/default/{repo}/open/{commit}/finish", body)


def refused(call, code, *parts):
    with pytest.raises(HttpError) as e:
        call()
    assert e.value.error["code"] == code, e.value
    for part in parts:
        assert part in e.value.error["message"], e.value.error
    return e.value


def spools(d):
    return sorted(glob.glob(os.path.join(d.dir, "open", "*.spool")))


def events(d, change):
    page = d.http("GET", "/api/v1/events?since=0", headers={"Accept": "application/json"})
    return [e["data"] for e in page["events"] if e["type"] == "commit" and e["data"].get("change") == change]


def test_files_gather_and_one_commit_comes_of_them(daemon):
    d = daemon
    d.default.repo("in")
    first = d.push("in", "a/old", "old")["commit"]
    c = start(d, message="scans", author="me")
    answer = put(d, c, "a/new", "new")
    assert answer["open"] and answer["commit"] == c and answer["run"] == ""
    put(d, c[:8], "big", b"x" * 300_000)
    put(d, c, "run.sh", "#!", exec=1)
    apply(d, c, {"b/1": "one", "b/2": "two"}, ["a/old"])
    assert len(d.default.commits("in")) == 1
    assert d.default.files("in") == {"a/old": "file"}
    told = d.get(f"/repos/default/in/commits/{c}")
    assert (told["state"], told["parent"], told["files"], told["operations"]) == ("open", first, 5, 6)
    done = finish(d, c)
    assert (done["commit"], done["run"], done["changed"], done["open"], done["files"]) == (c, c, True, False, 5)
    assert d.default.files("in") == {"a/new": "file", "b/1": "file", "b/2": "file", "big": "file", "run.sh": "exec"}
    assert d.read("in", "big") == b"x" * 300_000
    commit = d.get(f"/repos/default/in/commits/{c}")
    assert (commit["state"], commit["message"], commit["author"], commit["parent"]) == ("finished", "scans", "me", first)
    assert d.get(f"/runs/{c}")["cause"] == "push"
    assert not spools(d)
    assert finish(d, c)["commit"] == c
    refused(lambda: put(d, c, "x", "x"), "not_found", "no open commit")


def test_reads_see_the_operations_over_the_base(daemon):
    d = daemon
    d.default.repo("in")
    d.default.commit("in", {f"d/{i:03}": f"{i}" for i in range(200)})
    c = start(d)
    put(d, c, "d/100", "changed")
    put(d, c, "e/f", b"z" * 5000)
    apply(d, c, {}, ["d/199"])
    files = d.default.files("in", c)
    assert len(files) == 200 and "e/f" in files and "d/199" not in files
    assert d.read("in", "d/100", c) == b"changed"
    assert d.read("in", "e/f", c[:6]) == b"z" * 5000
    assert d.read("in", "d/007", c) == b"7"
    assert d.read("in", "d/100", c + "^") == b"100"
    refused(lambda: d.read("in", "d/199", c), "not_found", "d/199")
    changes = {x["path"]: x["change"] for x in d.get("/repos/default/in/diff", to=c)["changes"]}
    assert changes == {"d/100": "changed", "d/199": "removed", "e/f": "added"}
    assert [f["path"] for f in d.get(f"/repos/default/in/refs/{c}/list", glob="/e/*")["files"]] == ["e/f"]
    put(d, c, "e/g", "more")  # a view that is there goes on from there
    assert d.get(f"/repos/default/in/refs/{c}/list?path=e&recursive=1")["files"][1]["path"] == "e/g"
    other = start(d)
    put(d, other, "e/g", "other")
    changes = {x["path"]: x["change"] for x in d.get("/repos/default/in/diff", **{"from": other, "to": c})["changes"]}
    assert changes == {"d/100": "changed", "d/199": "removed", "e/f": "added", "e/g": "changed"}
    assert d.read("in", "e/g", other) == b"other"


def test_others_changes_of_its_paths_are_a_conflict_and_those_of_others_merge(daemon):
    d = daemon
    d.default.repo("in")
    d.default.commit("in", {"a": "1", "b": "1", "dir/x": "1"})
    c = start(d)
    put(d, c, "a", "mine")
    apply(d, c, {"new": "mine"}, ["dir/x"])
    d.push("in", "b", "theirs")
    d.push("in", "a", "theirs")
    d.push("in", "dir/x", "theirs")
    error = refused(lambda: finish(d, c), "conflict", "/a", "/dir/x")
    assert error.status == 409
    assert d.read("in", "a", c) == b"mine", "it is still open"
    ctl = d.ctl("finish", "commit", f"in@{c[:8]}", ok=False)
    assert ctl.code == 4 and "/dir/x" in ctl.err
    e = start(d)
    put(d, e, "a", "mine")
    d.push("in", "c", "theirs")
    finish(d, e)
    assert d.default.contents("in") == {"a": b"mine", "b": b"theirs", "c": b"theirs", "dir/x": b"theirs"}
    d.http("DELETE", f"/api/v1/repos/default/in/commits/{c[:10]}")
    refused(lambda: put(d, c, "x", "x"), "not_found")
    assert events(d, "dropped")[-1]["commit"] == c
    assert not spools(d)


def test_a_base_that_is_gone_is_a_conflict_and_comes_not_back(daemon):
    d = daemon
    d.default.repo("in")
    master = d.push("in", "a", "1")["commit"]
    first = d.push("in", "a", "1", branch="dev")["commit"]
    second = d.push("in", "b", "1", branch="dev")["commit"]
    c = start(d, branch="dev")
    put(d, c, "new", "1")
    runs_end(d)  # a commit whose run goes on is in use
    d.http("DELETE", f"/api/v1/repos/default/in/commits/{second}")
    refused(lambda: finish(d, c), "conflict", second[:8], "was deleted")
    e = start(d, branch="dev")
    put(d, e, "new", "2")
    d.http("DELETE", "/api/v1/repos/default/in/branches/dev")
    refused(lambda: finish(d, e), "conflict", "branch dev was deleted after", first[:8])
    assert [b["name"] for b in d.get("/repos/default/in/branches")["branches"]] == ["master"]
    d.push("in", "b", "1")
    f = start(d)
    put(d, f, "new", "3")
    d.http("DELETE", "/api/v1/repos/default/in/branches/master")
    d.post("/repos/default/in/branches", {"name": "master", "from": master})
    refused(lambda: finish(d, f), "conflict", "moved back")
    assert d.default.contents("in") == {"a": b"1"}
    assert d.read("in", "new", f) == b"3", "it can still be read"


def test_names_that_cannot_both_be_are_refused_at_once_and_nothing_of_a_request_is_taken(daemon):
    d = daemon
    d.default.repo("in")
    d.default.commit("in", {"dir/x": "1", "file": "1"})
    c = start(d)
    refused(lambda: put(d, c, "dir", "x"), "path_collision", "dir/x")
    refused(lambda: put(d, c, "file/x", "x"), "path_collision", "file")
    refused(lambda: apply(d, c, {"ok": "1", "file/x": "1"}), "path_collision", "file")
    refused(lambda: put(d, c, "a//b", "x"), "invalid_path")
    assert d.get(f"/repos/default/in/commits/{c}")["operations"] == 0
    apply(d, c, {"dir": "a file now"}, ["dir/x"])
    assert d.read("in", "dir", c) == b"a file now"
    finish(d, c)
    assert d.default.files("in") == {"dir": "file", "file": "file"}


def test_nothing_changed_makes_no_commit(daemon):
    d = daemon
    d.default.repo("in")
    head = d.push("in", "a", "1")["commit"]
    c = start(d)
    put(d, c, "a", "1")
    done = finish(d, c)
    assert (done["changed"], done["commit"], done["run"]) == (False, head, "")
    assert len(d.default.commits("in")) == 1 and not spools(d)
    assert events(d, "unchanged")


def test_who_waits_for_the_run_of_a_commit_that_changed_nothing_waits_for_the_one_that_stands(daemon):
    d = daemon
    d.post("/repos", {"name": "in", "commit_window": "100ms"})
    d.default.stages(sh("s", 'cp "$PL_INPUT_IN/a" "$PL_OUT/a"'))
    head = d.push("in", "a", "1")["commit"]
    d.wait(head)
    same = d.push("in", "a", "1")["commit"]
    wait_until(lambda: events(d, "unchanged"), "it to be finished")
    answer = d.get(f"/runs/{same[:8]}/wait")
    assert (answer["id"], answer["done"], answer["state"], answer["unchanged_at"]) == (same, True, "success", head)
    for daemon_was_restarted in (False, True):
        waited = d.ctl("wait", "run", same[:8])
        assert f"nothing changed: in@master is still at commit {head[:8]}" in waited.err and f"run {head[:8]}: success" in waited.out
        if not daemon_was_restarted:
            d.stop()
            d.start()
    assert d.ctl("wait", "run", "0123456789", ok=False).code == NOT_FOUND


def test_a_commit_that_changed_nothing_on_an_empty_branch_or_was_dropped_has_no_run(daemon):
    d = daemon
    d.default.repo("in")
    empty, dropped = start(d, branch="dev"), start(d)
    assert finish(d, empty)["changed"] is False
    waited = d.ctl("wait", "run", empty)
    assert waited.out == "there is no run: nothing changed: in@dev has no commit yet\n"
    assert json.loads(d.ctl("wait", "run", empty, "--json").out)["unchanged_at"] == ""
    d.http("DELETE", f"/api/v1/repos/default/in/commits/{dropped}")
    waited = d.ctl("wait", "run", dropped, ok=False)
    assert waited.code == FAILED and f"there is no run: commit {dropped[:8]} was dropped" in waited.err


def test_a_commit_that_is_finished_again_says_what_came_of_it(daemon):
    d = daemon
    d.default.repo("in")
    c = start(d)
    put(d, c, "a", "1")
    first = finish(d, c)
    same, dropped = start(d), start(d)
    again = finish(d, c[:10])
    assert {k: again[k] for k in ("changed", "commit", "run", "root", "files", "bytes", "branch")} == {k: first[k] for k in ("changed", "commit", "run", "root", "files", "bytes", "branch")}
    put(d, same, "a", "1")
    first = finish(d, same)
    assert not first["changed"] and {**finish(d, same), "new_bytes": 0} == {**first, "new_bytes": 0}
    d.http("DELETE", f"/api/v1/repos/default/in/commits/{dropped}")
    assert "was dropped" in d.ctl("finish", "commit", f"in@{dropped}", ok=False).err
    refused(lambda: finish(d, dropped), "not_found", "was dropped")
    refused(lambda: finish(d, "master"), "not_found", "no open commit")
    refused(lambda: finish(d, "0" * 32), "not_found", "no open commit")


def test_the_message_is_that_of_its_end_of_its_last_put_or_of_its_start(daemon):
    d = daemon
    d.default.repo("in")
    said = lambda c: d.get(f"/repos/default/in/commits/{c}")["message"]
    started, put_, ended = (start(d, message="start") for _ in range(3))
    path = d.write("f", "1")
    for c in (put_, ended):
        d.ctl("put", "file", f"in@{c}:/{c}", "-f", path, "-m", "first")
        d.ctl("put", "file", f"in@{c}:/{c}", "-f", path, "-m", "last")
        d.ctl("put", "file", f"in@{c}:/{c}-more", "-f", path)
    put(d, started, "b", "1")
    assert [said(c) for c in (started, put_, ended)] == ["start", "last", "last"]
    d.kill()
    d.start()
    assert said(put_) == "last"
    finish(d, started), finish(d, put_), d.post(f"/repos/default/in/open/{ended}/finish", {"message": "end"})
    assert [said(c) for c in (started, put_, ended)] == ["start", "last", "end"]
    d.http("PATCH", "/api/v1/repos/default/in", {"commit_window": "60s"})
    for message in ("one", "two"):
        d.ctl("put", "file", f"in@master:/{message}", "-f", path, "-m", message)
    assert d.post("/repos/default/in/open/master/finish", {})["changed"]
    assert said("master") == "two"


def test_an_open_commit_on_an_empty_branch(daemon):
    d = daemon
    d.default.repo("in")
    c = start(d, branch="dev")
    assert d.default.files("in", c) == {}
    put(d, c, "a", "1")
    assert d.get("/repos/default/in/diff", to=c)["changes"][0]["change"] == "added"
    done = d.post("/repos/default/in/open/dev/finish", {"message": "by its branch"})
    assert done["branch"] == "dev"
    assert d.default.contents("in", "dev") == {"a": b"1"}
    refused(lambda: start(d, repo="nix"), "not_found")


# ---- commit_window


def test_puts_gather_where_the_repo_says_so(daemon):
    d = daemon
    window = lambda text: d.http("PATCH", "/api/v1/repos/default/in", {"commit_window": text})
    d.post("/repos", {"name": "in", "commit_window": "60s"})
    answers = [d.push("in", f"f{i}", str(i)) for i in range(20)]
    window("100ms")  # the next put brings it to the commit
    answers.append(d.default.commit("in", {"g": "1"}, ["f3"]))
    commit, = {a["commit"] for a in answers}
    assert all(a["open"] and a["gathers"] and a["run"] == "" for a in answers)
    run = d.wait(commit)
    assert run["state"] == "success" and run["cause"] == "push"
    assert len(d.default.commits("in")) == 1
    assert d.default.files("in").keys() == {"g", *(f"f{i}" for i in range(20) if i != 3)}
    window("60s")
    later = d.push("in", "h", "1")["commit"]
    assert later != commit
    assert d.post("/repos/default/in/open/master/finish", {})["commit"] == later


def test_what_gathers_behind_one_that_is_being_finished_is_finished_soon_after(daemon):
    d = daemon
    d.post("/repos", {"name": "in", "commit_window": "60s"})
    for i in range(4):
        first = d.push("in", f"big{i}", os.urandom(15 << 20))["commit"]
    d.http("PATCH", "/api/v1/repos/default/in", {"commit_window": "100ms"})
    by_hand = threading.Thread(target=lambda: finish(d, first))
    by_hand.start()
    fresh = lambda: d.push("in", "late", os.urandom(8))["commit"]  # what changes nothing makes no commit
    later = wait_until(lambda: (lambda c: c if c != first else None)(fresh()), "another one to gather")
    by_hand.join()
    wait_until(lambda: later in [c["id"] for c in d.default.commits("in")], "it to be finished", timeout=20)


def test_a_window_shorter_than_a_put_refuses_no_put(daemon):
    d = daemon
    d.post("/repos", {"name": "in", "commit_window": "100ms"})
    big = os.urandom(15 << 20)
    commit = d.push("in", "big", big)["commit"]
    d.wait(commit)
    assert d.read("in", "big") == big


def test_who_waits_for_a_branch_or_runs_what_reads_it_sees_what_gathers(daemon):
    d = daemon
    d.post("/repos", {"name": "in", "commit_window": "60s"})
    d.default.stages({"name": "out", "input": {"repo": "in", "glob": "/"}, "run": ["true"]})
    first = d.push("in", "a", "1")["commit"]
    d.ctl("wait", "run", "in@master")
    assert [c["id"] for c in d.default.commits("in")] == [first]
    second = d.push("in", "a", "2")["commit"]
    told = d.ctl("wait", "run", "in@master")
    assert second[:8] in told.out
    assert d.read("in", "a") == b"2"
    third = d.push("in", "a", "3")["commit"]
    d.ctl("run", "pipeline", "p")
    assert d.default.commits("in")[0]["id"] == third
    assert not spools(d)


def test_the_last_writer_wins_and_a_named_base_comes_after_what_gathers(daemon):
    d = daemon
    d.post("/repos", {"name": "in", "commit_window": "60s"})
    first = d.push("in", "a", "1")["commit"]
    d.push("in", "a", "2")
    url = "/api/v1/repos/default/in/branches/master/files/b?base="
    assert not d.http("PUT", url, b"x")["open"] is False, "an empty base is none"
    d.post("/repos/default/in/open/master/finish", {})
    assert d.read("in", "a") == b"2"
    d.push("in", "a", "3")
    error = refused(lambda: d.http("PUT", "/api/v1/repos/default/in/branches/master/files/a?base=" + first, b"x"), "conflict", "/a")
    assert error.status == 409
    assert d.read("in", "a") == b"3", "what gathered was finished before"
    d.http("PATCH", "/api/v1/repos/default/in", {"commit_window": "0s"})
    d.push("in", "a", "4")
    assert d.read("in", "a") == b"4"
    assert not spools(d)


def test_options_of_a_repo_are_checked_and_shown(daemon):
    d = daemon
    d.ctl("create", "repo", "in", "--commit-window", "1500ms", "--durable", "bucket")
    assert (lambda r: (r["commit_window_ms"], r["durable"]))(d.get("/repos/default/in")) == (1500, "bucket")
    d.ctl("update", "repo", "in", "--commit-window", "0s")
    assert (lambda r: (r["commit_window_ms"], r["durable"]))(d.get("/repos/default/in")) == (0, "bucket")
    d.ctl("update", "repo", "in", "-d", "text", "--durable", "local")
    assert (lambda r: (r["description"], r["durable"]))(d.get("/repos/default/in")) == ("text", "local")
    change = lambda **body: d.http("PATCH", "/api/v1/repos/default/in", body)
    refused(lambda: change(commit_window="61s"), "invalid", "60s")
    refused(lambda: change(commit_window="99ms"), "invalid", "100ms")
    refused(lambda: change(commit_window="soon"), "invalid", "soon")
    refused(lambda: change(durable="disk"), "invalid", "local or bucket")
    assert d.ctl("update", "repo", "in", ok=False).code == 2
    d.default.stages({"name": "out", "input": {"repo": "in", "glob": "/"}, "run": ["true"]})
    refused(lambda: d.http("PATCH", "/api/v1/repos/default/out", {"commit_window": "1s"}), "output_repo")


def test_a_spec_sets_options_of_the_repos_it_names(daemon):
    d = daemon
    stage = {"name": "out", "input": {"repo": "in", "glob": "/"}, "run": ["true"]}
    options = lambda: (lambda r: (r["commit_window_ms"], r["durable"]))(d.get("/repos/default/in"))
    d.default.stages(stage, repos={"in": {"commit_window": "2s", "durable": "bucket"}})
    assert options() == (2000, "bucket")
    d.default.stages(stage, repos={"in": {"commit_window": "0s"}}, update=True)
    assert options() == (0, "bucket")
    d.default.stages(stage, repos={"in": {}}, update=True)
    assert options() == (0, "bucket")
    refused(lambda: d.default.stages(stage, repos={"in": {"commit_window": "2m"}}, update=True), "invalid_spec", "commit_window")
    refused(lambda: d.default.stages(stage, repos={"in": {"commit_window": "5ms"}}, update=True), "invalid", "100ms")
    refused(lambda: d.default.stages(stage, repos={"in": {"durable": "disk"}}, update=True), "invalid_spec", "durable")


def test_durable_bucket_answers_when_the_store_has_all_of_it(make_daemon):
    d = make_daemon().start()
    d.post("/repos", {"name": "in", "durable": "bucket"})
    c = start(d)
    saved = lambda: sorted(glob.glob(os.path.join(d.dir, "store", "open", c, "*")))
    content = random.Random(1).randbytes(5000)
    for i in range(3):
        put(d, c, f"f{i}", content)
        assert len(saved()) == i + 1
    assert b"".join(pathlib.Path(path).read_bytes() for path in saved()) == pathlib.Path(spools(d)[0]).read_bytes()
    finish(d, c)
    assert not saved() and d.read("in", "f0") == content


# ---- ends of the daemon


class Writer(threading.Thread):
    """Puts files of its own into an open commit; remembers what was answered."""

    def __init__(self, d, commit, number):
        super().__init__(daemon=True)
        self.d, self.commit, self.number = d, commit, number
        self.answered, self.tried = {}, {}

    def run(self):
        draw = random.Random(self.number)
        for i in range(100000):
            path, content = f"w{self.number}/{i:05}", draw.randbytes(draw.choice((10, 500, 70_000)))
            self.tried[path] = content
            try:
                put(self.d, self.commit, path, content)
            except (OSError, HttpError, ValueError):
                return
            self.answered[path] = content


def test_kill_9_between_puts_keeps_all_that_was_answered(make_daemon):
    d = make_daemon().start()
    d.default.repo("in")
    d.push("in", "old", "old")
    c = start(d)
    answered, tried = {}, {}
    for kill in range(4):
        writers = [Writer(d, c, 10 * kill + i) for i in range(6)]
        for w in writers:
            w.start()
        wait_until(lambda: sum(len(w.answered) for w in writers) > 60, "puts to be answered")
        d.kill()
        for w in writers:
            w.join()
            answered |= w.answered
            tried |= w.tried
        d.start()
        files = {f["path"]: f for f in d.get(f"/repos/default/in/refs/{c}/list", recursive=1, limit=10000)["files"]}
        assert not answered.keys() - files.keys(), "answered files are gone"
        assert not files.keys() - tried.keys() - {"old"}
    finish(d, c)
    for path, content in answered.items():
        assert d.read("in", path) == content, path
    assert d.read("in", "old") == b"old"
    assert not spools(d)
    d.ctl("fsck", "--full")


def test_a_window_that_was_open_at_the_end_is_finished_by_the_next_start(make_daemon):
    d = make_daemon().start()
    d.post("/repos", {"name": "in", "commit_window": "60s"})
    commit = d.push("in", "a", "1")["commit"]
    d.kill()
    d.start()
    d.http("PATCH", "/api/v1/repos/default/in", {"commit_window": "0s"})
    d.stop()
    d.start()
    wait_until(lambda: [c["id"] for c in d.default.commits("in")] == [commit], "it to be finished")
    assert d.read("in", "a") == b"1"


def test_a_crash_after_the_commit_leaves_no_second_one(make_daemon):
    d = make_daemon().start()
    d.default.repo("in")
    c = start(d)
    put(d, c, "a", "1")
    with open(spools(d)[0], "rb") as f:
        spool = f.read()
    finish(d, c)
    d.kill()
    with open(os.path.join(d.dir, "open", c + ".spool"), "wb") as f:
        f.write(spool)  # as if the daemon had died before it took the file away
    d.start()
    assert not spools(d)
    assert [x["id"] for x in d.default.commits("in")] == [c]


def test_what_is_left_idle_for_a_day_is_dropped_with_an_event(make_daemon):
    d = make_daemon().start()
    d.default.repo("in")
    old, young = start(d), start(d)
    put(d, old, "a", "1")
    put(d, young, "a", "1")
    d.stop()
    path = os.path.join(d.dir, "open", old + ".spool")
    os.utime(path, (os.path.getmtime(path) - DAY - 60,) * 2)
    d.start()
    wait_until(lambda: len(spools(d)) == 1, "it to be dropped")
    event = wait_until(lambda: events(d, "dropped"), "an event")[0]
    assert event["commit"] == old and "a day" in event["reason"]
    assert d.read("in", "a", young) == b"1"


def test_a_damaged_file_is_set_aside_and_told(make_daemon):
    d = make_daemon().start()
    d.default.repo("in")
    good, bad = start(d), start(d)
    for c in (good, bad):
        for i in range(3):
            put(d, c, f"f{i}", f"{i}" * 100)
    d.kill()
    path = os.path.join(d.dir, "open", bad + ".spool")
    with open(path, "r+b") as f:
        at = f.read().index(b"PLSG") + 40
        f.seek(at)
        f.write(b"\xff\xff")
    d.start()
    assert os.path.exists(path + ".damaged") and not os.path.exists(path)
    assert "damaged" in events(d, "damaged")[0]["reason"]
    assert d.get(f"/repos/default/in/commits/{good}")["operations"] == 3


def test_open_commits_go_with_their_repo(make_daemon):
    d = make_daemon().start()
    d.default.repo("in")
    put(d, start(d), "a", "1")
    d.http("DELETE", "/api/v1/repos/default/in")
    assert not spools(d)
    d.default.repo("in")
    put(d, start(d), "a", "1")
    d.kill()
    os.rename(spools(d)[0], os.path.join(d.root, "kept"))
    d.start()
    d.http("DELETE", "/api/v1/repos/default/in")
    d.default.repo("in")
    d.stop()
    with open(os.path.join(d.root, "kept"), "rb") as f:
        head = f.read()
    commit = json.loads(head[20:20 + int.from_bytes(head[8:12], "little")])["commit"]
    os.rename(os.path.join(d.root, "kept"), os.path.join(d.dir, "open", commit + ".spool"))
    d.start()
    assert not spools(d), "another repo of the same name is not its repo"


def test_an_upload_goes_on_where_a_lost_connection_left_it(make_daemon):
    d = make_daemon("--listen", f"127.0.0.1:{servers.free_port()}").start()
    d.default.repo("in")
    packs = lambda: glob.glob(os.path.join(d.dir, "store", "p", "default", "*", "*"))
    stored = lambda: sum(os.path.getsize(p) for p in packs())
    for i in range(5):
        content = random.Random(i).randbytes(200 << 20)
        path = d.write("large", content)
        before, there = stored(), len(packs())
        put_ = subprocess.Popen([os.path.join(BIN, "pipelinectl"), "--data", d.dir, "put", "file", f"in@master:/large{i}", "-f", path],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "XDG_CACHE_HOME": d.root})
        wait_until(lambda: len(packs()) > there or put_.poll() is not None, "a pack")
        d.kill()
        os.set_blocking(put_.stderr.fileno(), False)
        said = bytearray()
        lost = lambda: said.extend(put_.stderr.read() or b"") or b"what has arrived is kept" in said
        wait_until(lambda: lost() or put_.poll() is not None, "the put to hear of it")
        caught = put_.poll() is None  # else it was faster than the kill
        d.start()
        out, err = put_.communicate(timeout=120)
        assert put_.returncode == 0, (out, said, err)
        assert d.read("in", f"large{i}") == content
        assert len(d.default.commits("in")) == i + 1
        if caught:
            break
    assert caught
    assert stored() - before < 1.02 * len(content), "nothing was sent and stored twice"


def test_small_and_large_puts_and_finish_wait_for_a_daemon_that_comes_back(make_daemon):
    d = make_daemon("--listen", f"127.0.0.1:{servers.free_port()}").start()
    d.default.repo("in")
    c = start(d)
    put(d, c, "of/c", "c")
    path = d.write("large", random.Random(1).randbytes(1 << 20))

    def back(*args, stdin=b""):
        d.kill()
        process = subprocess.Popen([os.path.join(BIN, "pipelinectl"), "--data", d.dir, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env={**os.environ, "XDG_CACHE_HOME": d.root})
        process.stdin.write(stdin)
        process.stdin.close()
        process.stdin = None
        said = process.stderr.readline() + process.stderr.readline()
        assert b"retrying for 60 s" in said
        d.start()
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, (out, said, err)
        return out.decode()

    back("put", "file", "in@other:/small", "-f", "-", stdin=b"small")
    back("put", "file", "in@other:/large", "-f", path)
    assert d.default.files("in", "other") == {"small": "file", "large": "file"}
    assert f"in@master: commit {c}" in back("finish", "commit", f"in@{c[:8]}")
    assert d.default.files("in") == {"of/c": "file"}
    again = d.ctl("finish", "commit", f"in@{c}").out
    assert f"in@master: commit {c}: 1 file" in again and f"run {c}" in again, "whose answer was lost"
    assert json.loads(d.ctl("--json", "finish", "commit", f"in@{c[:8]}").out)["commit"] == c
    assert d.ctl("finish", "commit", f"in@{'0' * 32}", ok=False).code == 3
    d.kill()
    refused_ = d.ctl("put", "file", "in@other:/small", "--base", "other", "-f", "-", stdin=b"x", ok=False)
    assert refused_.code == 6 and "trying again" not in refused_.err
    d.start()


# ---- pipelinectl


def test_the_commands(daemon):
    d = daemon
    d.default.repo("in")
    folder = os.path.dirname(d.write("folder/a/1", "one"))
    d.write("folder/a/2", b"2" * 200_000)
    out = d.ctl("start", "commit", "in@master", "-m", "by hand").out
    c = d.get("/repos/default/in/open")["commits"][0]["id"]
    assert f"put file in@{c[:8]}" in out and f"finish commit in@{c[:8]}" in out
    assert "added to open commit" in d.ctl("put", "file", f"in@{c[:8]}:/x", "-f", "-", stdin=b"x").out
    d.ctl("put", "file", f"in@{c}:/data", "-r", "-f", os.path.dirname(folder))
    assert d.ctl("list", "file", f"in@{c[:6]}", "-r").out.count("/data/a/") == 2
    d.ctl("delete", "file", f"in@{c[:8]}:/x")
    assert c[:8] in d.ctl("list", "commit", "in", "--open").out
    assert "open" in d.ctl("inspect", "commit", f"in@{c}").out
    d.ctl("get", "file", f"in@{c[:8]}:/", "-r", "-o", os.path.join(d.root, "got"))
    with open(os.path.join(d.root, "got", "data", "a", "2"), "rb") as f:
        assert f.read() == b"2" * 200_000
    assert d.ctl("get", "file", f"in@{c[:8]}:/data/a/1", "-o", "-").out == "one"
    assert d.ctl("put", "file", f"in@{c[:8]}:/x", "--base", "master", "-f", "-", stdin=b"x", ok=False).code == 2
    done = d.ctl("finish", "commit", "in@master", "-m", "done").out
    assert f"run {c}" in done
    assert d.get(f"/repos/default/in/commits/{c}")["message"] == "done"
    assert d.default.files("in").keys() == {"data/a/1", "data/a/2"}
    assert d.ctl("put", "file", f"in@{c}:/x", "-f", "-", stdin=b"x", ok=False).code == 2
    for line in (["put", "file", f"in@{c[:8]}:/x", "-f", "-"], ["put", "file", f"in@{c[:5]}:/x", "-f", "-"],
                 ["delete", "file", f"in@{c[:8]}:/data/a/1"], ["start", "commit", f"in@{c[:8]}"]):
        said = d.ctl(*line, stdin=b"x", ok=False)
        assert said.code == 2 and f"commit {c[:8]} of in is finished and never changes" in said.err, said.err
    refused(lambda: start(d, branch=c[:8]), "invalid_name", c[:8], "another name")
    refused(lambda: d.push("in", "y", "1", branch=c[:10]), "invalid_name", c[:10], "another name")
    refused(lambda: d.post("/repos/default/in/branches", {"name": c[:8], "from": "master"}), "invalid_name", "another name")
    assert [b["name"] for b in d.get("/repos/default/in/branches")["branches"]] == ["master"]
    c = json.loads(d.ctl("--json", "start", "commit", "in").out)["id"]
    assert "is open already" in d.ctl("start", "commit", f"in@{c[:8]}", ok=False).err
    d.ctl("delete", "commit", f"in@{c[:8]}")
    assert c[:8] not in d.ctl("list", "commit", "in", "--open").out
