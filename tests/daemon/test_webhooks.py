"""Webhooks: servers of repositories say that they got a push. Requests as the servers send them, over real HTTP."""

import base64
import hashlib
import hmac
import http.client
import json
import statistics
import threading
import time
import urllib.parse

import pytest
from conftest import SANITIZER, HttpError, wait_until
from test_sources import INVALID, copy, daemon, follow, git, pipelines, source_of, spec, sync  # noqa: F401 (fixtures too)

SECRET = "the secret of the hook"


def sign(body, secret=SECRET, digest="sha256"):
    return hmac.new(secret.encode(), body, digest).hexdigest()


def ask(daemon, headers, body=b"", source="team", method="POST"):
    """The status and the answer."""
    url = urllib.parse.urlsplit(daemon.url)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    try:
        connection.request(method, f"/hooks/{source}", body, headers)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def secret_of(daemon, name="hub", value=SECRET, key="hook", update=False):
    daemon.post("/secrets", {"name": name, "values": {key: base64.b64encode(value.encode()).decode()}, "update": update})


@pytest.fixture
def team(daemon, git):  # noqa: F811
    """A source with a hook, which is looked at by itself once an hour only."""
    git.write("pipelines/p.json", spec("p", copy())).push()
    secret_of(daemon)
    follow(daemon, git, "team", "--hook-secret", "hub")
    return git


def comes(daemon, sha):
    wait_until(lambda: source_of(daemon)["applied"] == sha, "the commit of the push")


PAYLOAD = json.dumps({"ref": "refs/heads/main", "after": "0" * 40}).encode()
VENDORS = {
    "github": lambda body: {"X-GitHub-Event": "push", "X-Hub-Signature": "sha1=" + sign(body, digest="sha1"), "X-Hub-Signature-256": "sha256=" + sign(body)},
    "github ping": lambda body: {"X-GitHub-Event": "ping", "X-Hub-Signature-256": "sha256=" + sign(body)},
    "gitea": lambda body: {"X-Gitea-Event": "push", "X-Gitea-Signature": sign(body)},
    "forgejo": lambda body: {"X-Forgejo-Event": "push", "X-Forgejo-Signature": sign(body), "X-Hub-Signature-256": "sha256=" + sign(body)},
    "gitlab": lambda _: {"X-Gitlab-Event": "Push Hook", "X-Gitlab-Token": SECRET},
    "bitbucket": lambda body: {"X-Event-Key": "repo:push", "X-Hub-Signature": "sha256=" + sign(body)},
    "signed by hand": lambda body: {"X-Pipelined-Signature": "sha256=" + sign(body)},
    "token by hand": lambda _: {"Authorization": "Bearer " + SECRET},
}


def test_each_server_s_webhook_is_taken_and_applies_the_push(daemon, team):  # noqa: F811
    assert source_of(daemon)["hook"] == daemon.url.rstrip("/") + "/hooks/team"
    assert "/hooks/team" in daemon.ctl("inspect", "source", "team").out
    for i, (vendor, headers) in enumerate(VENDORS.items()):
        sha = team.write("README.md", f"{i}").push()
        assert ask(daemon, {"Content-Type": "application/json", **headers(PAYLOAD)}, PAYLOAD) == (200, b'{"source":"team"}\n'), vendor
        comes(daemon, sha)
    for body in (b"", b"payload=%7B%7D", b"\0\xff not JSON", b"x" * (1 << 20)):
        assert ask(daemon, VENDORS["github"](body), body)[0] == 200


def test_what_is_not_signed_is_refused_with_one_answer(daemon, team):  # noqa: F811
    follow(daemon, team, "plain", ok=False)
    good, other = VENDORS["github"](PAYLOAD), b"another body"
    refused = [
        ask(daemon, {}, PAYLOAD), ask(daemon, good, other), ask(daemon, good, PAYLOAD, "none"), ask(daemon, good, PAYLOAD, "plain"),
        ask(daemon, good, PAYLOAD, "a" * 300), ask(daemon, good, PAYLOAD, "%2e%2e"), ask(daemon, VENDORS["token by hand"](b""), b"", "none"),
        ask(daemon, {"X-Hub-Signature": "sha1=" + sign(PAYLOAD, digest="sha1")}, PAYLOAD),
        ask(daemon, {"X-Hub-Signature-256": sign(PAYLOAD)}, PAYLOAD), ask(daemon, {"X-Hub-Signature-256": "sha256=" + "0" * 64}, PAYLOAD),
        ask(daemon, {"X-Hub-Signature-256": "sha256=" + sign(PAYLOAD, "")}, PAYLOAD), ask(daemon, {"X-Gitlab-Token": ""}, PAYLOAD),
        ask(daemon, {"X-Gitlab-Token": SECRET + "x"}, PAYLOAD), ask(daemon, {"Authorization": "Bearer " + daemon.token}, PAYLOAD),
        ask(daemon, {"Authorization": "Basic " + SECRET}, PAYLOAD)]
    assert {status for status, _ in refused} == {401} and len({text for _, text in refused}) == 1, refused
    assert SECRET not in daemon.log() and sign(PAYLOAD) not in daemon.log()
    assert ask(daemon, VENDORS["github"](b"x" * ((1 << 20) + 1)), b"x" * ((1 << 20) + 1))[0] == 413
    assert ask(daemon, good, method="GET")[0] in (401, 405)


def test_a_refusal_takes_the_same_time_for_every_name(daemon, team):  # noqa: F811
    """The first of each name reads a secret; then none does."""
    took = {"team": [], "none": []}
    body = b"x" * 1000
    for _ in range(30):
        for name, times in took.items():
            begin = time.perf_counter()
            assert ask(daemon, VENDORS["github"](PAYLOAD), body, name)[0] == 401
            times.append(time.perf_counter() - begin)
    known, unknown = (statistics.median(times) for times in took.values())
    assert 0.5 < known / unknown < 2, (known, unknown)


def test_a_replay_and_a_push_that_is_none_change_nothing(daemon, team):  # noqa: F811
    headers = VENDORS["github"](PAYLOAD)
    before = source_of(daemon)
    for _ in range(5):
        assert ask(daemon, headers, PAYLOAD)[0] == 200
    wait_until(lambda: source_of(daemon)["looked_us"] > before["looked_us"], "a look")
    assert {**source_of(daemon), "looked_us": 0} == {**before, "looked_us": 0} and pipelines(daemon)["p"]["version"] == 1
    assert daemon.get("/runs")["runs"] == []


def test_a_flood_while_a_push_comes(daemon, team):  # noqa: F811
    """Wrong ones, and good ones that are one look."""
    answers = []

    def flood(headers, n):
        answers.extend(ask(daemon, headers, PAYLOAD)[0] for _ in range(n))

    bad, good = {"X-Hub-Signature-256": "sha256=" + "0" * 64}, VENDORS["github"](PAYLOAD)
    threads = [threading.Thread(target=flood, args=(headers, 125)) for headers in (bad, bad, bad, good)]
    for thread in threads:
        thread.start()
    sha = team.write("README.md", "during the flood").push()
    assert ask(daemon, good, PAYLOAD)[0] == 200
    comes(daemon, sha)
    for thread in threads:
        thread.join()
    assert answers.count(200) == 125 and {200, 401} <= set(answers) <= {200, 401, 503} and len(answers) == 500, set(answers)
    assert daemon.get("/status")["version"] and ask(daemon, good, PAYLOAD)[0] == 200, "whoever knows the secret is not locked out"
    assert source_of(daemon)["state"] == "following" and pipelines(daemon)["p"]["version"] == 1


def test_secrets_that_change_and_settings_that_do(daemon, team):  # noqa: F811
    def hook(secret, source="team"):
        return ask(daemon, {"X-Gitlab-Token": secret}, b"", source)[0]

    assert hook(SECRET) == 200
    secret_of(daemon, value="another one\n", update=True)
    assert (hook("another one"), hook(SECRET)) == (200, 401)
    daemon.ctl("delete", "secret", "hub")
    assert hook("another one") == 401 and "its webhooks are refused: secret hub of project default has no key" in daemon.log()
    secret_of(daemon, value="another one")
    assert hook("another one") == 200
    secret_of(daemon, "second", "of the second")
    daemon.ctl("update", "source", "team", "--hook-secret", "second")
    assert (hook("of the second"), hook("another one")) == (200, 401)
    daemon.ctl("update", "source", "team", "--hook-secret", "")
    assert hook("of the second") == 401 and "hook" not in source_of(daemon)
    daemon.ctl("update", "source", "team", "--hook-secret", "second")
    assert hook("of the second") == 200
    daemon.kill()
    daemon.start()
    assert hook("of the second") == 200
    daemon.ctl("delete", "source", "team")
    wait_until(lambda: hook("of the second") == 401, "the end of the source")


def test_a_paused_source_is_not_looked_at(daemon, team):  # noqa: F811
    before = source_of(daemon)["applied"]
    daemon.ctl("pause", "source", "team")
    sha = team.write("README.md", "paused").push()
    assert ask(daemon, VENDORS["gitlab"](b""))[0] == 200
    daemon.ctl("diff", "source", "team")
    assert source_of(daemon)["applied"] == before
    daemon.ctl("resume", "source", "team")
    comes(daemon, sha)


def test_hook_secrets_that_are_refused(daemon, git):  # noqa: F811
    git.write("pipelines/p.json", spec("p", copy())).push()
    refused = follow(daemon, git, "team", "--hook-secret", "none", ok=False)
    assert refused.code == INVALID and "project \"default\" has no secret \"none\" with a key \"hook\"" in refused.err, refused.err
    assert "create secret none -f hook=FILE" in refused.err
    secret_of(daemon, "other", key="token")
    assert "no secret \"other\" with a key \"hook\"" in follow(daemon, git, "team", "--hook-secret", "other", ok=False).err
    with pytest.raises(HttpError) as wrong:
        daemon.post("/sources", {"name": "team", "settings": {"git": str(git.bare), "hook_secret": "../x"}})
    assert wrong.value.error["field"] == "hook_secret"
    assert not SANITIZER.search(daemon.log())
