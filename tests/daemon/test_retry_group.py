"""The failed datums of one group are tried again, and no others: POST /jobs/…/retry and pipelinectl retry job."""

import contextlib
import sqlite3

import pytest
from conftest import HttpError, sh

USAGE, NOT_FOUND, CONFLICT = 2, 3, 4

# Notes each try of a datum. Files that hold "later" fail until the folder has a file "mended", those that hold "bad" always.
SCRIPT = """echo >>{mark}/tries.$(basename "$PL_INPUT_IN")
case "$(cat "$PL_INPUT_IN")" in
later) while test -e {mark}/hold; do sleep 0.05; done; test -e {mark}/mended || {{ echo "TimeoutError: no answer" >&2; exit 4; }};;
bad) echo "ValueError: no such column" >&2; exit 3;;
slow) while ! test -e {mark}/mended; do sleep 0.05; done;;
esac
cp "$PL_INPUT_IN" "$PL_OUT/"
"""
PUTS = {"a": "1", "b": "bad", "c": "later", "d": "bad", "e": "later", "f": "later"}


class Stage:
    """A daemon with stage s, whose datums fail in two ways, and stage t that reads it."""

    def __init__(self, make_daemon, tmp_path, **stage):
        self.d = make_daemon(sandbox="none").start()
        self.p = self.d.default.repo("in")
        self.mark = tmp_path
        self.stage = sh("s", SCRIPT.format(mark=tmp_path), glob="/*", **stage)
        self.p.stages(self.stage, sh("t", 'ls "$PL_INPUT_S" >"$PL_OUT/list"', "s"))

    def tries(self):
        return {f.name.removeprefix("tries."): f.read_text().count("\n") for f in self.mark.glob("tries.*")}

    def groups(self, run):
        return {g["message"].split(":")[0]: g for g in self.d.get(f"/jobs/default/s/{run}/failures")["groups"]}

    def retry(self, run, group):
        answer = self.d.post(f"/jobs/default/s/{run}/retry", {"group": group})
        return answer, self.p.wait(answer["run"])


def datums(run):
    d = run["job"]["s"]["datums"]
    return {k: d.get(k, 0) for k in ("total", "reused", "done", "failed", "recovered")}


@pytest.mark.parametrize("on_error, state", [("fail", "failure"), ("skip", "success")])
def test_the_datums_of_the_group_run_and_the_others_stay_failed(make_daemon, tmp_path, on_error, state):
    s = Stage(make_daemon, tmp_path, on_error=on_error)
    first = s.p.run("in", PUTS, state=state)
    groups = s.groups(first["id"])
    assert {k: g["count"] for k, g in groups.items()} == {"TimeoutError": 3, "ValueError": 2}
    (tmp_path / "mended").touch()
    answer, run = s.retry(first["id"], groups["TimeoutError"]["id"])
    assert (answer["of"], answer["datums"], answer["untried"]) == (first["id"], 3, 2)
    assert run["state"] == state and run["message"] == f"3 failed datums of s in run {first['id'][:8]} again"
    assert datums(run) == {"total": 6, "reused": 1, "done": 3, "failed": 2, "recovered": 0}
    assert s.tries() == {"a": 1, "b": 1, "c": 2, "d": 1, "e": 2, "f": 2}
    if state == "success":
        assert s.p.contents("t") == {"list": b"a\nc\ne\nf\n"}
        assert run["job"]["s"]["reason"] == "2 of 6 datums failed and are left out"
    else:
        assert run["job"]["s"]["reason"] == "2 of 6 datums failed; the first: datum in=/b: exit code 3: ValueError: no such column"
        assert run["job"]["t"]["state"] == "unrunnable"

    # why the others failed is known of the new job too, and that it did not try them
    left = s.groups(run["id"])
    assert {k: g["count"] for k, g in left.items()} == {"ValueError": 2} and left["ValueError"]["id"] == groups["ValueError"]["id"]
    failed = [a for a in s.p.datums("s", run["id"]) if a["state"] == "failed"]
    assert [(a["run"], a["exit_code"]) for a in failed] == [(first["id"], 3)] * 2
    assert not any("run" in a for a in s.p.datums("s", run["id"]) if a["state"] == "success")

    # what the new job left can be retried from it, and the next push tries everything that has no result
    answer, again = s.retry(run["id"], left["ValueError"]["id"])
    assert (answer["datums"], answer["untried"]) == (2, 0) and s.tries() == {"a": 1, "b": 2, "c": 2, "d": 2, "e": 2, "f": 2}
    last = s.p.run("in", {"b": "2", "d": "3"})
    assert datums(last) == {"total": 6, "reused": 4, "done": 2, "failed": 0, "recovered": 0}


def test_a_recovered_datum_of_another_group_stays_recovered(make_daemon, tmp_path):
    handler = ["sh", "-c", 'grep -q bad "$PL_INPUT_IN"']
    s = Stage(make_daemon, tmp_path, on_error={"run": handler})
    first = s.p.run("in", PUTS, state="failure")
    assert datums(first) == {"total": 6, "reused": 0, "done": 1, "failed": 3, "recovered": 2}
    (tmp_path / "mended").touch()
    _, run = s.retry(first["id"], s.groups(first["id"])["TimeoutError"]["id"])
    assert run["state"] == "success" and datums(run) == {"total": 6, "reused": 1, "done": 3, "failed": 0, "recovered": 2}
    assert s.tries() == {"a": 1, "b": 1, "c": 2, "d": 1, "e": 2, "f": 2}


def test_a_restart_in_the_middle_keeps_what_is_not_tried(make_daemon, tmp_path):
    s = Stage(make_daemon, tmp_path, on_error="skip", workers=1)
    first = s.p.run("in", PUTS)
    (tmp_path / "hold").touch()
    (tmp_path / "mended").touch()
    answer = s.d.post(f"/jobs/default/s/{first['id']}/retry", {"group": s.groups(first["id"])["TimeoutError"]["id"]})
    s.d.wait_job(answer["run"], "s", lambda j: j["state"] == "running" and j["datums"]["failed"] == 2, "its start")
    s.d.kill()
    (tmp_path / "hold").unlink()
    s.d.start()
    run = s.p.wait(answer["run"])
    assert datums(run) == {"total": 6, "reused": 1, "done": 3, "failed": 2, "recovered": 0}
    assert {n: t for n, t in s.tries().items() if n in "abd"} == {"a": 1, "b": 1, "d": 1}
    assert run["job"]["s"]["attempts"] <= 6  # those of the earlier job are none of its own


def test_a_job_whose_other_datums_would_run_too_is_refused(make_daemon, tmp_path):
    s = Stage(make_daemon, tmp_path, workers=1)
    first = s.p.run("in", PUTS, state="failure")
    group = s.groups(first["id"])["ValueError"]["id"]

    def refused(run, group, status, *words):
        with pytest.raises(HttpError) as e:
            s.retry(run, group)
        assert e.value.status == status and all(w in str(e.value.body) for w in words), e.value.body

    refused(first["id"], "0123456789abcdef", 404, "no failed datum of the job is in a group", "0123456789abcdef")
    s.p.run("in", {"a": "2"}, state="failure")
    refused(first["id"], group, 409, f"stage s read commit {first['id'][:8]} of in@master", "pipelinectl run pipeline NAME --stage s")

    # a job that was stopped has datums that were never tried
    run = s.p.commit("in", {"0": "bad", "1": "slow", "2": "slow"})["run"]
    s.d.wait_job(run, "s", lambda j: j["datums"]["failed"] >= 1, "a failed datum")
    refused(run, group, 409, "has not ended")
    s.d.post(f"/runs/{run}/stop")
    refused(s.p.wait(run)["id"], group, 409, "ended before ", " of its 9 datums had run")

    changed = s.p.run("in", {"a": "3"}, deletes=["1", "2"], state="failure")
    s.p.wait(s.p.stages({**s.stage, "run": ["sh", "-ec", "exit 9"]}, update=True)["run"])
    refused(changed["id"], group, 409, "stage s was changed since run")


def test_a_change_of_another_stage_does_not_matter(make_daemon, tmp_path):
    s = Stage(make_daemon, tmp_path, on_error="skip")
    first = s.p.run("in", PUTS)
    s.p.wait(s.p.stages(s.stage, sh("t", "true", "s"), update=True)["run"])
    _, run = s.retry(first["id"], s.groups(first["id"])["ValueError"]["id"])
    assert datums(run)["failed"] == 5 and s.tries()["b"] == 2


def test_a_group_of_which_not_all_attempts_are_kept_is_refused(make_daemon, tmp_path):
    s = Stage(make_daemon, tmp_path, on_error="skip")
    run = s.p.run("in", PUTS)["id"]
    group = s.groups(run)["ValueError"]["id"]
    s.d.stop()
    with contextlib.closing(sqlite3.connect(f"{s.d.dir}/pipelined.db", isolation_level=None)) as db:
        db.execute("DELETE FROM attempt WHERE datum = (SELECT max(datum) FROM attempt WHERE exit_code = 4)")
    s.d.start()
    with pytest.raises(HttpError) as e:
        s.retry(run, group)
    assert e.value.status == 409 and "knows why 4 of the 5 failed datums of job s failed" in str(e.value.body)


def test_the_command_line_names_the_groups_and_retries_one(make_daemon, tmp_path):
    s = Stage(make_daemon, tmp_path)
    run = s.p.run("in", PUTS, state="failure")["id"]
    ctl = s.d.ctl
    shown = ctl("inspect", "job", f"s@{run[:8]}").out
    group = s.groups(run)["TimeoutError"]["id"]
    assert "5 failed datums, 2 ways:" in shown and "     3  TimeoutError: no answer" in shown and "exit code 4" in shown
    assert "each has 5 B of input" in shown and "the first: in=/" in shown
    assert f"pipelinectl retry job s@{run[:8]} --group {group[:8]}" in shown
    assert ctl("--json", "inspect", "job", f"s@{run[:8]}").json["failures"]["groups"][0]["count"] == 3
    got = ctl("retry", "job", "s", ok=False)
    assert got.code == USAGE and "failed in 2 ways: give one with --group" in got.err and "3 × TimeoutError: no answer" in got.err
    got = ctl("retry", "job", "s", "--group", "zz", ok=False)
    assert got.code == NOT_FOUND and 'no failure group "zz"' in got.err
    (tmp_path / "mended").touch()
    said = ctl("retry", "job", f"s@{run[:8]}", "--group", group[:8]).out
    assert "tries 3 datums of s again; the other 2 failed ones are not tried\nnext: pipelinectl wait run " in said
    s.p.wait(said.split()[1])
    answer = ctl("--json", "retry", "job", "s").json  # one group is left
    assert (answer["datums"], answer["untried"]) == (2, 0)
    s.p.wait(answer["run"])
