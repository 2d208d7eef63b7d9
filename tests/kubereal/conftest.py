"""One node and one installation for all tests of the folder, inside the corner that inside.py made."""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import node  # noqa: E402  the folder must be on the path first
import world as library  # noqa: E402


@pytest.fixture(scope="session")
def cluster():
    if "PL_CORNER" not in os.environ:
        pytest.fail("not in a corner of the machine: sh tests/run.sh kube-real")
    server = node.Node(pathlib.Path(os.environ["PL_CORNER"]) / "node").start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def world(cluster, tmp_path_factory):
    return library.World(cluster, tmp_path_factory.mktemp("world")).install()
