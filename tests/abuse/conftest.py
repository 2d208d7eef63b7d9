"""The kit of tests/daemon, for attacks that run beside a probe."""
import importlib.util
import pathlib
import sys

DAEMON = pathlib.Path(__file__).resolve().parent.parent / "daemon"


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


kit = load("daemon_kit", DAEMON / "conftest.py")
make_daemon = kit.make_daemon
