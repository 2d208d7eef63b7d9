"""Which nodes the real scheduler takes for the pods that the product renders, by each way that clusters offer GPUs."""
import json

import nodes
import pods
import pytest
from kubelet import condition, phase
from test_kubelet import GOLDEN

EVERY = [nodes.cpu("cpu"), nodes.gpu("whole", count=2), nodes.mig_single("mig-single", count=2), nodes.mig_mixed("mig-mixed", {"1g.5gb": 1, "1g.5gb.me": 1}),
         nodes.time_slicing("turns", replicas=2), nodes.time_slicing("turns-renamed", rename=True), nodes.mps("mps"), nodes.gpu_mem("memory"),
         nodes.vendor("amd"), nodes.cloud("gke"), nodes.gpu("t4", product="Tesla-T4"), nodes.gpu("h100", product="NVIDIA-H100-80GB-HBM3", count=2),
         nodes.dra("claimed", count=2), nodes.dra("claimed-small", mib=15360, compute="7.5.0", product="NVIDIA T4")]
# the other ways of a table row of docs/kubernetes.md: other vendors, each cloud's own label with a product that will do and one that will not, the names and
# units that a plugin may be told to use
MORE = [nodes.vendor("intel", "gpu.intel.com/xe"), nodes.vendor("gaudi", "habana.ai/gaudi", 8), nodes.cloud("gke-l4", product="NVIDIA-L4"),
        nodes.cloud("eks", "eks"), nodes.cloud("eks-l4", "eks", product="NVIDIA-L4"), nodes.cloud("karpenter", "karpenter"),
        nodes.cloud("karpenter-l4", "karpenter", product="NVIDIA-L4"), nodes.cloud("aks", "aks", product="NVIDIA-L4"),
        nodes.cloud("aks-by-hand", "aks", product="NVIDIA-L4", by_hand=True), nodes.mps("mps-renamed", rename=True), nodes.gpu_mem("memory-mib", gpus=1, each=15109),
        nodes.dra("claimed-mig", kind="mig", mib=4864)]


def rendered(name, stem):
    """A golden as it is, less what belongs to the cluster it was made for."""
    made = json.loads((GOLDEN / f"{stem}.json").read_text())
    template = made.pop("claim template beside it", None)
    made["metadata"] = {"name": name}
    made["spec"].pop("runtimeClassName", None)
    return made, template


def bound(kubelet, name):
    return kubelet.wait(name, lambda one: one["spec"].get("nodeName") or condition(one, "PodScheduled").get("reason") == "Unschedulable")


# golden → nodes that it may be bound to; none: nobody has it. "gpu" was rendered for a cluster of which nothing is known, least of all that products
# with -MIG- are parts; of "gpu-clouds" one node says its compute capability, of another it is known by its cloud's name for the product.
ROWS = {
    "cpu": {"cpu"}, "gpu": {"whole", "h100", "t4", "gke", "gke-l4", "eks", "eks-l4", "karpenter", "karpenter-l4", "mig-single"}, "gpu-amd": {"amd"}, "gpu-intel": {"intel"},
    "gpu-gaudi": {"gaudi"}, "gpu-gfd": {"whole", "h100"}, "gpu-clouds": {"t4", "gke"}, "gpu-named": {"gke-l4"}, "gpu-gke": {"gke-l4"}, "gpu-eks": {"eks-l4"},
    "gpu-karpenter": {"karpenter-l4"}, "gpu-aks": {"aks-by-hand"}, "mig-mixed": {"mig-mixed"}, "mig-single": {"mig-single"}, "mig-media": {"mig-mixed"},
    "time-slicing": {"turns"}, "time-slicing-renamed": {"turns-renamed"}, "mps": {"mps"}, "mps-renamed": {"mps-renamed"}, "gpu-mem": {"memory", "memory-mib"},
    "gpu-mem-rounded-up": {"memory", "memory-mib"}, "gpu-mem-in-mib": {"memory-mib"}, "dra": {"claimed"}, "dra-v1beta1": {"claimed-mig"}, "hami": set(),
}


def test_pods_are_bound_where_their_gpus_are(cluster, at_once):
    kubelet = cluster([*EVERY, *MORE], play=at_once)
    wrong = {}
    for stem, allowed in ROWS.items():
        name = f"row-{stem}"
        made, template = rendered(name, stem)
        if template:
            template["metadata"].pop("ownerReferences", None)
            path = f"/apis/{template['apiVersion']}/namespaces/{kubelet.namespace}/resourceclaimtemplates"
            assert kubelet.plane.request("POST", path, template)[0] == 201
        kubelet.create(made)
        # nobody has it yet may also be said of a node, or a claim, that the scheduler is told of a moment later
        found = kubelet.wait(name, lambda one: one["spec"].get("nodeName")) if allowed else bound(kubelet, name)
        got = found["spec"].get("nodeName")
        if got not in allowed and (got or allowed):
            wrong[stem] = got or condition(kubelet.pod(name), "PodScheduled")["message"]
    assert not wrong, wrong


def test_a_claim_is_allocated_and_given_back(cluster, at_once):
    """Two devices are one pod's; the next waits for them, in the scheduler's words, and gets them."""
    kubelet = cluster([nodes.dra("claimed", count=2)], play=at_once)
    made, template = rendered("first", "dra")
    template["metadata"].pop("ownerReferences", None)
    api = f"/apis/{template['apiVersion']}/namespaces/{kubelet.namespace}"
    assert kubelet.plane.request("POST", f"{api}/resourceclaimtemplates", template)[0] == 201
    kubelet.play = pods.on_demand
    kubelet.create(made)
    kubelet.wait("first", lambda one: phase(one) == "Running")
    claim, = kubelet.plane.request("GET", f"{api}/resourceclaims")[1]["items"]
    assert sorted(one["device"] for one in claim["status"]["allocation"]["devices"]["results"]) == ["gpu-0", "gpu-1"]
    kubelet.create({**made, "metadata": {"name": "second"}})
    kubelet.wait("second", lambda one: "cannot allocate all claims" in condition(one, "PodScheduled").get("message", ""))
    kubelet.finish("first")
    kubelet.wait("second", lambda one: phase(one) == "Running")
    kubelet.delete("second", grace_s=0)
    kubelet.wait_gone("second")
    kubelet.until(lambda: not kubelet.plane.request("GET", f"{api}/resourceclaims")[1]["items"], "no claim is left")


@pytest.mark.parametrize("node,resource,count,why", [
    (nodes.time_slicing("n", replicas=4), "nvidia.com/gpu", 2, "UnexpectedAdmissionError"), (nodes.gpu_mem("n", gpus=2, each=16), "aliyun.com/gpu-mem", 20,
                                                                                             "UnexpectedAdmissionError")])
def test_a_node_refuses_what_its_plugin_cannot_give(cluster, at_once, node, resource, count, why):
    """The scheduler counts; what a count is of, it does not know."""
    kubelet = cluster([node], play=at_once)
    container = {"name": "main", "image": "any", "resources": {"limits": {resource: count}}}
    kubelet.create({"metadata": {"name": "p"}, "spec": {"restartPolicy": "Never", "containers": [container], "tolerations": [{"operator": "Exists"}]}})
    refused = kubelet.wait("p", lambda one: phase(one) == "Failed")
    assert refused["status"]["reason"] == why, refused["status"]


def test_a_device_is_given_to_one_at_a_time(cluster):
    """Two GPUs: two pods have one each, the third waits until one is free; containers know them by name."""
    kubelet = cluster([nodes.gpu("g", count=2)])
    for name in ("a", "b", "c"):
        script = "echo $NVIDIA_VISIBLE_DEVICES; trap 'exit 0' TERM; while :; do sleep 0.05; done"
        container = {"name": "main", "image": "any", "command": ["sh", "-c", script], "resources": {"limits": {"nvidia.com/gpu": 1}}}
        kubelet.create({"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [container], "tolerations": [{"operator": "Exists"}]}})
    running = kubelet.until(lambda: (lambda some: len(some) == 2 and some)([one for one in kubelet.all() if phase(one) == "Running"]), "two run")
    names = [one["metadata"]["name"] for one in running]
    last, = {"a", "b", "c"} - set(names)
    # the scheduler may have heard of the pod before it heard of the node, and tries it again then
    kubelet.wait(last, lambda one: condition(one, "PodScheduled").get("message", "").startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu."))
    kubelet.until(lambda: sorted(kubelet.logs(name, "main") for name in names) == ["GPU-g-0\n", "GPU-g-1\n"], "one each")
    freed = kubelet.logs(names[0], "main")
    kubelet.delete(names[0])
    kubelet.wait(last, lambda one: phase(one) == "Running")
    kubelet.until(lambda: kubelet.logs(last, "main"), "its word")
    assert kubelet.logs(last, "main") == freed
