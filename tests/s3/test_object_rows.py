"""Every driver does the same whatever server is behind it, and libs3 stays in its module."""
import os
import pathlib
import re
import subprocess

import pytest

from conftest import BIN, client

MODULE = pathlib.Path(BIN).parent / "lib" / "pl-libs3.so"


def rows(driver, server, bucket, **environment):
    """Runs the table -> what it printed."""
    env = {**os.environ, "AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key, "CMOCKA_MESSAGE_OUTPUT": "STDOUT",
           **environment}
    done = subprocess.run([f"{BIN}/pl-object-rows", driver, f"s3://{bucket}/rows", server.endpoint], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env=env, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def test_the_driver_does_what_every_driver_does(server, bucket):
    assert "[  PASSED  ] 15 test(s)" in rows("s3", server, bucket)


def test_with_signature_v2_the_same(server, bucket):
    if not server.signature_v2:
        return
    assert "[  PASSED  ] 15 test(s)" in rows("libs3", server, bucket)
    assert client(server).list_objects_v2(Bucket=bucket)["KeyCount"] > 0


def test_libs3_and_the_program_take_no_function_of_each_other(server, bucket, tmp_path):
    """The dynamic linker says whose function each call went to: libs3 has names of every day, such as urlEncode and hash."""
    if not server.signature_v2:
        return
    rows("libs3", server, bucket, LD_DEBUG="bindings", LD_DEBUG_OUTPUT=str(tmp_path / "ld"))
    said = "".join(log.read_text() for log in tmp_path.glob("ld.*"))
    bound = set(re.findall(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `(\w+)'", said))
    program, library = str(pathlib.Path(BIN) / "pl-object-rows"), "libs3.so"
    assert any(library in to and MODULE.name in whose for whose, to, _ in bound), "libs3 was not used"
    sanitizers = re.compile(r"__|_Unwind|pthread_|mem|str|malloc|free|calloc|realloc")
    crossed = [(whose, to, name) for whose, to, name in bound if not sanitizers.match(name)
               and ((library in whose and os.path.realpath(to) == os.path.realpath(program)) or (library in to and "pl-libs3" not in whose and library not in whose))]
    assert not crossed


def test_the_module_gives_one_name_and_wants_none_of_ours():
    given = subprocess.run(["nm", "-D", "--defined-only", MODULE], capture_output=True, text=True, check=True).stdout.split()[2::3]
    wanted = subprocess.run(["nm", "-D", "--undefined-only", MODULE], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in given if not name.startswith("__")] == ["pl_libs3_module"]
    assert not [name for name in wanted if name.startswith("pl_")]
