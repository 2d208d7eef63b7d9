"""Sentences of stages that wait for what the cluster does not have, with the real scheduler's part in them."""
import nodes
import pods
from test_demo import world  # noqa: F401  a fixture
from test_pod_faults import begin, says
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
