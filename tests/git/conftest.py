"""Servers of tests/git, one of each kind a test, and the daemon's fixtures of tests/daemon."""
import base64
import os
import pathlib

import by_path
import pytest
import source_kit

import servers

tls_kit = by_path.load("tls_kit", "daemon/tls_kit.py")
daemon_fixtures = by_path.load("daemon_kit", "daemon/conftest.py")
globals().update({name: thing for name, thing in vars(daemon_fixtures).items() if not name.startswith("_")})

TOKEN = "tok-5d1f0c-never-told"


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    """An authority of the tests; `authority.ca` is its file."""
    return tls_kit.Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def certificate(authority):
    return authority.vouch()


@pytest.fixture
def git(tmp_path):
    """A repository that each server of the test serves as team.git."""
    folder = tmp_path / "repositories"
    folder.mkdir()
    return source_kit.Repository(folder)


@pytest.fixture
def https(git, certificate):
    """Everybody reads."""
    with servers.HttpServer(git.bare.parent, certificate) as server:
        yield server


@pytest.fixture
def private(git, certificate):
    """https for user git with the password TOKEN."""
    with servers.HttpServer(git.bare.parent, certificate, {"git": TOKEN}) as server:
        yield server


@pytest.fixture
def http(git):
    with servers.HttpServer(git.bare.parent) as server:
        yield server


@pytest.fixture
def git_daemon(git, tmp_path):
    with servers.GitDaemon(git.bare.parent, tmp_path / "git-daemon.log") as server:
        yield server


@pytest.fixture
def ssh(git, tmp_path):
    with servers.SshServer(git.bare.parent, tmp_path / "ssh") as server:
        yield server


def reading(authority, *schemes):
    """Options of a daemon that may reach this machine's servers, by default by each transport."""
    return ["--outbound-networks", "127.0.0.0/8,::1/128", "--outbound-schemes", ",".join(schemes or ("https", "ssh", "http", "git")), "--outbound-ca", authority.ca]


def told_nowhere(daemon, *texts):
    """Looks for secrets, also in base64, in all files of the daemon but those of DIR/secrets, and in what its API says of sources."""
    told = {text.encode() for text in texts}
    told |= {base64.b64encode(prefix + text)[:-4] for text in list(told) for prefix in (b"", b"git:")}
    said = {path: daemon.http("GET", f"/api/v1{path}", raw=True, headers={"Accept": "application/json"})
            for path in ("/sources?limit=500", "/pipelines?limit=500", "/secrets?project=default", "/runs?limit=500", "/audit", "/events?since=0&limit=10000",
                         *(f"/sources/{source['name']}" for source in daemon.get("/sources", limit=500)["sources"]))}
    for base, folders, names in os.walk(daemon.root):
        if os.path.join(base, "") == os.path.join(daemon.dir, "secrets", ""):
            folders.clear()
            continue
        for name in names:
            try:
                said[os.path.join(base, name)] = pathlib.Path(base, name).read_bytes()
            except OSError:
                pass  # it has gone, or is a socket
    for where, content in said.items():
        for text in told:
            assert text not in content, f"{text!r} is told in {where}"
