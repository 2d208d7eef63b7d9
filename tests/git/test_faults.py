"""Servers that lie or attack at each stage of a look: the source says what is wrong, other sources go on, and nothing is left over."""
import os
import pathlib
import time

import faults
import pytest
from beside import OTHERS_S, answers, beside, nothing_left
from conftest import BIN, TOKEN, reading, told_nowhere, wait_until
from source_kit import copy, follow, pipelines, source_of, spec, sync


@pytest.fixture
def daemon(make_daemon, authority):
    return make_daemon(*reading(authority)).start()


@pytest.fixture
def token(daemon, tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    daemon.ctl("create", "secret", "key", "--file", f"token={tmp_path}/token")
    return ["--secret", "key"]


# Faults that end: what the source says of each.
ENDS = {
    "401": (faults.status(401, {"WWW-Authenticate": 'Basic realm="git"'}), "credentials|secret|401"),
    "403": (faults.status(403), "403"),
    "404": (faults.status(404), "404|no such repository|not found"),
    "500": (faults.status(500), "500"),
    "pack-500": (faults.at_pack(faults.status(500)), "500"),
    "pack-redirect": (faults.at_pack(faults.redirect(lambda server, path: server.url(path.lstrip("/")))), "redirect|302"),
    "page": (faults.page, "no git server|not a git|text/html|answer"),
    "garbage-refs": (faults.garbage_refs, ""),
    "cut-refs": (faults.at_refs(faults.cut), ""),
    "cut-pack": (faults.at_pack(faults.cut), ""),
    "garbage-pack": (faults.at_pack(faults.garbage_pack), ""),
    "page-pack": (faults.at_pack(faults.page), ""),
    "many-objects": (faults.at_pack(faults.many_objects), ""),
    "to-file": (faults.redirect("file:///etc/passwd"), "file"),
    "to-metadata": (faults.redirect("http://169.254.169.254/latest/meta-data/"), "169.254.169.254|outbound"),
    "to-metadata-https": (faults.redirect("https://169.254.169.254/team.git/info/refs?service=git-upload-pack"), "169.254.169.254"),
    "round": (faults.redirect(lambda server, path: server.url(path.lstrip("/"))), "redirect")}

with open(os.path.join(BIN, "pl-git"), "rb") as program:
    if b"__asan_init" in program.read():
        del ENDS["many-objects"]  # sanitizers map too much for a limit of memory, so this would take gigabytes


def test_each_fault_that_ends_is_said_and_mended(daemon, git, private, token):
    git.write("a", os.urandom(300_000)).write("pipelines/p.json", spec("p", copy())).push()
    for name, (fault, said) in ENDS.items():
        private.fault = fault
        daemon.post("/sources", {"name": name, "settings": {"git": private.url("team.git"), "interval": "1h", "secret": "key"}})
        sync(daemon, name, ok=False)
        source = source_of(daemon, name)
        assert source["state"] == "unreachable" and source["error"], (name, source)
        assert not said or any(part in source["error"] for part in said.split("|")), (name, source["error"])
        assert pipelines(daemon) == {}
        print(f"{name}: {source['error']}")
        private.fault = None
        sync(daemon, name)
        assert source_of(daemon, name)["state"] == "following", name
        daemon.ctl("delete", "source", name)
        daemon.ctl("delete", "pipeline", "p")
    told_nowhere(daemon, TOKEN)
    nothing_left(daemon)


def test_a_moved_repository_is_found_without_telling_another_server_the_token(daemon, git, private, http, token):
    git.write("pipelines/p.json", spec("p", copy())).push()
    private.fault = faults.moved
    follow(daemon, private.url("old/team.git"), "team", *token)
    assert source_of(daemon)["state"] == "following"
    daemon.ctl("delete", "source", "team")
    private.fault = faults.redirect(lambda server, path: http.url(path.lstrip("/")))
    follow(daemon, private.url("team.git"), "other", *token, ok=False)
    assert not any(credentials for _, _, credentials in http.asked), http.asked
    told_nowhere(daemon, TOKEN)


@pytest.mark.parametrize("fault", [faults.endless_pack, faults.bomb_pack], ids=["endless", "bomb"])
def test_a_pack_without_end_takes_little_memory_and_ends_with_the_daemon(make_daemon, authority, git, https, tmp_path, fault):
    daemon, other = beside(make_daemon, authority, tmp_path)
    git.write("pipelines/p.json", spec("p", copy())).push()
    https.fault = faults.at_pack(fault)
    daemon.post("/sources", {"name": "team", "settings": {"git": https.url("team.git"), "interval": "1h"}})
    copies, most = os.path.join(daemon.dir, "cache", "git"), []
    wait_until(lambda: https.stages("pack"), "the question for objects")

    def goes_on():
        most.extend(map(memory_of, numbers_with(copies)))
        return answers(daemon, "r")
    other.write("pipelines/r.json", spec("r", copy("third"))).push()
    daemon.post("/sources/good/sync")
    wait_until(goes_on, "the source beside it", OTHERS_S)
    wait_until(lambda: goes_on() and https.sent > 100_000 and len(most) > 50, "more of the pack")
    assert max(most) < 384 << 20  # of which the sanitizer keeps up to 256 MiB of what was freed
    began = time.monotonic()
    assert daemon.stop() == 0 and time.monotonic() - began < 15
    https.fault = None
    daemon.start()
    sync(daemon)
    assert source_of(daemon)["state"] == "following" and set(pipelines(daemon)) == {"p", "q", "r"}
    nothing_left(daemon)
    assert size_below(os.path.join(copies, "team.git")) < 1_000_000


def numbers_with(text):
    """Numbers of the processes whose command line mentions a text."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            if text.encode() in pathlib.Path(f"/proc/{number}/cmdline").read_bytes():
                found.append(number)
        except OSError:
            pass  # it has just ended
    return found


def memory_of(number):
    """RssAnon of a process in bytes, 0 if it has ended."""
    try:
        lines = pathlib.Path(f"/proc/{number}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def size_below(folder):
    return sum(os.lstat(os.path.join(base, name)).st_size for base, _, names in os.walk(folder) for name in names)


@pytest.mark.parametrize("fault", [faults.silent, faults.noise])
@pytest.mark.parametrize("transport", ["git_daemon", "ssh"])
def test_streams_that_are_silent_or_noisy(daemon, git, request, tmp_path, transport, fault):
    """The daemon stops at once beside a server that says nothing: nobody waits for its time limit."""
    server, options = request.getfixturevalue(transport), {}
    if transport == "ssh":
        (tmp_path / "known").write_text(server.known_hosts())
        daemon.ctl("create", "secret", "key", "--file", f"ssh_key={server.client_key()}", "--file", f"known_hosts={tmp_path}/known")
        options = {"secret": "key"}
    server.fault = fault
    daemon.post("/sources", {"name": "team", "settings": {"git": server.url("team.git"), "interval": "1h", **options}})
    wait_until(lambda: server.connections, "the first look")
    if fault is faults.noise:
        wait_until(lambda: source_of(daemon)["state"] == "unreachable", "the error")
        assert source_of(daemon)["error"]
    began = time.monotonic()
    assert daemon.stop() == 0 and time.monotonic() - began < 15
