"""The checks find what they are for, in trees made for it."""
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent


def run_check(name, *arguments):
    done = subprocess.run([sys.executable, str(HERE / name), *map(str, arguments)], capture_output=True, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def make(top, path, text):
    (top / path).parent.mkdir(parents=True, exist_ok=True)
    (top / path).write_text(text)


FUNCTION = "int pl_x(int a)\n{\n%s    return a;\n}\n"


@pytest.mark.parametrize("text, complaint", [
    (FUNCTION % "", None),
    (FUNCTION % ("    a++;\n" * 100), None),
    (FUNCTION % ("    a++;\n" * 120), "pl_x has 124 lines, at most 120"),
    (FUNCTION % ("    if (a)\n        a++;\n" * 25), "pl_x has complexity 26, at most 25"),
    ("int pl_a;\n" * 801, "801 lines, at most 800"),
])
def test_size(tmp_path, text, complaint):
    make(tmp_path, "storage/tree/x.c", text)
    status, out = run_check("size.py", tmp_path)
    assert (status, complaint is None or complaint in out) == (0 if complaint is None else 1, True), out


@pytest.mark.parametrize("path, line, allowed", [
    ("pipelined/plan/plan.c", '#include "storage/tree/tree.h"', True),
    ("pipelined/plan/plan.c", '#include "storage/store/store.h"', False),
    ("pipelined/sched/sched.c", "#include <uv.h>", False),
    ("pipelined/sched/sched.c", "#include <sys/queue.h>", True),
    ("pipelined/sched/sched.c", "#include <sys/stat.h>", False),
    ("pipelined/sched/sched.c", "static int64_t now = pl_clock_mono_ms();", False),
    ("pipelined/api/routes.c", '#include "pipelined/net/server/http_server.h"', True),
    ("pipelined/api/routes.c", '#include "pipelined/exec/exec.h"', False),
    ("pipelined/db/writer/db.c", '#include "pipelined/net/loop/loop.h"', False),
    ("pipelined/daemon/main.c", '#include "pipelined/exec/exec.h"', True),
    ("storage/base/buf.c", '#include "storage/tree/tree.h"', False),
    ("pipelined/odd/x.c", "", False),
])
def test_layers(tmp_path, path, line, allowed):
    make(tmp_path, path, line + "\n")
    status, out = run_check("layers.py", tmp_path)
    assert status == (0 if allowed else 1), out


def test_the_map_names_every_file(tmp_path):
    make(tmp_path, "storage/tree_edit/tree_edit.c", "")
    make(tmp_path, "pipelined/daemon/main.c", "/* storage/tree   tree_edit: changes\n * pipelined/daemon  main.c */\n")
    assert run_check("map.py", tmp_path)[0] == 0
    make(tmp_path, "storage/tree/tree_diff.c", "")
    status, out = run_check("map.py", tmp_path)
    assert status == 1 and "storage/tree/tree_diff.c" in out


def test_format(tmp_path):
    make(tmp_path, ".clang-format", (HERE.parents[1] / ".clang-format").read_text())
    make(tmp_path, "storage/base/x.c", "int pl_x;\n")
    assert run_check("format.py", tmp_path)[0] == 0
    make(tmp_path, "storage/base/x.c", "int   pl_x;\n")
    status, out = run_check("format.py", tmp_path)
    assert status == 1 and "storage/base/x.c:1" in out


def test_symbols(tmp_path):
    for source, good in (("int pl_x(void) { return 0; } static int y; int *pl_y(void) { return &y; }", True), ("int other;", False)):
        make(tmp_path, "x.c", source)
        subprocess.run(["gcc", "-c", "x.c", "-o", "x.o"], cwd=tmp_path, check=True)
        subprocess.run(["ar", "rcs", "libpl_x.a", "x.o"], cwd=tmp_path, check=True)
        status, out = run_check("symbols.py", tmp_path)
        assert status == (0 if good else 1) and ("other" in out) == (not good), out


@pytest.mark.parametrize("line, good", [
    ("a plain line about issues, 127.0.0.1 and /tmp", True),
    ("see /wo" + "rk/main/x", False),
    ("http://10" + ".1.2.3:8080/simple", False),
    ("DESI" + "GN §6 says", False),
    ("// TO" + "DO later", False),
])
def test_words(tmp_path, line, good):
    make(tmp_path, "docs/x.md", line + "\n")
    assert run_check("words.py", tmp_path)[0] == (0 if good else 1)


def test_a_check_that_sees_nothing_fails(tmp_path):
    assert run_check("layers.py", tmp_path)[0] == 1
