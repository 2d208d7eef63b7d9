"""What operators are told by Events on the ConfigMap that owns the pods, as `kubectl get events` shows them."""
import control_plane
import nodes
from test_cluster_faults import Wire, lines, outage
from test_demo import kit, world  # noqa: F401  a fixture
from test_gpu_stages import holder
from test_pod_faults import ONCE, begin, hold, names, succeeds
from test_settings import owner

OWNER = ("--kubernetes-owner", "stages")


def told(one, reason):
    """The Events with this reason on the object that the pods belong to."""
    space = f"/api/v1/namespaces/{one.kubelet.namespace}"
    uid = one.kubelet.plane.request("GET", f"{space}/configmaps/stages")[1]["metadata"]["uid"]
    code, said = one.kubelet.plane.request("GET", f"{space}/events?fieldSelector=involvedObject.kind=ConfigMap,involvedObject.uid={uid},reason={reason}")
    assert code == 200, said
    return said["items"]


def is_told(one, reason, *words, since=0):
    """Once, beside the first `since` Events with this reason."""
    kit.wait_until(lambda: len(told(one, reason)) > since, lambda: f"an Event {reason}: {one.tell()}")
    event, = sorted(told(one, reason), key=lambda one: int(one["metadata"]["resourceVersion"]))[since:]
    assert all(word in event["message"] for word in words), event
    about = event["involvedObject"]
    assert (about["apiVersion"], about["kind"], about["name"], about["namespace"]) == ("v1", "ConfigMap", "stages", one.kubelet.namespace), event
    assert event["source"]["component"] == "pipelined" and event["count"] == 1 and event["firstTimestamp"] == event["lastTimestamp"], event
    return event


def test_operators_find_what_happened_on_the_object_that_owns_the_pods(plane, world, gate):  # noqa: F811
    """A worker that was lost, a stage that got no node, an API server that was away."""
    wire = Wire(plane)

    def speaks(kubelet):
        owner(kubelet)
        return wire.kubeconfig(kubelet)

    one = world([nodes.cpu("a")], speaks=speaks, options=OWNER)
    run = begin(one, "st", hold(gate), **ONCE)
    gate.arrived()
    name, = names(one, "st")
    one.kubelet.delete(name, grace_s=0)
    assert is_told(one, "WorkerLost", f"pod {name} of stage default/st on a was lost: its pod was deleted")["type"] == "Warning"
    gate.arrived()
    pending = begin(one, "pends", "true", placement={"node_selector": {"which": "lost"}, "pending": "10s"}, **ONCE)
    assert one.daemon.wait(pending)["state"] == "failure"
    is_told(one, "StageGivenUp", "stage default/pends: no pod got a node within 10s (placement.pending): 0/1 nodes are available")
    before = len(told(one, "ClusterUnreachable"))  # a slow API server may have been away by itself
    wire.cut()
    kit.wait_until(lambda: outage(one), "status says so")
    wire.mend()
    is_told(one, "ClusterUnreachable", "the API server could not be used for ", f"https://127.0.0.1:{wire.port}", since=before)
    gate.open()
    succeeds(one, run)
    assert len(told(one, "WorkerLost")) == 1, told(one, "WorkerLost")


def test_a_pod_that_the_daemon_took_back_before_a_node_had_it_is_no_loss(world, gate):  # noqa: F811
    """A stage that can do without a GPU waits for one, and goes on without. Events are written in the order in which things happen, so one of the pod that
    was taken back would come before that of the other one, which is lost."""
    one = world([nodes.cpu("cpu"), nodes.gpu("gpu", count=1)], speaks=owner, options=OWNER)
    holder(one)
    run = begin(one, "st", hold(gate), gpu={"required": False, "wait": "10s"}, **ONCE)
    gate.arrived()
    one.kubelet.until(lambda: lines(one, " on no node "), "the end of the pod that had no node")
    name, = [pod["metadata"]["name"] for pod in one.pods("st") if pod["spec"].get("nodeName") == "cpu"]
    one.kubelet.delete(name, grace_s=0)
    is_told(one, "WorkerLost", f"pod {name} of stage default/st on cpu was lost: its pod was deleted")
    gate.leave_open()
    succeeds(one, run)


def may_all_but_write_events(one):
    """What the daemon needs in its namespace, without that right, to the user without a name."""
    space = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{one.namespace}"
    resources = ["pods", "pods/log", "configmaps", "secrets", "resourcequotas", "limitranges"]
    role = {"metadata": {"name": "d"}, "rules": [{"apiGroups": [""], "resources": resources, "verbs": ["*"]},
                                                 {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch"]}]}
    binding = {"metadata": {"name": "d"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "d"},
               "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody"}]}
    for kind, body in (("roles", role), ("rolebindings", binding)):
        code, answer = one.plane.request("POST", f"{space}/{kind}", body)
        assert code == 201, answer


def test_without_the_right_to_write_them_all_goes_on_and_none_is_tried(world, gate):  # noqa: F811
    def speaks(kubelet):
        owner(kubelet)
        may_all_but_write_events(kubelet)
        kubelet.until(lambda: kubelet.plane.request("GET", f"/api/v1/namespaces/{kubelet.namespace}/pods", token=control_plane.NOBODY)[0] == 200, "the right")
        return kubelet.plane.kubeconfig("nobody", {"token": control_plane.NOBODY}, kubelet.namespace)

    one = world([nodes.cpu("a")], speaks=speaks, options=OWNER)
    run = begin(one, "st", hold(gate), **ONCE)
    gate.arrived()
    name, = names(one, "st")
    one.kubelet.delete(name, grace_s=0)
    gate.arrived()
    gate.open()
    succeeds(one, run)
    said, = lines(one, "create events: not allowed: no Events tell of lost workers and outages")
    assert '"level":"info"' in said or " info " in said, said
    tried = [event for event in one.kubelet.plane.audited("nobody") if event["verb"] == "create" and event["objectRef"]["resource"] == "events"
             and event["objectRef"]["namespace"] == one.kubelet.namespace]
    assert not tried and not told(one, "WorkerLost"), tried
