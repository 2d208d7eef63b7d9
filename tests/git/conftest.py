"""Servers of tests/git, one of each kind a test, and the daemon's fixtures of tests/daemon."""
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
