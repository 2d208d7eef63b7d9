"""The kit of tests/daemon, in the kernel that kernel.py starts."""
import os
import pathlib

import by_path
import pytest

kit = by_path.load("daemon_kit", "daemon/conftest.py")
make_daemon = kit.make_daemon
shared = kit.shared
project = kit.project
gate = kit.gate
ROOT = pathlib.Path("/sys/fs/cgroup")


@pytest.fixture(scope="session", autouse=True)
def free_controllers():
    if not {"cpu", "memory", "pids"} <= set((ROOT / "cgroup.controllers").read_text(encoding="ascii").split()):
        pytest.fail("the controllers of this kernel are somebody else's: sh tests/run.sh cgroup")
    assert os.getpid() != 1


@pytest.fixture
def groups():
    """Folders of workers' groups, wherever daemons made them."""
    return lambda: sorted(ROOT.glob("*/worker-*"))


def only(found, what):
    """The one thing that found() gives, once those of earlier tests have gone."""
    one, = kit.wait_until(lambda: len(found()) == 1 and found(), lambda: f"only one {what}: {found()}")
    return one
