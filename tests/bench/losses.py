"""What an operator waits for when pods are lost: until a lost pod's datum runs again, until a daemon that was killed makes pods again, and what a look at
/metrics costs. On a real kube-apiserver and scheduler; nodes are simulated."""
import contextlib
import http.client
import json
import os
import pathlib
import socket
import threading
import time
import urllib.parse

import containers
import control_plane
import kube
import kubelet
import measure
import nodes
import ours

AGENT, COMMANDS = "registry.test/pipelined:1", "registry.test/command:1"
FAR_S, FAR_S_OF_A_POD = 120, 0.2  # ends a hang
OWNER = "stages"  # a ConfigMap: the controller of the pods, without which they are drained by force alone
WORKERS, STEP = 500, 10  # of the stage whose daemon is killed; so many pods more at each kill
KILLS = 10
OF_A_STAGE = 10  # pods
LOOKS = 50
QUIET_S = 10  # until the daemon has seen that its pods have nodes


def until(check, what, far_s=FAR_S, pause_s=0.001):
    """The first true value of check(), looked at again after each pause."""
    last = time.monotonic() + far_s
    while not (value := check()):
        if time.monotonic() > last:
            raise measure.Failed(f"waited {far_s:.0f} s for: {what}")
        time.sleep(pause_s)
    return value


@contextlib.contextmanager
def served(kind, folder):
    """A control plane of this kind."""
    if not kube.is_built():
        raise measure.Failed(kube.NOT_BUILT)
    try:
        plane = kind(folder).start()
    except control_plane.Unavailable as reason:
        raise measure.Failed(str(reason)) from None
    try:
        yield plane
    finally:
        plane.stop()


# ---- a pod that is lost

class Door:
    """Commands knock here when they run, and wait until they are let in."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.came = []  # (when, connection)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                one = self.socket.accept()[0]
                self.came.append((time.monotonic(), one))

    @property
    def script(self):
        return f"exec 3<>/dev/tcp/127.0.0.1/{self.socket.getsockname()[1]}; read -r -u 3; cp $PL_INPUT_IN/f $PL_OUT/f"

    def let_in(self):
        for _, one in self.came:
            with contextlib.suppress(OSError):  # it was killed
                one.sendall(b"\n")
            one.close()
        self.came = []


class Lost:
    """One pod, two nodes, and a stage of one datum."""

    def __init__(self, plane, kubelet_, target):
        self.plane, self.kubelet, self.target, self.door, self.pushed = plane, kubelet_, target, Door(), 0
        target.ctl("create", "repo", "in")
        target.pipeline({"pipeline": "p", "stages": [{"name": "s", "input": {"repo": "in"}, "run": ["bash", "-c", self.door.script]}]})

    def kubectl(self, *words):
        measure.run([control_plane.kubectl(), "--kubeconfig", self.plane.kubeconfig("drain", namespace=self.kubelet.namespace), *words])

    def deleted(self, pod):
        self.kubelet.delete(pod["metadata"]["name"])

    def evicted(self, pod):
        """By its node."""
        self.kubelet.evict(pod["metadata"]["name"])

    def drained(self, pod):
        self.kubectl("drain", pod["spec"]["nodeName"], "--delete-emptydir-data", "--timeout", f"{FAR_S}s")

    def agent_started(self, uid):
        worker = self.kubelet.workers.get(uid)
        return worker and "agent" in worker.processes

    def lose(self, how):
        """-> ms from the harm to the end of the pod's agent, from there until the next pod is there, and from the start of its agent until the datum's
        command runs there."""
        source = self.target.folder / "one"
        source.write_text(f"{(pushed := self.pushed)}\n")
        self.pushed = pushed + 1
        self.target.ctl("put", "file", "-q", "in@master:/f", "-f", source)
        until(lambda: self.door.came, "the datum runs")
        pod, = self.kubelet.all()
        agent = self.kubelet.workers[pod["metadata"]["uid"]].processes["agent"]
        began = time.monotonic()
        harm = threading.Thread(target=getattr(self, how), args=(pod,))
        harm.start()
        until(lambda: agent.ended, "the agent's end")
        ended = time.monotonic()
        next_, = until(lambda: [one for one in self.kubelet.all() if one["metadata"]["uid"] != pod["metadata"]["uid"]], "another pod")
        made = time.monotonic()
        until(lambda: self.agent_started(next_["metadata"]["uid"]), "its agent")
        started = time.monotonic()
        until(lambda: len(self.door.came) == 2, "the datum runs again")
        runs = self.door.came[1][0]
        harm.join()
        self.door.let_in()
        self.target.ctl("wait", "run", "in@master", "--timeout", "300s")
        if how == "drained":
            self.kubectl("uncordon", pod["spec"]["nodeName"])
        until(lambda: not self.kubelet.all(), "no pod is left")
        return (ended - began) * 1000, (made - ended) * 1000, (runs - started) * 1000


def owner(plane, namespace):
    """Makes it; what the daemon is told of it."""
    status, said = plane.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": OWNER}})
    if status != 201:
        raise measure.Failed(f"ConfigMap {OWNER}: {status} {said.get('message')}")
    return ["--kubernetes-owner", OWNER]


def lost(bench):
    bench.say("lost: a pod that is deleted, evicted or drained, until its datum runs in the next pod, beyond the start of that")
    os.environ["PL_BIN"] = str(ours.programs())
    containers.BIN = containers.TEST_BIN = ours.programs()
    if containers.why_not():
        raise measure.Failed(containers.why_not())
    images = {AGENT: containers.Image(replace={"/usr/bin": str(ours.programs())}), COMMANDS: containers.Image(env={"PATH": "/usr/bin:/bin"})}
    with served(control_plane.ControlPlane, bench.folder / "plane-lost") as plane:
        some = [nodes.cpu("a"), nodes.cpu("b")]
        with kubelet.Kubelet(plane, bench.folder / "kubelet-lost", some, images=images, namespace="lost") as played, ours.Daemon(
                bench.folder / "lost", ["--executor", "kubernetes", "--kubernetes-kubeconfig", plane.kubeconfig("lost", namespace="lost"),
                                        "--kubernetes-image", AGENT, "--kubernetes-default-image", COMMANDS, *owner(plane, "lost")]) as target:
            one = Lost(plane, played, target)
            for how in ("deleted", "evicted", "drained"):
                found = [one.lose(how) for _ in range(max(3, bench.runs))]
                total = max(made + runs for _, made, runs in found) / 1000
                for what, times in zip(("to its agent's end", "from there to the next pod", "from its agent's start to the command"), zip(*found)):
                    bench.say(f"  {how}, {what}: ms " + ", ".join(f"{one:.0f}" for one in times))
                bench.row(f"pod {how} → its datum runs in the next one, beyond the end of the first and the start of the next, longest of {len(found)}", "s",
                          {"ours": total}, "≤ 1 s", total <= 1)


# ---- a daemon that is killed

class Made:
    """Follows the audit log: when the daemon made pods, in seconds."""

    def __init__(self, plane):
        self.log, self.rest, self.times = open(plane.log, encoding="utf-8"), "", []

    def look(self):
        *lines, self.rest = (self.rest + self.log.read()).split("\n")
        for one in map(json.loads, lines):
            if kube.wrote_pod(one) and one["verb"] == "create" and one["user"]["username"] == "daemon":
                self.times.append(kube.seconds(one))
        return self.times

    def count(self):
        return len(self.look())

    def since(self, began):
        """The first after that; None. What the killed daemon had sent came before."""
        return next((one for one in self.look() if one > began), None)


def write_files(target, count):
    """Of a repo "in"."""
    source = target.folder / "files"
    source.mkdir()
    for i in range(count):
        (source / f"f{i}").write_text(f"{i}\n")
    target.ctl("create", "repo", "in")
    return source


def start_of(pid):
    """Of a process, in seconds of the clock."""
    ticks = int(pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])
    return time.time() - float(pathlib.Path("/proc/uptime").read_text(encoding="ascii").split()[0]) + ticks / measure.TICK


def each_file(name, workers):
    """A stage whose datums are the files of "in"."""
    return {**kube.stage(name, "in"), "input": {"repo": "in", "glob": "/*"}, "workers": workers}


def killed(bench):
    bench.say("killed: a daemon that is killed while it makes pods, until it has made the next one")
    found, serves = [], []
    with served(kube.Audited, bench.folder / "plane-killed") as plane:
        plane.add_nodes()
        with kube.daemon(plane, bench.folder / "killed") as target:
            source = write_files(target, WORKERS)
            target.pipeline({"pipeline": "p", "stages": [each_file("many", WORKERS)]})
            target.ctl("put", "file", "-q", "-r", "in@master:/", "-f", source)
            made = Made(plane)
            for round_ in range(1, KILLS + 1):
                until(lambda: made.count() >= STEP * round_, "pods are made")  # noqa: B023
                target.process.kill()
                target.process.wait()
                target.__enter__()  # anew
                began = start_of(target.pid)
                serves.append(time.time() - began)
                found.append(until(lambda: made.since(began), "the next pod") - began)  # noqa: B023
    bench.say("  s until it serves " + ", ".join(f"{one:.2f}" for one in serves) + "; until the next pod " + ", ".join(f"{one:.2f}" for one in found))
    bench.row(f"daemon killed while it makes pods → next pod after its start, longest of {len(found)}", "s", {"ours": max(found)}, "≤ 1 s", max(found) <= 1)


# ---- /metrics

def metrics(bench):
    stages, pods = bench.scaled(1000), bench.scaled(1000) * OF_A_STAGE
    bench.say(f"metrics: /metrics of a daemon with {stages} stages and {pods} pods")
    with served(kube.Audited, bench.folder / "plane-metrics") as plane:
        plane.add_nodes()
        with kube.daemon(plane, bench.folder / "metrics") as target:
            source = write_files(target, OF_A_STAGE)
            target.pipeline({"pipeline": "p", "stages": [each_file(f"m{i}", OF_A_STAGE) for i in range(stages)]})
            began = time.monotonic()
            target.ctl("put", "file", "-q", "-r", "in@master:/", "-f", source)
            made = Made(plane)
            until(lambda: made.count() >= pods, f"{pods} pods are made", FAR_S + pods * FAR_S_OF_A_POD, 0.1)
            bench.say(f"  {pods} pods were made in {time.monotonic() - began:.0f} s")
            time.sleep(QUIET_S)
            before = measure.cpu_of(target.pid)
            took, text = looks(target)
            cpu = (measure.cpu_of(target.pid) - before) * 1000 / LOOKS
    held = sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("pipelined_workers{"))
    if held != pods:
        raise measure.Failed(f"/metrics counts {held} workers")
    size = len(text.encode()) / 1024
    bench.say(f"  {len(text.splitlines())} lines; ms p50 {measure.median(took):.1f}, longest {max(took):.1f}; processor time of the daemon {cpu:.1f}")
    bench.row(f"/metrics with {stages} stages and {pods} pods, p50", "ms", {"ours": measure.median(took)}, "≤ 20 ms", measure.median(took) <= 20)
    bench.row("… its size", "KiB", {"ours": size}, "≤ 200 KB", size * 1024 <= 200_000)


def looks(target):
    """-> ms of each look over one connection, the last text."""
    url = urllib.parse.urlsplit(target.url)
    line = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    took = []
    for _ in range(LOOKS):
        began = time.monotonic()
        line.request("GET", "/metrics", headers={"Authorization": f"Bearer {target.token}"})
        answer = line.getresponse()
        text = answer.read().decode()
        took.append((time.monotonic() - began) * 1000)
        if answer.status != 200:
            raise measure.Failed(f"/metrics: {answer.status} {text[:200]}")
    return took, text


EVERY = {"lost": lost, "killed": killed, "metrics": metrics}
