"""Logging in: which server is asked, with which token, and that nobody else can read it."""

import http.server
import json
import os
import stat
import subprocess
import threading

import pytest
from conftest import BIN, SANITIZER

FAILED, USAGE, NOT_FOUND, INVALID, NO_SERVER = 1, 2, 3, 5, 6


class Person:
    def __init__(self, home):
        self.home = home
        self.file = home / ".config" / "pipelined" / "contexts.json"

    def __call__(self, *args, ok=True, stdin="", env=None):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PIPELINED_", "XDG_"))}
        done = subprocess.run([os.path.join(BIN, "pipelinectl"), *map(str, args)], input=stdin, capture_output=True, text=True, cwd=self.home,
                              env={**clean, "HOME": str(self.home), "XDG_DATA_HOME": str(self.home / "none"), **(env or {})}, check=False, timeout=60)
        assert not SANITIZER.search(done.stderr), done.stderr
        assert not ok or done.returncode == 0, done.stderr
        return done

    @property
    def contexts(self):
        return json.loads(self.file.read_text())


@pytest.fixture
def person(tmp_path):
    return Person(tmp_path)


def test_after_a_login_no_address_is_needed(person, shared):
    said = person("login", shared.url, stdin=shared.token + "\n").stdout
    assert "next: pipelinectl status" in said and shared.token not in said
    assert person("list", "repo", "--json").returncode == 0
    host = shared.url.split("//")[1]
    assert person.contexts == {"current": host, "contexts": {host: {"url": shared.url, "token": shared.token}}}


def test_the_file_is_for_its_owner_alone(person, shared):
    old = os.umask(0)
    try:
        person("login", shared.url, stdin=shared.token)
    finally:
        os.umask(old)
    assert stat.S_IMODE(person.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(person.file.parent.stat().st_mode) == 0o700
    person.file.chmod(0o640)
    done = person("status", ok=False)
    assert (done.returncode, "other users may read it (mode 640)" in done.stderr, "chmod 600" in done.stderr) == (FAILED, True, True), done.stderr


def test_a_token_that_does_not_do_is_not_kept(person, shared):
    done = person("login", shared.url, stdin="wrong\n", ok=False)
    assert done.returncode == FAILED and "token" in done.stderr
    assert not person.file.exists()


def test_a_server_that_is_not_there_is_not_kept(person):
    assert person("login", "http://127.0.0.1:1", stdin="t", ok=False).returncode == NO_SERVER
    assert not person.file.exists()


@pytest.mark.parametrize("how", ["stdin", "file", "environment"])
def test_where_the_token_comes_from(person, shared, how):
    (person.home / "token").write_text(shared.token + "\n")
    more = {"stdin": {"stdin": shared.token}, "file": {}, "environment": {"env": {"PIPELINED_TOKEN": shared.token}}}[how]
    person("login", shared.url, "--name", "it", *(["--token-file", "token"] if how == "file" else []), **more)
    assert person.contexts["contexts"]["it"]["token"] == shared.token


def test_from_one_context_to_another_and_out(person, shared):
    person("login", shared.url, "--name", "one", stdin=shared.token)
    person("login", shared.url + "/", "--name", "two", stdin=shared.token)
    assert person.contexts["current"] == "two"
    assert "now using" in person("login", "one").stdout
    listed = json.loads(person("list", "context", "--json").stdout)["contexts"]
    assert [(c["name"], c["current"]) for c in listed] == [("one", True), ("two", False)]
    assert shared.token not in person("list", "context").stdout
    person("logout", "two")
    assert list(person.contexts["contexts"]) == ["one"] and person.contexts["current"] == "one"
    person("logout")
    assert person.contexts == {"current": "", "contexts": {}}
    assert "not logged in to any server" in person("list", "context").stdout


def test_what_is_said_on_the_line_comes_before_the_context(person, shared):
    person.file.parent.mkdir(parents=True)
    person.file.touch(mode=0o600)
    person.file.write_text(json.dumps({"current": "dead", "contexts": {"dead": {"url": "http://127.0.0.1:1", "token": "x"}, "live": {"url": shared.url, "token": shared.token}}}))
    assert person("list", "repo", ok=False).returncode == NO_SERVER
    assert person("--server", shared.url, "list", "repo").returncode == 0, "the token is that of the context with this address"
    assert person("list", "repo", env={"PIPELINED_URL": shared.url}).returncode == 0
    assert person("list", "repo", env={"PIPELINED_URL": shared.url, "PIPELINED_TOKEN": "wrong"}, ok=False).returncode == FAILED
    assert person("--data", shared.dir, "list", "repo").returncode == 0


@pytest.mark.parametrize("args, code, said", [
    (["login"], USAGE, "login URL|CONTEXT"),
    (["login", "nix"], NOT_FOUND, 'no context "nix"'),
    (["login", "ftp://x"], USAGE, "http://HOST:PORT"),
    (["login", "http://127.0.0.1:1", "--name", "a b"], INVALID, "a context's name"),
    (["login", "http://127.0.0.1:1"], USAGE, "no token"),
    (["login", "http://127.0.0.1:1", "--token-file", "nix"], NOT_FOUND, "nix"),
    (["logout"], NOT_FOUND, "cannot log out: there is no context"),
    (["logout", "x"], NOT_FOUND, "cannot log out: there is no context x"),
    (["s3", "env", "--server", "http://127.0.0.1:1"], NO_SERVER, "no server at"),
])
def test_what_cannot_be_is_named(person, args, code, said):
    done = person(*args, ok=False)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr


def test_a_broken_file_is_named(person):
    person.file.parent.mkdir(parents=True)
    person.file.touch(mode=0o600)
    for text in ("{", "[]", '{"contexts": 3}', '{"current": "a", "contexts": {"a": {}}}'):
        person.file.write_text(text)
        done = person("status", ok=False)
        assert (done.returncode, "contexts.json" in done.stderr) == (FAILED, True), (text, done.stderr)


class Strange(http.server.BaseHTTPRequestHandler):
    """A server whose answers are `said`."""

    status, said = 200, {}

    def log_message(self, *_):
        pass

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.dumps(self.said).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer


class Stranger(Strange):
    """One that answers what s3 env asks for with texts that a shell would run."""

    EVIL = "x'; touch owned; echo '$(touch owned)`touch owned`\\"
    said = {"s3_url": EVIL, "store_id": "s", "access_key": EVIL, "secret_key": EVIL, "user": "u"}


class Painter(Strange):
    """One whose texts a terminal would obey."""

    EVIL = "\x1b[2J\x9b2Jname\x7f"
    said = {"users": [{"name": EVIL, "roles": [{"scope": EVIL, "role": EVIL}], "created_us": 1}],
            "commits": [{"id": EVIL, "message": EVIL, "author": EVIL, "created_us": 1}],
            "jobs": [{"project": "default", "stage": EVIL, "run": EVIL, "state": EVIL, "datums": {"total": 1}}],
            "files": [{"path": EVIL, "kind": EVIL, "size": 1}]}


class Refuser(Painter):
    status = 409
    said = {"error": {"code": "conflict", "message": Painter.EVIL, "hint": Painter.EVIL}}


def test_what_a_server_says_is_no_command_of_the_shell(person):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        lines = person("s3", "env", "--server", url, env={"PIPELINED_TOKEN": "t"}).stdout
        said = json.loads(person("s3", "env", "--json", "--server", url, "--new", env={"PIPELINED_TOKEN": "t"}).stdout)
        whole = json.loads(person("login", url + "/\"quoted\"", "--name", "strange", "--json", stdin="t").stdout)
        server.shutdown()
    done = subprocess.run(["sh", "-c", lines + 'printf %s "$AWS_ENDPOINT_URL"'], capture_output=True, text=True, cwd=person.home, check=True)
    assert done.stdout == said["AWS_ENDPOINT_URL"] and not (person.home / "owned").exists()
    assert whole == {"context": "strange", "url": url + '/"quoted"'}


@pytest.mark.parametrize("server", [Painter, Refuser])
@pytest.mark.parametrize("args", [("list", "user"), ("list", "commit", "r"), ("list", "job"), ("list", "file", "r@master")])
def test_what_a_server_says_is_no_command_of_the_terminal(person, server, args):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), server) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        done = person(*args, "--server", f"http://127.0.0.1:{listening.server_port}", env={"PIPELINED_TOKEN": "t"}, ok=server is Painter)
        listening.shutdown()
    said = done.stderr if server is Refuser else done.stdout
    assert "name" in said and not set("\x1b\x7f\x9b") & set(said), repr(said)
