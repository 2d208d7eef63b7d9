"""The kit of tests/daemon, and what tests/kube and tests/s3 share, for one short look at each."""
import pathlib
import sys

import by_path

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "kube"), str(HERE.parent / "s3")]
kit = by_path.load("daemon_kit", "daemon/conftest.py")
make_daemon = kit.make_daemon
