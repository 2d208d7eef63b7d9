"""`kubectl drain` of a node on which stages' pods run."""
import subprocess

import control_plane
import nodes
from test_demo import world  # noqa: F401  a fixture
from test_pod_faults import ONCE, begin, gate, hold, names, succeeds  # noqa: F401  gate is a fixture
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
