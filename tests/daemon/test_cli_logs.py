"""pipelinectl logs: whole lines of datums that run at the same time, with datum and time before them; progress bars; JSON lines."""

import json
import os
import pty
import re
import subprocess

import pytest
from conftest import BIN, sh, wait_until

USAGE = 2
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ$")


def logs(project, *args, **more):
    return project.d.ctl("--project", project.name, "logs", *args, **more)


@pytest.fixture
def two(project, gate):
    """Two datums that run at the same time: each has printed half a line when the other one prints."""
    script = f'n=$(basename "$PL_INPUT_IN"); printf "${{n}}1-"; {gate.wait}; echo end; echo "${{n}}2-end"; printf "left $n"'
    project.repo("in").stages(sh("s", script, glob="/*", workers=2))
    run = project.commit("in", {"a": "1", "b": "2"})["run"]
    gate.arrived(2)
    wait_until(lambda: len(project.logs("s")) == 6, lambda: f"both halves: {project.logs('s')}")
    gate.open()
    project.wait(run)
    project.ids = {d["paths"].split("/")[-1]: d["id"] for d in project.datums("s", run)}
    return project


def test_lines_of_parallel_datums_are_whole_and_labelled(two):
    ids = {name: datum[:12] for name, datum in two.ids.items()}
    want = sorted(f"{ids[n]} | {text}" for n in "ab" for text in (f"{n}1-end", f"{n}2-end", f"left {n}"))
    for args in (["s"], ["s", "--prefix", "auto"], ["s", "--prefix", "datum"]):
        assert sorted(logs(two, *args).out.splitlines()) == want
    plain = logs(two, "s", "--prefix", "none").out.splitlines()
    assert sorted(plain) == sorted(line.split(" | ")[1] for line in want)
    assert logs(two, "s", "--datum", ids["a"]).out == "a1-end\na2-end\nleft a\n"
    assert logs(two, "s", "--datum", ids["a"], "--prefix", "datum", "-n", "1").out == f"{ids['a']} | left a\n"
    assert logs(two, "s", "--raw").out[:6] in ("a1-b1-", "b1-a1-")  # as it came


def test_times_and_json_lines(two):
    for line in logs(two, "s", "--timestamps", "--prefix", "none").out.splitlines():
        time, text = line.split(" ", 1)
        assert TIME.match(time) and re.match(r"^([ab]\d-end|left [ab])$", text), line
    times = [line.split(" ")[0] for line in logs(two, "s", "--timestamps", "--datum", two.ids["a"]).out.splitlines()][:-1]
    assert times == sorted(times)
    rows = [json.loads(line) for line in logs(two, "s", "--json").out.splitlines()]
    assert len(rows) == 6 and {r["datum"] for r in rows} == set(two.ids.values())
    for row in rows:
        assert sorted(row) == ["at", "attempt", "datum", "text"] and row["attempt"] == 1 and TIME.match(row["at"])
    assert sorted(r["text"] for r in rows)[:2] == ["a1-end", "a2-end"]


def test_one_datum_has_no_label_and_progress_collapses(project):
    project.repo("in").stages(sh("s", r'for i in 1 2 3; do printf "\r$i of 3"; done; echo; printf "a\377\n"'))
    project.run("in", {"f": "1"})
    done = subprocess.run([os.path.join(BIN, "pipelinectl"), "--data", project.d.dir, "--project", project.name, "logs", "s"], capture_output=True, check=True)
    assert done.stdout == b"3 of 3\na\xff\n"  # bytes that are no UTF-8 stay
    assert [json.loads(line)["text"] for line in logs(project, "s", "--json").out.splitlines()] == ["3 of 3", "a\ufffd"]


def test_a_terminal_shows_a_progress_bar_while_it_goes_on(project, gate):
    project.repo("in").stages(sh("s", rf'printf "\r10 %%"; printf "\r20 %%"; {gate.wait}; printf "\r30 %%\n"'))
    run = project.commit("in", {"f": "1"})["run"]
    gate.arrived()
    main, side = pty.openpty()
    process = subprocess.Popen([os.path.join(BIN, "pipelinectl"), "--data", project.d.dir, "--project", project.name, "logs", f"s@{run}", "-f"],
                               stdin=side, stdout=side, stderr=side)
    os.close(side)
    os.set_blocking(main, False)
    seen = b""

    def more(what):
        nonlocal seen
        try:
            seen += os.read(main, 4096)
        except (BlockingIOError, OSError):
            pass
        return what in seen

    try:
        wait_until(lambda: more(b"20 %"), lambda: f"the bar: {seen!r}")
        assert b"\n" not in seen
        gate.open()
        wait_until(lambda: more(b"\r\x1b[K30 %\r\n"), lambda: f"the end of the bar: {seen!r}")
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(main)


@pytest.mark.parametrize("args, said", [
    (["--prefix", "worker"], "--prefix worker: give auto (if there are several datums), datum or none"),
    (["--container", "main", "--timestamps"], "--timestamps and --container do not go together"),
    (["--container", "main", "--prefix", "datum"], "--prefix and --container do not go together"),
    (["--raw", "--json"], "--json and --raw do not go together"),
])
def test_what_does_not_go_together_is_refused(project, args, said):
    done = logs(project, "s", *args, ok=False)
    assert (done.code, said in done.err) == (USAGE, True), done.err


def test_many_short_lines_come_whole(project):
    project.repo("in").stages(sh("s", "seq 1 200000"))
    run = project.run("in", {"f": "1"})
    printed = project.d.ctl("--project", project.name, "logs", f"s@{run['id']}").out.split("\n")
    assert printed == [str(n) for n in range(1, 200001)] + [""]
