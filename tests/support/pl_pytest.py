"""The pytest plugin of the test runner: loaded by `-p pl_pytest`.

- A failed test prints the command that runs it alone, and the end of each log below pytest's temporary folder that was written meanwhile.
- With several workers, a file is the unit of work, since its tests may share a daemon. A parameter whose id begins with "alone" makes a test
  a unit of its own. (An id, not a mark: the process that hands out the tests collects nothing and sees no marks.)
- Tests marked `slow` start first, so that no worker is left with one at the end.
"""
import os
import pathlib
import re
import time

import pytest

GROUP = os.environ.get("PL_GROUP", "")
LOG_LINES = 60
LOGS_MAX = 4


def pytest_configure(config):
    config.addinivalue_line("markers", "others_work: programs of others do most of the work; sanitizers would look at nothing new")
    config.addinivalue_line("markers", "slow: takes over 20 s; starts before the others")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling  # here: without xdist nobody asks for it

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return nodeid if "[alone" in nodeid else nodeid.split("::", 1)[0]

    return ByFile(config, log)


def logs_since(folder, began_s):
    """The logs below a folder that were written since then, those of daemons first, the newest first."""
    found = []
    for path in folder.rglob("*.log"):
        try:
            written = path.stat().st_mtime
        except OSError:
            continue  # removed meanwhile
        if written >= began_s and path.is_file():
            found.append((not path.name.startswith("daemon-"), -written, path))
    return [path for _, _, path in sorted(found)[:LOGS_MAX]]


def tail(path):
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(([f"… {len(lines) - LOG_LINES} lines before"] if len(lines) > LOG_LINES else []) + lines[-LOG_LINES:])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item):
    item.pl_began_s = time.time() - 1  # some filesystems keep whole seconds
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if not report.failed:
        return
    try:
        base = pathlib.Path(item.config._tmp_path_factory.getbasetemp())
        for path in logs_since(base, getattr(item, "pl_began_s", 0)):
            report.sections.append((f"end of {path.relative_to(base)}", tail(path)))
    except OSError as error:
        report.sections.append(("logs", f"cannot be read: {error}"))
    if GROUP:
        quoted = "'" + re.sub("'", "'\\\\''", item.nodeid) + "'"
        report.sections.append(("to run it alone", f"sh tests/run.sh {GROUP} {quoted}"))
