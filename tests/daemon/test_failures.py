"""What a stage may do wrong, and what is said about it. Nothing of it reaches the output repo, and the next push is as good as ever."""

import contextlib
import os
import sqlite3

import pytest

from conftest import SANDBOX, HttpError, processes_with, sh, wait_until

OK = 'cp "$PL_INPUT_IN" "$PL_OUT/$(basename "$PL_INPUT_IN")"'


def fails(project, script, puts=None, **stage):
    """The reason of a job of one stage with this script, which must fail without a commit."""
    project.repo("in").stages(sh("s", script, **stage))
    run = project.run("in", puts or {"f": "1"}, state="failure")
    assert run["job"]["s"]["state"] == "failure"
    assert project.commits("s") == []
    return run["job"]["s"]["reason"], project.datums("s", run["id"])


def test_an_exit_code_is_in_the_reason_and_the_output_in_the_datum(project):
    reason, attempts = fails(project, 'echo to-stdout; echo "ValueError: no such column" >&2; exit 7', glob="/*")
    assert "exit code 7" in reason and "/f" in reason and "ValueError: no such column" in reason, reason
    attempt, = attempts
    assert (attempt["exit_code"], attempt["signal"], attempt["state"]) == (7, 0, "failed")
    assert attempt["tail"] == "to-stdout\nValueError: no such column\n"


def test_of_much_output_the_end_is_kept_in_the_datum(project):
    _, attempts = fails(project, "seq 1 100000; exit 1")
    assert attempts[0]["tail"].endswith("99999\n100000\n") and len(attempts[0]["tail"]) <= 4096


def test_a_signal_is_named(project):
    reason, attempts = fails(project, "kill -SEGV $$")
    assert attempts[0]["signal"] == 11 and "signal 11" in reason, reason


def test_a_command_that_is_not_there_is_named(project):
    project.repo("in").stages({"name": "s", "input": {"repo": "in"}, "run": ["no-such-program", "x"]})
    run = project.run("in", {"f": "1"}, state="failure")
    assert "no-such-program" in run["job"]["s"]["reason"], run["job"]["s"]["reason"]


def test_children_that_a_command_leaves_are_ended(project):
    mark = f"sleep {os.getpid()}54321"
    project.repo("in").stages(sh("s", f"setsid {mark} & (nohup {mark} >/dev/null 2>&1 &) ; echo >$PL_OUT/f"))
    project.run("in", {"f": "1"})
    wait_until(lambda: not processes_with(mark), "the children to end")
    assert project.contents("s") == {"f": b"\n"}


def test_children_that_hold_the_output_open_do_not_hold_up_the_datum(project):
    project.repo("in").stages(sh("s", "sleep 600 & echo said; echo >$PL_OUT/f"))
    project.run("in", {"f": "1"}, timeout=30)
    assert project.logs("s") == "said\n"


def test_a_path_that_two_datums_write_names_both_and_the_remedy(project):
    reason, _ = fails(project, "echo $PL_DATUM_ID >$PL_OUT/predictions.csv", {"b1.csv": "1", "b2.csv": "2"}, glob="/*.csv")
    assert reason == ('/predictions.csv was written by two datums (in=/b1.csv, in=/b2.csv): give each a folder with "output": {"prefix": "${in.stem}/"}')


def test_the_remedy_helps(project):
    project.repo("in").stages(sh("s", "echo 1 >$PL_OUT/predictions.csv", glob="/*.csv", output={"prefix": "${in.stem}/"}))
    project.run("in", {"b1.csv": "1", "b2.csv": "2"})
    assert sorted(project.files("s")) == ["b1/predictions.csv", "b2/predictions.csv"]


def test_a_file_where_another_datum_has_a_folder_is_refused(project):
    reason, _ = fails(project, 'n=$(basename $PL_INPUT_IN); if test $n = a; then echo >$PL_OUT/x; else mkdir $PL_OUT/x && echo >$PL_OUT/x/y; fi', {"a": "1", "b": "2"}, glob="/*")
    assert reason == ('/x is a file of one datum (in=/a) and a folder of another (in=/b): give each a folder with "output": {"prefix": "${in.stem}/"}')


def test_a_collision_with_a_result_that_was_kept_is_noticed(project):
    project.repo("in").stages(sh("s", 'echo >$PL_OUT/$(cat $PL_INPUT_IN)', glob="/*"))
    project.run("in", {"a": "one"})
    run = project.run("in", {"b": "one"}, state="failure")
    assert run["job"]["s"]["reason"].startswith("/one was written by two datums (in=/a, in=/b)")
    assert project.files("s") == {"one": "file"}


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../etc/passwd", "/pfs", "../../tmp"])
def test_a_link_out_of_the_output_is_named(project, target):
    reason, _ = fails(project, f"ln -s {target} $PL_OUT/bad-link")
    assert "bad-link" in reason and target in reason, reason


@pytest.mark.parametrize("name, shown", [("$(printf 'a\\tb')", "a"), ("$(printf 'bad\\377name')", "bad"), ("$(printf 'x\\001y')", "x"),
                                         ("$(printf 'del\\177')", "del")])
def test_a_file_name_that_is_not_allowed_is_named(project, name, shown):
    reason, _ = fails(project, f'mkdir $PL_OUT/dir; echo >"$PL_OUT/dir/{name}"')
    assert f"dir/{shown}" in reason, reason


@pytest.mark.parametrize("make", ["mkfifo $PL_OUT/pipe", "python3 -c 'import os,socket; os.chdir(os.environ[\"PL_OUT\"]); socket.socket(socket.AF_UNIX).bind(\"pipe\")'"])
def test_what_is_neither_file_nor_folder_nor_link_is_named(project, make):
    reason, _ = fails(project, make)
    assert "pipe" in reason, reason


def test_names_in_any_language_are_fine(project):
    project.repo("in").stages(sh("s", 'cp "$PL_INPUT_IN" "$PL_OUT/$(basename "$PL_INPUT_IN")"', glob="/*"))
    names = ["größe.txt", "数据.csv", "with space", "-dash", "'quote'", '"double"', "$dollar", "a\\b", "100%", "#?&=+"]
    project.run("in", {n: n for n in names})
    assert project.contents("s") == {n: n.encode() for n in names}


def test_too_deep_a_path_is_named(project):
    reason, _ = fails(project, 'cd $PL_OUT; for i in $(seq 1 30); do d=$(printf "%060d" $i); mkdir $d; cd $d; done; echo >f')
    assert "1,024" in reason or "1024" in reason, reason


def test_a_file_that_cannot_be_read_is_named(project):
    project.repo("in").stages(sh("s", "echo 1 >$PL_OUT/secret; chmod 000 $PL_OUT/secret; mkdir $PL_OUT/d; echo 2 >$PL_OUT/d/x; chmod 000 $PL_OUT/d"))
    run = project.commit("in", {"f": "1"})["run"]
    run = project.wait(run)
    if run["state"] == "success":  # as root everything is readable
        assert project.contents("s") == {"secret": b"1\n", "d/x": b"2\n"}
    else:
        assert "secret" in run["job"]["s"]["reason"] or "/d" in run["job"]["s"]["reason"]


def test_other_datums_of_a_failed_job_still_run(project):
    project.repo("in").stages(sh("s", 'test $(basename $PL_INPUT_IN) != b; ' + OK, glob="/*"))
    run = project.run("in", {"a": "1", "b": "2", "c": "3"}, state="failure")
    assert run["job"]["s"]["datums"]["done"] == 2 and run["job"]["s"]["datums"]["failed"] == 1
    assert "1 of 3 datums failed" in run["job"]["s"]["reason"], run["job"]["s"]["reason"]


def test_the_next_push_is_as_good_as_ever(project):
    project.repo("in").stages(sh("s", "if grep bad $PL_INPUT_IN/f; then exit 1; fi; cp $PL_INPUT_IN/f $PL_OUT/f"))
    project.run("in", {"f": "good 1"})
    project.run("in", {"f": "bad"}, state="failure")
    assert project.read("s", "f") == b"good 1"
    project.run("in", {"f": "good 2"})
    assert project.read("s", "f") == b"good 2"
    assert len(project.commits("s")) == 2


def test_a_sandbox_that_the_command_destroys_ends_only_its_datum(project):
    project.repo("in").stages(sh("s", 'if test "$(cat $PL_INPUT_IN)" = bad; then kill -9 -1; kill -9 $PPID; sleep 600; fi; ' + OK, glob="/*")
                              if SANDBOX == "bwrap" else sh("s", "exit 1" , glob="/*"))
    run = project.run("in", {"a": "1", "b": "bad"} if SANDBOX == "bwrap" else {"b": "bad"}, state="failure")
    assert run["job"]["s"]["datums"]["failed"] == 1
    assert project.d.process.poll() is None


def test_output_without_end_is_cut_and_says_so(project):
    project.repo("in").stages(sh("s", "head -c 70000000 /dev/zero | tr '\\0' 'x' | fold -w 1000; echo >$PL_OUT/f"))
    project.run("in", {"f": "1"})
    log = project.logs("s")
    assert 60 << 20 < len(log) < 66 << 20
    assert "cut" in log[-300:], log[-300:]


def test_the_output_repo_cannot_be_written_by_hand(project):
    project.repo("in").stages(sh("s", OK, glob="/*"))
    with pytest.raises(HttpError, match="409") as e:
        project.commit("s", {"x": "1"})
    assert e.value.error["code"] == "output_repo" and '"s"' in e.value.error["message"]
    with pytest.raises(HttpError, match="409"):
        project.push("s", "x", "1")


def test_one_bad_datum_makes_nothing_else_run_again_however_many_jobs_fail_by_it(project):
    """70 jobs: each computes what is new, and the bad one. What of the earlier ones no datum has any more goes."""
    project.repo("in").stages(sh("s", f'case $PL_INPUT_IN in */bad) exit 1;; esac; {OK}', glob="/*"))
    run = project.run("in", {"bad": "1", **{f"f{i}": str(i) for i in range(5)}}, state="failure")
    assert run["job"]["s"]["datums"] == {"total": 6, "reused": 0, "done": 5, "failed": 1}
    for i in range(70):
        run = project.run("in", {"new": str(i)}, state="failure")
        assert run["job"]["s"]["datums"] == {"total": 7, "reused": 5, "done": 1, "failed": 1}, i
    with contextlib.closing(sqlite3.connect(f"file:{project.d.dir}/pipelined.db?mode=ro", uri=True)) as db:
        (kept,), = db.execute("SELECT count(*) FROM job WHERE project = ? AND kept = 1", (project.name,))
    assert kept == 1 + 64 + 1, "the first, the last 64 before the newest one's plan, and that one"
    run = project.run("in", {}, deletes=["bad"])
    assert run["job"]["s"]["datums"] == {"total": 6, "reused": 6, "done": 0, "failed": 0}


def test_failures_of_one_cause_are_told_together(project):
    """Three datums fail in one way, one in another; the next run fails as the last did."""
    project.repo("in").stages(sh("s", f'''case $PL_INPUT_IN in
        */bad/*) echo reading; echo "ValueError: $PL_INPUT_IN has 0 columns" >&2; echo "left after 3 s"; exit 3;; */odd) kill -TERM $$;; esac; {OK}''', glob="/*/*"))
    run = project.run("in", {"bad/a": "", "bad/b": "1", "bad/c": "22", "else/odd": "333", "else/good": "1"}, state="failure")
    said = project.d.get(f"/jobs/{project.name}/s/{run['id']}/failures")
    bad, odd = said["groups"]
    assert (said["failed"], said["kept"], said["jobs_examined"]) == (4, 4, 0), said
    assert bad["message"].startswith("ValueError: ") and bad["message"].endswith("has 0 columns"), bad
    assert (bad["count"], bad["reason"], bad["folder"], bad["bytes_min"], bad["bytes_max"]) == (3, "exit code 3", "in=/bad/", 0, 2), bad
    assert odd["count"] == 1 and "signal 15" in odd["message"], odd
    first, = project.d.get(f"/jobs/{project.name}/s/{run['id']}/datums/{bad['datum']}")["attempts"]
    assert first["tail"].splitlines()[first["tail_line"] - 1] == bad["message"], first
    again = project.run("in", {"bad/d": "4444"}, state="failure")
    said = project.d.get(f"/jobs/{project.name}/s/{again['id']}/failures", group=bad["id"])
    assert said["jobs_examined"] == 1 and (said["groups"][0]["jobs_before"], said["groups"][0]["run_before"]) == (1, run["id"]), said
    assert {one["paths"] for one in said["datums"]} == {f"in=/bad/{name}" for name in "abcd"}, said
