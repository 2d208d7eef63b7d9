"""A real podman with a store of its own, a registry on the loopback, and the daemon's fixtures of tests/daemon."""
import pathlib
import sys

import by_path

sys.path[:0] = [str(pathlib.Path(__file__).parent.parent / "daemon")]
kit = by_path.load("daemon_kit", "daemon/conftest.py")
globals().update({name: thing for name, thing in vars(kit).items() if not name.startswith("_")})
