"""A cluster that fails its daemon for a while: nothing is lost, nothing is started twice, no job fails for it, and what it waits for is said. Daemon, agents,
runners, commands and control plane are real."""
import datetime
import json
import pathlib
import socket
import socketserver
import threading

import control_plane
import nodes
from kubelet import phase
from test_demo import COMMANDS, IMAGES, kit, world  # noqa: F401  a fixture
from test_pod_faults import ONCE, begin, hold, names, says, succeeds


class Wire:
    """What the daemon reaches the API server by; others go straight. `cut`: nobody is there; `mend`: again. `freeze`: on connections that there are
    nothing comes through any more, either way, no end of one either; new ones work."""

    def __init__(self, plane):
        self.plane, self.lock, self.ends, self.frozen, self.away = plane, threading.Lock(), set(), set(), False
        self.port, self.server = control_plane.servers.free_port(), None
        self.mend()

    def mend(self):
        wire = self
        self.away = False

        class Relay(socketserver.BaseRequestHandler):
            def handle(self):
                with socket.create_connection(("127.0.0.1", wire.plane.port)) as there:
                    with wire.lock:
                        if wire.away:  # cut since it was accepted
                            return
                        wire.ends |= {self.request, there}
                    back = threading.Thread(target=wire.pump, args=(there, self.request), daemon=True)
                    back.start()
                    wire.pump(self.request, there)
                    back.join()

        socketserver.ThreadingTCPServer.allow_reuse_address = True
        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", self.port), Relay)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @staticmethod
    def end(one):
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def pump(self, source, sink):
        try:
            while data := source.recv(65536):
                if source not in self.frozen:
                    sink.sendall(data)
        except OSError:
            pass
        if source not in self.frozen:
            self.end(source)
            self.end(sink)

    def freeze(self):
        with self.lock:
            self.frozen |= self.ends

    def cut(self):
        self.server.shutdown()
        self.server.server_close()
        with self.lock:
            ends, self.ends, self.away = self.ends, set(), True
        for one in ends:
            self.end(one)

    def kubeconfig(self, kubelet):
        return self.plane.kubeconfig(f"{kubelet.namespace}-wire", namespace=kubelet.namespace, server=f"https://127.0.0.1:{self.port}")


def took(one, stage, pods):
    """Its pods, ever."""
    assert len(names(one, stage)) == pods, (stage, names(one, stage), one.tell())


def arrive(one, gate, n):  # noqa: F811
    try:
        gate.arrived(n)
    except TimeoutError:
        jobs = [f"{job['stage']}: {job['state']}: {job['reason']}" for run in one.daemon.get("/runs")["runs"] for job in one.daemon.get(f"/runs/{run['id']}")["jobs"]]
        raise AssertionError(f"{len(gate.held)} are here\n{jobs}\n{one.tell()}") from None


def ready(one):
    return one.daemon.http("GET", "/readyz", token=False, raw=True).decode()


def outage(one):
    return one.daemon.get("/status")["live"].get("outage")


def lines(one, *words):
    return [line for line in one.daemon.log().splitlines() if all(word in line for word in words)]


def outages(one):
    """How many began, and how many ended, by the log."""
    return [len(lines(one, words)) for words in ("no worker can be started or watched until this has passed", "can be used again, after ")]


def test_an_api_server_that_goes_and_comes_back_is_told_of_once(plane, world, gate, tmp_path):  # noqa: F811
    """In the log, in status and by /readyz, with what is the matter, to those who operate the daemon; although it is tried again and again meanwhile."""
    wire = Wire(plane)
    one = world([nodes.cpu("a")], speaks=wire.kubeconfig)
    run = begin(one, "st", hold(gate), **ONCE)
    gate.arrived()
    assert ready(one) == "ok\n" and outage(one) is None
    before = outages(one)  # a slow API server may have had one of its own
    wire.cut()
    kit.wait_until(lambda: outage(one), "status says so")
    assert outage(one)["reason"].count(f"https://127.0.0.1:{wire.port}") == 1 and outage(one)["since_us"], outage(one)
    assert ready(one) == "ok, but workers can be neither started nor watched: not_available (pipelinectl status says more)\n"
    assert f"NO CLUSTER: https://127.0.0.1:{wire.port}" in one.daemon.ctl("status").out
    one.daemon.post("/users", {"name": "bob", "roles": [{"scope": "", "role": "reader"}]})
    reader = {"PIPELINED_TOKEN": one.daemon.post("/tokens", {"user": "bob"})["token"]}
    told = one.daemon.ctl("--data", tmp_path / "none", "--server", one.daemon.url, "status", env=reader).out
    assert "NO CLUSTER: workers that run go on, none is started (it began " in told and str(wire.port) not in told
    waiting = begin(one, "waits", "cp /pfs/in/f /pfs/out/f", **ONCE)
    says(one, waiting, "waits", f"https://127.0.0.1:{wire.port}")
    wire.mend()
    kit.wait_until(lambda: outage(one) is None, "status says no more that it is away")
    assert ready(one) == "ok\n"
    assert outages(one) == [n + 1 for n in before]
    gate.open()
    succeeds(one, run)
    succeeds(one, waiting, 120)  # a pod that could not be made is tried again after 10, 30 and 70 s


def test_an_api_server_that_is_away_holds_up_what_is_to_start_alone(plane, world, gate):  # noqa: F811
    """Meanwhile one pod's work ends well, one fails, one is evicted by its node, one is deleted; when it is back each was started as often as it had to be."""
    wire = Wire(plane)
    one = world([nodes.cpu("a"), nodes.cpu("b")], speaks=wire.kubeconfig)
    began = {stage: begin(one, stage, hold(gate), **ONCE) for stage in ("ends", "evicted", "deleted")}
    failing = begin(one, "fails", f"{gate.wait}; exit 3", **ONCE)
    gate.arrived(4)
    wire.cut()
    waiting = begin(one, "waits", "cp /pfs/in/f /pfs/out/f", **ONCE)
    says(one, waiting, "waits", f"https://127.0.0.1:{wire.port}")
    (evicted,), (deleted,) = names(one, "evicted"), names(one, "deleted")
    one.kubelet.evict(evicted)
    one.kubelet.wait(evicted, lambda pod: phase(pod) == "Failed")
    one.kubelet.delete(deleted, grace_s=0)
    one.kubelet.wait_gone(deleted)
    gate.open()
    succeeds(one, began["ends"])
    assert one.daemon.wait(failing)["state"] == "failure"
    assert not names(one, "waits")
    wire.mend()
    succeeds(one, waiting, 120)
    arrive(one, gate, 2)
    gate.open()
    for stage in ("evicted", "deleted"):
        succeeds(one, began[stage])
        took(one, stage, 2)
    for stage in ("ends", "fails", "waits"):
        took(one, stage, 1)
    one.kubelet.until(lambda: not one.kubelet.all(), "all pods are removed")


def test_connections_that_fall_silent_are_left_and_nothing_is_missed(plane, world):  # noqa: F811
    """What changes meanwhile is known 150 s later at the latest (kube_watch.h: PL_KUBE_WATCH_S twice, and PL_KUBE_PATIENCE_MS): a pod and a node that
    went, a node that came, and why a pod does not come up that was made when the connections were silent already."""
    wire = Wire(plane)
    one = world([nodes.cpu("a"), nodes.gpu("held", count=1), nodes.gpu("goes", count=1)], speaks=wire.kubeconfig)
    container = {"name": "n", "image": COMMANDS, "command": ["sleep", "1000"], "resources": {"limits": {"nvidia.com/gpu": 1}}}
    one.kubelet.create({"metadata": {"name": "notebook"}, "spec": {"restartPolicy": "Never", "nodeName": "held", "containers": [container]}})
    one.kubelet.wait("notebook", lambda pod: phase(pod) == "Running")
    gpus = lambda: {row["node"]: (row["capacity"], row["allocated"]) for row in one.daemon.get("/gpus")["nodes"]}
    before = {"held": (1, 1), "goes": (1, 0)}
    kit.wait_until(lambda: gpus() == before, lambda: f"the nodes are known: {gpus()}")
    wire.freeze()
    one.kubelet.delete("notebook", grace_s=0)
    one.kubelet.wait_gone("notebook")
    one.kubelet.remove_node("goes")
    one.kubelet.add_node(nodes.gpu("late", count=2))
    run = begin(one, "st", "cp /pfs/in/f /pfs/out/f", image="registry.test/late:1", **ONCE)
    assert gpus() == before, gpus()
    kit.wait_until(lambda: gpus() == {"held": (1, 0), "late": (2, 0)}, lambda: f"what changed is known: {gpus()}", 170)
    says(one, run, "st", 'failed to pull and unpack image "registry.test/late:1"', timeout=170)
    one.kubelet.add_image("registry.test/late:1", IMAGES[COMMANDS])
    succeeds(one, run)
    took(one, "st", 1)
    one.kubelet.until(lambda: not one.kubelet.all(), "its pod is removed")


def test_of_a_pipeline_the_first_stage_alone_waits_for_an_api_server_that_is_away(plane, world):  # noqa: F811
    """When it is made: each is said not to have been checked, and why."""
    wire = Wire(plane)
    one = world([nodes.cpu("a")], speaks=wire.kubeconfig)
    wire.cut()
    stages = [kit.sh(stage, "true", image=f"reg.example/{stage}:1") for stage in ("first", "second", "third")]
    warned = one.daemon.default.repo("in").stages(*stages, pipeline="p")["warnings"]
    first, *others = [line for line in warned if "not checked: " in line]
    assert first.startswith("stage first: not checked: ") and "was not asked" not in first, warned
    assert [line.split(":")[0] for line in others] == ["stage second", "stage third"], warned
    assert all("was not asked, because it did not answer for the previous stage" in line for line in others), warned


def test_a_daemon_that_starts_while_the_api_server_is_away_serves_and_goes_on(plane, world, gate):  # noqa: F811
    """Work that its pods do already is taken; what was created meanwhile starts when the server is back; nothing was started twice."""
    wire = Wire(plane)
    one = world([nodes.cpu("a")], speaks=wire.kubeconfig)
    runs, stays = (begin(one, stage, hold(gate), **ONCE) for stage in ("runs", "stays"))
    gate.arrived(2)
    one.daemon.stop()
    wire.cut()
    one.daemon.start()
    waiting = begin(one, "waits", "cp /pfs/in/f /pfs/out/f", **ONCE)
    says(one, waiting, "waits", f"https://127.0.0.1:{wire.port}")
    gate.open()
    succeeds(one, runs)
    succeeds(one, stays)
    assert not names(one, "waits")
    assert one.daemon.log().count("the daemon continues without pods") == 1
    wire.mend()
    succeeds(one, waiting, 120)
    for stage in ("runs", "stays", "waits"):
        took(one, stage, 1)
    one.kubelet.until(lambda: not one.kubelet.all(), "all pods are removed")


def quota(one, pods):
    """The namespace's, as its controller would leave it: nothing is used."""
    path = f"/api/v1/namespaces/{one.kubelet.namespace}/resourcequotas"
    made = {"metadata": {"name": "team"}, "spec": {"hard": {"pods": str(pods)}}}
    code, answer = one.kubelet.plane.request("POST", path, made)
    if code == 409:
        code, answer = one.kubelet.plane.request("PATCH", f"{path}/team", made, content_type="application/merge-patch+json")
    assert code in (200, 201), answer
    used = {"status": {"hard": {"pods": str(pods)}, "used": {"pods": "0"}}}
    code, answer = one.kubelet.plane.request("PATCH", f"{path}/team/status", used, content_type="application/merge-patch+json")
    assert code == 200, answer


def quota_is_full(one):
    """The API server counts what it makes, and what it did not make in the end because who asked was gone; no controller counts anew here."""
    found = one.kubelet.plane.request("GET", f"/api/v1/namespaces/{one.kubelet.namespace}/resourcequotas/team")[1]["status"]
    return found["used"]["pods"] == found["hard"]["pods"]


def test_a_quota_that_is_full_is_waited_for_until_it_is_raised(world):  # noqa: F811
    one = world([nodes.cpu("a")])
    quota(one, 0)
    began = {stage: begin(one, stage, "cp /pfs/in/f /pfs/out/f", **ONCE) for stage in ("first", "second", "third")}
    for stage, run in began.items():
        says(one, run, stage, "exceeded quota: team, requested: pods=1, used: pods=0, limited: pods=0")
    quota(one, 10)
    for stage, run in began.items():
        succeeds(one, run)
        took(one, stage, 1)


def grant(one, user):
    """All that the daemon needs in its namespace, to a user; what takes it back."""
    space = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{one.namespace}"
    role = {"metadata": {"name": "d"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    binding = {"metadata": {"name": "d"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "d"},
               "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]}
    for kind, body in (("roles", role), ("rolebindings", binding)):
        code, answer = one.plane.request("POST", f"{space}/{kind}", body)
        assert code in (201, 409), answer


def refusals(one):
    """The daemon's attempts to create a pod that the API server refused."""
    return [event for event in one.kubelet.plane.audited("nobody") if event["verb"] == "create" and event["objectRef"]["resource"] == "pods"
            and event.get("responseStatus", {}).get("code") == 403 and event["objectRef"]["namespace"] == one.kubelet.namespace]


def test_a_right_that_is_taken_back_is_named_until_it_is_there_again(world, gate):  # noqa: F811
    def speaks(kubelet):
        grant(kubelet, "nobody")
        kubelet.until(lambda: kubelet.plane.request("GET", f"/api/v1/namespaces/{kubelet.namespace}/pods", token=control_plane.NOBODY)[0] == 200, "the right")
        return kubelet.plane.kubeconfig("nobody", {"token": control_plane.NOBODY}, kubelet.namespace)

    one = world([nodes.cpu("a")], speaks=speaks)
    running = begin(one, "runs", hold(gate), **ONCE)
    gate.arrived()
    binding = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{one.kubelet.namespace}/rolebindings/d"
    before = outages(one)
    assert one.kubelet.plane.request("DELETE", binding)[0] == 200
    one.kubelet.until(lambda: one.kubelet.plane.request("GET", f"/api/v1/namespaces/{one.kubelet.namespace}/pods", token=control_plane.NOBODY)[0] == 403, "it is gone")
    waiting = begin(one, "waits", "cp /pfs/in/f /pfs/out/f", **ONCE)
    says(one, waiting, "waits", 'User "nobody" cannot create resource "pods" in API group "" in the namespace', "Give the daemon's account the permission")
    kit.wait_until(lambda: outage(one), "status says so")
    assert 'User "nobody" cannot ' in outage(one)["reason"]
    assert ready(one) == "ok, but workers can be neither started nor watched: forbidden (pipelinectl status says more)\n"
    gate.open()
    succeeds(one, running)
    refused = len(refusals(one))
    kit.wait_until(lambda: len(refusals(one)) > refused, lambda: f"it is tried again: {one.tell()}", 90)
    assert outage(one) and outages(one) == [before[0] + 1, before[1]]
    grant(one.kubelet, "nobody")
    succeeds(one, waiting, 120)  # a pod that was refused is tried again after 10, 30 and 70 s
    kit.wait_until(lambda: outage(one) is None and ready(one) == "ok\n", "status says no more that the right is gone")
    assert outages(one) == [n + 1 for n in before]
    took(one, "runs", 1)
    took(one, "waits", 1)
    one.kubelet.until(lambda: not one.kubelet.all(), "all pods are removed")


def test_a_namespace_that_is_deleted_is_waited_for(world, gate):  # noqa: F811
    """Its controllers are the test: they delete what is in it, and then itself."""
    one = world([nodes.cpu("a")])
    run = begin(one, "st", hold(gate), **ONCE)
    gate.arrived()
    path = f"/api/v1/namespaces/{one.kubelet.namespace}"
    code, space = one.kubelet.plane.request("DELETE", path)
    assert code == 200 and space["status"]["phase"] == "Terminating", space
    name, = names(one, "st")
    one.kubelet.delete(name, grace_s=0)
    says(one, run, "st", "because it is being terminated")
    space["spec"]["finalizers"] = []
    assert one.kubelet.plane.request("PUT", f"{path}/finalize", space)[0] == 200
    one.kubelet.until(lambda: one.kubelet.plane.request("GET", path)[0] == 404, "it is gone")
    code, answer = one.kubelet.plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": one.kubelet.namespace}})
    assert code == 201, answer
    gate.arrived()
    gate.open()
    succeeds(one, run)
    took(one, "st", 2)


def test_a_node_that_is_taken_back_costs_what_its_checkpoint_does_not_have(world, gate):  # noqa: F811
    """As spot nodes are: a taint, its pods told to end, and it is gone. The datum goes on elsewhere, with what it had; no try is used."""
    one = world([nodes.cpu("a"), nodes.cpu("b")])
    script = ('if test -e "$PL_CHECKPOINT/step"; then cp "$PL_CHECKPOINT/step" /pfs/out/f; exit; fi; '
              f'echo 7 >"$PL_CHECKPOINT/step"; trap "exit 1" TERM; {gate.wait} & wait')
    run = begin(one, "st", script, checkpoint={"every": "1h"}, **ONCE)
    gate.arrived()
    name, = names(one, "st")
    node = one.kubelet.pod(name)["spec"]["nodeName"]
    one.kubelet.reclaim_node(node)
    end = succeeds(one, run)
    assert one.daemon.read("st", "f") == b"7\n", end
    assert one.nodes("st") == {"a", "b"}, one.tell()
    took(one, "st", 2)


def test_a_pod_that_its_queue_holds_back_waits_until_it_is_admitted(world):  # noqa: F811
    """As Kueue does it: a gate, which the test takes away."""
    one = world([nodes.cpu("a")])
    patch = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    run = begin(one, "st", "cp /pfs/in/f /pfs/out/f", placement={"queue": "team-a", "pod_patch": patch}, **ONCE)
    says(one, run, "st", "queue team-a has not admitted the pod yet", "kueue.x-k8s.io/admission")
    name, = one.kubelet.until(lambda: names(one, "st"), "its pod")  # the daemon may see it first
    pod = one.kubelet.pod(name)
    assert pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a" and not pod["spec"].get("nodeName"), pod
    path = f"/api/v1/namespaces/{one.kubelet.namespace}/pods/{name}"
    code, answer = one.kubelet.plane.request("PATCH", path, {"spec": {"schedulingGates": []}}, content_type="application/merge-patch+json")
    assert code == 200, answer
    succeeds(one, run)
    took(one, "st", 1)


FILES = 24  # more than five workers lease, with what they fetch ahead
AT_ONCE_S = 8  # the pause of a failed start is 10 s; a start of the daemon alone may take a few on a busy machine


def pause(one, stage, start):
    """How many seconds passed from when that start of the daemon served until its first pod of the stage was made, by its own log and the API server's time;
    both are in whole seconds. None: it has made none."""
    text = pathlib.Path(one.daemon.logs[start - 1]).read_text(encoding="utf-8")
    served = next(line["time"] for line in map(json.loads, text.splitlines()) if line["message"].startswith("serving, folder "))
    made = [pod["metadata"]["creationTimestamp"] for pod in one.pods(stage) if pod["metadata"]["name"].endswith(f"-{start}")]
    when = lambda text: datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (when(min(made)) - when(served)).total_seconds() if made else None


def test_pods_that_were_written_down_and_not_made_are_made_at_once_after_a_kill(world, gate):  # noqa: F811
    """A quota refuses them, the daemon is killed, and the quota is raised. They are no failed starts, after which the stage would wait for 10 s, and no lost
    workers: none of them ever ran."""
    one = world([nodes.cpu("a", cpu="64")])
    quota(one, 2)
    one.daemon.default.repo("in").stages(kit.sh("many", f"{gate.wait}; cp /pfs/in/* /pfs/out/", glob="/*", workers=8, resources={"cpu": "100m"}), pipeline="many")
    one.daemon.default.commit("in", {f"f{i}": str(i) for i in range(FILES)})
    run = one.daemon.get("/runs")["runs"][0]["id"]
    job = lambda: one.daemon.get(f"/jobs/default/many/{run}")
    gate.arrived(2)
    kit.wait_until(lambda: len(job()["workers"]) > 2, lambda: f"more are written down: {job()}")
    one.daemon.kill()
    quota(one, 20)
    one.daemon.start()
    one.kubelet.until(lambda: len(names(one, "many")) >= 5, "more pods are made")
    gate.leave_open()
    succeeds(one, run, 120)
    assert pause(one, "many", 2) < AT_ONCE_S, one.tell()
    assert lines(one, " of stage default/many was not started: its pod no longer existed when the daemon restarted"), one.tell()
    assert not lines(one, "was lost after") and job()["workers_lost"] == 0, (job(), one.tell())


def test_a_daemon_that_is_killed_while_it_makes_pods_makes_none_twice(world, gate):  # noqa: F811
    """Those that it wrote down are adopted, those that it did not are removed, the rest is made, and at once: a pod that was written down and not made is no
    failed start, after which the stage would wait for 10 s. No worker ever has two. The commands wait until all kills are over. A
    quota leaves it to the last start to make more than five, so that this one makes some in any case."""
    one = world([nodes.cpu("a", cpu="64")])
    quota(one, 5)
    one.daemon.default.repo("in").stages(kit.sh("many", f"{gate.wait}; cp /pfs/in/* /pfs/out/", glob="/*", workers=12, resources={"cpu": "100m"}), pipeline="many")
    one.daemon.default.commit("in", {f"f{i}": str(i) for i in range(FILES)})
    run = one.daemon.get("/runs")["runs"][0]["id"]

    def come(enough):
        said = [job["reason"] for job in one.daemon.get(f"/runs/{run}")["jobs"]]
        assert not any("failed to start" in reason for reason in said), said
        return enough()

    one.kubelet.until(lambda: come(lambda: len(names(one, "many")) >= 2), "pods are made")
    one.daemon.kill()
    one.daemon.start()
    one.kubelet.until(lambda: come(lambda: quota_is_full(one)), "as many pods as may be are made")
    one.daemon.kill()
    quota(one, 20)
    one.daemon.start()
    one.kubelet.until(lambda: come(lambda: len(names(one, "many")) >= 6), "the rest is made")
    gate.leave_open()
    succeeds(one, run, 120)
    assert (pause(one, "many", 2) or 0) < AT_ONCE_S and pause(one, "many", 3) < AT_ONCE_S, one.tell()
    assert len(one.daemon.default.files("many")) == FILES
    made = {}
    for pod in one.pods("many"):
        made.setdefault(pod["metadata"]["annotations"]["pipelined.io/worker"], set()).add(pod["metadata"]["uid"])
    assert all(len(uids) == 1 for uids in made.values()), json.dumps({worker: sorted(uids) for worker, uids in made.items()})
    one.kubelet.until(lambda: not one.kubelet.all(), "all pods are removed")


def test_a_daemon_that_takes_over_keeps_its_pods(world, gate, tmp_path):  # noqa: F811
    """The other one still watches the cluster, and sees them before it has looked at the log: it ends, and removes none of them."""
    one = world([nodes.cpu("a")], options=("--store", f"file://{tmp_path}/store"))
    run = begin(one, "st", hold(gate), **ONCE)
    gate.arrived()
    first, root = one.daemon, tmp_path / "second"
    root.mkdir()
    second = kit.Daemon(root, *first.options, "--listen", f"127.0.0.1:{control_plane.servers.free_port()}").start()
    try:
        gate.arrived()
        assert first.process.wait(timeout=60) == 75, first.log()
        first.process = None
        assert "another daemon" in first.log()
        gate.open()
        end = second.default.wait(run)
        assert end["state"] == "success", (end, one.tell(), second.log()[-6000:])
        assert sorted(name.rsplit("-", 1)[1] for name in names(one, "st")) == ["1", "2"], one.tell()
        one.kubelet.until(lambda: not one.kubelet.all(), "all pods are removed")
    finally:
        assert second.stop() == 0
    for log in second.logs:
        kit.check_log(log)
