"""Sentences of stages that wait for what the cluster does not have, with the real scheduler's part in them."""
import nodes
import pods
from test_demo import kit, world  # noqa: F401  a fixture
from test_pod_faults import begin, names, says
from test_settings import first


def test_a_storage_class_that_the_cluster_does_not_have_is_named(world):  # noqa: F811
    """The claim is made here, as the controller of ephemeral volumes would. The scheduler does not say which class it waits for."""
    one = world([nodes.cpu("a")], play=pods.on_demand)
    run = begin(one, "st", "true", scratch={"size": "1Gi", "storage_class": "fast"})
    pod = first(one, "st")["metadata"]
    volume = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"], "controller": True}
    code, said = one.kubelet.plane.request("POST", f"/api/v1/namespaces/{one.kubelet.namespace}/persistentvolumeclaims", {
        "metadata": {"name": f"{pod['name']}-pl", "ownerReferences": [volume]},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}})
    assert code == 201, said
    says(one, run, "st", 'StorageClass "fast" has not provided the pod\'s volume: does the cluster have a class of that name?',
         "pod has unbound immediate PersistentVolumeClaims")


def warnings_of(one, stage, **more):
    """Of a pipeline of this stage."""
    stage = kit.sh(stage, "true", input={"repo": "in-large", "name": "in", "glob": "/"}, **more)
    return one.daemon.default.stages(stage, pipeline=stage["name"]).get("warnings", [])


def test_memory_and_capability_that_no_node_has_are_told_with_what_there_is(world):  # noqa: F811
    """When the pipeline is created, and by its job; a node that has it lets the job go on. One that does not require its GPU does not wait."""
    one = world([nodes.cpu("c"), nodes.gpu("a", count=1), nodes.gpu("t", count=1, product="Tesla-T4")], play=pods.on_demand)
    has = "NVIDIA-A100-SXM4-40GB has 40960 MiB, 8.0, Tesla-T4 has 15360 MiB, 7.5"
    large, newer = f"no GPU of the cluster is known to have 73728 MiB; {has}", f"no GPU of the cluster is known to have compute capability 9.0; {has}"
    run = begin(one, "large", "true", gpu={"memory": "80G"})
    says(one, run, "large", large)
    assert warnings_of(one, "newer", gpu={"compute": "9.0"}) == [f"stage newer: {newer}; its jobs wait until one does"]
    assert warnings_of(one, "soft", gpu={"memory": "80G", "required": False}) == [f"stage soft: {large}; its jobs run on the CPU until one does"]
    assert warnings_of(one, "fits", gpu={"memory": "40G", "compute": "8.0"}) == []
    one.kubelet.add_node(nodes.gpu("h", count=1, product="NVIDIA-H100-80GB-HBM3"))
    assert first(one, "large")["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_a_stage_that_waits_for_a_runtime_class_goes_on_when_it_is_made(world):  # noqa: F811
    """Without a restart of the daemon."""
    one = world([nodes.cpu("a")], play=pods.on_demand)
    name = f"class-of-{one.kubelet.namespace}"
    run = begin(one, "st", "true", placement={"runtime_class": name})
    says(one, run, "st", f'the cluster has no runtime class "{name}"')
    assert not names(one, "st")
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    assert one.kubelet.plane.request("POST", path, {"metadata": {"name": name}, "handler": "runc"})[0] == 201
    assert first(one, "st")["spec"]["runtimeClassName"] == name
    assert one.kubelet.plane.request("DELETE", f"{path}/{name}")[0] == 200
