"""Modules of a test folder that is not on the path of another one: each group has a conftest of its own."""
import importlib.util
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]


def load(name, file):
    """The module in the file tests/FILE, imported under a name; once, however many ask."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, TESTS / file)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
