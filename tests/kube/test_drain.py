"""`kubectl drain` of a node on which stages' pods run."""
import signal
import subprocess

import control_plane
import nodes
from test_demo import kit, world  # noqa: F401  a fixture
from test_pod_faults import ONCE, begin, hold, names, succeeds
from test_settings import owner


def drain(one, node, *words):
    return subprocess.run([control_plane.kubectl(), "--kubeconfig", one.kubelet.kubeconfig, "drain", node, "--delete-emptydir-data", "--timeout", "100s",
                           *words], capture_output=True, text=True, check=False, timeout=200)


def test_a_node_with_pods_of_stages_is_drained_without_force(world, gate):  # noqa: F811
    """Their owner is their controller. The datum runs again on another node, and no try is used."""
    one = world([nodes.cpu("a"), nodes.cpu("b")], speaks=owner, options=("--kubernetes-owner", "stages"))
    run = begin(one, "st", hold(gate), **ONCE)
    gate.arrived()
    name, = names(one, "st")
    node = one.kubelet.pod(name)["spec"]["nodeName"]
    done = drain(one, node)
    assert done.returncode == 0 and f"node/{node} drained" in done.stdout, done.stdout + done.stderr
    gate.arrived()
    gate.open()
    succeeds(one, run)
    assert one.nodes("st") == {"a", "b"}


def evict(one, name):
    """As `kubectl drain` does for each pod."""
    path = f"/api/v1/namespaces/{one.kubelet.namespace}/pods/{name}"
    code, said = one.kubelet.plane.request("POST", f"{path}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})
    assert code == 201, said


def test_the_log_of_a_datum_says_why_its_pod_gave_it_back(world, gate):  # noqa: F811
    """The daemon knows why before the agent gives it back, and says so: in the job while the pod ends, and of the attempt and in the log afterwards."""
    one = world([nodes.cpu("a"), nodes.cpu("b")])
    run = begin(one, "st", f"echo begin; {hold(gate)}", **ONCE)
    gate.arrived()
    kit.wait_until(lambda: one.daemon.default.logs("st", run=run) == "begin\n", "what it prints arrives")
    name, = names(one, "st")
    agent = one.kubelet.worker_of(name).processes["agent"]
    agent.signal(signal.SIGSTOP)  # as if it had not been told yet
    evict(one, name)
    workers = lambda: [w for w in one.daemon.get(f"/jobs/default/st/{run}")["workers"] if w["pod"] == name]
    kit.wait_until(lambda: workers()[0]["state"] == "stopping", lambda: f"the pod is shown as one that ends: {workers()}")
    worker, = workers()
    assert worker["reason"].startswith("its pod was preempted: EvictionByEvictionAPI: "), worker
    agent.signal(signal.SIGCONT)
    gate.arrived()
    gate.open()
    succeeds(one, run)
    lost, good = one.daemon.default.datums("st", run)
    assert (lost["state"], lost["reason"], lost["pod"], lost["node"]) == ("lost", worker["reason"], name, worker["node"]), lost
    assert (good["state"], good["attempt"]) == ("success", 1)
    assert one.daemon.default.logs("st", run=run) == f"begin\nworker lost: {worker['reason']} (pod {name}, node {worker['node']})\nbegin\n"


def test_a_pod_that_an_earlier_daemon_made_is_drained_by_force_alone(world, gate):  # noqa: F811
    """Its owner is not its controller. The daemon adopts it, as every pod of its own."""
    one = world([nodes.cpu("a"), nodes.cpu("b")], speaks=owner, options=("--kubernetes-owner", "stages"))
    run = begin(one, "st", hold(gate), **ONCE)
    gate.arrived()
    name, = names(one, "st")
    pod = one.kubelet.pod(name)
    owners = [{key: value for key, value in pod["metadata"]["ownerReferences"][0].items() if key != "controller"}]
    code, said = one.kubelet.plane.request("PATCH", f"/api/v1/namespaces/{one.kubelet.namespace}/pods/{name}", {"metadata": {"ownerReferences": owners}},
                                           content_type="application/merge-patch+json")
    assert code == 200, said
    one.daemon.kill()
    one.daemon.start()
    refused = drain(one, pod["spec"]["nodeName"])
    assert refused.returncode != 0 and "declare no controller" in refused.stderr, refused.stdout + refused.stderr
    assert names(one, "st") == {name}
    done = drain(one, pod["spec"]["nodeName"], "--force")
    assert done.returncode == 0, done.stdout + done.stderr
    gate.arrived()
    gate.open()
    succeeds(one, run)
