"""A real S3 server for benchmarks, what stands between it and its clients, and the clients beside which we are measured."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

import measure
import ours

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "s3"))
import clients  # noqa: E402  (of tests/s3)
import servers  # noqa: E402

NAME = os.environ.get("BENCH_S3", "versitygw")


class Wire:
    """pl-bench-wire: every request that goes through it is counted, and every round trip takes delay_ms longer."""

    def __init__(self, server, delay_ms=0, trace=None):
        self.process = subprocess.Popen([ours.programs() / "pl-bench-wire", str(server.port), str(delay_ms), *([trace] if trace else [])],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint = f"http://127.0.0.1:{self.process.stdout.readline().strip()}"

    def passed(self):
        """Since it was asked before: {"requests": {method: n}, "up", "down", "connections"}."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Bucket:
    """One server over a folder; buckets are made as they are wanted. Servers and clients that cannot be had: measure.Failed."""

    def __init__(self, bench):
        self.folder = bench.folder / f"s3-server-{len(list(bench.folder.glob('s3-server-*')))}"
        self.folder.mkdir()
        try:
            self.server = servers.EVERY[NAME](self.folder / NAME).start()
        except servers.Unavailable as why:
            raise measure.Failed(str(why)) from why
        self.wires, self.n = [], 0
        os.environ.pop("AWS_CA_BUNDLE", None)  # nothing here is by TLS, and Debian's rclone does not start with it

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for wire in self.wires:
            wire.close()
        self.server.stop()

    def wire(self, delay_ms=0, trace=None):
        self.wires.append(Wire(self.server, delay_ms, trace))
        return self.wires[-1]

    def env(self, endpoint=None):
        """By which all clients, and ours, find the server."""
        url = endpoint or self.server.endpoint
        return {"AWS_ENDPOINT_URL": url, "S3_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": self.server.access_key, "AWS_SECRET_ACCESS_KEY": self.server.secret_key,
                "AWS_REGION": self.server.region, "AWS_DEFAULT_REGION": self.server.region, "AWS_EC2_METADATA_DISABLED": "true",
                "RCLONE_CONFIG": "/dev/null", "RCLONE_CONFIG_PL_TYPE": "s3", "RCLONE_CONFIG_PL_PROVIDER": "Other", "RCLONE_CONFIG_PL_ENV_AUTH": "true",
                "RCLONE_CONFIG_PL_ENDPOINT": url, "RCLONE_CONFIG_PL_REGION": self.server.region, "RESTIC_PASSWORD": "bench",
                "RESTIC_CACHE_DIR": str(self.folder / "restic-cache"), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "HOME": str(self.folder)}

    def make(self):
        """A new bucket's name."""
        import boto3  # of Debian; the other benchmarks do without
        self.n += 1
        name = f"bench-{self.n}"
        self.client().create_bucket(Bucket=name)
        return name

    def client(self):
        import boto3
        import botocore.client
        return boto3.client("s3", endpoint_url=self.server.endpoint, aws_access_key_id=self.server.access_key, aws_secret_access_key=self.server.secret_key,
                            region_name=self.server.region,
                            config=botocore.client.Config(signature_version="s3v4", s3={"addressing_style": "path"}))

    def warm(self):
        """What the server has lies in memory: who reads first would else wait for the disk, and the next would not."""
        for base, _, names in os.walk(self.folder / NAME):
            for name in names:
                with open(os.path.join(base, name), "rb", buffering=0) as file:
                    while file.read(1 << 20):
                        pass

    def daemon(self, folder, bucket, endpoint=None):
        return ours.Daemon(folder, ["--store", f"s3://{bucket}/store"], **self.env(endpoint))


class Client:
    """A peer: folder(source, place) puts all below a folder; up and down one file. `place` is BUCKET/PREFIX."""

    folders = True

    def __init__(self, bucket):
        self.bucket = bucket

    def run(self, *words, env=None, cwd=None):
        return measure.run(words, {**self.bucket.env(), **(env or {})}, cwd=cwd)


class S5cmd(Client):
    name = "s5cmd"

    def __init__(self, bucket):
        super().__init__(bucket)
        self.program = clients.s5cmd()

    def folder(self, source, place):
        return self.run(self.program, "--log", "error", "cp", f"{source}/", f"s3://{place}/")

    def up(self, path, place):
        return self.run(self.program, "--log", "error", "cp", path, f"s3://{place}")

    def down(self, place, path):
        return self.run(self.program, "--log", "error", "cp", f"s3://{place}", path)


class Rclone(Client):
    """copy as people type it: four transfers at a time, and eight checks."""
    name = "rclone"

    def __init__(self, bucket):
        super().__init__(bucket)
        self.program = shutil.which("rclone") or "rclone"

    def folder(self, source, place):
        return self.run(self.program, "copy", "-q", source, f"pl:{place}")

    def up(self, path, place):
        return self.run(self.program, "copyto", "-q", path, f"pl:{place}")

    def down(self, place, path):
        return self.run(self.program, "copyto", "-q", f"pl:{place}", path)


class Aws(Client):
    name = "aws"
    folders = False  # 100,000 files take it a quarter of an hour

    def __init__(self, bucket):
        super().__init__(bucket)
        self.program = clients.aws()

    def up(self, path, place):
        return self.run(*self.program, "s3", "cp", "--only-show-errors", path, f"s3://{place}")

    def down(self, place, path):
        return self.run(*self.program, "s3", "cp", "--only-show-errors", f"s3://{place}", path)


class Restic(Client):
    name = "restic"

    def __init__(self, bucket):
        super().__init__(bucket)
        self.program = shutil.which("restic") or "restic"

    def repo(self, place):
        return {"RESTIC_REPOSITORY": f"s3:{self.bucket.server.endpoint}/{place}"}

    def folder(self, source, place):
        self.run(self.program, "init", "-q", env=self.repo(place))
        return self.run(self.program, "backup", "-q", ".", env=self.repo(place), cwd=source)

    def up(self, path, place):
        return self.folder(path.parent, place)

    def down(self, place, path):
        return self.run(self.program, "restore", "-q", "latest", "--target", path.with_suffix(".restored"), env=self.repo(place))


EVERY = (S5cmd, Rclone, Restic, Aws)


def present(bench, bucket):
    """The clients that are here, of those that BENCH_PEERS names."""
    found = []
    for kind in EVERY:
        if kind.name not in os.environ.get("BENCH_PEERS", "s5cmd rclone restic aws").split():
            continue
        with contextlib.suppress(servers.Unavailable, StopIteration):
            client = kind(bucket)
            if shutil.which(str(client.program if not isinstance(client.program, tuple) else client.program[0])):
                found.append(client)
                continue
        bench.say(f"  {kind.name} is not here")
    return found
