"""Requests whose body comes later: what happens in between is the test's."""

import http.client
import socket


class SlowRequest:
    """It is begun, and was asked for its body, when this is made."""

    def __init__(self, url, method, path, headers, length):
        host, _, port = url.split("://")[1].partition(":")
        self.connection = socket.create_connection((host, int(port)), timeout=60)
        sent = {"Host": f"{host}:{port}", **headers, "Content-Length": str(length), "Expect": "100-continue"}
        self.connection.sendall((f"{method} {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in sent.items()) + "\r\n").encode())
        said = self.connection.recv(25, socket.MSG_WAITALL)
        assert said == b"HTTP/1.1 100 Continue\r\n\r\n", said

    def send(self, body):
        self.connection.sendall(body)

    def end(self, body=b""):
        """The last bytes; status and body of the answer."""
        self.connection.sendall(body)
        reply = http.client.HTTPResponse(self.connection)
        reply.begin()
        got = reply.status, reply.read()
        self.connection.close()
        return got
