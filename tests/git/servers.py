"""Real git servers on loopback: `git http-backend` behind a small HTTP server with or without TLS, `git daemon`, and sshd with a forced command.

    client ─▶ listener of this process ─▶ a process of git or sshd for each connection or request
                     └─ a fault instead, or in the middle (faults.py)

The listeners are bound to port 0 before anything runs, so no port is taken twice. Each server counts what it was asked and what it sent, and
stop() ends what still hangs.
"""
import base64
import contextlib
import getpass
import http.server
import os
import pathlib
import signal
import socket
import socketserver
import ssl
import subprocess
import threading
import zlib

HOST = "127.0.0.1"
LIMIT_S = 120  # only ends a hang
PIECE = 1 << 16
ENVIRONMENT = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


class Listener(socketserver.ThreadingTCPServer):
    """Serves each connection in a thread of its own; `owner` is the server that it belongs to."""
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, owner, handler):
        self.owner = owner
        super().__init__((HOST, 0), handler)

    def handle_error(self, request, client_address):
        """A client that goes away in the middle is part of the tests."""


class Server:
    """What all servers have: a port, faults, and an end."""
    handler = None

    def __init__(self, root):
        self.root = pathlib.Path(root)  # repositories lie below
        self.fault = None  # see faults.py; None: none
        self.over = threading.Event()
        self.children = set()
        self.listener = Listener(self, self.handler)
        self.port = self.listener.server_address[1]
        threading.Thread(target=self.listener.serve_forever, args=(0.05,), daemon=True).start()

    def hang(self, connection):
        """Waits until the client goes or the server stops. The client's bytes are read and dropped."""
        connection.settimeout(0.05)
        while not self.over.is_set():
            try:
                if not connection.recv(PIECE):
                    return
            except (TimeoutError, ssl.SSLWantReadError):
                continue
            except OSError:
                return

    def child(self, words, **more):
        """A process of git or sshd in a group of its own."""
        process = subprocess.Popen([str(word) for word in words], start_new_session=True, **more)
        self.children.add(process)
        return process

    def stop(self):
        self.over.set()
        self.listener.shutdown()
        self.listener.server_close()
        for process in list(self.children):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


# ---- http and https ---------------------------------------------------------------------------------------------------------------------

class HttpHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        if self.owner.tls:  # here, in the connection's thread: a client that never shakes hands keeps nobody else waiting
            self.request.settimeout(LIMIT_S)
            self.request = self.owner.tls.wrap_socket(self.request, server_side=True)
        super().setup()

    def finish(self):
        super().finish()
        if self.owner.tls:
            self.request.settimeout(1)
            with contextlib.suppress(OSError):  # the client has gone
                self.request.unwrap()  # says that nothing is cut off
            self.request.close()

    @property
    def owner(self):
        return self.server.owner

    @property
    def stage(self):
        """"refs": which branches there are; "pack": the objects."""
        return "refs" if "/info/refs" in self.path else "pack"

    def log_message(self, *_):
        """Nothing goes to the terminal."""

    def send(self, data):
        self.owner.sent += len(data)
        self.wfile.write(data)

    def begin(self, status, headers, length=None):
        """The head of a reply. Without a length it ends with the connection."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if length is None:
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def reply(self, status, headers, body=b""):
        self.begin(status, headers, len(body))
        self.send(body)

    def body(self):
        """The request's body, however it is sent."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return zlib.decompress(data, 31) if self.headers.get("Content-Encoding") == "gzip" else data

    def user(self):
        """The user whose password was sent, or None."""
        kind, _, text = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "basic":
            return None
        name, _, password = base64.b64decode(text).decode().partition(":")
        return name if self.owner.users.get(name) == password else None

    def serve(self):
        owner, body = self.owner, self.body()
        owner.asked.append((self.command, self.path, "Authorization" in self.headers))
        if owner.users and not self.user():
            return self.reply(401, {"WWW-Authenticate": 'Basic realm="git"', "Content-Type": "text/plain"}, b"Unauthorized\n")
        if owner.fault and owner.fault(self, lambda: self.git(body)):
            return None
        return self.reply(*self.git(body))

    do_GET = do_POST = serve

    def git(self, body):
        """Asks git http-backend -> status, headers, body."""
        if not self.owner.keep_refs or self.stage != "refs":
            return self.backend(body)
        if self.path not in self.owner.kept:
            self.owner.kept[self.path] = self.backend(body)
        return self.owner.kept[self.path]

    def backend(self, body):
        path, _, query = self.path.partition("?")
        environment = {**ENVIRONMENT, "GIT_PROJECT_ROOT": str(self.owner.root), "GIT_HTTP_EXPORT_ALL": "1", "REQUEST_METHOD": self.command,
                       "PATH_INFO": path, "QUERY_STRING": query, "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
                       "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "REMOTE_ADDR": HOST}
        if self.owner.users:
            environment["REMOTE_USER"] = self.user()  # allows pushes
        done = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True, check=False, timeout=LIMIT_S)
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
        status = headers.pop("Status", "200" if done.returncode == 0 else "500")
        return int(status.split()[0]), headers, rest


class HttpServer(Server):
    """Repositories below `root` at URL/NAME.git. `users`: {name: password}; {}: everybody reads. `certificate`: (file, its key); None: without TLS."""
    handler = HttpHandler

    def __init__(self, root, certificate=None, users=None):
        self.users = users or {}
        self.keep_refs, self.kept = False, {}  # whether the first answer about branches stays the answer
        self.tls = None
        self.forget()
        if certificate:
            self.use(certificate)
        super().__init__(root)

    def use(self, certificate):
        """Another certificate from the next connection on."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        self.tls = context

    def forget(self):
        """Counts anew: requests as (method, path, whether it had credentials), and bytes of replies' bodies."""
        self.asked, self.sent = [], 0

    def stages(self, stage):
        """How often something was asked for at a stage, see HttpHandler.stage."""
        return sum((stage == "refs") == ("/info/refs" in path) for _, path, _ in self.asked)

    def url(self, path="", host=HOST, user=""):
        return f"{'https' if self.tls else 'http'}://{user and user + '@'}{host}:{self.port}/{path}"


# ---- git daemon and sshd ----------------------------------------------------------------------------------------------------------------

class StreamHandler(socketserver.BaseRequestHandler):
    def handle(self):
        owner = self.server.owner
        owner.connections += 1
        if owner.fault:
            owner.fault(owner, self.request)
            return
        with open(owner.log, "ab") as log:
            process = owner.child(owner.command(), stdin=self.request, stdout=self.request, stderr=log, env=ENVIRONMENT)
        self.request.close()  # the process has it
        process.wait()
        owner.children.discard(process)


class StreamServer(Server):
    """A program that serves one connection on its standard input and output."""
    handler = StreamHandler

    def __init__(self, root, log):
        self.log = pathlib.Path(log)
        self.connections = 0
        super().__init__(root)

    def command(self):
        raise NotImplementedError


class GitDaemon(StreamServer):
    """git:// without any secret."""

    def command(self):
        return ["git", "daemon", "--inetd", "--export-all", f"--base-path={self.root}", "--log-destination=stderr", self.root]

    def url(self, path=""):
        return f"git://{HOST}:{self.port}/{path}"


FORCED = """#!/bin/sh
# The only command that a key of the tests may run.
case "$SSH_ORIGINAL_COMMAND" in
"git-upload-pack "*) exec git shell -c "$SSH_ORIGINAL_COMMAND" ;;
esac
echo "only git-upload-pack is served here" >&2
exit 1
"""

CONFIG = """
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin forced-commands-only
SetEnv GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_GLOBAL=/dev/null
"""


def ssh_keygen(path, kind="ed25519", passphrase="", comment="test"):
    """A new key pair at `path` and path.pub."""
    for old in (path, path.with_name(path.name + ".pub")):
        old.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", comment, "-f", path], check=True, stdin=subprocess.DEVNULL, timeout=LIMIT_S)
    return path


class SshServer(StreamServer):
    """sshd as this user, whose keys may run nothing but git-upload-pack. `folder` holds its keys and settings."""

    def __init__(self, root, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.user = getpass.getuser()
        if os.geteuid() == 0:
            pathlib.Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd locks in the part of it that has no rights
        (self.folder / "sshd_config").write_text(CONFIG.format(folder=self.folder))
        forced = self.folder / "forced.sh"
        forced.write_text(FORCED)
        forced.chmod(0o755)
        (self.folder / "authorized_keys").touch()
        self.change_host_key()
        super().__init__(root, self.folder / "sshd.log")

    def command(self):
        return ["/usr/sbin/sshd", "-i", "-e", "-f", self.folder / "sshd_config"]

    def change_host_key(self, kind="ed25519"):
        """Another host key from the next connection on."""
        ssh_keygen(self.folder / "host_key", kind)

    def client_key(self, name="id", kind="ed25519", passphrase="", allowed=True):
        """A key pair of a client; the path of the private key."""
        key = ssh_keygen(self.folder / name, kind, passphrase)
        if allowed:
            with open(self.folder / "authorized_keys", "a", encoding="utf-8") as f:
                f.write(f'restrict,command="{self.folder}/forced.sh" {key.with_name(name + ".pub").read_text()}')
        return key

    def known_hosts(self):
        """The line of the host key that it has now."""
        return f"[{HOST}]:{self.port} {(self.folder / 'host_key.pub').read_text()}"

    def url(self, path=""):
        """The path is absolute on the machine."""
        return f"ssh://{self.user}@{HOST}:{self.port}{self.root}/{path}"
