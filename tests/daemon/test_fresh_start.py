"""A daemon that has just started has no store of a project open yet. Whatever is asked of it then, all at once, is answered."""

import http.client
import re
import threading
import time
import urllib.parse

import pytest

from test_restart import busy

COPIES = 8  # of each route; the daemon has fewer readers of its database than that, times the routes that read a store
STREAMS = ("text/event-stream",)  # these last: their start is their answer


def routes(d):
    """The GET routes of the daemon's own document, as paths with {names}."""
    document = d.http("GET", "/api/v1/openapi.json")
    return sorted(path for path, methods in document["paths"].items() if "get" in methods), document


def required_query(document, path):
    return [p["name"] for p in document["paths"][path]["get"].get("parameters", []) if p["in"] == "query" and p.get("required")]


def values(d, p):
    """What the {names} of paths stand for in this daemon."""
    run = next(j["run"] for j in d.get("/jobs")["jobs"] if j["stage"] == "s" and j["state"] == "success")
    commit = p.commits("in")[0]
    return {"project": "default", "repo": "in", "branch": "master", "ref": "master", "base": "master", "pipeline": "p", "stage": "s", "run": run,
            "datum": p.datums("s", run)[0]["id"], "path": "b", "path...": "b", "user": "admin", "name": "in", "commit": commit["id"], "root": commit.get("root", "0" * 64),
            "id": "0" * 64, "hash": "0" * 64, "container": "command", "session": "0" * 32, "secret": "none", "source": "none", "notification": "none"}


def ask(d, path, answers):
    """The status, or what went wrong: an answer that does not come is an error after a minute."""
    url = urllib.parse.urlsplit(d.url)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    try:
        while True:
            connection.request("GET", path, headers={"Authorization": "Bearer " + d.token})
            reply = connection.getresponse()
            said = b"" if reply.getheader("Content-Type", "").startswith(STREAMS) else reply.read()
            if reply.status != 503 or b'"busy"' not in said:  # of one user's long requests 64 wait for their turn; more are told to come again
                break
            time.sleep(0.05)
        answers.append((path, reply.status))
    except (OSError, http.client.HTTPException) as e:
        answers.append((path, repr(e)))
    finally:
        connection.close()


def ask_at_once(d, paths):
    answers = []
    threads = [threading.Thread(target=ask, args=(d, path, answers)) for path in paths]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return answers


@pytest.fixture
def with_history(make_daemon):
    d = make_daemon().start()
    return d, busy(d)


def test_every_get_route_answers_a_burst_after_a_start(with_history):
    d, p = with_history
    paths, document = routes(d)
    known = values(d, p)
    filled = []
    for path in paths:
        names = re.findall(r"\{([^}]+)\}", path)
        assert set(names) <= set(known), f"{path}: say in values() what its names stand for"
        here = known
        if "/why/" in path:
            here = {**known, "repo": "s", "path...": "b/f"}
        query = urllib.parse.urlencode({n: here.get(n, "b") for n in required_query(document, path)})
        filled.append(re.sub(r"\{([^}]+)\}", lambda m: urllib.parse.quote(str(here[m.group(1)]), safe="/"), path) + ("?" + query if query else ""))
    assert len(filled) > 30, "the document lists the routes"
    d.kill()
    d.start()
    answers = ask_at_once(d, filled * COPIES)
    assert not [a for a in answers if not isinstance(a[1], int) or a[1] >= 500], answers
    good = {path for path, status in answers if status == 200}
    assert {"/api/v1/pipelines/default/p", "/api/v1/repos/default/in/refs/master/files/b", "/api/v1/status"} <= good
    assert any(path.startswith("/api/v1/why/") for path in good)
    assert d.stop() == 0


def test_many_ask_for_one_pipeline_after_a_start(with_history):
    d, _ = with_history
    for _ in range(5):
        d.kill()
        d.start()
        answers = ask_at_once(d, ["/api/v1/pipelines/default/p"] * 48)
        assert {status for _, status in answers} == {200}, answers
