"""The S3 gateway under load: small objects, a large one in parts, and pages of a bucket with a million keys, all in one daemon; small objects
put into a real S3 server in the same way."""
import json
import os
import urllib.parse

import bucket as buckets
import measure
import ours
import spine

CONNECTIONS = 16
OBJECT_BYTES = 4096
PAGES = 200
PART_BYTES = 8 << 20
PART_CONNECTIONS = 4


class Gate:
    def __init__(self, target, client):
        url = urllib.parse.urlsplit((target.data / "s3.url").read_text().strip())
        self.words = [url.hostname, str(url.port), target.token, "big"]
        self.target, self.client = target, client

    def ask(self, bench, work, connections, count, size):
        """What the generator prints, and says."""
        cpu = measure.cpu_of(self.target.pid)
        timed = measure.run([ours.programs() / "pl-bench-gateway", work, *self.words, str(connections), str(count), str(size)])
        cpu = measure.cpu_of(self.target.pid) - cpu
        said = json.loads(timed.out)
        bench.say(f"  {work}: {timed.out.strip()}; processor time a request: daemon {cpu / count * 1e6:.0f} µs")
        return said

    def finish(self):
        """What gathers becomes a commit."""
        self.client.call("POST", "/repos/default/big/branches/master/flush", "{}", "application/json")


def median_of(bench, work, key="per_second"):
    """The median of `bench.runs` times what work() says."""
    found = []
    for _ in range(bench.runs):
        measure.settle()
        found.append(work()[key])
    return measure.median(found)


def peer_puts(bench, count):
    """{the server's name: puts a second}; empty if it cannot be had. It does not sync what it is given."""
    try:
        with buckets.Bucket(bench) as bucket:
            server = bucket.server
            words = ["127.0.0.1", str(server.port), server.secret_key, bucket.make(), str(CONNECTIONS), str(count), str(OBJECT_BYTES)]

            def put():
                timed = measure.run([ours.programs() / "pl-bench-gateway", "put", *words], {"PL_BENCH_ACCESS_KEY": server.access_key})
                bench.say(f"  {buckets.NAME}: {timed.out.strip()}")
                return json.loads(timed.out)

            return {buckets.NAME: median_of(bench, put)}
    except measure.Failed as why:
        bench.say(f"  {buckets.NAME}: {why}")
        return {}


def small(bench, gate):
    count = bench.scaled(30_000)
    rates = {"ours": median_of(bench, lambda: gate.ask(bench, "put", CONNECTIONS, count, OBJECT_BYTES)), **peer_puts(bench, count)}
    bench.row(f"gateway, {CONNECTIONS} connections: 4 KiB objects put", "a second", rates, f"≥ 3,000 a second, ≥ 3 × {buckets.NAME}",
              rates["ours"] >= max(3000, 3 * rates.get(buckets.NAME, 0)))
    rate = median_of(bench, lambda: gate.ask(bench, "get", CONNECTIONS, count, OBJECT_BYTES))
    bench.row("… got while they gather", "a second", {"ours": rate}, "≥ 15,000 a second", rate >= 15000)
    gate.finish()
    rate = median_of(bench, lambda: gate.ask(bench, "get", CONNECTIONS, count, OBJECT_BYTES))
    bench.row("… got when they are committed", "a second", {"ours": rate}, "≥ 15,000 a second", rate >= 15000)


def pages(bench, gate, keys):
    for connections in (1, CONNECTIONS):
        took = median_of(bench, lambda n=connections: gate.ask(bench, "list", n, PAGES, keys), "p50_ms" if connections == 1 else "seconds")
        if connections == 1:
            bench.row(f"gateway: a page of 1,000 keys of a bucket with {keys:,}", "ms", {"ours": took}, "≤ 10 ms", bench.at_most({"ours": took}, 10))
        else:
            bench.row(f"… {CONNECTIONS} connections: pages", "a second", {"ours": PAGES / took}, "", None)


def large(bench, gate):
    count = max(2, bench.scaled(32))
    size = count * PART_BYTES
    source, copy = gate.target.folder / "source", gate.target.folder / "copy"
    source.write_bytes(os.urandom(size))
    found = {"ours": [], "cp -a": []}
    for _ in range(bench.runs):
        measure.settle()
        found["ours"].append(gate.ask(bench, "parts", PART_CONNECTIONS, count, PART_BYTES)["seconds"])
        copy.unlink(missing_ok=True)
        measure.settle()
        found["cp -a"].append(measure.run(["sh", "-c", f"cp '{source}' '{copy}' && sync '{copy}'"]).wall)
    rates = {name: size / 1e6 / measure.median(took) for name, took in found.items()}
    bench.say(f"  {rates} MB a second")
    bench.row(f"gateway: {size >> 20} MiB in parts of {PART_BYTES >> 20} MiB over {PART_CONNECTIONS} connections (beside: cp and fsync)", "MB/s", rates,
              "≥ 200 MB/s, ≥ 0.8 × cp", rates["ours"] >= 200 and rates["ours"] >= 0.8 * rates["cp -a"])


def gateway(bench):
    bench.say("gateway: objects, parts and pages by S3 in a bucket with 1,000,000 keys")
    with ours.Daemon(bench.folder / "gateway", options=["--s3-listen", "127.0.0.1:0"]) as target:
        client = spine.Client(target)
        keys = spine.million(bench, "big", target, client)
        client.call("PATCH", "/repos/default/big", json.dumps({"commit_window": "60s"}), "application/json")
        gate = Gate(target, client)
        pages(bench, gate, keys)
        small(bench, gate)
        large(bench, gate)


EVERY = {"gateway": gateway}
