"""pipelinectl open PLACE: the page at what is named as elsewhere on the command line."""

import http.client
import urllib.parse

import pytest
from conftest import sh

USAGE, NOT_FOUND = 2, 3


@pytest.fixture(scope="module")
def world(shared):
    p = shared.project("vision")
    p.repo("photos").stages(sh("decode", 'cp "$PL_INPUT_PHOTOS"/* "$PL_OUT/"', "photos"), pipeline="street")
    shared.default.repo("plain")
    return p, p.run("photos", {"a b&c.jpg": "1"})["id"]


def place(project, *args):
    """Where the link leads below the daemon's address, and what --json says of it."""
    link = project.d.ctl("--project", project.name, "open", *args, "--print").out.strip()
    url = urllib.parse.urlsplit(link)
    assert link.startswith(project.d.url + "/login?token=")
    return dict(urllib.parse.parse_qsl(url.query)).get("to", "")


def test_each_kind_of_place_has_its_address(world):
    p, run = world
    expected = {
        (): "", ("home",): "/", ("gpus",): "/gpus", ("runs",): "/runs", ("data",): "/data", ("pipelines",): "/pipelines", ("metrics",): "/metrics/-", ("check",): "/check",
        (run[:8],): f"/runs/{run}", ("run", run[:8]): f"/runs/{run[:8]}", ("run", "photos@master"): f"/runs/{run}",
        ("photos@master:/a b&c.jpg",): "/data/vision/photos/master/-/a%20b%26c.jpg", ("file", "vision/photos@master:/"): "/data/vision/photos/master/-/",
        (f"photos@{run}",): f"/data/vision/photos/{run}/-/", ("branch", "photos@master"): "/data/vision/photos/master/-/", ("why", "decode@master:/x"): "/why/vision/decode/master/-/x",
        ("photos",): "/data/vision/photos", ("repo", "decode"): "/data/vision/decode", ("default/plain",): "/data/default/plain",
        ("street",): "/pipelines/vision/street", ("vision/street",): "/pipelines/vision/street", ("pipeline", "street"): "/pipelines/vision/street",
        ("decode",): f"/jobs/vision/decode/{run}", ("street/decode",): f"/jobs/vision/decode/{run}", ("job", f"decode@{run[:8]}"): f"/jobs/vision/decode/{run[:8]}",
        ("log", "vision/decode"): f"/jobs/vision/decode/{run}/log", ("metrics", "decode"): "/metrics/vision/decode",
    }
    assert {args: place(p, *args) for args in expected} == expected


def test_the_link_logs_in_and_leads_there(world):
    p, run = world
    answer = p.d.ctl("--json", "--project", "vision", "open", "photos@master:/a b&c.jpg").json
    assert answer["place"] == "/data/vision/photos/master/-/a%20b%26c.jpg" and answer["valid_s"] == 300
    url = urllib.parse.urlsplit(answer["url"])
    reply = raw_get(p.d, f"{url.path}?{url.query}")
    assert reply.status == 303 and reply.getheader("Location") == "./data/vision/photos/master/-/a%20b%26c.jpg"


def raw_get(d, target):
    url = urllib.parse.urlsplit(d.url)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    connection.request("GET", target)
    reply = connection.getresponse()
    reply.read()
    connection.close()
    return reply


@pytest.mark.parametrize("args, code, words", [
    (["nothing-here"], NOT_FOUND, 'there is no run, pipeline, stage or repo "nothing-here"'), (["0123456789ab"], NOT_FOUND, "there is no run"),
    (["job"], USAGE, "which job? open job STAGE[@RUN]"), (["zebra", "x"], USAGE, '"zebra" is no kind of place: use run, job, log'),
    (["job", "nothing"], NOT_FOUND, 'there is no stage "nothing" in project vision'), (["run", "xyz"], USAGE, '"xyz" is not a run')])
def test_what_is_no_place_is_said(world, args, code, words):
    got = world[0].d.ctl("--project", "vision", "open", *args, ok=False)
    assert got.code == code and words in got.err
