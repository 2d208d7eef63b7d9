"""Sources in git: 1,000 of them with nothing new; a push to a large repository; how soon a push runs. The peer is git's own client.

  sources_idle    CPU and memory of the daemon and of pl-git over two rounds of looks: at local repositories, and over https
  sources_large   100,000 files and 10,000 commits: one spec changed, fetched and applied
  sources_push    `sync` asked → the new version's job runs
"""
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import urllib.request

import data
import measure
import ours

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import by_path  # noqa: E402  the folder must be on the path first

servers = by_path.load("git_servers", "git/servers.py")
tls_kit = by_path.load("tls_kit", "daemon/tls_kit.py")

INTERVAL_S = 60
ROUNDS = 2
JITTER = 1.1   # a look comes at most that much later than the interval says
PUSHES = 30
ENV = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org",
       "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org"}


def git(folder, *words):
    done = subprocess.run(["git", "-C", str(folder), *map(str, words)], env=ENV, capture_output=True, check=False)
    if done.returncode != 0:
        raise measure.Failed(f"git {words[0]}: {done.stderr.decode(errors='replace')[-300:]}")
    return done.stdout.decode().strip()


def spec(name, script="cat $x/* >$PL_OUT/all"):
    return {"pipeline": name, "repos": {"in": {}}, "stages": [{"name": f"{name}-copy", "input": {"repo": "in", "name": "x", "glob": "/"}, "script": script}]}


def commit_stream(files, message, onto=b""):
    """A commit on main for git fast-import; files: {path: bytes}. `onto`: a line that names its parent; without one it is main as the stream left it."""
    text = message.encode()
    out = [b"commit refs/heads/main\ncommitter Ada <ada@example.org> 1700000000 +0000\ndata %d\n%s\n%s" % (len(text), text, onto)]
    for path, content in files.items():
        out.append(b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(content), content))
    return b"".join(out)


def add_commits(folder, *commits, onto=b"from refs/heads/main^0\n"):
    """Adds commits, each {path: bytes}, to a bare repository."""
    stream = subprocess.Popen(["git", "-C", str(folder), "fast-import", "--quiet"], stdin=subprocess.PIPE, env=ENV)
    for i, files in enumerate(commits):
        stream.stdin.write(commit_stream(files, f"commit {i}", b"" if i else onto))
    stream.stdin.close()
    if stream.wait() != 0:
        raise measure.Failed(f"git fast-import of {folder} failed")


def repository(folder, *commits):
    """A bare repository of these commits."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "--bare", "-b", "main", "--template=", ".")
    add_commits(folder, *commits, onto=b"")
    return folder


class Rest:
    """The API of a daemon, for what pipelinectl would take too long to be started for."""

    def __init__(self, target):
        self.url, self.token = target.url, target.token

    def __call__(self, method, path, body=None):
        request = urllib.request.Request(f"{self.url}/api/v1{path}", method=method, data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as reply:
            return json.loads(reply.read() or b"null")


def until(check, what, limit=900, pause=0.002):
    deadline = time.monotonic() + limit
    while not (value := check()):
        if time.monotonic() > deadline:
            raise measure.Failed(f"waited {limit} s for {what}")
        time.sleep(pause)
    return value


def children_of(pid):
    """Numbers of the pl-git processes of a daemon."""
    found = []
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            found += [int(child) for child in (thread / "children").read_text().split()]
        except OSError:
            pass  # it has just ended
    return [child for child in found if "pl-git" in name_of(child)]


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


class Beside:
    """with Beside(pid) as b: … ; b.peak: the highest sum of RssAnon of pl-git processes that was seen, b.seen: in how many of b.looks there was one."""

    def __init__(self, pid):
        self.pid, self.peak, self.seen, self.looks = pid, 0, 0, 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)

    def look(self):
        while not self.over.wait(0.02):
            size, living = 0, children_of(self.pid)
            for child in living:
                try:
                    size += measure.anonymous_of(child)
                except OSError:
                    pass
            self.looks += 1
            self.seen += bool(living)
            self.peak = max(self.peak, size)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def idle(bench):
    """At repositories of this machine, and at the same over https from a server in this process."""
    count = bench.scaled(1000)
    folder = bench.folder / "sources-idle"
    for i in range(count):
        repository(folder / f"repositories/{i}.git", {f"pipelines/p{i}.json": json.dumps(spec(f"p{i}")).encode()})
    looks(bench, "local repositories", folder / "local", ["--git-local-folders", folder / "repositories"],
          lambda i: str(folder / f"repositories/{i}.git"), count)
    authority = tls_kit.Authority(folder / "authority")
    with servers.HttpServer(folder / "repositories", authority.vouch()) as server:
        server.keep_refs = True  # git http-backend for each look would take the machine
        looks(bench, "repositories over https", folder / "https", ["--outbound-networks", "127.0.0.0/8", "--outbound-ca", authority.ca],
              lambda i: server.url(f"{i}.git"), count)


def looks(bench, what, folder, options, address, count):
    """Rows for sources at address(i)."""
    bench.say(f"sources_idle: {count} sources of {what}, a look each {INTERVAL_S} s")
    with ours.Daemon(folder, options) as target:
        rest = Rest(target)
        before = target.anonymous()
        began = time.monotonic()
        for i in range(count):
            rest("POST", "/sources", {"name": f"s{i}", "settings": {"git": address(i), "interval": f"{INTERVAL_S}s"}})
        followed(rest, count)
        bench.say(f"  {count} sources made and applied in {time.monotonic() - began:.1f} s; the daemon's memory {before / data.MIB:.1f} MiB before, "
                  f"{target.anonymous() / data.MIB:.1f} MiB after")
        time.sleep(INTERVAL_S * JITTER)  # looks have spread by then
        cpu, began = measure.cpu_below(target.pid), time.monotonic()
        with measure.Watch(target.pid) as own, Beside(target.pid) as beside:
            time.sleep(INTERVAL_S * ROUNDS)
        wall, cpu = time.monotonic() - began, measure.cpu_below(target.pid) - cpu
        followed(rest, count)
        bench.say(f"  processor {cpu:.2f} s in {wall:.0f} s; a pl-git ran in {beside.seen} of {beside.looks} looks at it; daemon {own.peak / data.MIB:.1f} MiB")
        for i in range(count):
            rest("PATCH", f"/sources/s{i}", {"settings": {"paused": True}})
        until(lambda: not children_of(target.pid), "the end of pl-git")
    share = {"ours": 100 * cpu / wall}
    bench.row(f"{count:,} sources of {what}, a look a minute, nothing changed: of one core", "percent", share, "≤ 5 %", bench.at_most(share, 5))
    bench.row("… memory of pl-git beside the daemon (RssAnon)", "MiB", {"ours": beside.peak / data.MIB}, "≤ 60 MiB", beside.peak <= 60 * data.MIB)


def followed(rest, count):
    """Waits until all sources are followed."""
    def left():
        after, n, bad = "", 0, []
        while True:
            page = rest("GET", f"/sources?limit=500{after and '&after=' + after}")
            n += sum(one["state"] == "following" for one in page["sources"])
            bad += [one for one in page["sources"] if one["state"] in ("invalid", "unreachable")]
            if bad:
                raise measure.Failed(f"source {bad[0]['name']}: {bad[0]['error']}")
            after = page.get("next") or ""
            if not after:
                return n == count
    until(left, "all sources to be followed", pause=0.5)  # a page of 500 is work for the daemon, too


def large(bench):
    files, commits = bench.scaled(100_000), bench.scaled(10_000)
    folder = bench.folder / "sources-large"
    bench.say(f"sources_large: {files} files, {commits} commits")
    bare = folder / "repositories/large.git"
    first = {f"src/d{i // 100:04}/f{i:06}.py": b"# file %d\n" % i for i in range(files)}
    first["pipelines/p.json"] = json.dumps(spec("p")).encode()
    later = ({f"src/d{i % 1000:04}/f{i % 1000 * 100:06}.py": b"# change %d\n" % i} for i in range(1, commits))
    repository(bare, first, *later)
    peer = folder / "peer.git"
    peer.mkdir()
    git(peer, "init", "-q", "--bare", "-b", "main", ".")
    with ours.Daemon(folder, ["--git-local-folders", folder / "repositories"]) as target:
        rest, began = Rest(target), time.monotonic()
        target.ctl("create", "source", "large", "--git", f"file://{bare}", "--interval", "24h")
        bench.say(f"  first fetch and apply {time.monotonic() - began:.2f} s")
        measured(bench, target, rest, bare, peer, folder)


def measured(bench, target, rest, bare, peer, folder):
    copied = target.data / "cache/git/large.git"
    whole = [measure.bytes_below(copied / "objects")]
    began = time.monotonic()
    fetch = ["git", "-C", str(peer), "fetch", "-q", f"file://{bare}", "main:refs/heads/main"]
    measure.run(fetch, ENV)
    bench.say(f"  git fetch of all {time.monotonic() - began:.2f} s; copies {whole[0] / data.MIB:.1f} MiB, git's {measure.bytes_below(peer / 'objects') / data.MIB:.1f} MiB")
    times, sizes = {"ours": [], "git": []}, {"ours": [], "git": []}
    for round_ in range(max(bench.runs, 5)):
        add_commits(bare, {"pipelines/p.json": json.dumps(spec("p", f"echo {round_} >$PL_OUT/all")).encode()})
        measure.settle()
        before = {"ours": measure.bytes_below(copied / "objects"), "git": measure.bytes_below(peer / "objects")}
        began, version = time.monotonic(), rest("GET", "/pipelines/default/p")["version"]
        rest("POST", "/sources/large/sync")
        until(lambda v=version: rest("GET", "/pipelines/default/p")["version"] > v, "the new version")
        times["ours"].append(time.monotonic() - began)
        times["git"].append(measure.run(fetch, ENV).wall)
        for name, at in (("ours", copied), ("git", peer)):
            sizes[name].append(measure.bytes_below(at / "objects") - before[name])
    found = {name: measure.median(values) for name, values in times.items()}
    bench.say(f"  {times}")
    bench.row(f"one spec changed among {bench.scaled(100_000):,} files, {bench.scaled(10_000):,} commits: sync → new version; git: its fetch alone", "s", found,
              "≤ 1 s after fetch", bench.at_most(found, 1))
    bench.row("… bytes fetched", "KiB", {name: measure.median(values) / 1024 for name, values in sizes.items()}, "∝ change", None)


def push(bench):
    folder = bench.folder / "sources-push"
    bench.say("sources_push: sync → the new version's job runs")
    bare = repository(folder / "repositories/team.git", {"pipelines/p.json": json.dumps(spec("p")).encode()})
    times, parts = [], []
    with ours.Daemon(folder, ["--git-local-folders", folder / "repositories"]) as target:
        rest = Rest(target)
        target.ctl("create", "source", "team", "--git", bare, "--interval", "24h")
        (folder / "x").write_text("1\n")
        answer = target.ctl_json("put", "file", "in@master:/x", "-f", folder / "x")[0]
        target.ctl("wait", "run", answer["run"])
        for round_ in range(PUSHES):
            add_commits(bare, {"pipelines/p.json": json.dumps(spec("p", f"echo {round_} >$PL_OUT/all")).encode()})
            sha = git(bare, "rev-parse", "main")
            measure.settle()
            began = time.monotonic()
            rest("POST", "/sources/team/sync")
            run = until(lambda s=sha: rest("GET", f"/runs?commit={s}")["runs"], "the run")[0]
            parts.append((time.monotonic() - began) * 1000)
            until(lambda r=run: rest("GET", f"/runs/{r['id']}")["jobs"][0]["state"] in ("running", "success"), "the job")
            times.append((time.monotonic() - began) * 1000)
            target.ctl("wait", "run", run["id"])
    bench.say(f"  of it until the run is there {measure.median(parts):.1f} ms; fastest {min(times):.1f}, slowest {max(times):.1f}")
    found = measure.median(times)
    bench.row("sync of a local repository → the new version's job runs (p50)", "ms", {"ours": found}, "≤ 300 ms", found <= 300)


EVERY = {"sources_idle": idle, "sources_large": large, "sources_push": push}
