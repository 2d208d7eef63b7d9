"""Works whose cost must follow the change: a commit, a diff and a run over a million files; a command that stays; many small puts."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time
import urllib.parse

import measure
import ours

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "s3"))
import servers  # noqa: E402 (of tests/s3)

COMMITS = 40
PUT_CONNECTIONS = 16
RECOVERED = 100  # commits


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def ops_stream(files):
    """storage/tree_edit/tree_ops.h: {path: bytes of at most 64} as the body of a commit; the paths come sorted."""
    out = bytearray(b"PLOP\x01")
    for path, content in files:
        name = path.encode()
        out += bytes([1]) + varint(len(name)) + name + bytes([1, 1]) + varint(len(content)) + content
    return bytes(out) + b"\0" + varint(len(files))


class Client:
    """One kept-alive connection to a daemon."""

    def __init__(self, target):
        url = urllib.parse.urlsplit(target.url)
        self.http = http.client.HTTPConnection(url.hostname, url.port, timeout=600)
        self.headers = {"Authorization": f"Bearer {target.token}"}

    def text(self, method, path, body=None, kind="application/octet-stream"):
        """-> the answer's bytes; raises Failed."""
        self.http.request(method, "/api/v1" + path, body, {**self.headers, "Content-Type": kind})
        answer = self.http.getresponse()
        text = answer.read()
        if answer.status >= 400:
            raise measure.Failed(f"{method} {path}: {answer.status} {text[:300]!r}")
        return text

    def call(self, *request):
        """-> the answer's JSON; raises Failed."""
        text = self.text(*request)
        return json.loads(text) if text else None

    def commit(self, repo, files):
        return self.call("POST", f"/repos/default/{repo}/branches/master/commits", ops_stream(files), "application/x-pl-ops")

    def put(self, repo, path, content):
        return self.call("PUT", f"/repos/default/{repo}/branches/master/files/{path}", content)

    def wait(self, run):
        while not self.call("GET", f"/runs/{run}/wait?timeout_ms=20000")["done"]:
            pass


def path_of(i):
    return f"d{i // 10_000:03d}/f{i % 10_000:05d}"


def million(bench, repo, target, client):
    """A repo of a million files -> how many."""
    count = bench.scaled(1_000_000)
    target.ctl("create", "repo", repo)
    client.commit(repo, [(path_of(i), b"%d" % i) for i in range(count)])
    return count


def written_by(pid):
    """Bytes that a process has handed to files: what goes to sockets does not go by write(2). write_bytes beside it counts whole pages,
    each time they are touched."""
    for line in pathlib.Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    return 0


def timed_ms(work, times):
    """-> milliseconds of each of `times` calls of work(i)."""
    found = []
    for i in range(times):
        began = time.monotonic()
        work(i)
        found.append((time.monotonic() - began) * 1000)
    return found


def commit(bench):
    bench.say("commit: one file into a dataset of 1,000,000")
    with ours.Daemon(bench.folder / "commit") as target:
        client = Client(target)
        count = million(bench, "big", target, client)
        one = target.folder / "one"
        client.put("big", path_of(7), b"warm")
        before = written_by(target.pid)
        api = measure.median(timed_ms(lambda i: client.put("big", path_of(i * 7919 % count), b"api %d" % i), COMMITS))
        written = (written_by(target.pid) - before) / COMMITS / 1024

        def by_hand(i):
            one.write_text(f"cli {i}\n")
            target.ctl("put", "file", "-q", f"big@master:/{path_of(i * 104729 % count)}", "-f", one)

        cli = measure.median(timed_ms(by_hand, COMMITS))
        bench.row(f"one file into a dataset of {count:,}: at the API", "ms", {"ours": api}, "≤ 10 ms", bench.at_most({"ours": api}, 10))
        bench.row("… by pipelinectl", "ms", {"ours": cli}, "≤ 30 ms", bench.at_most({"ours": cli}, 30))
        bench.row("… written", "KiB", {"ours": written}, "≤ 128 KiB", bench.at_most({"ours": written}, 128))
        base = client.call("GET", "/repos/default/big/commits?limit=1")["commits"][0]["id"]
        changed = max(1, count // 100)
        client.commit("big", [(path_of(i), b"changed %d" % i) for i in range(changed)])
        took = measure.median(timed_ms(lambda _: diff(client, base, changed), 5))
        bench.row(f"diff of two commits of {count:,} files, {changed:,} changed in one folder", "ms", {"ours": took}, "≤ 20 ms",
                  bench.at_most({"ours": took}, 20))


def diff(client, base, changed):
    """The whole answer, read and counted; not made into objects, which takes Python longer than the diff."""
    place, found = "", 0
    while place is not None:
        page = client.text("GET", f"/repos/default/big/diff?from={base}&to=master&limit=10000&after={urllib.parse.quote(place)}")
        found += page.count(b'"path":')
        end = page[page.rindex(b"]"):]
        place = json.loads(b"{" + end[2:])["next"] if b'"next"' in end else None
    if found != changed:
        raise measure.Failed(f"the diff has {found} of {changed} changes")


def reused(bench, count, name, goal, row):
    """A trivial stage over `count` datums, one of which changes with each push."""
    spec = {"pipeline": name, "stages": [{"name": "copy", "input": {"repo": name, "glob": "/*/*"}, "workers": os.cpu_count(), "datum": {"batch": True},
                                          "script": "while pl-next; do :; done"}]}
    with ours.Daemon(bench.folder / name) as target:
        client = Client(target)
        target.ctl("create", "repo", name)
        client.commit(name, [(path_of(i), b"%d" % i) for i in range(count)])
        answer = target.pipeline(spec)
        client.wait(answer["run"])
        client.wait(client.put(name, path_of(1), b"warm")["run"])
        idle = target.anonymous()
        with measure.Watch(target.pid) as watch:
            took = measure.median(timed_ms(lambda i: client.wait(client.put(name, path_of(i * 7919 % count), b"again %d" % i)["run"]), 15))
        bench.row(row, "ms", {"ours": took}, f"≤ {goal} ms", bench.at_most({"ours": took}, goal))
        return (watch.peak - idle) / (1 << 20)


def carried(bench):
    count = bench.scaled(100_000)
    bench.say("carried: a push with 100,000 reused datums")
    reused(bench, count, "carried", 100, f"push → trivial stage's output, {count:,} datums reused")


def planned(bench):
    count = bench.scaled(1_000_000)
    bench.say("planned: a push with 1,000,000 reused datums")
    over = reused(bench, count, "planned", 50, f"push → plan, one datum of {count:,} run, output carried over and committed")
    bench.row("… memory over idle (RssAnon)", "MiB", {"ours": over}, "≤ 64 MiB", bench.at_most({"ours": over}, 64))


def batch(bench):
    """Held time of a command that takes 5 s to start and 20 ms a datum; a tenth of it, so that it takes less than a minute."""
    count, start_s, datum_s = bench.scaled(1_000), 0.5, 0.02
    code = ("#!/usr/bin/python3\nimport time\nimport pl\n" f"time.sleep({start_s})\nfor d in pl.datums():\n    time.sleep({datum_s})\n")
    spec = {"pipeline": "batch", "stages": [{"name": "slow", "input": {"repo": "batch", "glob": "/*/*"}, "datum": {"batch": True}, "script": code}]}
    bench.say(f"batch: {start_s} s of start-up, {count} datums of {datum_s * 1000:.0f} ms")
    with ours.Daemon(bench.folder / "batch") as target:
        client = Client(target)
        target.ctl("create", "repo", "batch")
        client.commit("batch", [(path_of(i), b"%d" % i) for i in range(count)])
        began = time.monotonic()
        client.wait(target.pipeline(spec)["run"])
        took = (time.monotonic() - began) / (start_s + count * datum_s)
        job = client.call("GET", "/jobs?stage=slow&limit=1")["jobs"][0]
        bench.say(f"  of the worker's ms {job['ms']}")
    bench.row(f"a command that stays: {start_s} s of start-up, {count:,} datums of 20 ms; held ÷ that", "times", {"ours": took}, "≤ 1.1", took <= 1.1)


class Moving:
    """Datums of `read` bytes that write `written` bytes and compute for a while; all on tmpfs where there is one."""

    COUNT, READ, WRITTEN = 100, 16 << 20, 8 << 20
    MORE = {}  # of the stage

    def __init__(self, bench):
        self.bench, self.count = bench, max(bench.scaled(self.COUNT), 10)
        shm = pathlib.Path("/dev/shm")
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=shm if shm.is_dir() else bench.folder, prefix="pl-bench-"))
        self.source = self.folder / "source"
        self.source.mkdir()
        for i in range(self.count):
            (self.source / f"{i:03}").write_bytes(os.urandom(self.READ))

    def daemon(self, name, overlap):
        """To be entered; what it has lies in the folder of that name."""
        return ours.Daemon(self.folder / name, PIPELINED_OVERLAP="1" if overlap else "0")

    def pid(self, target):
        """All that takes part is below it."""
        return target.pid

    def run(self, name, computing_s, overlap):
        """The job's milliseconds."""
        script = f"openssl rand -out $PL_OUT/$PL_DATUM_ID {self.WRITTEN}\nexec sleep {computing_s:.3f}\n"
        spec = {"pipeline": "moving", "stages": [{"name": "moving", "input": {"repo": "in", "glob": "/*"}, "script": script, **self.MORE}]}
        with self.daemon(name, overlap) as target:
            target.ctl("create", "repo", "in")
            target.ctl("put", "file", "-q", "-r", "in@master:/", "-f", self.source)
            before = measure.cpu_below(self.pid(target))
            client = Client(target)
            client.wait(target.pipeline(spec)["run"])
            processor_ms = (measure.cpu_below(self.pid(target)) - before) * 1000 / self.count
            job = client.call("GET", "/jobs?stage=moving&limit=1")["jobs"][0]
        shutil.rmtree(self.folder / name)
        if job["state"] != "success":
            raise measure.Failed(f"the job is {job['state']}: {job.get('reason')}")
        self.bench.say(f"  {name}: ms a datum "
                       + ", ".join(f"{k} {job['ms'][k] / self.count:.1f}" for k in ("fetch", "compute", "upload", "held"))
                       + f"; processor time of all {processor_ms:.0f}, which {os.cpu_count()} cores do in {processor_ms / os.cpu_count():.1f}")
        return job["ms"]

    def measure(self, where, of):
        """Compute share of the worker's time when computing takes as long as the longer of fetch and upload, each measured alone; and twice as long."""
        try:
            alone = self.run("alone", 0, False)
            longer = max(alone["fetch"], alone["upload"])
            share = {}
            for name, on, times in (("on", True, 1), ("off", False, 1), ("twice", True, 2)):
                ms = self.run(name, max(times * longer - alone["compute"], 0) / self.count / 1000, on)
                share[name] = ms["compute"] / ms["held"]
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        what = f"{self.count} datums{where} that fetch {self.READ >> 20} MiB, upload {self.WRITTEN >> 20} MiB and compute as long as the longer takes"
        self.bench.row(f"{what}: {of}", "share", {"ours": share["on"]}, "≥ 0.95", share["on"] >= 0.95)
        self.bench.row("… with overlap off", "share", {"ours": share["off"]}, "≤ 0.4", share["off"] <= 0.4)
        self.bench.row("… that compute twice as long", "share", {"ours": share["twice"]}, "–", None)


def overlap(bench):
    bench.say("overlap: datums that move data as long as they compute")
    Moving(bench).measure("", "share of held time computing")


def puts(bench):
    count = bench.scaled(10_000)
    bench.say(f"puts: {count} files one by one over {PUT_CONNECTIONS} connections into an open commit")
    with ours.Daemon(bench.folder / "puts") as target:
        target.ctl("create", "repo", "puts")
        opened = target.ctl_json("start", "commit", "puts@master")[0]["id"]
        url = urllib.parse.urlsplit(target.url)
        timed = measure.run([ours.programs() / "pl-bench-puts", url.hostname, str(url.port), target.token,
                             f"/api/v1/repos/default/puts/open/{opened}/files", str(PUT_CONNECTIONS), str(count), "1000"])
        finished = target.ctl("finish", "commit", f"puts@{opened}")
        rate = count / (timed.wall + finished.wall)
        bench.say(f"  {timed.out.strip()}, finished in {finished.wall:.2f} s")
    bench.row(f"{count:,} files put one by one over {PUT_CONNECTIONS} connections, one commit", "a second", {"ours": rate}, "≥ 3,000 a second",
              rate >= 3000)


def recovered(bench, target, name, store, env):
    """Medians of `recover` into an empty folder, and of a daemon on one until it has listed a folder of the newest commit."""
    times, serving = [], []
    for round_ in range(bench.runs):
        measure.settle()
        timed = measure.run([ours.programs() / "pipelinectl", "--json", "recover", "--store", store, "--data", target.folder / f"{name}-{round_}"], env)
        commits = json.loads(timed.out)["commits"]
        if commits != RECOVERED:
            raise measure.Failed(f"{commits} of {RECOVERED} commits came back")
        times.append(timed.wall)
        bench.say(f"  {name}: {timed.wall:.2f} s, processor {timed.cpu:.2f} s, memory {timed.rss_bytes >> 20} MiB")
        began = time.monotonic()
        with ours.Daemon(target.folder / f"{name}-twin-{round_}", options=["--store", store], **env) as twin:
            Client(twin).call("GET", "/repos/default/big/refs/master/list?limit=10")
            serving.append(time.monotonic() - began)
    return measure.median(times), measure.median(serving)


@contextlib.contextmanager
def bucket_server(folder):
    """A real S3 server with a bucket "bench" -> the environment by which clients find it."""
    try:
        server = servers.EVERY["versitygw"](folder).start()
    except servers.Unavailable as why:
        raise measure.Failed(str(why)) from why
    try:
        import boto3  # of Debian; other works do without
        boto3.client("s3", endpoint_url=server.endpoint, aws_access_key_id=server.access_key, aws_secret_access_key=server.secret_key,
                     region_name=server.region).create_bucket(Bucket="bench")
        yield {"AWS_ENDPOINT_URL": server.endpoint, "AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key,
               "AWS_REGION": server.region}
    finally:
        server.stop()


def recover(bench):
    """A daemon's folder anew from the store of a hundred commits: without a checkpoint, which is the worse case. From a folder, and from a
    bucket of a real server into which `mirror` has brought it."""
    bench.say("recover: 100 commits of 1,000,000 files")
    with ours.Daemon(bench.folder / "recover") as target:
        client = Client(target)
        count = million(bench, "big", target, client)
        for i in range(RECOVERED - 1):
            client.put("big", path_of(i * 7919 % count), b"change %d" % i)
    folder = f"file://{target.data / 'store'}"
    recovered_rows(bench, f"recover {RECOVERED} commits of {count:,} files", recovered(bench, target, "recovered", folder, {}))
    with bucket_server(target.folder / "s3") as env:
        place = "s3://bench/store"
        moved = measure.run([ours.programs() / "pipelinectl", "--json", "mirror", folder, place], env)
        bench.say(f"  mirror into a bucket: {moved.wall:.2f} s, processor {moved.cpu:.2f} s, {json.loads(moved.out)['packs']} packs")
        recovered_rows(bench, "… from a bucket", recovered(bench, target, "from-bucket", place, env))


def recovered_rows(bench, what, medians):
    for name, value in ((what, medians[0]), ("… a daemon on an empty folder, until it has listed a folder", medians[1])):
        bench.row(name, "s", {"ours": value}, "≤ 10 s", bench.at_most({"ours": value}, 10))


EVERY = {"recover": recover, "commit": commit, "carried": carried, "planned": planned, "batch": batch, "overlap": overlap, "puts": puts}
