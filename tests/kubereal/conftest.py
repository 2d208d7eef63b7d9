"""One node for all tests of the folder, inside the corner that inside.py made."""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import node  # noqa: E402  the folder must be on the path first


@pytest.fixture(scope="session")
def cluster():
    if "PL_CORNER" not in os.environ:
        pytest.fail("not in a corner of the machine: sh tests/run.sh kube-real")
    server = node.Node(pathlib.Path(os.environ["PL_CORNER"]) / "node").start()
    yield server
    server.stop()
