"""Real S3 servers, one of each kind for all tests, and the daemon's fixtures of tests/daemon. PL_S3_SERVERS: which servers."""
import importlib.util
import os
import pathlib
import sys
import uuid

import boto3
import botocore.client
import pytest

import servers

HERE = pathlib.Path(__file__).resolve().parent


def _load(name, file):
    """A module of tests/daemon, whose folder is not where modules are looked for: it has a conftest, too."""
    spec = importlib.util.spec_from_file_location(name, HERE.parent / "daemon" / file)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_load("tls_kit", "tls_kit.py")
_load("slow_request", "slow_request.py")
daemon_fixtures = _load("daemon_fixtures", "conftest.py")
globals().update({name: thing for name, thing in vars(daemon_fixtures).items() if not name.startswith("_")})

NAMES = (os.environ.get("PL_S3_SERVERS") or "radosgw versitygw").split()


def client(server, **config):
    """boto3 against a server, addressed by path, one try a call."""
    return boto3.client("s3", endpoint_url=server.endpoint, aws_access_key_id=server.access_key, aws_secret_access_key=server.secret_key,
                        region_name=server.region,
                        config=botocore.client.Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, **config))


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
