"""Sources over https, ssh, http and git://, over real servers: what they follow, with which credentials, and what they refuse."""
import json
import os

import pytest
from conftest import TOKEN, processes_with, reading, told_nowhere, wait_until
from source_kit import copy, follow, pipelines, source_of, spec, sync

TRANSPORTS = ["https", "private", "ssh", "http", "git_daemon"]


@pytest.fixture
def daemon(make_daemon, authority):
    """A daemon that may connect to this machine, by all transports."""
    return make_daemon(*reading(authority)).start()


@pytest.fixture
def secret(daemon, tmp_path):
    """secret(NAME, key=text…) makes a secret of the project and returns the options of a source that uses it."""
    def make(name, verb="create", **keys):
        words = []
        for key, text in keys.items():
            file = tmp_path / f"{name}-{key}"
            file.write_text(text)
            words += ["--file", f"{key}={file}"]
        daemon.ctl(verb, "secret", name, *words)
        return ["--secret", name]
    return make


def options_for(request, transport, secret):
    """(server, its options of a source) of a transport."""
    server = request.getfixturevalue(transport)
    if transport == "private":
        return server, secret("key", token=TOKEN)
    if transport == "ssh":
        return server, secret("key", ssh_key=server.client_key().read_text(), known_hosts=server.known_hosts())
    return server, []


# --- each transport

@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_branch_is_followed(daemon, git, request, secret, transport):
    server, options = options_for(request, transport, secret)
    first = git.write("pipelines/p.json", spec("p", copy())).push()
    follow(daemon, server.url("team.git"), "team", *options)
    source = source_of(daemon)
    assert (source["state"], source["applied"], source["pipelines"]) == ("following", first, ["p"])
    assert daemon.get("/pipelines/default/p")["origin"]["url"] == server.url("team.git")
    second = git.write("pipelines/q.json", spec("q", copy("other"))).push()
    sync(daemon)
    assert source_of(daemon)["applied"] == second and set(pipelines(daemon)) == {"p", "q"}
    git("reset", "-q", "--hard", first)
    third = git.write("pipelines/r.json", spec("r", copy("third"))).push("Rewritten", "--force")
    assert "the branch was rewritten" in sync(daemon).out and source_of(daemon)["applied"] == third
    git("push", "-q", "origin", "HEAD:release")
    daemon.ctl("update", "source", "team", "--branch", "release")
    sync(daemon)
    git("push", "-q", "origin", ":release")
    assert "no branch \"release\"; it has main" in sync(daemon, ok=False).err
    assert source_of(daemon)["state"] == "unreachable" and set(pipelines(daemon)) == {"p", "q", "r"}
    wait_until(lambda: not processes_with(os.path.join(daemon.dir, "cache", "git")), "the end of pl-git")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_repository_that_is_not_there_and_one_that_is_empty(daemon, git, request, secret, transport):
    server, options = options_for(request, transport, secret)
    follow(daemon, server.url("nothing.git"), "team", *options, ok=False)
    assert source_of(daemon)["state"] == "unreachable" and source_of(daemon)["error"]
    follow(daemon, server.url("team.git"), "empty", *options, ok=False)
    assert "no commit yet" in source_of(daemon, "empty")["error"]
    git.write("pipelines/p.json", spec("p", copy())).push()
    sync(daemon, "empty")
    assert set(pipelines(daemon)) == {"p"}


# --- credentials

def test_a_private_repository_wants_the_right_token(daemon, git, private, secret):
    git.write("pipelines/p.json", spec("p", copy())).push()
    follow(daemon, private.url("team.git"), ok=False)
    none = source_of(daemon)
    assert none["state"] == "unreachable" and "secret" in none["error"], none["error"]
    secret("key", token="wrong-and-never-told")
    daemon.ctl("update", "source", "team", "--secret", "key")
    said = sync(daemon, ok=False).err
    assert "refuse" in said or "credentials" in said or "401" in said, said
    secret("key", "update", token=TOKEN)
    sync(daemon)
    assert source_of(daemon)["state"] == "following" and all(credentials for _, _, credentials in private.asked[-2:])
    told_nowhere(daemon, TOKEN, "wrong-and-never-told")
    with pytest.raises(AssertionError, match="is told in /"):
        told_nowhere(daemon, "ada@example.org")  # the search finds what is no secret


def test_a_name_and_a_password(daemon, git, private, secret):
    private.users = {"ada": TOKEN}
    git.write("pipelines/p.json", spec("p", copy())).push()
    follow(daemon, private.url("team.git"), "team", *secret("key", username="ada", password=TOKEN))
    daemon.ctl("update", "source", "team", *secret("other", username="ada", token=TOKEN))
    sync(daemon)
    told_nowhere(daemon, TOKEN)


def test_a_secret_that_is_missing_or_has_no_such_keys(daemon, git, https, ssh, secret):
    git.write("pipelines/p.json", spec("p", copy())).push()
    said = follow(daemon, https.url("team.git"), "team", "--secret", "none", ok=False).err
    assert "none" in said and "secret" in said
    said = follow(daemon, ssh.url("team.git"), "ssh", *secret("wrong", token=TOKEN), ok=False).err
    assert "ssh_key" in said or "known_hosts" in said, said
    said = follow(daemon, ssh.url("team.git"), "ssh2", *secret("half", ssh_key=ssh.client_key().read_text()), ok=False).err
    assert "known_hosts" in said, said
    assert pipelines(daemon) == {}


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
@pytest.mark.parametrize("passphrase", ["", "open-sesame-never-told"])
def test_keys_of_ssh(daemon, git, ssh, secret, kind, passphrase):
    git.write("pipelines/p.json", spec("p", copy())).push()
    key = ssh.client_key(kind=kind, passphrase=passphrase).read_text()
    options = secret("key", ssh_key=key, known_hosts=ssh.known_hosts(), **({"passphrase": passphrase} if passphrase else {}))
    follow(daemon, ssh.url("team.git"), "team", *options)
    assert source_of(daemon)["state"] == "following"
    if passphrase:
        secret("key", "update", ssh_key=key, known_hosts=ssh.known_hosts(), passphrase="wrong-never-told")
        assert "passphrase" in sync(daemon, ok=False).err or "ssh_key" in source_of(daemon)["error"], source_of(daemon)["error"]
        told_nowhere(daemon, passphrase, "wrong-never-told")
    told_nowhere(daemon, *key.splitlines()[1:-1])


def test_a_key_that_the_server_does_not_know(daemon, git, ssh, secret):
    git.write("pipelines/p.json", spec("p", copy())).push()
    stranger = ssh.client_key("stranger", allowed=False).read_text()
    said = follow(daemon, ssh.url("team.git"), "team", *secret("key", ssh_key=stranger, known_hosts=ssh.known_hosts()), ok=False).err
    assert "key" in said and source_of(daemon)["state"] == "unreachable" and pipelines(daemon) == {}, said


def test_another_host_key_than_the_known_one_is_refused(daemon, git, ssh, secret):
    sha = git.write("pipelines/p.json", spec("p", copy())).push()
    key, known = ssh.client_key().read_text(), ssh.known_hosts()
    follow(daemon, ssh.url("team.git"), "team", *secret("key", ssh_key=key, known_hosts=known))
    git.write("pipelines/q.json", spec("q", copy("other"))).push()
    ssh.change_host_key()
    said = sync(daemon, ok=False).err
    assert "known_hosts" in said and "SHA256:" in said, said
    source = source_of(daemon)
    assert (source["state"], source["applied"], set(pipelines(daemon))) == ("unreachable", sha, {"p"})
    for lines in (known.replace(f"[127.0.0.1]:{ssh.port}", "other.example"), "", "no line of known hosts\n"):
        secret("key", "update", ssh_key=key, known_hosts=lines)
        assert "known_hosts" in sync(daemon, ok=False).err, (lines, source_of(daemon)["error"])
    secret("key", "update", ssh_key=key, known_hosts="# a comment\n\n" + known + ssh.known_hosts())
    sync(daemon)
    assert set(pipelines(daemon)) == {"p", "q"}


def test_scp_like_addresses(daemon, git, ssh, secret):
    """USER@HOST:PATH has no port: nothing serves git at port 22 of this machine's tests, and the source says so."""
    git.push()
    options = secret("key", ssh_key=ssh.client_key().read_text(), known_hosts=ssh.known_hosts())
    said = follow(daemon, f"{ssh.user}@127.0.0.1:{git.bare}", "team", *options, ok=False).err
    assert "127.0.0.1" in said, said
    said = follow(daemon, f"{ssh.user}@[::1]:srv/team.git", "six", *options, ok=False).err
    assert "::1" in said and "resolve" not in said, said


def test_addresses_of_ipv6(daemon, git, git_daemon, ssh, secret):
    """The servers are at 127.0.0.1 only: what fails is the connection."""
    options = secret("key", ssh_key=ssh.client_key().read_text(), known_hosts=ssh.known_hosts())
    for name, server, options in (("git", git_daemon, []), ("ssh", ssh, options)):
        said = follow(daemon, server.url("team.git").replace("127.0.0.1", "[::1]"), name, *options, ok=False).err
        assert "failed to connect to ::1" in said, said


# --- certificates and rules

def test_certificates_that_do_not_fit_are_refused(daemon, git, https, authority, certificate):
    git.write("pipelines/p.json", spec("p", copy())).push()
    for name, more in (("elsewhere", {"hosts": ["DNS:elsewhere.example"]}), ("ended", {"days": -1})):
        https.use(authority.vouch(name, **more))
        follow(daemon, https.url("team.git"), name, ok=False)
        assert source_of(daemon, name)["state"] == "unreachable" and "certificate" in source_of(daemon, name)["error"], source_of(daemon, name)["error"]
        daemon.ctl("delete", "source", name)
    https.use(certificate)
    follow(daemon, https.url("team.git", host="localhost"))
    assert set(pipelines(daemon)) == {"p"}


def test_an_authority_that_nobody_named(make_daemon, git, https):
    git.write("pipelines/p.json", spec("p", copy())).push()
    daemon = make_daemon("--outbound-networks", "127.0.0.0/8").start()
    assert "certificate" in follow(daemon, https.url("team.git"), ok=False).err and https.asked == []


def test_what_the_daemon_may_not_connect_to(make_daemon, authority, git, https, http, git_daemon, ssh):
    """By default: https and ssh, to public addresses."""
    git.push()
    daemon = make_daemon("--outbound-ca", authority.ca).start()
    for address, why in ((https.url("team.git"), "outbound.networks"), (https.url("team.git", host="localhost"), "outbound.networks"),
                         (https.url("team.git", host="[::ffff:127.0.0.1]"), "outbound.networks"), (https.url("team.git", host="2130706433"), "outbound.networks"),
                         (ssh.url("team.git"), ""), (http.url("team.git"), "outbound.schemes"), (git_daemon.url("team.git"), "outbound.schemes"),
                         ("https://169.254.169.254/x", "outbound.networks"), ("https://[fe80::1]/x", "outbound.networks"), ("https://0.0.0.0/x", "outbound.networks")):
        said = follow(daemon, address, "team", ok=False).err
        assert why in said, (address, said)
        daemon.ctl("delete", "source", "team", ok=False)
    assert https.asked == http.asked == [] and git_daemon.connections == ssh.connections == 0


def test_hosts_that_are_named(make_daemon, authority, git, https):
    git.write("pipelines/p.json", spec("p", copy())).push()
    daemon = make_daemon(*reading(authority), "--outbound-hosts", "localhost,*.example.org").start()
    assert "outbound.hosts" in follow(daemon, https.url("team.git"), ok=False).err
    follow(daemon, https.url("team.git", host="localhost"), "named")
    assert set(pipelines(daemon)) == {"p"}


# --- cost

def test_what_is_fetched_is_proportional_to_the_change(daemon, git, https):
    for i in range(50):
        git.write(f"data/{i}", os.urandom(20_000))
    git.write("pipelines/p.json", spec("p", copy())).push()
    follow(daemon, https.url("team.git"))
    assert https.sent > 1_000_000
    https.forget()
    git.write("pipelines/p.json", spec("p", copy(workers=2))).push()
    sync(daemon)
    assert pipelines(daemon)["p"]["version"] == 2 and https.sent < 5_000, https.sent
    https.forget()
    sync(daemon)
    assert [path.partition("?")[0] for _, path, _ in https.asked] == ["/team.git/info/refs"] and https.sent < 1_000, https.asked


def test_a_look_without_news_reads_the_branches_alone(daemon, git, https):
    git.write("pipelines/p.json", spec("p", copy())).push()
    daemon.ctl("create", "source", "team", "--git", https.url("team.git"), "--interval", "1s")
    https.forget()
    wait_until(lambda: len(https.asked) >= 2, "two looks")
    assert {path.partition("?")[0] for _, path, _ in https.asked} == {"/team.git/info/refs"}


# --- the whole way

def test_an_engineer_edits_the_training_pushes_and_the_result_names_the_commit(daemon, git, private, secret, authority):
    stage = {"input": {"repo": "in", "name": "x", "glob": "/"}, "run": ["python3", "train.py"], "code": {"path": "code", "files": ["train.py"]}}
    git.write("pipelines/p.json", spec("digits", {"name": "train", **stage}, copy("report", "train")))
    git.write("pipelines/code/train.py", TRAIN % 1).write("README.md", "digits")
    git.env["GIT_SSL_CAINFO"] = authority.ca
    git("remote", "set-url", "origin", private.url("team.git", user=f"git:{TOKEN}"))
    first = git.push("Train")
    follow(daemon, private.url("team.git"), "team", *secret("key", token=TOKEN))
    assert daemon.default.run("in", {"f": b"21"})["job"]["train"]["origin"]["commit"] == first
    edit = git.write("pipelines/code/train.py", TRAIN % 2).push("Train twice as much")
    sync(daemon)
    run = daemon.wait(daemon.run_of_git(edit)["id"])
    assert run["state"] == "success" and {j["stage"] for j in run["jobs"]} == {"train", "report"}, json.dumps(run, indent=1)
    assert daemon.read("report", "all") == b"42\n"
    why = daemon.ctl("why", "report@master:/all").out
    assert edit[:12] in why and "Train twice as much" in why
    git.write("README.md", "nothing to run").push()
    sync(daemon)
    assert daemon.get("/runs", limit=1)["runs"][0]["id"] == run["id"]
    told_nowhere(daemon, TOKEN)


TRAIN = """import os
folder = os.environ["x"]
total = sum(int(open(os.path.join(folder, name)).read()) for name in os.listdir(folder))
with open(os.path.join(os.environ["PL_OUT"], "all"), "w") as out:
    print(total * %d, file=out)
"""
