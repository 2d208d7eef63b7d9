"""The works that are measured. Each is a function of a Bench that adds rows to its table."""
import http.client
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.parse

import data
import measure
import ours

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import many_runs  # noqa: E402  (its folder is on the path only now)

SLOW_S = 15      # what takes longer is measured once
TRUSTED_S = 2.2  # a file's times are believed when they are older than this
LATENCY_RUNS = 30


def rounds(bench, works):
    """Each work `bench.runs` times, one after another and again; works: [(name, function of the round → number or Timed)]
    → {name: median}. What does not work is said and left out."""
    found = {name: [] for name, _ in works}
    longest = dict.fromkeys(found, 0)
    for round_ in range(bench.runs):
        for name, work in works:
            if round_ and (not found[name] or longest[name] > SLOW_S):
                continue
            measure.settle()
            began = time.monotonic()
            try:
                result = work(round_)
            except measure.Failed as failure:
                bench.say(f"  {name}: {failure}")
                continue
            timed = isinstance(result, measure.Timed)
            longest[name] = max(longest[name], result.wall if timed else time.monotonic() - began)
            found[name].append(result.wall if timed else result)
            if timed:
                bench.say(f"  {name}: {result.wall:.2f} s, processor {result.cpu:.2f} s, memory {result.rss_bytes / data.MIB:.0f} MiB")
    return {name: measure.median(values) for name, values in found.items() if values}


def changes(bench, target, peers, repos, change, save):
    """Rounds of a change of the source that everybody then saves → ({name: seconds}, {name: new bytes}, {name: processor seconds})."""
    seconds, stored, processor = {}, {}, {}
    for round_ in range(bench.runs):
        change(round_)
        time.sleep(TRUSTED_S)
        works = [("ours", target.store_bytes, save)] + [
            (peer.name, lambda p=peer: measure.bytes_below(repos[p.name]), lambda p=peer: p.save(bench.source, repos[p.name]))
            for peer in peers]
        for name, size, work in works:
            before = size()
            measure.settle()
            timed = work()
            seconds.setdefault(name, []).append(timed.wall)
            processor.setdefault(name, []).append(timed.cpu)
            stored.setdefault(name, []).append(size() - before)
            bench.say(f"  {name}: {timed.wall:.2f} s, processor {timed.cpu:.2f} s, {stored[name][-1] / 1e6:.2f} MB new")
    return tuple({name: measure.median(values) for name, values in found.items()} for found in (seconds, stored, processor))


# ---- 100,000 files ----

def put_files(target, source):
    return target.ctl("put", "file", "-q", "-r", "files@master:/", "-f", source)


class Ingest:
    """The first saving: each round into a repository of its own; the last round's are kept for what follows."""

    def __init__(self, bench, source, folder):
        self.bench, self.source, self.folder = bench, source, folder
        self.target, self.repos, self.peaks = None, {}, []

    def save_ours(self, round_):
        self.close()
        self.target = ours.Daemon(self.folder / f"ours-{round_}").__enter__()
        self.target.ctl("create", "repo", "files")
        with measure.Watch(self.target.pid) as watch:
            timed = put_files(self.target, self.source)
        self.peaks.append(watch.peak)
        return timed

    def save_peer(self, peer, round_):
        repo = self.folder / f"{peer.command}-{round_}"
        peer.create(repo)
        self.repos[peer.name] = repo
        return peer.save(self.source, repo)

    def measure(self):
        return rounds(self.bench, [("ours", self.save_ours)] + [
            (peer.name, lambda round_, p=peer: self.save_peer(p, round_)) for peer in self.bench.peers])

    def close(self):
        if self.target:
            self.target.__exit__()
            self.target = None


def files(bench):
    count = bench.scaled(100_000)
    folder = bench.folder / "files"
    bench.source = folder / "source"
    bench.say(f"files: {count} of 4 KiB")
    data.make_files(bench.source, count)
    time.sleep(TRUSTED_S)
    ingest = Ingest(bench, bench.source, folder)
    try:
        first = ingest.measure()
        bench.row(f"{count:,} × 4 KiB into a commit, durable", "s", first, "≤ 0.3 × cp -a, ≤ 0.2 × restic",
                  bench.at_most_times(first, {"cp -a": 0.3, "restic": 0.2}))
        bench.row("the daemon's memory meanwhile (RssAnon)", "MiB", {"ours": max(ingest.peaks) / data.MIB}, "≤ 256 MiB",
                  max(ingest.peaks) <= 256 * data.MIB)
        again_and_changed(bench, ingest, count)
        checkout(bench, ingest, folder, count)
    finally:
        ingest.close()


def again_and_changed(bench, ingest, count):
    keepers = [peer for peer in bench.peers if peer.name in ingest.repos and peer.name != "cp -a"]
    bench.say("files: again, nothing changed")
    again = rounds(bench, [("ours", lambda _: put_files(ingest.target, bench.source))] + [
        (peer.name, lambda _, p=peer: p.save(bench.source, ingest.repos[p.name])) for peer in keepers])
    bench.row("the same again, nothing changed", "s", again, "≤ 0.3 s", bench.at_most(again, 0.3))
    bench.say("files: 1 % changed")
    seconds, stored, _ = changes(bench, ingest.target, keepers, ingest.repos,
                              lambda round_: data.change_files(bench.source, count, round_),
                              lambda: put_files(ingest.target, bench.source))
    bench.row("1 % of the files changed, scattered", "s", seconds, "≤ 0.5 s", bench.at_most(seconds, 0.5))
    versions = {peer.name for peer in keepers if peer.versions} | {"ours"}
    stored = {name: size / 1e6 for name, size in stored.items() if name in versions}
    bench.row("… stored anew", "MB", stored, "≤ 8 MB", bench.at_most(stored, 8))


def checkout(bench, ingest, folder, count):
    target = ingest.target
    root = target.ctl_json("inspect", "commit", "files@master")[0]["root"]
    inputs = ours.programs() / "pl-bench-inputs"

    def worker(round_, cache, into):
        return measure.run([inputs, target.url, target.token, target.data / "store", "default", root, folder / f"{into}-{round_}",
                            folder / f"{cache}-{round_}"])

    def get(round_):
        return target.ctl("get", "file", "-q", "-r", "files@master:/", "-o", folder / f"got-{round_}")

    bench.say("files: checked out")
    works = [("not cached", lambda i: worker(i, "cache", "cold")), ("cached", lambda i: worker(i, "cache", "warm")), ("get", get)]
    works += [(peer.name, lambda i, p=peer: p.restore(ingest.repos[p.name], folder / f"restored-{p.command}-{i}"))
              for peer in bench.peers if peer.name in ingest.repos]
    found = rounds(bench, works)
    theirs = {name: value for name, value in found.items() if name not in ("not cached", "cached", "get")}
    for name, work, times in (("cached", "as a worker's input, files in its cache (hard links)", 0.6),
                              ("not cached", "as a worker's input, nothing in its cache", 1.2)):
        values = {**({"ours": found[name]} if name in found else {}), **theirs}
        bench.row(f"{count:,} files checked out {work}", "s", values, f"≤ {times} × cp -a", bench.at_most_times(values, {"cp -a": times}))
    if "get" in found:
        bench.row("… by get file -r, into files of their own", "s", {"ours": found["get"], **theirs}, "", None)


# ---- one large file ----

def large(bench):
    size = bench.scaled(2048) * data.MIB
    blocks = bench.scaled(320)
    folder = bench.folder / "large"
    bench.source = folder / "source"
    bench.source.mkdir(parents=True)
    path = bench.source / "large.bin"
    bench.say(f"large: one file of {size >> 20} MiB")
    data.make_large(path, size)
    peers = [peer for peer in bench.peers if peer.large]
    with ours.Daemon(folder / "ours") as target:
        target.ctl("create", "repo", "large")
        repos = {peer.name: folder / peer.command for peer in peers}
        for peer in peers:
            peer.create(repos[peer.name])

        def put():
            return target.ctl("put", "file", "-q", "large@master:/large.bin", "-f", path)

        def once(change, who):
            runs, bench.runs = bench.runs, 1
            try:
                return changes(bench, target, who, repos, change, put)
            finally:
                bench.runs = runs

        seconds, _, processor = once(lambda _: None, peers)
        bench.row(f"{size >> 20:,} MiB of random bytes in one file", "s", seconds, "≤ 1.3 × cp -a", bench.at_most_times(seconds, {"cp -a": 1.3}))
        bench.row("… processor time of client and daemon", "s", processor, "≤ 6 s", bench.at_most(processor, 6))
        keepers = [peer for peer in peers if peer.versions]
        for what, change, goal in (("1 MiB inserted in its middle", lambda _: data.insert_in_middle(path, size), 3 * data.MIB / 1e6),
                                   (f"{blocks} random blocks of 64 KiB overwritten",
                                    lambda _: data.overwrite_blocks(path, size + data.MIB, blocks), 60)):
            bench.say(f"large: {what}")
            seconds, stored, _ = once(change, keepers)
            stored = {name: new / 1e6 for name, new in stored.items()}
            bench.row(f"{what}", "s", seconds, "", None)
            bench.row("… stored anew", "MB", stored, f"≤ {goal:.0f} MB", bench.at_most(stored, goal))


# ---- stages ----

def latency(bench):
    spec = {"pipeline": "latency", "stages": [{"name": "copy", "input": {"repo": "small", "glob": "/"},
                                               "run": ["sh", "-c", 'cat "$PL_INPUT_SMALL/x" > "$PL_OUT/y"']}]}
    bench.say("latency: one small file to the committed output of a trivial stage")
    with ours.Daemon(bench.folder / "latency") as target:
        target.ctl("create", "repo", "small")
        path = target.folder / "x"
        times = []

        def push(i):
            path.write_text(f"{i}\n")
            began = time.monotonic()
            target.ctl("put", "file", "small@master:/x", "-f", path, "--wait")
            return time.monotonic() - began

        push("first")
        bench_wait(target, target.pipeline(spec))
        push("warm")
        for i in range(LATENCY_RUNS):
            measure.settle()
            times.append(push(i) * 1000)
        bench.say(f"  fastest {min(times):.1f} ms, slowest {max(times):.1f}")
        bench.row("push of one small file → a trivial stage's output committed (p50, put file --wait)", "ms",
                  {"ours": measure.median(times)}, "≤ 15 ms", measure.median(times) <= 15)


def bench_wait(target, answer):
    if answer.get("run"):
        target.ctl("wait", "run", answer["run"], "--timeout", "600s")


def datums(bench):
    count, cores = bench.scaled(10_000), os.cpu_count()
    spec = {"pipeline": "datums", "stages": [{"name": "true", "input": {"repo": "many", "glob": "/*"}, "run": ["/bin/true"],
                                              "workers": cores}]}
    source = bench.folder / "many"
    source.mkdir()
    for i in range(count):
        (source / f"{i:06d}").write_text(f"{i}\n")
    bench.say(f"datums: {count} of /bin/true, {cores} workers")

    def ours_once(round_):
        with ours.Daemon(bench.folder / f"datums-{round_}") as target:
            target.ctl("create", "repo", "many")
            target.ctl("put", "file", "-q", "-r", "many@master:/", "-f", source)
            began = time.monotonic()
            answer = target.pipeline(spec)
            bench_wait(target, answer)
            wall = time.monotonic() - began
            job = target.ctl_json("inspect", "run", answer["run"])[0]["jobs"][0]
            if job["state"] != "success" or job["datums"]["done"] != count:
                raise measure.Failed(f"the job is {job['state']}: {job['datums']}")
            bench.say(f"  ours: {count / wall:.0f} a second, of the workers' ms {job['ms']}")
            return count / wall

    def xargs_once(_):
        numbers = pathlib.Path(bench.folder / "numbers")
        numbers.write_text("".join(f"{i}\n" for i in range(count)))
        timed = measure.run(["sh", "-c", f"xargs -P {cores} -n 1 /bin/true < '{numbers}'"])
        return count / timed.wall

    rates = rounds(bench, [("ours", ours_once), ("xargs", xargs_once)])
    bench.row(f"{count:,} datums of /bin/true, a worker a core", "a second", rates, "≥ 1,500 a second",
              "ours" in rates and rates["ours"] >= 1500)


def idle(bench):
    bench.say("idle: a daemon that does nothing")
    with ours.Daemon(bench.folder / "idle") as target:
        target.ctl("list", "repo")
        time.sleep(1)
        size = target.anonymous()
    bench.row("a daemon that does nothing (RssAnon)", "MiB", {"ours": size / data.MIB}, "≤ 30 MiB", size <= 30 * data.MIB)


def graph(bench):
    def laid_out(stages):
        return json.loads(subprocess.run([ours.programs() / "pl-bench-graph", str(stages)], stdout=subprocess.PIPE, check=True).stdout)

    bench.say("graph: the layout of the graph of repos and stages, without the daemon")
    done = laid_out(1000)
    bench.row("a graph of 1,000 stages laid out", "ms", {"ours": done["ms"]}, "≤ 50 ms", done["ms"] <= 50)
    bench.row(f"the same folded to {done['folded_to']} nodes and laid out", "ms", {"ours": done["folded_ms"]}, "≤ 50 ms", done["folded_ms"] <= 50)
    done = laid_out(10000)
    bench.row("a graph of 10,000 stages laid out", "ms", {"ours": done["ms"]}, "≤ 1,000 ms", done["ms"] <= 1000)
    graph_of_daemon(bench, bench.scaled(1000))


def graph_of_daemon(bench, count):
    """A graph of stages that have run once, as the page gets it."""
    stages = [{"name": f"s{i}", "input": {"repo": "in" if i < 20 else f"s{i - 1 - i % 20}", "glob": "/"}, "run": ["/bin/true"]} for i in range(count)]
    with ours.Daemon(bench.folder / "graph") as target:
        target.ctl("create", "repo", "in")
        target.ctl("put", "file", "-r", "in@master:/x", "-f", "/etc/hostname")
        bench_wait(target, target.pipeline({"pipeline": "graph", "stages": stages}))
        url = urllib.parse.urlsplit(target.url)
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=600)

        def get(path, **headers):
            began = time.monotonic()
            connection.request("GET", "/api/v1/" + path, headers={"Authorization": "Bearer " + target.token, **headers})
            reply = connection.getresponse()
            reply.read()
            return (time.monotonic() - began) * 1000, reply.getheader("ETag")

        first, etag = get("graph?fold=0")
        again = measure.median([get("graph?fold=0", **{"If-None-Match": etag})[0] for _ in range(20)])
        state = measure.median([get("graph/state")[0] for _ in range(20)])
    bench.row(f"GET /graph of {count:,} stages, the first time", "ms", {"ours": first}, "", None)
    bench.row("the same, known (304)", "ms", {"ours": again}, "≤ 20 ms", again <= 20)
    bench.row(f"GET /graph/state of {count:,} stages that have run", "ms", {"ours": state}, "≤ 20 ms", state <= 20)


def history(bench):
    """The list of runs over a year's database, as the page gets it: the first page, one in the middle, and filters."""
    runs, jobs, folder = bench.scaled(200_000), 5, bench.folder / "history"
    bench.say(f"history: {runs:,} runs with {runs * jobs:,} jobs")
    with ours.Daemon(folder):
        pass
    many_runs.make(folder / "data", runs, jobs)
    with ours.Daemon(folder) as target:
        url = urllib.parse.urlsplit(target.url)
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=600)

        def get(query):
            began = time.monotonic()
            connection.request("GET", f"/api/v1/runs?limit=200&{query}", headers={"Authorization": "Bearer " + target.token})
            connection.getresponse().read()
            return (time.monotonic() - began) * 1000

        for name, query in (("first page of 200", ""), ("a page in the middle", f"after={runs // 2}"), ("first page of one pipeline", "pipeline=p3"),
                            ("first page of those that failed", "state=failure"), ("a pipeline that has none", "pipeline=none")):
            ms = measure.median([get(query) for _ in range(20)])
            bench.row(f"runs over {runs * jobs:,} jobs: {name}", "ms", {"ours": ms}, "≤ 100 ms", ms <= 100)


EVERY = {"files": files, "large": large, "latency": latency, "datums": datums, "idle": idle, "graph": graph, "history": history}
