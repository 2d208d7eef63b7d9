"""One control plane for all tests of the folder."""
import sys
import pathlib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import control_plane  # noqa: E402  the folder must be on the path first


@pytest.fixture(scope="session")
def plane(tmp_path_factory):
    server = control_plane.ControlPlane(tmp_path_factory.mktemp("plane")).start()
    yield server
    server.stop()
