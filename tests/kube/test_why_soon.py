"""What a pod waits for stands on its job within a second of the cluster's saying so: from when the test's own watch has it."""
import time

import nodes
from kubelet import condition, state
from test_cluster_faults import quota
from test_demo import kit, world  # noqa: F401  a fixture
from test_pod_faults import begin, hold, says

SOON_S = 10  # not the goal, which is a second: a limit that a busy machine keeps


def unscheduled(pod):
    return condition(pod, "PodScheduled").get("reason") == "Unschedulable"


def waits(reason):
    return lambda pod: state(pod, "main")[1].get("reason") == reason


def told(one, run, stage, came, *words):
    """How long after the cluster said it (`came` of the pod) the job did."""
    since = one.kubelet.until(lambda: any(came(pod) for pod in one.pods(stage)) and time.monotonic(), f"the cluster says {words}")
    says(one, run, stage, *words)
    return time.monotonic() - since


def test_no_node_has_room(world, gate):  # noqa: F811
    one = world([nodes.gpu("g", count=1)])
    begin(one, "first", hold(gate), gpu=1)
    gate.arrived()
    run = begin(one, "st", "true", gpu=1)
    assert told(one, run, "st", unscheduled, "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.") <= SOON_S


def test_a_claim_is_not_met(world, gate):  # noqa: F811
    one = world([nodes.dra("g", count=1)])
    claim = {"memory": "40Gi", "share": {"mode": "dra", "class": "gpu.nvidia.com"}}
    begin(one, "first", hold(gate), gpu=claim)
    gate.arrived()
    run = begin(one, "st", "true", gpu=claim)
    assert told(one, run, "st", unscheduled, "cannot allocate all claims") <= SOON_S


def test_an_image_cannot_be_pulled(world):  # noqa: F811
    one = world([nodes.cpu("a")])
    run = begin(one, "st", "true", image="registry.test/never:1")
    assert told(one, run, "st", waits("ErrImagePull"), "ErrImagePull of main", "never:1") <= SOON_S
    run = begin(one, "back-off", "true", image="registry.test/never:2")
    assert told(one, run, "back-off", waits("ImagePullBackOff"), "ImagePullBackOff of main", "never:2") <= SOON_S


def test_a_quota_refuses_it(world):  # noqa: F811
    """Told by the refusal itself, which comes after the push."""
    one = world([nodes.cpu("a")])
    quota(one, 0)
    pod = {"metadata": {"name": "dry"}, "spec": {"containers": [{"name": "c", "image": "any"}]}}
    dry_run = lambda: one.kubelet.plane.request("POST", f"/api/v1/namespaces/{one.kubelet.namespace}/pods?dryRun=All", pod)[1]
    one.kubelet.until(lambda: "exceeded quota" in dry_run().get("message", ""), "the API server knows it")
    run = begin(one, "st", "true")
    since = time.monotonic()
    says(one, run, "st", "exceeded quota: team")
    assert time.monotonic() - since <= SOON_S
