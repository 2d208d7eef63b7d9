"""Works over a bucket: a real S3 server on loopback, ours and the clients that people have beside each other. Requests are those that the server
gets, counted by pl-bench-wire, which also makes each round trip 100 ms longer where that is said."""
import json
import os
import random
import shutil
import time

import bucket as buckets
import data
import measure
import ours
from works import TRUSTED_S, rounds

DELAY_MS = 100
CHOSEN = 1000
MANY_BYTES = 1024


def unread(target):
    return json.loads(target.ctl("--json", "status").out)["packs"]["unread"]


def read_back(target):
    """Packs that went past the daemon are read by it in the background: until it is done -> seconds."""
    began = time.monotonic()
    while unread(target):
        time.sleep(0.02)
    return time.monotonic() - began


def count(passed):
    return sum(passed["requests"].values())


def told(passed):
    methods = ", ".join(f"{n} {method}" for method, n in sorted(passed["requests"].items()))
    return f"{count(passed)} requests ({methods}), {passed['up'] / 1e6:.1f} MB up, {passed['down'] / 1e6:.1f} MB down, {passed['connections']} connections"


# ---- many small files into it ----

def raw_put(bucket, packs):
    """curl, four at a time, by presigned URLs: what the server takes, with nothing computed on the client's side."""
    name, client = bucket.make(), bucket.client()
    config = bucket.folder / "raw.curl"
    urls = [client.generate_presigned_url("put_object", {"Bucket": name, "Key": path.name}, ExpiresIn=3600) for path in packs]
    config.write_text("next\n".join(f'upload-file = "{path}"\nurl = "{url}"\nfail\nsilent\noutput = /dev/null\n' for path, url in zip(packs, urls)))
    return measure.run(["curl", "--parallel", "--parallel-immediate", "--parallel-max", "4", "--noproxy", "*", "-K", config])


class Ingest:
    def __init__(self, bench, bucket, source):
        self.bench, self.bucket, self.source = bench, bucket, source
        self.name, self.packs = None, []

    def ours(self, round_, endpoint=None):
        self.name = self.bucket.make()
        with self.bucket.daemon(self.bench.folder / f"s3-ingest-{self.name}", self.name, endpoint) as target:
            target.ctl("create", "repo", "files")
            timed = target.ctl("put", "file", "-q", "-r", "files@master:/", "-f", self.source)
            self.bench.say(f"  ours: read back after {read_back(target):.2f} s more")
        return timed

    def counted(self):
        """-> requests until the commit is durable, and with those by which the packs are read back."""
        wire = self.bucket.wire()
        self.name = self.bucket.make()
        with self.bucket.daemon(self.bench.folder / f"s3-counted-{self.name}", self.name, wire.endpoint) as target:
            target.ctl("create", "repo", "files")
            wire.passed()
            target.ctl("put", "file", "-q", "-r", "files@master:/", "-f", self.source)
            read_back(target)
            passed = wire.passed()
        self.bench.say(f"  ours: {told(passed)}")
        return count(passed)

    def raw(self, _):
        """The packs of ours before."""
        into = self.bench.folder / f"s3-packs-{self.name}"
        if not into.exists():
            into.mkdir()
            client = self.bucket.client()
            found = client.list_objects_v2(Bucket=self.name, Prefix="store/p/")
            for item in found["Contents"]:
                client.download_file(self.name, item["Key"], str(into / item["Key"].rpartition("/")[2]))
        return raw_put(self.bucket, sorted(into.iterdir()))


def ingest(bench):
    many = bench.scaled(100_000)
    bench.say(f"s3-ingest: {many} files of 4 KiB into a bucket")
    source = bench.folder / "s3-source"
    data.make_files(source, many)
    time.sleep(TRUSTED_S)
    with buckets.Bucket(bench) as bucket:
        work = Ingest(bench, bucket, source)
        peers = [peer for peer in buckets.present(bench, bucket) if peer.folders]
        requests = work.counted()
        found = rounds(bench, [("ours", work.ours), ("raw", work.raw)] + [
            (peer.name, lambda round_, p=peer: p.folder(source, f"{bucket.make()}/files")) for peer in peers])
    raw = {name: found.pop(name) for name in ("raw",) if name in found}
    bench.row(f"{many:,} × 4 KiB into a bucket, durable", "s", found, "≤ 1/20 × rclone and s5cmd, ≤ 1/5 × restic",
              bench.at_most_times(found, {"rclone": 1 / 20, "s5cmd": 1 / 20, "restic": 1 / 5}))
    if "ours" in found:
        beside = {"ours": found["ours"], **raw}
        bench.row("… beside a client that puts the same packs (raw)", "s", beside, "≤ 1.2 × raw", bench.at_most_times(beside, {"raw": 1.2}))
    bench.row("… requests, read back included", "requests", {"ours": requests}, "≤ 12", requests <= 12)


# ---- one large file ----

def large(bench):
    size = bench.scaled(2048) * data.MIB
    folder = bench.folder / "s3-large"
    folder.mkdir()
    path = folder / "large.bin"
    bench.say(f"s3-large: one file of {size >> 20} MiB up and down")
    data.make_large(path, size)
    with buckets.Bucket(bench) as bucket:
        peers = buckets.present(bench, bucket)
        name = bucket.make()
        places = {peer.name: f"{bucket.make()}/large.bin" for peer in peers}
        with bucket.daemon(folder / "ours", name) as target:
            target.ctl("create", "repo", "large")

            def ours_up(round_):
                timed = target.ctl("put", "file", "-q", "--no-cache", f"large@b{round_}:/large.bin", "-f", path)
                bench.say(f"  ours: read back after {read_back(target):.2f} s more")
                change(round_ + 1)
                return timed

            def change(round_):
                """Other bytes for each: what is there already would not be sent."""
                with open(path, "r+b") as file:
                    draw = random.Random(round_)
                    for at in range(0, size, 32768):
                        file.seek(at)
                        file.write(draw.randbytes(8))

            def peer_up(peer, round_):
                places[peer.name] = f"{bucket.make()}/large.bin"
                return peer.up(path, places[peer.name])

            up = rounds(bench, [("ours", ours_up)] + [(peer.name, lambda round_, p=peer: peer_up(p, round_)) for peer in peers])
            def once(get):
                """Gone when it was measured: few files, but large ones."""
                got = folder / "got"
                bucket.warm()
                try:
                    return get(got)
                finally:
                    got.unlink(missing_ok=True)
                    shutil.rmtree(got.with_suffix(".restored"), ignore_errors=True)

            down = rounds(bench, [("ours", lambda _: once(lambda got: target.ctl("get", "file", "-q", "large@b0:/large.bin", "-o", got)))] + [
                (peer.name, lambda _, p=peer: once(lambda got: p.down(places[p.name], got))) for peer in peers])
    for way, found in (("up", up), ("down", down)):
        best = {name: 1 / 0.95 for name in ("s5cmd", "rclone") if name in found}
        bench.row(f"{size >> 20:,} MiB of random bytes in one file, {way}", "s", found, "≥ 0.95 × the best of s5cmd and rclone",
                  bench.at_most_times(found, best))


# ---- out of our gateway ----

def gateway_down(bench):
    size = bench.scaled(2 << 30)
    folder = bench.folder / "gateway-down"
    folder.mkdir()
    path, got = folder / "large.bin", folder / "got"
    bench.say(f"gateway-down: one file of {size >> 20} MiB by s5cmd, out of our gateway and out of {buckets.NAME}")
    data.make_large(path, size)
    with buckets.Bucket(bench) as bucket, ours.Daemon(folder / "ours", ["--s3-listen", "127.0.0.1:0"]) as target:
        client = buckets.S5cmd(bucket)
        place = f"{bucket.make()}/large.bin"
        client.up(path, place)
        bucket.warm()
        target.ctl("create", "repo", "large")
        target.ctl("put", "file", "-q", "large@master:/large.bin", "-f", path)
        env = dict(line.removeprefix("export ").split("=", 1) for line in target.ctl("s3", "env").out.splitlines() if line.startswith("export "))
        env = {name: value.strip("'") for name, value in env.items()}
        env["S3_ENDPOINT_URL"], env["AWS_REGION"] = env["AWS_ENDPOINT_URL"], env["AWS_DEFAULT_REGION"]

        def once(place, env=None):
            got.unlink(missing_ok=True)
            return client.run(client.program, "--log", "error", "cp", f"s3://{place}", got, env=env)

        found = rounds(bench, [("ours", lambda _: once("master.large.default/large.bin", env)), (buckets.NAME, lambda _: once(place))])
        if got.stat().st_size != size:
            raise measure.Failed(f"{got.stat().st_size} bytes came")
    bench.row(f"{size >> 20:,} MiB in one file out of the gateway by s5cmd", "s", found, f"≥ 0.95 × {buckets.NAME}", bench.at_most_times(found, {buckets.NAME: 1 / 0.95}))


# ---- some of very many ----

def some(bench):
    many = bench.scaled(1_000_000) // CHOSEN * CHOSEN
    chosen = min(CHOSEN, many)
    folder = bench.folder / "s3-some"
    bench.say(f"s3-some: {chosen} files of {many} of {MANY_BYTES} bytes, nothing cached")
    draw = random.Random("some")
    wanted = folder / "wanted"
    with buckets.Bucket(bench) as bucket:
        wires = {0: bucket.wire(), DELAY_MS: bucket.wire(DELAY_MS, os.environ.get("BENCH_TRACE"))}
        name = bucket.make()
        with bucket.daemon(folder, name) as target:
            target.ctl("create", "repo", "many")
            measure.run([ours.programs() / "pl-bench-many", target.url, target.token, "default", "many", str(many), str(MANY_BYTES)])
            read_back(target)
        wanted.write_text("".join(f"d{i // 1000:03d}/f{i % 1000:03d}\n" for i in sorted(draw.sample(range(many), chosen))))
        works = {"one folder": ["-r", f"many@master:/d{many // 2000:03d}"], "scattered": ["--files-from", wanted, "many@master:/"]}
        requests = {}

        def once(delay, what, round_):
            shutil.rmtree(folder / "data" / "cache", ignore_errors=True)
            with bucket.daemon(folder, name, wires[delay].endpoint) as target:
                wires[delay].passed()
                timed = target.ctl("get", "file", "-q", *works[what], "-o", folder / f"got-{what[:3]}-{delay}-{round_}")
                passed = wires[delay].passed()
            bench.say(f"  {told(passed)}")
            requests[what] = max(requests.get(what, 0), count(passed))
            return timed

        found = rounds(bench, [(f"{what}, {delay} ms", lambda i, w=what, d=delay: once(d, w, i)) for what in works for delay in wires])
    for what, most, plain_s, far_s in (("one folder", 20, 0.5, 2), ("scattered", 1100, 4, 6)):
        row = f"{chosen:,} files of {many:,} in a bucket, {what}, nothing cached"
        for delay, most_s, say in ((0, plain_s, row), (DELAY_MS, far_s, f"… each round trip {DELAY_MS} ms longer")):
            if f"{what}, {delay} ms" in found:
                took = {"ours": found[f"{what}, {delay} ms"]}
                bench.row(say, "s", took, f"≤ {most_s} s", bench.at_most(took, most_s))
        if what in requests:
            bench.row("… requests", "requests", {"ours": requests[what]}, f"≤ {most:,}", requests[what] <= most)


EVERY = {"s3-ingest": ingest, "s3-large": large, "gateway-down": gateway_down, "s3-some": some}
