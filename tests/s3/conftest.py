"""Real S3 servers, one of each kind for all tests, and the daemon's fixtures of tests/daemon. PL_S3_SERVERS: which servers."""
import os
import uuid

import boto3
import botocore.client
import by_path
import pytest

import servers
from gateway import Gateway

by_path.load("tls_kit", "daemon/tls_kit.py")
by_path.load("slow_request", "daemon/slow_request.py")
daemon_fixtures = by_path.load("daemon_kit", "daemon/conftest.py")
globals().update({name: thing for name, thing in vars(daemon_fixtures).items() if not name.startswith("_")})

NAMES = (os.environ.get("PL_S3_SERVERS") or "radosgw versitygw").split()


def client(server, **config):
    """boto3 against a server, addressed by path, one try a call."""
    return boto3.client("s3", endpoint_url=server.endpoint, aws_access_key_id=server.access_key, aws_secret_access_key=server.secret_key,
                        region_name=server.region,
                        config=botocore.client.Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, **config))


def finished(daemon, repo, commit):
    """Waits until the commit in which puts gathered is one."""
    daemon_fixtures.wait_until(lambda: any(c["id"] == commit for c in daemon.get(f"/repos/default/{repo}/commits")["commits"]), f"commit {commit} to be finished")


def flushed(daemon, repo, commit):
    """Ends the commit in which puts gather: its window is long, so that it does not end between two puts of a step."""
    daemon.post(f"/repos/default/{repo}/branches/master/flush")
    finished(daemon, repo, commit)


@pytest.fixture
def gate(shared):
    """The gateway of the file's daemon, whose DAEMON_OPTIONS have --s3-listen."""
    return Gateway(shared)


@pytest.fixture
def s3(gate):
    """boto3 against it."""
    return gate.client()


@pytest.fixture(scope="session", params=NAMES)
def server(request, tmp_path_factory):
    """A real server that answers; of each kind in turn."""
    running = servers.EVERY[request.param](tmp_path_factory.mktemp(request.param)).start()
    yield running
    running.stop()


@pytest.fixture
def bucket(server):
    """A new bucket's name."""
    name = f"b{uuid.uuid4().hex[:16]}"
    client(server).create_bucket(Bucket=name)
    return name
