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


ROOMS = """pl_room(storage/base)
pl_room(storage/tree STRICT SOURCES tree.c USES storage/base)
pl_room(storage/pack USES storage/base)
pl_room(pipelined/plan SOURCES plan.c USES storage/base storage/tree)
pl_room(pipelined/net/server USES storage/base)
pl_room(pipelined/api/server
  SOURCES routes.c
  USES pipelined/net/server storage/base
  LIBRARIES jansson)
"""
FACE = "/* x: what it is for.\n *\n * Headers for other rooms:\n *   %s   what it has\n *\n * Inside:\n *   x   what it does */\n#pragma once\n"


def make_rooms(top, text=ROOMS):
    make(top, "pipelined/CMakeLists.txt", text)
    for room, header in (("storage/base", "err"), ("storage/tree", "node"), ("storage/pack", "sink"), ("pipelined/plan", "table"),
                         ("pipelined/net/server", "http_server"), ("pipelined/api/server", "api")):
        make(top, f"{room}/{room.rsplit('/', 1)[1]}.h", FACE % header)


@pytest.mark.parametrize("path, line, complaint", [
    ("pipelined/plan/x.c", '#include "storage/tree/node.h"', None),
    ("pipelined/plan/x.c", '#include "storage/tree/tree.h"', None),
    ("pipelined/plan/x.c", '#include "storage/tree/inner.h"', "does not list inner"),
    ("pipelined/plan/x.c", '#include "storage/pack/pack.h"', "does not use storage/pack"),
    ("pipelined/plan/x.c", "#include <uv.h>", "a pure room"),
    ("pipelined/plan/x.c", "#include <sys/queue.h>", None),
    ("pipelined/plan/x.c", "static int64_t now = pl_clock_mono_ms();", "a pure room"),
    ("pipelined/api/server/x.c", '#include "pipelined/net/server/http_server.h"', None),
    ("pipelined/odd/x.c", "", "no CMakeLists.txt has a pl_room(pipelined/odd)"),
    ("pipelined/plan/unnamed.c", "", "its face does not name unnamed"),
])
def test_layers(tmp_path, path, line, complaint):
    make_rooms(tmp_path)
    make(tmp_path, path, line + "\n")
    status, out = run_check("layers.py", tmp_path)
    assert status == (1 if complaint else 0) and (complaint or "0 complaints") in out, out


@pytest.mark.parametrize("more, complaint", [
    ("pl_room(storage/chunk USES pipelined/plan)", "storage/chunk may not use pipelined/plan"),
    ("pl_room(pipelined/spec USES storage/pack)", "pure rooms use"),
    ("pl_room(pipelined/db/tx USES pipelined/api/server)", "that is upward"),
    ("pl_room(pipelined/cli/data USES pipelined/api/server)", "that is sideways"),
    ("pl_room(storage/a USES storage/b)\npl_room(storage/b USES storage/a)", "circle: storage/a -> storage/b -> storage/a"),
])
def test_rooms_use_each_other_as_layers_allow(tmp_path, more, complaint):
    make_rooms(tmp_path, ROOMS + more + "\n")
    status, out = run_check("layers.py", tmp_path)
    assert status == 1 and complaint in out, out


def test_a_room_has_at_most_25_files(tmp_path):
    make_rooms(tmp_path)
    for n in range(25):
        make(tmp_path, f"pipelined/plan/x{n}.c", "")
    status, out = run_check("layers.py", tmp_path)
    assert status == 1 and "pipelined/plan: 26 files" in out


def test_the_map_names_every_room(tmp_path):
    make_rooms(tmp_path, ROOMS + "pl_room(pipelined/daemon)\n")
    make(tmp_path, "pipelined/daemon/daemon.h", FACE % "main")
    make(tmp_path, "pipelined/daemon/main.c", "/* storage/{base, tree, pack}, plan, net/server, api/server, daemon */\n")
    assert run_check("layers.py", tmp_path)[0] == 0
    make(tmp_path, "pipelined/daemon/main.c", "/* storage/{base, tree}, plan, net/server, api/server, daemon */\n")
    status, out = run_check("layers.py", tmp_path)
    assert status == 1 and "does not name the room storage/pack" in out


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
