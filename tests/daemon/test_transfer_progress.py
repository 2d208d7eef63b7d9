"""The progress line of put and get on a terminal: it grows within one large file, and says how much there is and how long it takes."""

import os
import pty
import re
import signal
import subprocess
import threading
import time

import pytest
from conftest import BIN, wait_until

MIB = 1 << 20
SIZE = 160 * MIB
LINE = re.compile(r"(\d+\.\d [KMG]iB|\d+ B) of 160\.0 MiB \((\d+) %\), [0-9.]+ [KMG]?i?B/s(, \S+ left)?")


class Terminal:
    """Runs pipelinectl with its standard error on a terminal."""

    def __init__(self, daemon, *words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE):
        self.master, slave = pty.openpty()
        self.text = b""
        self.process = subprocess.Popen([os.path.join(BIN, "pipelinectl"), "--data", daemon.dir, *map(str, words)], stdin=stdin, stdout=stdout, stderr=slave)
        os.close(slave)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        while True:
            try:
                more = os.read(self.master, 65536)
            except OSError:  # the other end is closed
                return
            if not more:
                return
            self.text += more

    def pause_while(self, busy):
        """Stops the program as soon as it is at work, until it is time for a line."""
        wait_until(lambda: busy(self.process.pid) or self.process.poll() is not None, "the work to begin")
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(0.6)  # longer than what passes before the first line
        self.process.send_signal(signal.SIGCONT)

    def end(self):
        out, _ = self.process.communicate()
        self.reader.join()
        os.close(self.master)
        assert self.process.returncode == 0, self.text
        return out, self.text.decode()


def has_open(path):
    def check(pid):
        fds = f"/proc/{pid}/fd"
        try:
            return any(os.path.realpath(f"{fds}/{fd}") == str(path) for fd in os.listdir(fds))
        except OSError:
            return False

    return check


@pytest.fixture
def large(tmp_path):
    path = tmp_path / "large"
    block = os.urandom(16 * MIB)
    with open(path, "wb") as f:
        for i in range(SIZE // len(block)):
            f.write(bytes([i]) + block[1:])
    return path


def caught_at_work(start, busy):
    """What a transfer wrote on its terminal. A quick machine may be done between two looks: then it is begun again."""
    for i in range(50):
        terminal = start(i)
        terminal.pause_while(lambda pid, i=i: busy(pid, i))
        _, text = terminal.end()
        if LINE.search(text):
            return text
    pytest.fail(f"no line in fifty transfers: {text}")


def test_one_large_file_has_progress_both_ways(project, large, tmp_path):
    project.repo("in")
    is_open = has_open(large)
    text = caught_at_work(lambda _: Terminal(project.d, "put", "file", f"{project.name}/in@master:/large", "-f", large, "--no-cache", "--threads", "1"),
                          lambda pid, _: is_open(pid))
    assert "read " in text and "files" not in text.split("commit")[0], text
    percents = [int(p) for _, p, _ in LINE.findall(text)]
    assert percents == sorted(percents)
    assert text.split("\r\x1b[K")[-1] == "" or "read" not in text.split("\r\x1b[K")[-1], "the line is erased"

    def get(i):
        (tmp_path / f"out{i}").mkdir()
        return Terminal(project.d, "get", "file", f"{project.name}/in@master:/large", "-o", tmp_path / f"out{i}" / "large")
    text = caught_at_work(get, lambda _, i: os.listdir(tmp_path / f"out{i}"))
    assert "wrote " in text, text
    assert os.path.getsize(tmp_path / "out0" / "large") == SIZE


def test_standard_input_has_bytes_and_rate_only(project):
    project.repo("in")
    read, write = os.pipe()
    put = Terminal(project.d, "put", "file", f"{project.name}/in@master:/f", "-f", "-", stdin=read)
    os.close(read)
    os.write(write, b"x" * 65536)
    with os.fdopen(write, "wb") as f:
        f.write(os.urandom(MIB))
        f.flush()
        wait_until(lambda: b"read 1.0 MiB, " in put.text, lambda: put.text)
    _, text = put.end()
    assert re.search(r"read 1\.0 MiB, [0-9.]+ [KM]?i?B/s", text) and " of " not in text and "left" not in text, text


def test_without_a_terminal_nothing_is_shown(project, large):
    project.repo("in")
    done = project.d.ctl("put", "file", f"{project.name}/in@master:/large", "-f", large)
    assert done.err == ""
