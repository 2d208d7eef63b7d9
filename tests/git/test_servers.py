"""The servers of this folder, asked by git itself: what a test blames on the daemon must not be the server's."""
import os
import subprocess

import faults
import pytest
from conftest import TOKEN

LIMIT_S = 60


@pytest.fixture
def client(authority, tmp_path):
    """client(WORD…, **environment) -> (exit status, standard output, standard error) of git, which trusts the tests' authority."""
    def run(*words, limit=LIMIT_S, **more):
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_TERMINAL_PROMPT": "0",
                       "GIT_SSL_CAINFO": authority.ca, **more}
        words = ["git", "-c", "protocol.version=0", *map(str, words)]  # the one of libgit2
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, cwd=tmp_path, env=environment,
                              timeout=limit, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr
    return run


def ssh_command(tmp_path, server, key, known=None):
    (tmp_path / "known_hosts").write_text(server.known_hosts() if known is None else known)
    return f"ssh -F /dev/null -i {key} -o IdentitiesOnly=yes -o BatchMode=yes -o UserKnownHostsFile={tmp_path}/known_hosts -o StrictHostKeyChecking=yes"


def test_http_and_https_serve_branches_and_objects_and_count(client, git, http, https):
    sha = git.write("a", "1").push()
    for server in (http, https):
        assert client("ls-remote", server.url("team.git"), "refs/heads/main") == (0, f"{sha}\trefs/heads/main\n", "")
        assert client("clone", "-q", server.url("team.git"), f"got-{server.port}")[0] == 0
        assert [path.split("?")[0] for _, path, _ in server.asked][-1] == "/team.git/git-upload-pack" and 300 < server.sent < 3000
    assert client("ls-remote", https.url("team.git"), GIT_SSL_CAINFO="/etc/ssl/certs/ca-certificates.crt")[0] != 0
    assert client("ls-remote", https.url("other.git"))[0] != 0


def test_a_private_repository_is_read_and_pushed_to_with_its_token(client, git, private, authority):
    git.write("a", "1").push()
    assert client("ls-remote", private.url("team.git"))[0] != 0
    assert client("ls-remote", private.url("team.git", user="git:wrong"))[0] != 0
    assert client("ls-remote", private.url("team.git", user=f"git:{TOKEN}"))[0] == 0
    git.env["GIT_SSL_CAINFO"] = authority.ca
    git("remote", "set-url", "origin", private.url("team.git", user=f"git:{TOKEN}"))
    sha = git.write("a", "2").push()
    assert client("ls-remote", git.bare, "refs/heads/main")[1].startswith(sha)


def test_git_daemon_serves_its_repositories(client, git, git_daemon):
    sha = git.write("a", "1").push()
    assert client("ls-remote", git_daemon.url("team.git"), "refs/heads/main") == (0, f"{sha}\trefs/heads/main\n", "")
    assert client("clone", "-q", git_daemon.url("team.git"), "got")[0] == 0 and git_daemon.connections == 2


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
def test_sshd_serves_git_to_its_keys_alone(client, git, ssh, tmp_path, kind):
    sha = git.write("a", "1").push()
    command = ssh_command(tmp_path, ssh, ssh.client_key(kind=kind))
    assert client("ls-remote", ssh.url("team.git"), "refs/heads/main", GIT_SSH_COMMAND=command) == (0, f"{sha}\trefs/heads/main\n", "")
    stranger = ssh_command(tmp_path, ssh, ssh.client_key("stranger", allowed=False))
    assert "Permission denied" in client("ls-remote", ssh.url("team.git"), GIT_SSH_COMMAND=stranger)[2]
    done = subprocess.run([*command.split(), "-p", str(ssh.port), f"{ssh.user}@127.0.0.1", "id"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "only git-upload-pack" in done.stderr
    command = ssh_command(tmp_path, ssh, tmp_path / "ssh/id")
    ssh.change_host_key()
    assert "HOST IDENTIFICATION HAS CHANGED" in client("ls-remote", ssh.url("team.git"), GIT_SSH_COMMAND=command)[2]


FAULTS = [
    (faults.status(403), "403"), (faults.status(404), "not found"), (faults.status(500), "500"), (faults.page, "not valid: is this a git repository"),
    (faults.garbage_refs, ""), (faults.cut, ""), (faults.at_pack(faults.cut), ""), (faults.at_pack(faults.garbage_pack), ""),
    (faults.redirect("file:///etc/passwd"), "")]


@pytest.mark.parametrize("fault, said", FAULTS, ids=range(len(FAULTS)))
def test_faults_that_end(client, git, https, fault, said):
    git.write("a", os.urandom(100_000)).push()
    https.fault = fault
    status, _, error = client("clone", "-q", https.url("team.git"), "got")
    assert status != 0 and said in error, error


@pytest.mark.parametrize("fault", [faults.hang, faults.hang_in_the_middle, faults.at_pack(faults.hang), faults.at_pack(faults.hang_in_the_middle),
                                   faults.at_pack(faults.endless_pack), faults.at_pack(faults.bomb_pack)], ids=range(6))
def test_faults_that_do_not_end(client, git, https, fault):
    git.write("a", os.urandom(100_000)).push()
    https.fault = fault
    with pytest.raises(subprocess.TimeoutExpired):
        client("clone", "-q", https.url("team.git"), "got", limit=1)


def test_streams_that_are_silent_or_noisy(client, git, git_daemon):
    git.push()
    git_daemon.fault = faults.noise
    assert client("ls-remote", git_daemon.url("team.git"))[0] != 0
    git_daemon.fault = faults.silent
    with pytest.raises(subprocess.TimeoutExpired):
        client("ls-remote", git_daemon.url("team.git"), limit=1)


def test_a_moved_repository_and_certificates_that_do_not_fit(client, git, https, authority):
    sha = git.push()
    https.fault = faults.moved
    assert client("ls-remote", https.url("old/team.git"), "HEAD")[1].startswith(sha)
    for name, more in (("elsewhere", {"hosts": ["DNS:elsewhere.example"]}), ("ended", {"days": -1})):
        https.use(authority.vouch(name, **more))
        assert "certificate" in client("ls-remote", https.url("team.git"))[2]
