"""Pods: the executor `kubernetes` by itself, against the fake API server in another process; and the daemon on a real kube-apiserver whose nodes are
simulated, beside a client that makes the same writes without a daemon, or with a kubelet that really runs agents and commands."""
import contextlib
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import measure
import ours
import relay
import spine

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "kube"))
import containers  # noqa: E402 (of tests/kube)
import control_plane  # noqa: E402
import kubelet  # noqa: E402
import nodes  # noqa: E402

NODES = 50
STAGES = 1000  # of one pipeline
CHAINS, LINKS = 16, 20  # fewer at once than pods of a shape may wait
TOKENS = {"daemon": "token-of-the-daemon", "kubelets": "token-of-the-kubelets"}
NAMESPACE = "stages"
NOT_BUILT = "no control plane is built: python3 tests/kube/control_plane.py build"
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
    {"level": "None", "verbs": ["get", "list", "watch"]},
    {"level": "Request", "verbs": ["create"], "namespaces": [NAMESPACE], "resources": [{"group": "", "resources": ["pods"]}]},
    {"level": "Metadata", "namespaces": [NAMESPACE]}, {"level": "None"}]}


def played(*words):
    return json.loads(subprocess.run([ours.programs() / "pl-bench-pods", *map(str, words)], stdout=subprocess.PIPE, check=True).stdout)


def pods(bench):
    bench.say("pods: the executor alone, against a fake API server whose pods run as soon as they are there")
    done = played(bench.scaled(20000), 100, 0)
    bench.say(f"  processor time of a pod: {done['cpu_us']:.0f} µs, of the fake server {done['server_us']:.0f} µs")
    bench.row("pods created and seen running, against the fake API server", "a second", {"ours": done["rate"]}, "≥ 1,000/s", done["rate"] >= 1000)
    bench.row(f"{done['pods']} live pods (RssAnon)", "MiB", {"ours": done["rss_mib"]}, "≤ 200 MiB", done["rss_mib"] <= 200)
    done = played(bench.scaled(5000), 100, 0)
    bench.row(f"a second life adopts {done['pods']} running pods", "s", {"ours": done["adopt_s"]}, "≤ 3 s, none made",
              done["adopt_s"] <= 3 and done["adopt_writes"] <= done["writes"] - done["pods"])  # what is asked at the start
    done = played(1, bench.scaled(10000), bench.scaled(50000))
    bench.row(f"{done['nodes']} nodes, {done['foreign']} foreign pods: what is known of them (RssAnon)", "MiB", {"ours": done["rss_mib"]}, "≤ 60 MiB",
              done["rss_mib"] <= 60)
    bench.row("whether one more shape would fit there", "ms", {"ours": done["decision_us"] / 1000}, "≤ 1 ms", done["decision_us"] <= 1000)


class Audited(control_plane.ControlPlane):
    """Who wrote what, and when, is in a log; the daemon and the kubelets are users of their own."""

    def __init__(self, folder):
        super().__init__(folder)
        (self.folder / "policy.json").write_text(json.dumps(AUDIT), encoding="ascii")
        self.log = self.folder / "audit.log"
        self.api_options = (f"--audit-policy-file={self.folder / 'policy.json'}", f"--audit-log-path={self.log}")

    def make_keys(self):
        super().make_keys()
        with open(self.folder / "tokens.csv", "a", encoding="ascii") as tokens:
            tokens.writelines(f'{token},{user},{user},"system:masters"\n' for user, token in TOKENS.items())

    def known_as(self, user, **cluster):
        """A kubeconfig."""
        return self.kubeconfig(user, {"token": TOKENS[user]}, NAMESPACE, **cluster)

    def must(self, method, path, body, **more):
        status, said = self.request(method, path, body, **more)
        if status not in (200, 201):
            raise measure.Failed(f"{method} {path}: {status} {said.get('message')}")

    def add_nodes(self):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        merge = {"content_type": "application/merge-patch+json"}
        self.must("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for i in range(NODES):
            made = nodes.cpu(f"node-{i}", cpu="1000", memory="4Ti", pods=1000)
            self.must("POST", "/api/v1/nodes", nodes.manifest(made))
            self.must("PATCH", f"/api/v1/nodes/node-{i}/status", {"status": nodes.status(made, 10250, now)}, **merge)
            self.must("PATCH", f"/api/v1/nodes/node-{i}", {"spec": {"taints": []}}, **merge)

    def written(self):
        """Entries of the log about pods that were taken, dry runs left out."""
        with open(self.log, encoding="utf-8") as lines:
            return [one for one in map(json.loads, lines) if wrote_pod(one)]


def wrote_pod(entry):
    return entry["objectRef"]["resource"] == "pods" and entry["responseStatus"]["code"] < 300 and "dryRun" not in entry["requestURI"]


class Kubelets:
    """with Kubelets(plane, url) as k: … ; k.results: [(pod, sent s, answered s)] afterwards."""

    def __init__(self, plane, url):
        self.words = [ours.programs() / "pl-bench-kubelets", plane.known_as("kubelets"), NAMESPACE, url]
        self.said = plane.folder / "results"

    def __enter__(self):
        with open(self.said, "wb") as said:  # a pipe that nobody empties would stop them
            self.process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=said)
        return self

    def __exit__(self, *_):
        self.process.communicate(b"")
        lines = self.said.read_text(encoding="ascii").splitlines()
        self.results = [(name, int(sent) / 1e6, int(answered) / 1e6) for name, sent, answered in map(str.split, lines)]


def stage(name, reads):
    return {"name": name, "input": {"repo": reads}, "run": ["true"], "image": "registry.test/command@sha256:" + 64 * "0"}


def seconds(entry):
    return datetime.datetime.fromisoformat(entry["requestReceivedTimestamp"].replace("Z", "+00:00")).timestamp()


def ran(plane, target, repo):
    """Pushes, and waits until all that it sets off is committed and no pod of it is left -> seconds."""
    began = time.monotonic()
    source = target.folder / "one"
    source.write_text(f"{began}\n")
    target.ctl("put", "file", "-q", f"{repo}@master:/f", "-f", source)
    target.ctl("wait", "run", f"{repo}@master", "--timeout", "3000s")
    while plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods?limit=1")[1]["items"]:
        time.sleep(0.05)
    return time.monotonic() - began


def at(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def is_built():
    return (control_plane.servers.cache() / f"kubernetes-with-kubelet-{control_plane.VERSION}").exists()


def stages(bench):
    bench.say("stages: 5,000 jobs at once as pods of a real kube-apiserver with simulated nodes, beside a client without a daemon")
    if not is_built():
        raise measure.Failed(NOT_BUILT)
    try:
        plane = Audited(bench.folder / "plane").start()
    except control_plane.Unavailable as reason:
        raise measure.Failed(str(reason)) from None
    try:
        plane.add_nodes()
        measure_chains(bench, plane)
        measure_many(bench, plane)
    finally:
        plane.stop()


def daemon(plane, folder, **cluster):
    port = control_plane.servers.free_port()
    return ours.Daemon(folder, ["--executor", "kubernetes", "--kubernetes-kubeconfig", plane.known_as("daemon", **cluster), "--kubernetes-image", "registry.test/pipelined:1",
                                "--worker-url", f"http://127.0.0.1:{port}", "--listen", f"127.0.0.1:{port}"])


def threads_of(pid):
    return [int(thread.name) for thread in pathlib.Path(f"/proc/{pid}/task").iterdir()]


def go_first(threads):
    """The scheduler prefers them to what is not measured here: in life the API server has a machine of its own. False: we may not."""
    try:
        for thread in threads:
            os.setpriority(os.PRIO_PROCESS, thread, -15)
    except PermissionError:
        return False
    return True


def measure_chains(bench, plane):
    """With a folder in memory: the log's writes take no time there. Some pods go before, so that the cluster has shown that it takes them."""
    links = max(4, min(LINKS, bench.scaled(20 * LINKS)))
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="pl-bench-") as folder:
        between = relay.Relay("127.0.0.1", plane.port, plane.certs / "apiserver.crt")
        with between, daemon(plane, pathlib.Path(folder), server=between.url) as target, Kubelets(plane, target.url) as kubelets:
            target.ctl("create", "repo", "in")
            target.ctl("create", "repo", "first")
            target.pipeline({"pipeline": "first", "stages": [stage(f"first{i}", "first") for i in range(3 * CHAINS)]})
            target.pipeline({"pipeline": "chains", "stages": [stage(f"c{i}x{k}", f"c{i}x{k - 1}" if k else "in") for i in range(CHAINS) for k in range(links)]})
            ran(plane, target, "first")
            if not go_first([*threads_of(target.pid), *threads_of(kubelets.process.pid), between.thread.native_id]):
                bench.say("  not as root: the API server takes the daemon's processor time")
            bench.say(f"  {CHAINS} chains of {links} jobs: {ran(plane, target, 'in'):.1f} s")
    add_gap(bench, between.posted, plane.written(), [one for one in kubelets.results if one[0].startswith("c")])


def measure_many(bench, plane):
    count, before = bench.scaled(5000), len(plane.written())
    with daemon(plane, bench.folder / "stages") as target, Kubelets(plane, target.url):
        target.ctl("create", "repo", "in")
        began = time.monotonic()
        for at in range(0, count, STAGES):
            target.pipeline({"pipeline": f"many{at}", "stages": [stage(f"m{i}", "in") for i in range(at, min(at + STAGES, count))]})
        bench.say(f"  {count} stages, {STAGES} a pipeline: {time.monotonic() - began:.1f} s")
        mine = ran(plane, target, "in")
    bench.say(f"  {count} jobs at once: {mine:.1f} s")
    of_ours = [one for one in plane.written()[before:] if one["user"]["username"] == "daemon"]
    made = [one for one in of_ours if one["verb"] == "create"]
    body = bench.folder / "pod.json"
    body.write_text(json.dumps(bare(made[0]["requestObject"])))
    timed = measure.run([ours.programs() / "pl-bench-kubelets", plane.known_as("kubelets"), NAMESPACE, "bare", str(count), body])
    raw = count / json.loads(timed.out.splitlines()[-1])["seconds"]
    bench.row(f"{count} jobs of as many stages: pods made, ended, outputs committed", "a second", {"ours": count / mine, "raw": raw}, "≥ 0.8 × raw",
              count / mine >= 0.8 * raw)
    bench.row("… writes of ours at the API server, a pod", "times", {"ours": len(of_ours) / len(made)}, "≤ 3", len(of_ours) <= 3 * len(made))


def bare(pod):
    """One like it that the daemon would not know."""
    pod["metadata"] = {"namespace": NAMESPACE, "annotations": pod["metadata"]["annotations"], "labels": {"app.kubernetes.io/managed-by": "bench"}}
    return pod


def stage_of(pod):
    return pod.rsplit("-", 3)[0]


def gaps(results, posted):
    """ms from each result to the pod of the stage that waits for it; `posted`: pod → s."""
    by_stage = {stage_of(pod): when for pod, when in posted.items()}
    after = []
    for name, sent, _ in results:
        chain, _, link = stage_of(name).partition("x")
        if (when := by_stage.get(f"{chain}x{int(link) + 1}")) is not None:
            after.append((when - sent) * 1000)
    return after


def add_gap(bench, posted, entries, results):
    """From a result to the pod of the stage that waits for it: until its POST comes out of the daemon, and until the API server begins on it."""
    sent = gaps(results, posted)
    begun = gaps(results, {one["objectRef"]["name"]: seconds(one) for one in entries if one["verb"] == "create" and one["objectRef"]["name"] in posted})
    if not sent or not begun:
        raise measure.Failed("no pod was made after another's result")
    bench.say(f"  from a result to the next POST: {len(sent)} times, p50 {at(sent, 0.5):.1f} ms, p99 {at(sent, 0.99):.1f} ms; until the API server begins on it: p50 "
              f"{at(begun, 0.5):.1f} ms, p99 {at(begun, 0.99):.1f} ms")
    bench.row("result → POST of the pod downstream, store in memory, p99", "ms", {"ours": at(sent, 0.99)}, "≤ 10 ms", at(sent, 0.99) <= 10)


class MovingPods(spine.Moving):
    """The same as pods that hold a GPU; their volumes are on tmpfs, too."""

    AGENT, COMMANDS = "registry.test/pipelined:1", "registry.test/command:1"
    MORE = {"gpu": True}

    def __init__(self, bench, plane):
        super().__init__(bench)
        self.plane = plane

    def pid(self, target):
        return os.getpid()

    @contextlib.contextmanager
    def daemon(self, name, overlap):
        images = {self.AGENT: containers.Image(replace={"/usr/bin": str(ours.programs())}, env={"PIPELINED_OVERLAP": "1" if overlap else "0"}),
                  self.COMMANDS: containers.Image(env={"PATH": "/usr/bin:/bin"})}
        space = f"moving-{name}"
        with kubelet.Kubelet(self.plane, self.folder / f"kubelet-{name}", [nodes.gpu("gpu", count=1)], images=images, namespace=space):
            with ours.Daemon(self.folder / name, ["--executor", "kubernetes", "--kubernetes-kubeconfig", self.plane.kubeconfig(space, namespace=space),
                                                  "--kubernetes-image", self.AGENT, "--kubernetes-default-image", self.COMMANDS]) as target:
                yield target


def pods_overlap(bench):
    bench.say("pods-overlap: datums that move data as long as they compute, in pods of a real kube-apiserver with a simulated node")
    containers.BIN = ours.programs()
    if containers.why_not() or not is_built():
        raise measure.Failed(containers.why_not() or NOT_BUILT)
    try:
        plane = control_plane.ControlPlane(bench.folder / "plane-overlap").start()
    except control_plane.Unavailable as reason:
        raise measure.Failed(str(reason)) from None
    try:
        MovingPods(bench, plane).measure(" in a pod", "share of held time that its GPU was busy")
    finally:
        plane.stop()


def real(bench):
    bench.say("real: a push on a real kubelet, beside a bare pod with the same containers")
    corner = pathlib.Path(__file__).resolve().parents[1] / "kubereal" / "inside.py"
    reason = subprocess.run([sys.executable, corner, "can"], capture_output=True, text=True, check=False).stdout.strip()
    if reason or not is_built():
        raise measure.Failed(reason or NOT_BUILT)
    here = pathlib.Path(__file__).resolve().parent / "real_node.py"
    done = measure.run([sys.executable, "-B", corner, "run", sys.executable, "-B", here, str(max(3, bench.scaled(20)))], {"PL_BIN": str(ours.programs())})
    found = json.loads(done.out.splitlines()[-1])
    values = {"ours": measure.median(found["ours"]), "raw": measure.median(found["bare"])}
    bench.row("push → output of a trivial stage on a real kubelet, p50", "s", values, "≤ 1.1 × raw", values["ours"] <= 1.1 * values["raw"])


EVERY = {"pods": pods, "stages": stages, "pods-overlap": pods_overlap, "real": real}
