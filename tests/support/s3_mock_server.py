"""The strict S3 server of the unit tests (tests/support/s3_server/s3_mock.h) as a process of its own, which can be told to fail."""
import os
import subprocess


class S3Mock:
    """Takes orders, a line each (tests/support/s3_server/s3_mock_server.c). `close` fails if the server found a request that is against S3's rules."""

    def __init__(self, *options):
        program = os.path.join(os.environ["PL_TEST_BIN"], "s3_mock_server")
        self.process = subprocess.Popen([program, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url, self.ca = self.process.stdout.readline().split()
        # the daemon's configuration of a store in its bucket
        self.store = {"url": "s3://bucket/the/prefix", "endpoint": self.url, "region": "mock-region-1", "access_key": "AKIAMOCKMOCKMOCKMOCK",
                      "secret_key": "mock/secret+of/the+mock/0123456789abcdef"}

    def order(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().rstrip("\n")
        assert answer != "unknown order", words
        return answer

    def fault(self, kind, method="-", part="-", skip=0, times=0, count=0):
        return self.order("fault", kind, method, part, skip, times, count)

    def heal(self):
        """Takes all faults away."""
        return self.order("chaos", 0, 0)

    def requests(self, method="-"):
        return int(self.order("requests", method))

    def close(self):
        violations = self.order("violations")
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0
        assert violations.split()[0] == "0", violations
