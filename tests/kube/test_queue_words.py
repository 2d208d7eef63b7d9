"""Why a queue of Kueue holds a stage's pods back, in the words of the Workload that Kueue makes. Kueue is the test: what it installs and what it writes."""
import nodes
from test_demo import kit, world  # noqa: F401  a fixture
from test_pod_faults import ONCE, begin, names, says, succeeds

GROUP = "kueue.x-k8s.io"
CRD = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"workloads.{GROUP}", "annotations": {
           "api-approved.kubernetes.io": "unapproved, for tests"}},
       "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": "workloads", "singular": "workload", "kind": "Workload"}, "versions": [{
           "name": "v1beta1", "served": True, "storage": True, "subresources": {"status": {}},
           "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}
LACK = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor a100, 1 more needed"


def request(one, *words, **more):
    code, answer = one.kubelet.plane.request(*words, **more)
    assert code in (200, 201), answer
    return answer


def serves(one, path):
    try:
        return bool(one.kubelet.plane.text(path))
    except OSError:
        return False


def test_why_its_queue_has_not_admitted_a_pod_is_said(world):  # noqa: F811
    one = world([nodes.cpu("a")])
    collection = f"/apis/{GROUP}/v1beta1/namespaces/{one.kubelet.namespace}/workloads"
    request(one, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    try:
        kit.wait_until(lambda: serves(one, collection), "the API server serves it")
        gate = {"schedulingGates": [{"name": f"{GROUP}/admission"}]}
        run = begin(one, "st", "cp /pfs/in/f /pfs/out/f", placement={"queue": "team-a", "pod_patch": gate}, **ONCE)
        says(one, run, "st", "queue team-a has not admitted the pod yet", f"{GROUP}/admission")
        name, = one.kubelet.until(lambda: names(one, "st"), "its pod")  # the daemon may see it first
        pod = one.kubelet.pod(name)
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
        request(one, "POST", collection, {"apiVersion": f"{GROUP}/v1beta1", "kind": "Workload", "metadata": {
            "name": f"pod-{name}", "labels": {f"{GROUP}/job-uid": pod["metadata"]["uid"]}, "ownerReferences": [owner]}, "spec": {"queueName": "team-a"}})
        request(one, "PATCH", f"{collection}/pod-{name}/status", {"status": {"conditions": [{
            "type": "QuotaReserved", "status": "False", "reason": "Pending", "message": LACK, "lastTransitionTime": "2026-11-22T10:00:00Z"}]}},
                content_type="application/merge-patch+json")
        says(one, run, "st", f"queue team-a has not admitted the pod yet: {LACK}")
        request(one, "PATCH", f"/api/v1/namespaces/{one.kubelet.namespace}/pods/{name}", {"spec": {"schedulingGates": []}},
                content_type="application/merge-patch+json")
        succeeds(one, run)
    finally:
        one.kubelet.plane.request("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.{GROUP}")
