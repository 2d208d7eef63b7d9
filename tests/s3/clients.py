"""S3 clients that Debian does not have, each in a Python environment in the cache of servers.py.

    python3 clients.py build                makes the cache warm
"""
import os
import subprocess
import sys

from servers import venv

AWSCLI = "1.46.3"
PYTHON = {"s3fs": "2026.9.0", "aiobotocore": "3.10.0", "pandas": "3.1.1", "pyarrow": "26.0.1", "duckdb": "2.0.0", "boto3": "1.43.117", "s5cmd": "0.3.3"}


def aws():
    """The AWS command line, which brings the newest habits of Amazon's libraries: checksums in trailers, and what else is the default now."""
    programs = venv(f"awscli-{AWSCLI}", f"awscli=={AWSCLI}") / "bin"
    return programs / "python", programs / "aws"  # the cache moves environments: what is named in a script's first line is gone


def python():
    """Python with what data scientists read S3 by; and s5cmd beside it."""
    wanted = [f"{name}=={version}" for name, version in PYTHON.items()]
    return venv("s3-clients-" + "-".join(PYTHON.values()), *wanted) / "bin" / "python"


def s5cmd():
    return next(python().parent.parent.glob("lib/*/site-packages/s5cmd/bin/s5cmd"))


class Client:
    """Runs programs that find the gateway by their usual variables."""

    def __init__(self, gate, home):
        self.gate, self.home = gate, home
        self.env = {"PATH": os.environ["PATH"], "HOME": str(home), "AWS_ENDPOINT_URL": gate.url, "S3_ENDPOINT_URL": gate.url, "AWS_ACCESS_KEY_ID": gate.access_key,
                    "AWS_SECRET_ACCESS_KEY": gate.secret, "AWS_DEFAULT_REGION": gate.region, "AWS_REGION": gate.region, "AWS_EC2_METADATA_DISABLED": "true",
                    "RCLONE_CONFIG": str(home / "rclone.conf"), "RCLONE_CONFIG_PL_TYPE": "s3", "RCLONE_CONFIG_PL_PROVIDER": "Other",
                    "RCLONE_CONFIG_PL_ENV_AUTH": "true", "RCLONE_CONFIG_PL_ENDPOINT": gate.url, "RCLONE_CONFIG_PL_REGION": gate.region,
                    "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}

    def run(self, *words, ok=True, stdin=None):
        """Its output."""
        done = subprocess.run([str(word) for word in words], input=stdin, env=self.env, cwd=self.home, capture_output=True, check=False, timeout=240)
        assert (done.returncode == 0) == ok, f"{words}: exit {done.returncode}\n{done.stdout.decode()[-2000:]}\n{done.stderr.decode()[-4000:]}"
        return done.stdout.decode()


if __name__ == "__main__":
    if sys.argv[1:] != ["build"]:
        sys.exit("clients.py build")
    print(*aws(), python(), s5cmd(), sep="\n")
