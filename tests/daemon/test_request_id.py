"""The id of a request: each reply carries it, and the lines of the log that belong to the request name it."""

import http.client
import json
import threading
import urllib.parse


def ask(d, method, path, body=None, token=True):
    """(status, X-Request-Id)."""
    url = urllib.parse.urlsplit(d.url)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    connection.request(method, path, body=body, headers={"Authorization": "Bearer " + d.token} if token else {})
    reply = connection.getresponse()
    reply.read()
    connection.close()
    return reply.status, reply.getheader("X-Request-Id")


def lines_of(d, request):
    return [line for line in map(json.loads, d.log().splitlines()) if line.get("request") == int(request)]


def test_lines_of_the_log_have_the_id_of_the_reply(make_daemon):
    d = make_daemon("--log-level", "debug").start()
    for method, path, token, status in (("GET", "/api/v1/status", True, 200), ("GET", "/healthz", False, 200), ("GET", "/api/v1/nothing", True, 404),
                                        ("GET", "/api/v1/status", False, 401), ("DELETE", "/api/v1/status", True, 405), ("GET", "/metrics", True, 200)):
        got, request = ask(d, method, path, token=token)
        assert got == status
        assert [(line["module"], line["message"]) for line in lines_of(d, request)] == [("http", f"{method} {path}: {status}")]


def test_no_two_replies_have_one_id(make_daemon):
    """Also of the S3 gateway, which is another server of the same process: its lines are in the same log."""
    d = make_daemon("--log-level", "debug", "--s3-listen", "127.0.0.1:0").start()
    seen = []
    threads = [threading.Thread(target=lambda: seen.extend(ask(d, "GET", "/healthz", token=False)[1] for _ in range(20))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    with open(d.dir + "/s3.url", encoding="utf-8") as f:
        s3 = urllib.parse.urlsplit(f.read().strip())
    connection = http.client.HTTPConnection(s3.hostname, s3.port, timeout=60)
    for _ in range(20):
        connection.request("GET", "/nothing/x")
        reply = connection.getresponse()
        reply.read()
        seen.append(reply.getheader("X-Request-Id"))
    connection.close()
    assert len(seen) == 100 == len(set(seen))
    assert all(len(lines_of(d, request)) == 1 for request in seen)


def test_a_line_of_no_request_has_none(make_daemon):
    d = make_daemon().start()
    assert d.stop() == 0
    lines = [json.loads(line) for line in d.log().splitlines()]
    assert lines and not any("request" in line for line in lines)
