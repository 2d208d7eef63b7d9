"""What repos keep: commits, results and logs beyond that are dropped, but for what somebody stands on; the same after a recovery."""

import json
import os
import shutil
import urllib.request

import pytest

from conftest import HttpError, everything, gone, logs_are_sealed, sh, wait_until
from test_clock import Clock, library  # noqa: F401 (a fixture)
from test_restart import newest

DAY = 24 * 3600


@pytest.fixture
def clock(library, tmp_path):  # noqa: F811
    return Clock(library, tmp_path / "jump")


def ids(project, repo):
    """Of all commits, the newest first."""
    return [c["id"] for c in project.commits(repo)]


def keep(daemon, repo=None, dry_run=False):
    """A pass: (row of each repo, [commits that would go]). The clock is believed, however far it was set."""
    path = f"/repos/default/{repo}/keep" if repo else "/keep"
    report = daemon.get(path) if dry_run else daemon.post(path if repo else path + "?trust_clock=1", {})
    return {r["repo"]: r for r in report["repos"]}, [(c["repo"], c["commit"], c["why"]) for c in report["commits"]]


def missing(call):
    with pytest.raises(HttpError) as e:
        call()
    assert (e.value.status, e.value.error["code"]) in ((404, "not_found"), (410, "gone")), e.value
    return e.value.error["message"]


def rule(daemon, repo, **numbers):
    assert daemon.http("PATCH", f"/api/v1/repos/default/{repo}", {"keep": numbers})["keep"] == numbers


def test_commits_beyond_the_rule_go_and_say_so(make_daemon, tmp_path):
    d = make_daemon().start()
    p = d.default.repo("in", "tags")
    made = [p.run("in", {"f": f"{i}"})["id"] for i in range(8)]
    d.post("/repos/default/in/branches", {"name": "v1", "from": made[2]})
    assert keep(d) == ({}, []) and ids(p, "in") == made[::-1]  # nobody has said anything
    d.ctl("update", "repo", "in", "--keep", "commits=3")
    assert "commits=3" in d.ctl("inspect", "repo", "in").out
    # --- told first: v1 keeps itself and two before it, master three
    rows, going = keep(d, dry_run=True)
    assert going == [("in", c, "older than the repo keeps") for c in made[3:5]]
    assert (rows["in"]["keep"], rows["in"]["kept"], rows["in"]["commits"], rows["in"]["held"]) == ({"commits": 3}, 6, 2, 0)
    told = d.ctl("keep", "in", "--dry-run").out
    assert made[3][:8] in told and made[4][:8] in told and made[5][:8] not in told
    assert ids(p, "in") == made[::-1]
    # --- done
    assert keep(d)[0]["in"]["commits"] == 2 and keep(d)[0]["in"]["commits"] == 0
    assert ids(p, "in") == [c for c in made[::-1] if c not in made[3:5]]
    said = gone(lambda: d.get(f"/repos/default/in/commits/{made[3]}"))
    assert f"commit {made[3][:8]} of default/in was removed on 2" in said and "older than the repo keeps" in said
    assert "was removed on" in gone(lambda: p.read("in", "f", made[4][:10]))
    assert "was removed on" in d.ctl("get", "file", f"in@{made[3]}:/f", "-o", "-", ok=False).err
    assert "was removed on" not in missing(lambda: d.get(f"/repos/default/tags/commits/{made[3]}"))
    assert p.read("in", "f", made[5]) == b"5" and p.read("in", "f", "v1") == b"2" and p.read("in", "f", "master^3") == b"2"
    assert [c["id"] for c in d.get("/repos/default/in/commits", branch="master")["commits"]] == [made[i] for i in (7, 6, 5, 2, 1, 0)]
    # --- a branch goes, and with the next pass what only it led to; a deleted commit says who
    d.http("DELETE", "/api/v1/repos/default/in/branches/v1")
    assert keep(d, "tags", dry_run=True)[1] == []
    assert [c[1] for c in keep(d, "in", dry_run=True)[1]] == made[0:3]
    keep(d, "in")
    d.http("DELETE", f"/api/v1/repos/default/in/commits/{made[7]}")
    assert "deleted by a user" in gone(lambda: d.get(f"/repos/default/in/commits/{made[7]}"))
    side = p.wait(p.commit("tags", {"x": "1"}, branch="side")["run"])["id"]  # what its run reads stays while it runs
    d.http("DELETE", "/api/v1/repos/default/tags/branches/side")
    assert "tags" not in keep(d)[0] and p.read("tags", "x", side) == b"1"  # its commits stay, as delete branch says
    d.post("/repos/default/tags/branches", {"name": "again", "from": side})  # and a branch can be made there again
    d.http("DELETE", "/api/v1/repos/default/tags/branches/again")
    rule(d, "tags", days=1)
    assert keep(d, dry_run=True)[1] == [] and p.read("tags", "x", side) == b"1"  # but for a rule that keeps less
    rule(d, "tags", commits=1)
    assert keep(d, dry_run=True)[1] == [("tags", side, "no branch leads to it")]
    events = urllib.request.Request(d.url + "/api/v1/events", headers={"Authorization": "Bearer " + d.token, "Last-Event-ID": "0"})
    keep(d)
    with urllib.request.urlopen(events, timeout=60) as stream:
        text = ""
        while text.count("event: keep\n") < 3:
            text += stream.readline().decode()
        told = json.loads(stream.readline().decode().removeprefix("data: "))
    assert (told["repo"], told["commits"]) == ("tags", 1)
    # --- a restart and a recovery have dropped the same
    after = everything(d)
    d.stop()
    d.start()
    assert everything(d) == after
    store = os.path.join(d.dir, "store")
    d.stop()
    shutil.move(store, tmp_path / "store")
    new = make_daemon("--store", f"file://{tmp_path}/store", name="new").start()
    assert everything(new) == after
    assert "was removed on" in gone(lambda: new.get(f"/repos/default/in/commits/{made[3]}"))
    assert new.post("/fsck?full=1")["ok"]


def test_what_is_used_stays(make_daemon, gate):
    d = make_daemon().start()
    p = d.default.repo("in")
    copy = 'cp "$PL_INPUT_IN" "$PL_OUT/"'
    p.stages(sh("s", copy, glob="/*"), sh("slow", f'{gate.wait}; cat "$PL_INPUT_S"/* >"$PL_OUT/all"', repo="s"))
    runs = []
    for i in range(3):
        runs.append(p.commit("in", {"f": f"{i}"})["run"])
        gate.arrived()
        gate.open()
        assert p.wait(runs[-1])["state"] == "success"
    rule(d, "in", commits=1)
    # all outputs stay, and so does what they were made from
    rows, going = keep(d)
    assert going == [] and (rows["in"]["commits"], rows["in"]["held"]) == (0, 2) and len(ids(p, "in")) == 3
    # outputs go as well, but for what an unfinished run reads or may reuse: slow's job of the fourth run is held by the gate
    rule(d, "s", commits=1, logs=3)
    rule(d, "slow", commits=1)
    runs.append(p.commit("in", {"f": "3"})["run"])
    gate.arrived()
    runs.append(p.commit("in", {"f": "4"})["run"])
    d.wait_job(runs[4], "s", lambda j: j["state"] == "success", "to succeed")
    rows, _ = keep(d)
    assert {r: rows[r]["commits"] for r in rows} == {"in": 0, "s": 0, "slow": 0}, rows
    assert ids(p, "in") == runs[::-1] and ids(p, "s") == runs[::-1] and ids(p, "slow") == runs[2::-1]
    gate.open()
    gate.arrived()
    gate.open()
    assert p.wait(runs[3])["state"] == "success" and p.wait(runs[4])["state"] == "success"
    assert p.read("slow", "all", runs[3]) == b"3"
    keep(d)
    assert all(ids(p, r) == [runs[4]] for r in ("in", "s", "slow"))
    # a run over what was dropped is refused, one over what is there is planned from it as ever
    again = d.ctl("rerun", runs[0], "--as", "old", ok=False)
    assert again.code != 0 and "no longer exists" in again.err
    runs.append(p.commit("in", {"g": "5"})["run"])
    gate.arrived()
    gate.open()
    run = p.wait(runs[5])
    assert run["state"] == "success" and run["job"]["s"]["datums"]["reused"] == 1
    assert d.get("/why/default/slow/master/all")
    # nobody is asked when a pipeline says it, and what it no longer says is set back
    p.stages(sh("s", copy, glob="/*", output={"keep": {"commits": 2, "results": 9}}), update=True,
             repos={"in": {"keep": {"days": 30}}})
    assert (d.get("/repos/default/s")["keep"], d.get("/repos/default/in")["keep"]) == ({"commits": 2, "results": 9}, {"days": 30})
    p.stages(sh("s", copy, glob="/*"), update=True)
    assert (d.get("/repos/default/s")["keep"], d.get("/repos/default/in")["keep"]) == ({}, {"days": 30})
    assert d.post("/fsck?full=1")["ok"]


def test_what_a_job_reuses_stays_until_it_has_ended(make_daemon, gate):
    d = make_daemon("--gc-every", "0s", "--linger", "0s").start()
    p = d.default.repo("in")
    p.stages(sh("s", f'case "$PL_INPUT_IN" in */b) {gate.wait};; esac; head -c 200000 /dev/urandom >"$PL_OUT/$(basename "$PL_INPUT_IN")"', glob="/*"))
    for value in ("1", "2"):
        assert p.wait(p.commit("in", {"a": value})["run"])["state"] == "success"
    rule(d, "s", commits=1)
    rule(d, "in", commits=1)
    run = p.commit("in", {"a": "1", "b": "1"})["run"]  # a's result is of the first run
    gate.arrived()
    rows, _ = keep(d)
    assert rows["s"]["commits"] == 0, rows
    d.ctl("--json", "gc")
    d.ctl("--json", "gc")
    gate.open()
    ended = p.wait(run)
    assert (ended["state"], ended["job"]["s"]["datums"]["reused"]) == ("success", 1)
    d.ctl("--json", "gc")
    assert ids(p, "s") == [run] and len(p.read("s", "a")) == 200_000 and d.post("/fsck?full=1")["ok"]


def test_an_open_commit_outlives_the_commit_that_it_was_started_on(make_daemon):
    d = make_daemon().start()
    p = d.default.repo("in")
    p.run("in", {"a": "0"})
    opened = d.post("/repos/default/in/branches/master/open", {})["id"]
    d.http("PUT", f"/api/v1/repos/default/in/open/{opened}/files/mine", b"mine")
    newest = p.run("in", {"a": "1"})["id"]
    rule(d, "in", commits=1)
    assert keep(d)[0]["in"]["commits"] == 1 and ids(p, "in") == [newest]
    assert d.post(f"/repos/default/in/open/{opened}/finish", {})["commit"] == opened
    assert (p.read("in", "a"), p.read("in", "mine")) == (b"1", b"mine")


def test_days_of_commits_results_and_logs(make_daemon, clock):
    d = make_daemon().start(env=clock.env)
    p = d.default.repo("in")
    metric = '{"step": 1}'
    p.stages(sh("s", f"echo said; echo '{metric}' >$PL_OUT/metrics.jsonl; cp $PL_INPUT_IN/f $PL_OUT", output={"keep": {"days": 10, "results": 3, "logs": 5}}))
    rule(d, "in", commits=2, days=10)
    runs = []
    for day in (0, 2, 4, 8):
        clock.set(day * DAY)
        runs.append(p.run("in", {"f": f"{day}"})["id"])
    assert len(ids(p, "in")) == 4
    # the eighth day: 3 days of results, 5 of logs
    rows, _ = keep(d, dry_run=True)
    assert (rows["s"]["commits"], rows["s"]["results"], rows["s"]["logs"]) == (0, 3, 2)
    keep(d)
    assert [bool(p.datums("s", run)) for run in runs] == [False, False, False, True]
    assert p.logs("s", run=runs[2]) == "said\n" and p.logs("s", run=runs[3]) == "said\n"
    said = missing(lambda: p.logs("s", run=runs[1]))
    assert said == f"the log of job s of run {runs[1][:8]} was dropped: logs of \"s\" are kept for 5 days"
    assert "the record of datums" in missing(lambda: d.get(f"/jobs/default/s/{runs[0]}/datums/f00d"))
    assert d.get(f"/jobs/default/s/{runs[0]}")["state"] == "success"
    # the thirteenth: what is older than ten days, and no more than the rule's two
    clock.set(13 * DAY)
    assert sorted(c[:2] for c in keep(d, dry_run=True)[1]) == sorted((r, runs[i]) for r in ("in", "s") for i in (0, 1))
    keep(d)
    assert ids(p, "in") == runs[:1:-1] and ids(p, "s") == runs[:1:-1]
    clock.set(100 * DAY)
    keep(d)
    assert ids(p, "s") == [runs[3]] and ids(p, "in") == [runs[3], runs[2]]  # a head, and two commits
    assert d.post("/fsck?full=1")["ok"]


def test_what_was_dropped_after_the_checkpoint_is_not_there_after_a_recovery(make_daemon, clock, tmp_path):
    """Results and logs go without a word in the log, and their bytes with them; a checkpoint has them still."""
    options = ["--store", f"file://{tmp_path}/store", "--gc-every", "0s", "--linger", "0s"]
    ckpt = tmp_path / "store" / "ckpt"
    d = make_daemon(*options, "--checkpoint-every", "1").start(env=clock.env)
    p = d.default.repo("in", "other")
    command = 'echo said; head -c 100000 /dev/urandom >"$PL_OUT/${PL_INPUT_IN##*/}"; ! grep -q bad "$PL_INPUT_IN"'
    p.stages(sh("s", command, glob="/*", output={"keep": {"results": 3, "logs": 5}}))
    failed = p.run("in", {"a": "good", "b": "bad"}, state="failure")["id"]
    assert p.logs("s", run=failed) == "said\n" * 2
    logs_are_sealed(d)
    p.push("other", "x", "x")  # a checkpoint of what is logged from here on has them
    wait_until(lambda: newest(ckpt) == newest(tmp_path / "store" / "log"), "a checkpoint with them")
    assert d.stop() == 0
    made = os.listdir(ckpt)

    d.options = options
    clock.set(10 * DAY)
    d.start(env=clock.env)
    assert keep(d)[0]["s"]["results"] == 1 and "was dropped" in missing(lambda: p.logs("s", run=failed))
    assert wait_until(lambda: d.ctl("--json", "gc").json["freed_packs"], "space")
    assert d.stop() == 0
    for name in set(os.listdir(ckpt)) - set(made):
        (ckpt / name).unlink()

    d = make_daemon(*options, name="anew").start()
    assert "recovered from checkpoint" in d.log()
    said = missing(lambda: d.default.logs("s", run=failed))
    assert said == f"the log of job s of run {failed[:8]} was dropped before the daemon's database was recovered"
    run = d.default.run("in", {"b": "better"})
    assert run["job"]["s"]["datums"]["reused"] == 0 and len(d.read("s", "a")) == 100_000
    assert d.ctl("--json", "gc").json["error"] == ""
    assert d.post("/fsck?full=1")["ok"]


def test_rules_that_cannot_be(make_daemon):
    d = make_daemon().start()
    d.default.repo("in")

    def refused(**body):
        with pytest.raises(HttpError) as e:
            d.http("PATCH", "/api/v1/repos/default/in", body)
        assert (e.value.status, e.value.error["field"]) == (400, "keep"), e.value
        return e.value.error["message"]

    assert "accepted: commits, days, results, logs" in refused(keep={"comits": 1})
    for n in (0, -1, 1.5, "3", None, 10**7):
        assert "whole number from 1 to 1000000" in refused(keep={"commits": n})
    assert "not an object" in refused(keep=3)
    assert "has no results or logs" in refused(keep={"logs": 3})
    assert d.ctl("update", "repo", "in", "--keep", "commits", ok=False).code == 2
    d.ctl("create", "repo", "more", "--keep", "days=7,commits=2")
    assert d.get("/repos/default/more")["keep"] == {"commits": 2, "days": 7}
    d.ctl("update", "repo", "more", "--keep", "all")
    assert d.get("/repos/default/more")["keep"] == {}
    assert missing(lambda: d.get("/repos/default/none/keep")).startswith('repo "none" does not exist')
    assert "everything is kept" in d.ctl("keep").out


def test_what_goes_gives_its_space_back(make_daemon):
    d = make_daemon("--gc-every", "0s", "--linger", "0s").start()
    p = d.default.repo("in", "gone")
    p.stages(sh("s", 'cp "$PL_INPUT_IN/f" "$PL_OUT/f"; head -c 200000 /dev/urandom >"$PL_OUT/own"', output={"keep": {"commits": 1}}))

    def stored():
        return sum(os.path.getsize(os.path.join(base, name)) for base, _, names in os.walk(os.path.join(d.dir, "store", "p")) for name in names)

    def freed(at_least):
        """By a collection, after something was done."""
        before = stored()
        wait_until(lambda: d.ctl("--json", "gc").json["waiting_packs"] == 0, "nobody to be left")
        assert before - stored() >= at_least, (before, stored())

    newest = [os.urandom(300_000) for _ in range(4)]
    for content in newest:
        assert p.wait(p.push("in", "f", content)["run"])["state"] == "success"
    # of the stage's own bytes one commit's stay; it was made from the newest input, the others still have their branch
    freed(3 * 190_000)
    assert len(ids(p, "s")) == 1 and len(ids(p, "in")) == 4
    rule(d, "in", commits=1)
    freed(3 * 290_000)
    assert ids(p, "in") == [c["id"] for c in p.commits("in")] and len(ids(p, "in")) == 1
    p.wait(p.push("in", "side", os.urandom(400_000), branch="side")["run"])  # what a run reads stays
    d.ctl("delete", "branch", "in@side")
    freed(390_000)
    p.wait(p.push("gone", "x", os.urandom(500_000))["run"])
    d.ctl("delete", "repo", "gone")
    freed(490_000)
    assert p.read("in", "f") == newest[3] == p.read("s", "f") and len(p.read("s", "own")) == 200_000
    assert p.run("in", {"g": "1"})["state"] == "success"  # planned from a commit whose base is gone
    assert d.post("/fsck?full=1")["ok"]
