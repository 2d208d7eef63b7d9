"""A client that asks in turn who it is and whether the daemon is ready (/readyz), as long as its standard input is open: then it prints how long
the answers took.

    probe.py HOST PORT TOKEN    →    {"n", "p50_ms", "p99_ms", "max_ms"}

A process of its own, so that what the attack's clients do is not measured. A request is due every INTERVAL_S,
whether or not the one before was answered: an answer that takes long stands for all requests that were due meanwhile.
"""
import itertools
import json
import select
import socket
import sys
import time

INTERVAL_S = 0.005
PATIENCE_S = 10.0  # no answer by then: counted as that long, on a new connection


class Asker:
    def __init__(self, host, port, token):
        self.place = host, port
        self.requests = itertools.cycle(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
                                        for path in ("/api/v1/whoami", "/readyz"))
        self.socket = None

    def ask(self):
        """One request; whether it was answered with 200."""
        try:
            if self.socket is None:
                self.socket = socket.create_connection(self.place, timeout=PATIENCE_S)
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket.sendall(next(self.requests))
            reply = b""
            while b"\r\n\r\n" not in reply or not reply.endswith(b"\n"):
                more = self.socket.recv(65536)
                if not more:
                    raise OSError("cut off")
                reply += more
            return reply.startswith(b"HTTP/1.1 200 ")
        except OSError:
            self.socket = None
            return False


def main():
    asker = Asker(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    assert asker.ask()
    print("ready", flush=True)
    took = []
    due = time.monotonic()
    while True:
        now = time.monotonic()
        if select.select([sys.stdin], [], [], max(0.0, due - now))[0]:
            break
        answered = asker.ask()
        now = time.monotonic()
        while due <= now:
            took.append(now - due if answered else PATIENCE_S)
            due += INTERVAL_S
    took.sort()
    at = lambda part: round(took[min(len(took) - 1, int(len(took) * part))] * 1000, 2)
    print(json.dumps({"n": len(took), "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1)}), flush=True)


if __name__ == "__main__":
    main()
