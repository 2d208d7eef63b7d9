"""pipelinectl and what runs: pipelines from spec files with code folders, waiting, logs, why, status, recover."""

import json
import os
import pty
import re
import signal
import sqlite3
import subprocess

import pytest
from conftest import BIN, HttpError, wait_until
from test_cli_data import Cli

FAILED, USAGE, NOT_FOUND, CONFLICT, INVALID = 1, 2, 3, 4, 5

COPY = {"name": "copy", "input": {"repo": "in", "glob": "/*"}, "code": "code", "run": ["sh", "run.sh"]}
COUNT = {"name": "count", "input": {"repo": "copy"}, "script": "ls $copy | wc -l >$PL_OUT/n"}


class Work(Cli):
    def spec(self, *stages, name="p", **more):
        self.write("spec.json", json.dumps({"pipeline": name, "project": self.name, "repos": {"in": {}}, "stages": list(stages), **more}, indent=1))

    def push(self, text, path="f"):
        self.write("pushed", text)
        return self.json("put", "file", f"in@master:/{path}", "-f", "pushed")["run"]

    def popen(self, *args):
        return subprocess.Popen([os.path.join(BIN, "pipelinectl"), "--data", self.d.dir, "--project", self.name, *args], cwd=self.folder,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture
def ctl(project, tmp_path):
    return Work(project, tmp_path)


@pytest.fixture
def pair(ctl):
    """Two stages, the first with a code folder; something pushed and computed."""
    ctl.write("code/run.sh", "echo copying $in\ncat $in >$PL_OUT/$(basename $in)\n")
    ctl.spec(COPY, COUNT)
    ctl("create", "pipeline", "-f", "spec.json")
    ctl("wait", "run", ctl.push("hello"), "--timeout", "60s")
    return ctl


# --- create, update, list, inspect, delete

def test_a_pipeline_from_a_file(ctl):
    ctl.write("code/run.sh", "cat $in >$PL_OUT/out\n")
    ctl.spec(COPY, COUNT)
    said = ctl("create", "pipeline", "-f", "spec.json").out
    assert "pipeline p created (version 1)" in said and f"next: pipelinectl put file {ctl.name}/in@master" in said
    ctl("wait", "run", ctl.push("hello"))
    assert ctl("cat", "copy@master:/out").out == "hello"
    assert ctl("cat", "count@master:/n").out.strip() == "1"


def test_a_dry_run_changes_nothing(ctl):
    ctl.write("code/run.sh", "true")
    ctl.spec(COPY)
    assert "copy" in ctl("create", "pipeline", "-f", "spec.json", "--dry-run").out
    assert ctl.json("list", "pipeline")["pipelines"] == []


def test_mistakes_are_found_before_anything_is_asked(ctl):
    ctl.write("spec.json", '{"pipeline": "p", "stages": [{"name": "a"}]}')
    err = ctl.fails(INVALID, "create", "pipeline", "-f", "spec.json")
    assert err.startswith("spec.json:1:")
    ctl.spec(COPY)
    assert "code" in ctl.fails(NOT_FOUND, "create", "pipeline", "-f", "spec.json")
    ctl.write("code", "a file")
    assert "is a file" in ctl.fails(INVALID, "create", "pipeline", "-f", "spec.json")
    ctl.fails(USAGE, "create", "pipeline")


def test_what_only_the_daemon_knows_is_refused_by_it(pair):
    pair.fails(CONFLICT, "create", "pipeline", "-f", "spec.json")
    pair.spec(COPY, name="other")
    assert 'already belongs to pipeline "p"' in pair.fails(INVALID, "create", "pipeline", "-f", "spec.json")


def test_an_update_runs_what_changed(pair):
    assert "nothing changed" in pair("update", "pipeline", "-f", "spec.json", "--yes").out
    pair.write("code/run.sh", "tr a-z A-Z <$in >$PL_OUT/up\n")
    said = pair("update", "pipeline", "-f", "spec.json", "--dry-run").out
    assert "copy" in said and "pipeline p would be updated (version 2)" in said
    done = pair.json("update", "pipeline", "-f", "spec.json")
    assert {s["stage"]: s["change"] for s in done["stages"]} == {"copy": "changed", "count": "unchanged"}
    pair("wait", "run", done["run"])
    assert pair("cat", "copy@master:/up").out == "HELLO"
    assert [pair.json("inspect", "job", stage)["version"] for stage in ("copy", "count")] == [2, 2]


# --- a terminal


EVIL = b"\033]0;owned\007 \033[2J\302\2331A \233 back\rforth \177\tok \342\202\254\n"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x80-\x9f]")


def test_what_others_wrote_orders_a_terminal_nothing(pair, monkeypatch):
    """ESC, C1 and the like do not pass when what somebody's command printed or named is shown; a pipe gets the bytes as they are."""
    monkeypatch.setenv("NO_COLOR", "1")
    name = "evil\u009b2Jx"
    pair.write("evil", "x")
    pair("put", "file", f"in@master:/{name}", "-f", "evil")
    pair.write("code/evil", EVIL)
    pair.write("code/run.sh", 'cat evil; for i in "$in"/*; do cp "$i" "$PL_OUT"; done; exit 3\n')
    pair.spec({**COPY, "input": {"repo": "in", "glob": "/"}}, COUNT)
    run = pair.json("update", "pipeline", "-f", "spec.json", "--yes")["run"]
    assert pair("wait", "run", run, ok=False).code != 0
    line = [os.path.join(BIN, "pipelinectl"), "--data", pair.d.dir, "--project", pair.name, "logs", "copy"]
    assert EVIL in subprocess.run([*line, "--raw"], capture_output=True, check=True).stdout
    assert EVIL[EVIL.index(b"forth"):] in subprocess.run(line, capture_output=True, check=True).stdout
    datum = pair.json("list", "datum", f"copy@{run}")["datums"][0]["id"]
    for args in (["logs", "copy", "--raw"], ["logs", "copy"], ["logs", "copy", "--json"], ["logs", "copy", "--tail", "9"], ["inspect", "datum", f"copy@{run}", datum], ["wait", "run", run], ["list", "file", "in@master"],
                 ["list", "file", "in@master", "--json"], ["diff", "in@master~1", "in@master"], ["why", f"in@master:/{name}"], ["list", "job", "--json"]):
        _, shown = on_a_terminal(pair, b"", *args)
        assert not CONTROL.search(shown), (args, shown)
        if "--raw" in args:
            assert "?]0;owned? ?[2J?1A ? back\nforth ?\tok €\n" in shown, shown
        elif args[0] == "logs" and "--json" not in args:
            assert "forth ?\tok €\n" in shown, shown


# --- what an update costs

def on_a_terminal(ctl, answer, *args):
    """→ exit code, what was shown. The program believes that somebody sits there, who gives one answer."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([os.path.join(BIN, "pipelinectl"), "--data", ctl.d.dir, "--project", ctl.name, *args], cwd=ctl.folder, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while chunk := read_or_end(ours):
            shown += chunk
            if shown.endswith(b"[y/N] "):
                os.write(ours, answer + b"\n")
        os.close(ours)
    return process.returncode, shown.decode().replace("\r\n", "\n")


def read_or_end(fd):
    try:
        return os.read(fd, 4096)
    except OSError:  # EIO: nobody has the other side any more
        return b""


def test_an_update_says_what_it_runs_again_and_asks_on_a_terminal(pair):
    pair.write("code/run.sh", "tr a-z A-Z <$in >$PL_OUT/up\n")
    pair.spec({**COPY, "env": {"A": "1"}}, COUNT)
    said = pair("update", "pipeline", "-f", "spec.json", "--dry-run").out
    assert re.search(r"copy +env, code \(run\.sh\): 1 of 1 datum to run(, ~\d+ worker-seconds at the last job's rate)?\n", said), said
    assert re.search(r"count +unchanged: up to 1 of 1 datum to run", said), said
    status, shown = on_a_terminal(pair, b"n", "update", "pipeline", "-f", "spec.json")
    assert status == FAILED and "env, code (run.sh): 1 of 1 datum to run" in shown and "update pipeline p? [y/N]" in shown and "nothing was changed" in shown
    assert pair.json("inspect", "pipeline", "p")["version"] == 1
    status, shown = on_a_terminal(pair, b"y", "update", "pipeline", "-f", "spec.json")
    assert status == 0 and "pipeline p updated (version 2)" in shown, shown
    pair.spec({**COPY, "env": {"A": "1"}, "workers": 3}, COUNT)
    assert re.search(r"copy +workers 1 → 3: nothing to run again\n", pair("update", "pipeline", "-f", "spec.json", "--dry-run").out)


# --- what a delete takes

def test_a_delete_says_what_goes_and_asks_on_a_terminal(pair):
    status, shown = on_a_terminal(pair, b"n", "delete", "pipeline", "p")
    assert status == FAILED and re.search(r"delete pipeline p\? 2 repos, 2 commits, 2 files \(\d+ B\) go with it \[y/N\] ", shown), shown
    assert "nothing was changed" in shown and pair.json("inspect", "pipeline", "p")["version"] == 1
    status, shown = on_a_terminal(pair, b"n", "delete", "repo", "in")  # refused before it asks
    assert status == CONFLICT and 'reads repo "in"' in shown and "[y/N]" not in shown
    status, shown = on_a_terminal(pair, b"n", "delete", "pipeline", "p", "--keep-repos")  # takes no data: no question
    assert status == 0 and "pipeline p deleted" in shown and "[y/N]" not in shown
    status, shown = on_a_terminal(pair, b"n", "delete", "repo", "count")
    assert status == FAILED and "delete repo count? 1 commit, 1 file" in shown
    status, shown = on_a_terminal(pair, b"y", "delete", "repo", "count")
    assert status == 0 and "repo count deleted" in shown
    status, shown = on_a_terminal(pair, b"n", "delete", "repo", "copy", "--yes")
    assert status == 0 and "[y/N]" not in shown
    pair("create", "repo", "empty")
    status, shown = on_a_terminal(pair, b"n", "delete", "repo", "empty")
    assert status == 0 and "[y/N]" not in shown


def test_a_delete_counts_what_open_commits_hold(ctl):
    ctl("create", "repo", "ro")
    ctl("start", "commit", "ro@master")
    status, shown = on_a_terminal(ctl, b"y", "delete", "repo", "ro")
    assert status == 0 and "[y/N]" not in shown, "it holds nothing"
    ctl("create", "repo", "ro")
    ctl("start", "commit", "ro@master")
    for n in range(5):
        ctl.write("f", f"{n}")
        ctl("put", "file", f"ro@master:/{n}", "-f", "f")
    status, shown = on_a_terminal(ctl, b"n", "delete", "repo", "ro")
    assert status == FAILED and "delete repo ro? 1 open commit with 5 operations goes with it [y/N] " in shown, shown
    assert "nothing was changed" in shown and len(ctl.d.http("GET", f"/api/v1/repos/{ctl.name}/ro/open")["commits"]) == 1
    ctl("finish", "commit", "ro@master")
    ctl("start", "commit", "ro@master")
    ctl("put", "file", "ro@master:/new", "-f", "f")
    status, shown = on_a_terminal(ctl, b"n", "delete", "repo", "ro")
    assert re.search(r"delete repo ro\? 1 commit, 5 files \(\d+ B\), 1 open commit with 1 operation go with it \[y/N\] ", shown), shown
    status, shown = on_a_terminal(ctl, b"n", "delete", "branch", "ro@master")  # nothing could finish it
    assert status == FAILED and "delete branch ro@master? 1 open commit with 1 operation goes with it [y/N] " in shown, shown
    status, shown = on_a_terminal(ctl, b"y", "delete", "repo", "ro")
    assert status == 0 and "repo ro deleted" in shown


def test_a_delete_counts_what_puts_gather(ctl):
    ctl("create", "repo", "ro", "--commit-window", "60s")
    ctl.write("f", "1")
    ctl("put", "file", "ro@master:/f", "-f", "f")
    status, shown = on_a_terminal(ctl, b"n", "delete", "repo", "ro")
    assert status == FAILED and "delete repo ro? 1 open commit with 1 operation goes with it [y/N] " in shown, shown


def test_the_delete_of_a_branch_asks_only_if_the_repos_rule_drops_its_commits(pair):
    for side in ("a", "b"):
        pair("create", "branch", f"in@{side}", "--from", "master")
        for n in range(3):
            pair.write("more", f"{side}{n}")
            pair("put", "file", f"in@{side}", "-f", "more")
    status, shown = on_a_terminal(pair, b"n", "delete", "branch", "in@a")
    assert status == 0 and "[y/N]" not in shown  # its commits stay
    pair("update", "repo", "in", "--keep", "days=1")
    assert pair.d.http("DELETE", f"/api/v1/repos/{pair.name}/in/branches/b?dry_run=1")["commits"] == 0
    pair("update", "repo", "in", "--keep", "commits=2")
    status, shown = on_a_terminal(pair, b"n", "delete", "branch", "in@b")
    assert status == FAILED and "delete branch in@b? 3 commits, 2 files (" in shown, shown
    status, shown = on_a_terminal(pair, b"y", "delete", "branch", "in@b")
    assert status == 0 and "branch in@b deleted" in shown


def test_the_delete_of_a_project_asks_if_it_has_secrets_or_notifications(pair):
    name = pair.name[:40] + "-3"
    for step in ("empty", "full"):
        pair("create", "project", name)
        if step == "full":
            pair.write("key", "x")
            pair("--project", name, "create", "secret", "s", "--file", "k=key")
            status, shown = on_a_terminal(pair, b"n", "delete", "project", name)
            assert status == FAILED and f"delete project {name}? Its 1 secret and 0 notifications go with it [y/N] " in shown, shown
        status, shown = on_a_terminal(pair, b"y", "delete", "project", name)
        assert status == 0 and f"project {name} deleted" in shown and ("[y/N]" in shown) == (step == "full")


def test_an_update_that_costs_much_wants_yes(make_daemon, tmp_path):
    """The job's GPU time is written into the database: a GPU of 12 hours is none that a test has."""
    daemon = make_daemon("--gpus", "1", sandbox="none").start()
    ctl = Work(daemon.default, tmp_path)
    stage = lambda run: {"name": "s", "input": {"repo": "in"}, "run": ["sh", "-c", run], "gpu": 1}
    ctl.spec(stage("true"))
    ctl("create", "pipeline", "-f", "spec.json")
    ctl("wait", "run", ctl.push("hello"), "--timeout", "60s")
    daemon.stop()
    with sqlite3.connect(os.path.join(daemon.dir, "pipelined.db")) as db:
        db.execute("UPDATE job SET ms = json_set(ms, '$.gpu', 12 * 3600 * 1000) WHERE stage = 's'")
    db.close()
    daemon.start()
    ctl.spec(stage(": other"))
    said = ctl.fails(INVALID, "update", "pipeline", "-f", "spec.json")
    assert "12.0 GPU-hours; above 10.0 (confirm_above)" in said and "--yes" in said
    with pytest.raises(HttpError) as e:
        daemon.pipeline(json.loads((ctl.folder / "spec.json").read_text()), update=True)
    assert (e.value.status, e.value.error["code"]) == (409, "not_confirmed")
    assert "run: 1 of 1 datum to run, ~12 GPU-hours at the last job's rate" in ctl("update", "pipeline", "-f", "spec.json", "--dry-run").out
    answer = ctl.json("update", "pipeline", "-f", "spec.json", "--yes")
    assert (answer["version"], answer["gpu_s"]) == (2, 12 * 3600)


def test_the_code_is_what_git_takes(pair):
    pair.write("code/.gitignore", "*.pyc\nbig/\n")
    pair.write("code/x.pyc")
    pair.write("code/big/x")
    pair.write("code/lib/a.py")
    pair.write("code/run.sh", "find . -type f | sort >$PL_OUT/files\n")
    pair("wait", "run", pair.json("update", "pipeline", "-f", "spec.json")["run"])
    assert pair("cat", "copy@master:/files").out.split() == ["./.gitignore", "./lib/a.py", "./run.sh"]
    pair.write("code/y.pyc")
    assert "nothing changed" in pair("update", "pipeline", "-f", "spec.json").out


def test_the_code_is_what_pipelinedignore_leaves(pair):
    """In a folder that git does not know, and for files that git tracks."""
    subprocess.run(["git", "init", "-q"], cwd=pair.folder / "code", check=True)
    pair.write("code/run.sh", "find . -type f | sort >$PL_OUT/files\n")
    pair.write("code/.pipelinedignore", "*.md\n/data/\n")
    for path in ("README.md", "lib/NOTES.md", "data/x", "lib/data/x", "lib/keep.txt", "lib/drop.txt"):
        pair.write(f"code/{path}")
    pair.write("code/lib/.pipelinedignore", "*.txt\n!keep.*\n")
    subprocess.run(["git", "add", "-A"], cwd=pair.folder / "code", check=True)
    pair("wait", "run", pair.json("update", "pipeline", "-f", "spec.json")["run"])
    assert pair("cat", "copy@master:/files").out.split() == ["./lib/data/x", "./lib/keep.txt", "./run.sh"]
    pair.write("code/README.md", "changed")
    assert "nothing changed" in pair("update", "pipeline", "-f", "spec.json").out
    pair.write("code/.pipelinedignore", "*.md\n[\n")
    assert "code/.pipelinedignore:2: " in pair.fails(INVALID, "update", "pipeline", "-f", "spec.json")


def of_files(name, *files, repo="in"):
    """A stage that lists the files of its code."""
    return {"name": name, "input": {"repo": repo}, "run": ["sh", f"{name}.sh"], "code": {"path": "code", "files": list(files)}}


def test_a_stage_names_its_files_of_a_shared_folder(ctl):
    """Only they are copied, and only a change of them runs it again."""
    stages = of_files("one", "one.sh", "/lib"), of_files("two", "two.sh", "/lib", repo="one")
    for name in ("one", "two"):
        ctl.write(f"code/{name}.sh", "find . -type f -o -type d -empty | sort >$PL_OUT/files\n")
    for path in ("lib/a", "lib/b/c", "other", "b/lib/no"):
        ctl.write(f"code/{path}")
    (ctl.folder / "code" / "empty").mkdir()
    ctl.spec(*stages)
    ctl("create", "pipeline", "-f", "spec.json")
    ctl("wait", "run", ctl.push("hello"))
    assert ctl("cat", "one@master:/files").out.split() == ["./lib/a", "./lib/b/c", "./one.sh"]
    assert ctl("cat", "two@master:/files").out.split() == ["./lib/a", "./lib/b/c", "./two.sh"]
    ctl.write("code/other", "changed")
    (ctl.folder / "code" / "empty2").mkdir()
    assert "nothing changed" in ctl("update", "pipeline", "-f", "spec.json").out
    ctl.write("code/two.sh", "echo changed >$PL_OUT/files\n")
    assert "code (two.sh): 1 of 1 datum to run" in ctl("update", "pipeline", "-f", "spec.json", "--dry-run").out
    run = ctl.json("update", "pipeline", "-f", "spec.json")["run"]
    ctl("wait", "run", run)
    assert ctl("cat", "two@master:/files").out == "changed\n"
    assert [job["stage"] for job in ctl.json("inspect", "run", run)["jobs"] if job["datums"].get("done")] == ["two"]


@pytest.mark.parametrize("code, said", [
    ({"path": "code"}, "stages[0].code"), ({"files": ["a"]}, "stages[0].code"), ({"path": "code", "files": []}, "stages[0].code.files"),
    ({"path": "../x", "files": ["a"]}, "stages[0].code.path"), ({"path": "code", "files": ["["]}, "stages[0].code.files[0]"),
    ({"path": "code", "files": ["a"], "x": 1}, 'unknown field "x"'), (["code"], "stages[0].code"), ({"path": "code", "files": ["nix.py"]}, 'matches "nix.py"')])
def test_files_of_code_that_cannot_be(ctl, code, said):
    ctl.write("code/one.sh", "true")
    ctl.spec({**of_files("one", "one.sh"), "code": code})
    done = ctl("create", "pipeline", "-f", "spec.json", ok=False)
    assert done.code in (INVALID, NOT_FOUND) and said in done.err, done.err


def test_a_folder_that_stages_with_other_commands_share_is_warned_of(ctl):
    one, two = {**of_files("one"), "code": "code"}, {**of_files("two", repo="one"), "code": "code"}
    ctl.write("code/one.sh", "true")
    ctl.spec(one, two)
    said = ctl("validate", "spec.json")
    assert 'stage "one" has the same code folder' in said.out + said.err and '"files": ["two.py", …]' in said.out + said.err
    ctl.spec(one, of_files("two", "two.sh", repo="one"))
    said = ctl("validate", "spec.json")
    assert "same code folder" not in said.out + said.err


def test_the_commit_of_the_code_is_kept(pair):
    for args in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *args], cwd=pair.folder / "code", check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=pair.folder / "code", capture_output=True, text=True, check=True).stdout.strip()
    pair.write("code/run.sh", "cat $in >$PL_OUT/again\n")
    pair("wait", "run", pair.json("update", "pipeline", "-f", "spec.json")["run"])
    stage = pair.json("inspect", "pipeline", "p")["stages"][0]
    assert stage["git"] == {"head": head, "dirty": True, "path": ""}
    assert f"git {head[:12]}, changed since" in pair("why", "copy@master:/again").out


def test_too_much_code(pair):
    for i in range(10001):
        pair.write(f"code/many/{i}", "")
    err = pair.fails(INVALID, "update", "pipeline", "-f", "spec.json")
    assert "10,000 files" in err and ".gitignore" in err
    pair.write("code/.gitignore", "many\n")
    pair("update", "pipeline", "-f", "spec.json")


def test_pipelines_listed_inspected_deleted(pair):
    assert "copy, count" in pair("list", "pipeline").out
    assert pair("inspect", "pipeline", "p", "--spec").out == (pair.folder / "spec.json").read_text()
    assert [s["name"] for s in pair.json("inspect", "pipeline", "p")["stages"]] == ["copy", "count"]
    assert "STAGE" in pair("inspect", "pipeline", "p").out
    pair("delete", "pipeline", "p")
    pair.fails(NOT_FOUND, "inspect", "pipeline", "p")
    assert [r["name"] for r in pair.json("list", "repo")["repos"]] == ["in"]


# --- runs, jobs, datums

def test_waiting_for_what_a_push_began(pair):
    pair.push("other", "g")
    done = pair("wait", "run", "in@master")
    assert "success" in done.out and "copy" in done.out
    run = pair.json("wait", "run", "copy@master")
    assert {job["stage"]: job["datums"]["reused"] for job in run["jobs"]}["copy"] == 1


def test_waiting_for_the_first_output_of_a_stage(ctl, gate):
    ctl.write("code/run.sh", gate.wait + "\ncat $in >$PL_OUT/out\n")
    ctl.spec(COPY, COUNT)
    ctl("create", "pipeline", "-f", "spec.json")
    ctl.fails(NOT_FOUND, "wait", "run", "copy@master")
    ctl.push("hello")
    gate.arrived()
    for other in ("copy@dev", "copy@master^1", "in@dev"):
        ctl.fails(NOT_FOUND, "wait", "run", other)
    waiting = ctl.popen("wait", "run", "count@master")
    assert "is still running" in ctl.fails(FAILED, "wait", "run", "copy@master", "--timeout", "1ms")
    gate.open()
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err
    assert "success" in out.decode()


def test_a_failed_run_shows_why(pair):
    pair.write("code/run.sh", "echo looking at it\nprintf '1 of 2\\r2 of 2\\r\\n'\necho no such thing >&2\nexit 7\n")
    run = pair.json("update", "pipeline", "-f", "spec.json")["run"]
    done = pair("wait", "run", run, ok=False)
    assert done.code == FAILED
    assert "    | 2 of 2\n" in done.err, "a progress bar is its last state"
    assert "stage copy: datum in=/f: exit code 7" in done.err
    assert "    | no such thing" in done.err
    datum = pair.json("list", "datum", "copy", "--state", "failed")["datums"][0]["id"]
    assert f"/copy@{run[:8]} --datum {datum[:12]}" in done.err
    assert "no such thing" in pair("logs", f"copy@{run[:8]}", "--datum", datum[:12]).out
    shown = pair("inspect", "run", run[:8])
    assert "unrunnable" in shown.out and "no such thing" in shown.err
    assert pair.json("inspect", "run", run)["jobs"][0]["datums"]["failed"] == 1
    of_datum = pair("inspect", "datum", "copy", datum[:8]).out
    assert "exit code 7" in of_datum and all(f"{phase} " in of_datum for phase in ("time   wait", "fetch", "compute", "upload", "held"))
    assert pair.json("inspect", "datum", "copy", "in=/f")["id"] == datum
    of_job = pair("inspect", "job", "copy").out
    assert "exit code 7" in of_job and all(f"{phase} " in of_job for phase in ("wait", "fetch", "compute", "upload", "held"))
    assert "GPU" not in of_datum + of_job  # it had none


def test_waiting_ends_with_the_time_given(pair, gate):
    pair.write("code/run.sh", gate.wait + "\n")
    run = pair.json("update", "pipeline", "-f", "spec.json")["run"]
    gate.arrived()
    err = pair.fails(FAILED, "wait", "run", run, "--timeout", "200ms")
    assert f"run {run[:8]} is still running" in err
    pair.fails(INVALID, "wait", "run", run, "--timeout", "soon")
    waiting = pair.popen("wait", "run", run)
    gate.open()
    assert waiting.wait(timeout=60) == 0
    waiting.communicate()


def test_stopping_a_run(pair, gate):
    pair.write("code/run.sh", gate.wait + "\n")
    run = pair.json("update", "pipeline", "-f", "spec.json")["run"]
    gate.arrived()
    pair("stop", "run", run[:8])
    done = pair("wait", "run", run, ok=False)
    assert done.code == FAILED and "stopped by a user" in done.err
    pair.fails(NOT_FOUND, "stop", "job", "copy")


def test_a_superseded_run_is_followed(pair, gate):
    pair.write("code/run.sh", gate.wait + "\ncat $in >$PL_OUT/x\n")
    first = pair.json("update", "pipeline", "-f", "spec.json")["run"]
    gate.arrived()
    second, third = pair.push("2"), pair.push("3")
    waiting = pair.popen("wait", "run", second)
    for _ in (first, third):
        gate.open()
        if _ is first:
            gate.arrived()
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err
    assert f"run {second[:8]} was superseded by run {third[:8]}" in err.decode()
    assert f"run {third[:8]}: success" in out.decode()
    assert pair("cat", "copy@master:/x").out == "3"


def test_lists_of_runs_and_jobs(pair):
    run = pair.push("x")
    pair("wait", "run", run)
    assert run[:8] in pair("list", "run").out
    assert pair.json("list", "run", "-n", "1")["runs"][0]["id"] == run
    assert {job["stage"] for job in pair.json("list", "job", "--run", run)["jobs"]} == {"copy", "count"}
    assert {job["run"] for job in pair.json("list", "job", "--stage", "copy", "-n", "1")["jobs"]} == {run}
    assert "no jobs found" in pair("list", "job", "--state", "failure").err
    pair.fails(NOT_FOUND, "inspect", "job", "nothing")
    pair.fails(NOT_FOUND, "wait", "run", "00000000")


# --- logs, why, status

def test_logs(pair):
    assert "copying" in pair("logs", "copy").out
    pair.write("code/run.sh", "for i in 1 2 3 4 5; do echo line $i; done\n")
    pair("wait", "run", pair.json("update", "pipeline", "-f", "spec.json")["run"])
    assert pair("logs", "copy", "-n", "2").out == "line 4\nline 5\n"
    assert pair("logs", "copy@in@master").out.startswith("copying")
    pair.fails(NOT_FOUND, "logs", "nothing")
    pair.fails(USAGE, "logs", "copy", "-f", "-n", "3")


def test_logs_of_a_run_that_reused_all_results_say_so(pair):
    pair("wait", "run", pair.push("hello", "g"))
    run = pair.json("run", "pipeline", "p")["run"]
    done = pair("logs", f"copy@{run}", "-f")
    assert (done.out, done.err) == ("", f"stage copy ran no command in run {run[:8]}: 2 of 2 datums reused from earlier runs\n")
    assert pair("logs", "copy@in@master").err == ""


@pytest.mark.parametrize("end", ["", "exit 3\n"])
def test_logs_are_followed_to_the_end(pair, gate, end):
    pair.write("code/run.sh", f"echo before\n{gate.wait}\necho after\n{end}")
    run = pair.json("update", "pipeline", "-f", "spec.json")["run"]
    gate.arrived()
    following = pair.popen("logs", f"copy@{run}", "-f")
    assert following.stdout.readline() == b"before\n"
    gate.open()
    assert following.stdout.read() == b"after\n"
    assert following.wait(timeout=30) == 0
    following.communicate()


def test_following_is_interrupted(pair, gate):
    pair.write("code/run.sh", f"echo before\n{gate.wait}\n")
    run = pair.json("update", "pipeline", "-f", "spec.json")["run"]
    gate.arrived()
    following = pair.popen("logs", f"copy@{run}", "-f")
    assert following.stdout.readline() == b"before\n"
    following.send_signal(signal.SIGINT)
    assert following.wait(timeout=30) == 130
    following.communicate()
    gate.open()
    pair("wait", "run", run)


def test_why(pair):
    told = pair("why", "count@master:/n").out
    for part in ("made by count in run", "copy@", "made by copy in run", "in = in@", "pushed 20"):
        assert part in told, told
    tree = pair.json("why", "count@master:/n")
    assert tree["inputs"][0]["inputs"][0]["inputs"][0]["path"] == "/f"
    pair.fails(NOT_FOUND, "why", "count@master:/nope")


def test_status_says_what_is_next(pair):
    assert "next: " in pair("status").out
    assert pair("--quiet", "status").out == ""
    assert "next: " in pair().out
    assert pair.json("status")["counts"]["pipelines"] >= 1
    assert isinstance(pair.json("gpus")["gpus"], list)
    assert pair("gpus").out


def test_fsck(pair):
    assert "records" in pair("fsck").out
    assert pair.json("fsck", "--full")["ok"] is True


# --- a damaged store; a lost database

def test_fsck_finds_damage(daemon, tmp_path):
    ctl = Work(daemon.default, tmp_path)
    ctl("create", "repo", "in")
    ctl.write("big", os.urandom(300000))
    ctl("put", "file", "in@master", "-f", "big")
    packs = [os.path.join(d, f) for d, _, files in os.walk(os.path.join(daemon.dir, "store", "p")) for f in files]
    pack = max(packs, key=os.path.getsize)
    os.chmod(pack, 0o644)
    with open(pack, "r+b") as f:
        f.seek(100000)
        f.write(b"damage")
    report = ctl("fsck", "--full", ok=False)
    assert report.code == FAILED
    assert "in@" in report.out + report.err


def test_recover_from_the_store_alone(make_daemon, tmp_path):
    daemon = make_daemon().start()
    ctl = Work(daemon.default, tmp_path)
    ctl.write("code/run.sh", "cat $in >$PL_OUT/out\n")
    ctl.spec(COPY)
    ctl("create", "pipeline", "-f", "spec.json")
    ctl("wait", "run", ctl.push("kept"))
    store, new = os.path.join(daemon.dir, "store"), str(tmp_path / "new")
    commits = ctl.json("list", "commit", "copy")
    daemon.stop()
    ctl.fails(CONFLICT, "recover", "--store", f"file://{store}", "--data", daemon.dir)
    said = ctl("recover", "--store", f"file://{store}", "--data", new).out
    assert "recovered 2 repos" in said and f"pipelined --data {new} --store file://{store}" in said
    ctl.fails(CONFLICT, "recover", "--store", f"file://{store}", "--data", new)
    ctl.fails(INVALID, "recover", "--store", "gs://bucket", "--data", str(tmp_path / "other"))
    ctl.fails(NOT_FOUND, "recover", "--store", f"file://{tmp_path}/nothing", "--data", str(tmp_path / "other"))
    daemon.dir = new
    daemon.start("--store", f"file://{store}")
    assert ctl("cat", "copy@master:/out").out == "kept"
    assert ctl.json("list", "commit", "copy") == commits
    assert wait_until(lambda: ctl.json("list", "pipeline")["pipelines"], "the pipeline")


# --- versions

def test_versions_are_listed_with_who_set_them_and_what_changed(pair):
    pair.write("code/run.sh", "cat $in >$PL_OUT/other\n")
    pair.spec(COPY, {**COUNT, "workers": 2})
    pair("update", "pipeline", "-f", "spec.json", "--yes")
    pair.spec({**COPY, "image": "app:1", "image_required": False}, {**COUNT, "workers": 2})
    pair("update", "pipeline", "-f", "spec.json", "--yes")
    said = pair("list", "version", "p").out.splitlines()
    assert said[0].split() == ["VERSION", "SET", "BY", "COMMIT", "STAGES", "RUN", "MESSAGE"]
    assert [line.split()[0] for line in said[1:]] == ["3", "2", "1"]
    assert "1 changed" in said[1] and "2 changed" in said[2] and "2 new" in said[3]
    versions = pair.json("list", "version", "p")["versions"]
    assert [v["current"] for v in versions] == [True, False, False] and versions[0]["by"] == "daemon"
    assert versions[0]["run"] in {run["id"] for run in pair.json("list", "run")["runs"]}


def test_the_difference_of_two_versions_names_fields_files_and_what_runs_anew(pair):
    pair.write("code/run.sh", "cat $in >$PL_OUT/other\n")
    pair.spec(COPY, {**COUNT, "workers": 2})
    pair("update", "pipeline", "-f", "spec.json", "--yes")
    said = pair("diff", "pipeline", "p").out
    assert "pipeline p: version 1 to 2" in said
    assert "copy changed: all datums run anew" in said and re.search(r"code +its content \(run\.sh\)  \[all\]", said)
    assert "count changed: datums whose key is new run anew, with copy" in said and re.search(r"workers +1 → 2  \[none\]", said)
    assert pair("diff", "pipeline", "p", "2").out.endswith("2 stages are the same\n")
    back = pair.json("diff", "pipeline", "p", "2", "1")
    assert (back["from"]["version"], back["to"]["version"]) == (2, 1) and back["stages"][1]["fields"][0]["before"] == 2
    assert "copy new: all datums run anew" in pair("diff", "pipeline", "p", "0", "1").out
    assert "has no version 9" in pair.fails(NOT_FOUND, "diff", "pipeline", "p", "1", "9")
    assert "is not the number of a version" in pair.fails(USAGE, "diff", "pipeline", "p", "x")


def test_inspect_shows_an_earlier_version_and_where_each_field_comes_from(pair):
    pair.write("defaults.json", json.dumps({"priority": 4}))
    pair("update", "defaults", pair.name, "-f", "defaults.json")
    pair.spec(COPY, {**COUNT, "workers": 2}, defaults={"datum": {"tries": 2}})
    pair("update", "pipeline", "-f", "spec.json", "--yes")
    assert '"workers"' in pair("inspect", "pipeline", "p", "--spec").out
    assert '"workers"' not in pair("inspect", "pipeline", "p", "--spec", "--at", "1").out
    rows = [re.split(r" {2,}", line) for line in pair("inspect", "pipeline", "p", "--origins").out.splitlines()]
    assert rows[0] == ["STAGE", "FIELD", "VALUE", "FROM"]
    assert ["count", "workers", "2", "the stage"] in rows and ["copy", "workers", "1", "the language's default"] in rows
    assert ["copy", "priority", "4", "the project's defaults"] in rows and ["copy", "datum.tries", "2", "the spec's defaults"] in rows
    before = pair.json("inspect", "pipeline", "p", "--origins", "--at", "1")["stages"][0]["origins"]
    assert before["datum.tries"] == "language" and "priority" not in before
    assert "--at x: the number of a version is expected" in pair.fails(USAGE, "inspect", "pipeline", "p", "--at", "x")
    assert "has no version 7: its newest is 2" in pair.fails(NOT_FOUND, "inspect", "pipeline", "p", "--at", "7")
