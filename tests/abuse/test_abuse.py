"""Small requests that cost much, each beside a probe (probe.py): p99 of what somebody else waits for `whoami` and
`/readyz`.

The bound is LIMIT_MS. What an attack may do at best is to take processors: before each, the probe waits beside programs that do nothing else.
Where others load the machine so that this alone makes it wait, the bound holds for what the attack adds.
"""
import contextlib
import http.client
import itertools
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.parse

import bytes_kit as kit
import pytest
from daemon_kit import HttpError, ops_stream, varint, wait_until

LIMIT_MS = 100.0
QUIET_MS = 25.0  # a probe that waits longer without an attack is on a loaded machine
BASELINE_S = 1.5
SPINNERS = 3  # as many as the daemon has threads for slow work on a machine of two processors
TRIES = 3
ATTACK_S = 3.0  # an attacker goes on for so long
PATIENCE_S = 6.0  # of an attacker's client
HANG_S = 60.0  # where an answer must come: only ends a hang
FIGURES = os.environ.get("PL_ABUSE_FIGURES")  # a file that gets a line of JSON for each attack


class Probe:
    def __init__(self, daemon, token):
        host, port = daemon.url.split("://")[1].split(":")
        words = [sys.executable, os.path.join(os.path.dirname(__file__), "probe.py"), host, port, token]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def end(self):
        out, _ = self.process.communicate()
        return json.loads(out)


@contextlib.contextmanager
def spinners():
    children = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(SPINNERS)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def p99_beside(daemon, token, work):
    """The probe's figures while the work is done, and what that gave."""
    probe = Probe(daemon, token)
    try:
        return work(), probe.end()
    finally:
        probe.process.kill()
        probe.process.wait()


def beside(name, daemon, token, attack):
    """Others are served as they should be while attack() is going on; gives what the attack was answered. A stall that others on the machine cause
    does not come each time: one good try of TRIES is enough."""
    said = []
    for _ in range(TRIES):
        with spinners():
            baseline = p99_beside(daemon, token, lambda: threading.Event().wait(BASELINE_S))[1]  # the sample itself: nothing else is waited for
        result, seen = p99_beside(daemon, token, attack)
        if FIGURES:
            with open(FIGURES, "a", encoding="utf-8") as out:
                out.write(json.dumps({"attack": name, "baseline": baseline, "attacked": seen}) + "\n")
        if seen["p99_ms"] <= LIMIT_MS + (baseline["p99_ms"] if baseline["p99_ms"] > QUIET_MS else 0):
            return result
        said.append(f"p99 of whoami is {seen['p99_ms']} ms, beside programs that only compute {baseline['p99_ms']} ms")
    return pytest.fail(f"{name}: " + "; ".join(said))


class Attackers:
    """Clients that send a request again and again for ATTACK_S, and what they were answered: status → how many; 0 is no answer in time."""

    def __init__(self, daemon, n, request, patience=PATIENCE_S):
        """request(i, connection): sends one request and gives the status."""
        self.place, self.patience = daemon.url.split("://")[1], patience
        self.request, self.statuses, self.lock = request, {}, threading.Lock()
        self.until = time.monotonic() + ATTACK_S
        self.threads = [threading.Thread(target=self.run, args=[i]) for i in range(n)]
        for thread in self.threads:
            thread.start()

    def run(self, i):
        connection = None
        while time.monotonic() < self.until:
            try:
                connection = connection or http.client.HTTPConnection(self.place, timeout=self.patience)
                status = self.request(i, connection)
            except (OSError, http.client.HTTPException):
                status, connection = 0, None
            with self.lock:
                self.statuses[status] = self.statuses.get(status, 0) + 1

    def end(self):
        for thread in self.threads:
            thread.join()
        return self.statuses


def ask(connection, method, path, token, body=None):
    connection.request(method, path, body, {"Authorization": f"Bearer {token}"})
    reply = connection.getresponse()
    reply.read()
    return reply.status


@pytest.fixture
def daemon(make_daemon):
    return make_daemon().start()


def user(daemon, name, *roles):
    daemon.post("/users", {"name": name, "roles": [{"scope": scope, "role": role} for scope, role in roles]})
    return daemon.post("/tokens", {"user": name})["token"]


@pytest.fixture
def writer(daemon):
    return user(daemon, "mallory", ("default", "writer"))


@pytest.fixture
def other(daemon):
    """Somebody else, in a project of their own, who wants to work."""
    daemon.project("theirs").repo("r")
    return user(daemon, "bob", ("theirs", "writer"))


def bring(daemon, token, records):
    """Puts records into the project's store; what it took of the network."""
    pack_id, data = kit.pack("default", records)
    session = daemon.http("POST", "/api/v1/sessions", {"project": "default"}, token=token)["session"]
    daemon.http("PUT", f"/api/v1/projects/default/packs/{pack_id}?session={session}", data, token=token)
    return len(data)


def list_dag(width=4096, levels=3, chunk=b"x"):
    """A chunk, lists over it that name one list below `width` times, and the root's id and bytes."""
    records, below, size = [(kit.CHUNK, chunk)], kit.sha(chunk), len(chunk)
    for level in range(levels):
        raw = kit.chunk_list(level, [(below, size)] * width)
        records.append((kit.LIST, raw))
        below, size = kit.sha(raw), size * width
    return records, below, size


def tree_dag(leaf, files, size, width=2000, levels=3):
    """Nodes that name one node below `width` times; the root's id."""
    records = [(kit.NODE, leaf)]
    below = kit.sha(leaf)
    for level in range(1, levels + 1):
        entries = [(f"{i:05}".encode(), below + varint(files) + varint(size)) for i in range(width)]
        records.append((kit.NODE, kit.tree_node(level, entries)))
        below, files, size = kit.sha(records[-1][1]), files * width, size * width
    return records, below


def test_chunk_lists_that_name_one_list_often(daemon, writer, other):
    daemon.default.repo("in")
    records, root, size = list_dag()
    assert sum(len(raw) for _, raw in records) < 480_000
    bring(daemon, writer, records)
    body = kit.put_list_op("f", size, root)

    def push(_, connection):
        return ask(connection, "POST", "/api/v1/repos/default/in/branches/master/commits", writer, body)

    statuses = beside("chunk lists, 4 pushes", daemon, other, lambda: Attackers(daemon, 4, push).end())
    assert set(statuses) <= {200, 201, 503}, statuses
    assert daemon.default.files("in") == {"f": "file"}


def test_lists_whose_sums_are_wrong_are_refused_however_they_are_reached(daemon, writer, other):
    """The second reference says other bytes of a list than the first, which was right."""
    daemon.default.repo("in")
    chunk = b"x"
    low = kit.chunk_list(0, [(kit.sha(chunk), 1)] * 100)
    top = kit.chunk_list(1, [(kit.sha(low), 100)] * 700 + [(kit.sha(low), 101)])
    bring(daemon, writer, [(kit.CHUNK, chunk), (kit.LIST, low), (kit.LIST, top)])
    with pytest.raises(HttpError) as refused:
        daemon.http("POST", "/api/v1/repos/default/in/branches/master/commits", kit.put_list_op("f", 70101, kit.sha(top)))
    assert "differs from what its parent states" in refused.value.error["message"]


def spec_with_code(name):
    return {"pipeline": name, "stages": [{"name": name, "input": {"repo": "in", "glob": "/"}, "run": ["true"], "code": "code"}]}


def code_pushers(daemon, token, root, n=4):
    bodies = [json.dumps({"spec": json.dumps(spec_with_code(f"p{i}")), "code": {f"p{i}": {"root": root.hex()}}}).encode() for i in range(n)]

    def create(i, connection):
        return ask(connection, "POST", "/api/v1/pipelines", token, bodies[i])

    return Attackers(daemon, n, create)


def test_trees_that_name_one_node_often(daemon, writer, other):
    daemon.default.repo("in")
    leaf = kit.tree_node(0, [(f"{i:05}".encode(), bytes([1, 1, 1]) + b"x") for i in range(300)])
    records, root = tree_dag(leaf, 300, 300)
    bring(daemon, writer, records)
    statuses = beside("trees, 4 pipelines", daemon, other, lambda: code_pushers(daemon, writer, root).end())
    assert set(statuses) <= {400, 500, 503}, statuses


def test_a_chain_of_nodes_of_one_level_is_refused(daemon, writer, other):
    """Deeper than any tree: a walker that goes down without looking at levels runs out of stack."""
    daemon.default.repo("in")
    leaf = kit.tree_node(0, [(b"a", bytes([1, 1, 1]) + b"x")])
    records, below = [(kit.NODE, leaf)], kit.sha(leaf)
    for _ in range(30_000):
        raw = kit.tree_node(1, [(b"a", below + varint(1) + varint(1))])
        records.append((kit.NODE, raw))
        below = kit.sha(raw)
    bring(daemon, writer, records)
    statuses = beside("a chain of nodes", daemon, other, lambda: code_pushers(daemon, writer, below).end())
    assert set(statuses) <= {400, 500, 503}, statuses


def long_paths(n=3000):
    folder = "/".join(["a" * 250] * 3)
    return [f"{folder}/{'a' * 200}{i:05}" for i in range(n)]


# A star at each place stands in all of them at once.
DEAR_GLOB = "/" + "**/" + "{*a*,*a*a*}" * 60 + "b"


def test_globs_of_a_reader(daemon, other):
    daemon.default.repo("in")
    daemon.default.commit("in", {path: b"x" for path in long_paths()})
    reader = user(daemon, "eve", ("default", "reader"))
    path = "/api/v1/repos/default/in/refs/master/list?recursive=1&glob=" + urllib.parse.quote(DEAR_GLOB)

    def look(_, connection):
        return ask(connection, "GET", path, reader)

    def attack():
        looking = Attackers(daemon, 28, look)
        alive = Attackers(daemon, 1, lambda _, connection: ask(connection, "GET", "/healthz", other), HANG_S).end()
        return looking.end(), alive

    statuses, alive = beside("28 globs of a reader", daemon, other, attack)
    assert set(statuses) <= {0, 200, 503}, statuses
    assert set(alive) == {200} and alive[200] > 20, alive


def test_more_of_one_user_than_may_wait_are_told_to_come_later(daemon, other):
    daemon.default.repo("in")
    daemon.default.commit("in", {path: b"x" for path in long_paths()})
    reader = user(daemon, "eve", ("default", "reader"))
    path = "/api/v1/repos/default/in/refs/master/list?recursive=1&glob=" + urllib.parse.quote(DEAR_GLOB)
    later = []

    def look(_, connection):
        connection.request("GET", path, headers={"Authorization": f"Bearer {reader}"})
        reply = connection.getresponse()
        body = reply.read()
        if reply.status == 503:
            later.append((reply.headers["Retry-After"], json.loads(body)["error"]["code"]))
        return reply.status

    statuses = beside("100 globs of a reader", daemon, other, lambda: Attackers(daemon, 100, look).end())
    assert set(statuses) <= {0, 200, 503} and later, statuses
    assert set(later) == {("1", "busy")}


def test_who_may_make_no_pipeline_is_refused_before_the_spec_comes(daemon):
    reader = user(daemon, "eve", ("default", "reader"))
    host, port = daemon.url.split("://")[1].split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as asked:
        asked.sendall(f"POST /api/v1/pipelines HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {reader}\r\n"
                      "Content-Length: 10000000\r\nExpect: 100-continue\r\n\r\n".encode())
        assert asked.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 403"


def test_globs_over_a_tree(daemon, other):
    daemon.default.repo("in")
    commit = daemon.default.commit("in", {path: b"x" for path in long_paths()})
    root = daemon.get(f"/repos/default/in/commits/{commit['commit']}")["root"]
    reader = user(daemon, "eve", ("default", "reader"))
    globs = urllib.parse.urlencode([("files", DEAR_GLOB)] * 8)

    def look(_, connection):
        return ask(connection, "GET", f"/api/v1/trees/default/{root}/entries?{globs}", reader)

    statuses = beside("globs over a tree", daemon, other, lambda: Attackers(daemon, 8, look).end())
    assert set(statuses) <= {0, 200, 422, 503}, statuses


STAGES_MAX = 1000  # PL_SPEC_STAGES_MAX


def wide_spec(stages, reads, run="true"):
    """A chain, each stage of which reads the next; the last reads `reads`, a stage of another pipeline."""
    inputs = [f"s{i + 1}" for i in range(stages - 1)] + [reads]
    return json.dumps({"pipeline": "wide", "stages": [{"name": f"s{i}", "input": {"repo": repo, "glob": "/"}, "run": [run]}
                                                      for i, repo in enumerate(inputs)]}, separators=(",", ":"))


def test_a_spec_of_many_stages(daemon, writer, other):
    """As large as may be, each time another: beside it somebody else also commits, and the thread that writes the database is theirs, too."""
    daemon.default.repo("in")
    daemon.pipeline({"pipeline": "one", "stages": [{"name": "one", "input": {"repo": "in", "glob": "/"}, "run": ["true"]}]})
    numbers, said = itertools.count(), []

    def update(_, connection):
        body = json.dumps({"spec": wide_spec(STAGES_MAX, "one", f"v{next(numbers)}"), "update": True, "yes": True}).encode()
        return ask(connection, "POST", "/api/v1/pipelines", writer, body)

    def commits_beside(work):
        """The 99th of 100 commits meanwhile, in ms, and what the work gave."""
        took = []

        def commit(_, connection):
            began = time.monotonic()
            status = ask(connection, "POST", "/api/v1/repos/theirs/r/branches/master/commits", other, ops_stream({"f": str(began)}, ()))
            took.append((time.monotonic() - began) * 1000)
            return status

        committing = Attackers(daemon, 1, commit, HANG_S)  # how long one takes is judged by its figure
        result = work()
        assert set(committing.end()) == {201}
        return sorted(took)[len(took) * 99 // 100], result

    for _ in range(TRIES):
        with spinners():
            alone, _ = commits_beside(lambda: None)
        attacked, statuses = beside("a spec of as many stages as may be", daemon, other, lambda: commits_beside(Attackers(daemon, 1, update, HANG_S).end))
        assert set(statuses) == {200}, statuses
        said.append(f"p99 of a commit is {attacked:.0f} ms, beside programs that only compute {alone:.0f} ms")
        if attacked <= LIMIT_MS + (alone if alone > QUIET_MS else 0):
            return
    pytest.fail("; ".join(said))


def test_a_spec_of_too_many_stages(daemon, writer, other):
    body = json.dumps({"spec": wide_spec(60_000, "one"), "update": True}).encode()
    statuses = beside("a spec of 60,000 stages", daemon, other,
                      lambda: Attackers(daemon, 2, lambda _, connection: ask(connection, "POST", "/api/v1/pipelines", writer, body)).end())
    assert set(statuses) <= {422, 503}, statuses


def test_packs_that_inflate(daemon, writer, other):
    """60 KB each, 1.6 GiB when inflated."""
    pack_id, data = kit.pack("default", ((kit.BLOB, i.to_bytes(4, "little") + bytes((16 << 20) - 4)) for i in range(100)))
    assert len(data) < 100_000
    session = daemon.http("POST", "/api/v1/sessions", {"project": "default"}, token=writer)["session"]

    def bring_one(_, connection):
        return ask(connection, "PUT", f"/api/v1/projects/default/packs/{pack_id}?session={session}", writer, data)

    statuses = beside("packs that inflate", daemon, other, lambda: Attackers(daemon, 4, bring_one).end())
    assert set(statuses) <= {413, 503}, statuses


class Reader:
    """A client that asks, and then does not read, or goes away."""

    def __init__(self, daemon, path, token):
        host, port = daemon.url.split("://")[1].split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())

    def close(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def held_by_the_kernel(daemon):
    """Bytes that wait to be sent to the daemon's clients, for each connection."""
    port = int(daemon.url.rsplit(":", 1)[1])
    with open("/proc/net/tcp", encoding="ascii") as f:
        fields = [line.split() for line in f.readlines()[1:]]
    return [int(one[4].split(":")[0], 16) for one in fields if int(one[1].split(":")[1], 16) == port]


def test_readers_that_do_not_read(daemon, writer, other):
    daemon.default.repo("in")
    records, root, size = list_dag(width=2000, levels=2, chunk=os.urandom(65536))
    bring(daemon, writer, records)
    daemon.http("POST", "/api/v1/repos/default/in/branches/master/commits", kit.put_list_op("f", size, root), token=writer)

    def attack():
        readers = [Reader(daemon, "/api/v1/repos/default/in/refs/master/files/f", writer) for _ in range(200)]
        threading.Event().wait(ATTACK_S)  # the sample
        held = held_by_the_kernel(daemon)
        for reader in readers:
            reader.close()
        return held

    held = beside("readers that do not read", daemon, other, attack)
    assert 0 < max(held) <= 1 << 20, held


def cpu_s(daemon):
    with open(f"/proc/{daemon.process.pid}/stat", encoding="utf-8") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_clients_that_go_away(daemon, other):
    """What they asked for is given up."""
    daemon.default.repo("in")
    daemon.default.commit("in", {path: b"x" for path in long_paths()})
    reader = user(daemon, "eve", ("default", "reader"))
    path = "/api/v1/repos/default/in/refs/master/list?recursive=1&glob=" + urllib.parse.quote(DEAR_GLOB)

    def attack():
        until = time.monotonic() + ATTACK_S
        while time.monotonic() < until:
            readers = [Reader(daemon, path, reader) for _ in range(28)]
            for gone in readers:
                gone.close()

    beside("clients that go away", daemon, other, attack)

    def idle():
        before, began = cpu_s(daemon), time.monotonic()
        threading.Event().wait(1.0)  # the sample
        return cpu_s(daemon) - before < 0.2 * (time.monotonic() - began)

    wait_until(idle, "the daemon to be done with what nobody waits for", 10)
