"""What a namespace itself sets: limits by LimitRange and ResourceQuota, a level of Pod Security, the users of OpenShift. Through a daemon, on the real API server."""
import contextlib

import containers
import nodes
import pytest
import webhooks
from test_demo import AGENT, COMMANDS, IMAGES, kit, world  # noqa: F401  a fixture
from test_pod_faults import ONCE, begin, names, says, succeeds

COPY = "cp /pfs/in/f /pfs/out/f"
MERGE = "application/merge-patch+json"


def post(kubelet, kind, body):
    code, answer = kubelet.plane.request("POST", f"/api/v1/namespaces/{kubelet.namespace}/{kind}", body)
    assert code == 201, answer


def limit_range(kubelet, **limits):
    post(kubelet, "limitranges", {"metadata": {"name": "team"}, "spec": {"limits": [{"type": "Container", **limits}]}})


def quota(kubelet, **hard):
    """As its controller would leave it: nothing is used."""
    hard = {key.replace("_", "."): value for key, value in hard.items()}
    post(kubelet, "resourcequotas", {"metadata": {"name": "team"}, "spec": {"hard": hard}})
    code, answer = kubelet.plane.request("PATCH", f"/api/v1/namespaces/{kubelet.namespace}/resourcequotas/team/status",
                                         {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}, content_type=MERGE)
    assert code == 200, answer


def label(kubelet, **labels):
    code, answer = kubelet.plane.request("PATCH", f"/api/v1/namespaces/{kubelet.namespace}", {"metadata": {"labels": labels}}, content_type=MERGE)
    assert code == 200, answer


def before(*steps):
    """What is done to the namespace before the daemon looks at it."""
    def speaks(kubelet):
        for step in steps:
            step(kubelet)
        return kubelet.kubeconfig
    return speaks


def resources(one, stage):
    """{container: its resources} of the stage's one pod."""
    name, = names(one, stage)
    spec = one.kubelet.pod(name)["spec"]
    return {container["name"]: container.get("resources", {}) for container in [*spec["containers"], *spec["initContainers"]]}


def test_what_a_limit_range_gives_a_stage_runs_with_and_is_named_when_it_is_too_little(world):  # noqa: F811
    if not containers.Cgroup.place():
        print("no cgroup of memory may be made here")
        pytest.skip("no cgroup of memory may be made here")
    one = world([nodes.cpu("a")], speaks=before(lambda kubelet: limit_range(kubelet, default={"memory": "200Mi", "cpu": "1"}, defaultRequest={"memory": "50Mi"})))
    succeeds(one, begin(one, "fits", COPY, **ONCE))
    assert resources(one, "fits")["main"]["limits"] == {"memory": "200Mi", "cpu": "1"}
    run = begin(one, "more", "/usr/bin/python3 -c 'bytearray(500 << 20)'", **ONCE)
    job, = one.daemon.wait(run, 90)["jobs"]
    space = one.kubelet.namespace
    assert f"OOMKilled: the command needs more than 200Mi, the limit that a LimitRange of namespace {space} sets: set resources.memory" in job["reason"], (job, one.tell())
    succeeds(one, begin(one, "says", "/usr/bin/python3 -c 'bytearray(300 << 20)'; cp /pfs/in/f /pfs/out/f", resources={"memory": "600Mi"}, **ONCE), 90)


def test_more_than_a_limit_range_allows_is_refused_in_its_words(world):  # noqa: F811
    """403 of a dry run is no refusal of the spec: the range may be another tomorrow. The job ends with the sentence."""
    one = world([nodes.cpu("a")], speaks=before(lambda kubelet: limit_range(kubelet, max={"memory": "1Gi"}, default={"memory": "700Mi"})))
    repo = one.daemon.default.repo("in-st")
    warned = repo.stages(kit.sh("st", COPY, **{"input": {"repo": "in-st", "name": "in", "glob": "/"}, "resources": {"memory": "2Gi"}, **ONCE}), pipeline="st")
    sentence = "maximum memory usage per Container is 1Gi, but limit is 2Gi"
    assert any("not checked: " in line and sentence in line for line in warned["warnings"]), warned
    job, = one.daemon.wait(one.daemon.push("in-st", "f", "x")["run"])["jobs"]
    assert job["state"] == "failure" and sentence in job["reason"] and "permission" not in job["reason"], job


def test_a_limit_range_that_refuses_the_agent_names_it_and_the_setting(world):  # noqa: F811
    """The API server's words name neither the container nor what to change; they follow."""
    one = world([nodes.cpu("a")], speaks=before(lambda kubelet: limit_range(kubelet, max={"memory": "256Mi"}, default={"memory": "200Mi"})))
    repo = one.daemon.default.repo("in-st")
    warned = repo.stages(kit.sh("st", COPY, **{"input": {"repo": "in-st", "name": "in", "glob": "/"}, **ONCE}), pipeline="st")
    sentence = "LimitRange team allows a container at most 256Mi of memory, and container agent has a limit of 512Mi: lower kubernetes.agent_memory"
    assert any("not checked: " + sentence in line for line in warned["warnings"]), warned
    job, = one.daemon.wait(one.daemon.push("in-st", "f", "x")["run"])["jobs"]
    assert job["state"] == "failure" and sentence in job["reason"] and "maximum memory usage per Container is 256Mi, but limit is 512Mi" in job["reason"], job


def test_a_quota_that_demands_limits_has_them_where_we_know_what_they_are(world):  # noqa: F811
    """Of CPU what is asked for; of memory only the stage can say it: asked for when its pipeline is made, and waited for where the quota came later."""
    one = world([nodes.cpu("a", cpu="16")])
    earlier = begin(one, "earlier", COPY, resources={"cpu": "100m"}, **ONCE)
    succeeds(one, earlier)
    one.kubelet.until(lambda: not one.kubelet.all(), "its pod is removed")
    quota(one.kubelet, limits_cpu="40", limits_memory="40Gi")
    sentence = f"the quota of namespace {one.kubelet.namespace} requires a memory limit: set resources.memory"
    says(one, one.daemon.push("in-earlier", "f", "again")["run"], "earlier", sentence)
    with pytest.raises(kit.HttpError) as refused:
        begin(one, "silent", COPY, **ONCE)
    assert refused.value.status == 400 and refused.value.error["field"] == "resources.memory" and sentence in refused.value.error["message"]
    succeeds(one, begin(one, "says", COPY, resources={"memory": "256Mi", "cpu": "500m"}, **ONCE))
    made = resources(one, "says")
    assert made["main"]["limits"] == {"memory": "256Mi", "cpu": "500m"} and all("cpu" in made[name]["limits"] for name in ("agent", "install")), made


def test_a_quota_s_demand_that_a_limit_range_meets_asks_nothing_of_stages(world):  # noqa: F811
    one = world([nodes.cpu("a", cpu="16")], speaks=before(lambda kubelet: quota(kubelet, limits_cpu="40", limits_memory="40Gi"),
                                                          lambda kubelet: limit_range(kubelet, default={"memory": "256Mi", "cpu": "1"})))
    succeeds(one, begin(one, "st", COPY, **ONCE))
    assert resources(one, "st")["main"]["limits"] == {"memory": "256Mi", "cpu": "1"}


def test_room_for_inputs_is_asked_for_once_it_is_known_what_they_take(world):  # noqa: F811
    """Of the node's disk: for a datum as large as the largest yet; in whole MiB, beside resources.disk, but never more than the largest node has that could
    take the pod, where it would wait for ever. The pods' shape is the same: they wait in one line."""
    small = nodes.cpu("a")
    small["capacity"]["ephemeral-storage"] = "15Mi"
    one = world([small, nodes.cpu("b", cpu="2")])
    one.daemon.default.repo("in").stages(kit.sh("st", "true", resources={"disk": "10Mi", "cpu": 4}, **ONCE))
    for size in (100, (3 << 20) + 1, 6 << 20, 10):
        succeeds(one, one.daemon.push("in", "f", "x" * size)["run"])
        one.kubelet.until(lambda: not one.kubelet.all(), "its pod is removed")
    made = sorted(one.pods("st"), key=lambda pod: int(pod["metadata"]["resourceVersion"]))
    asked = [pod["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] for pod in made]
    assert asked == ["10Mi", "11Mi", "14Mi", "15Mi"], asked


RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest"}


def test_in_a_restricted_namespace_stages_run_and_root_is_refused_by_name(world):  # noqa: F811
    one = world([nodes.cpu("a")], speaks=before(lambda kubelet: label(kubelet, **RESTRICTED)))
    succeeds(one, begin(one, "st", f"id -u >/pfs/out/uid; echo $HOME >/pfs/out/home; touch $HOME/x; {COPY}", **ONCE))
    assert (one.daemon.read("st", "uid"), one.daemon.read("st", "home")) == (b"10001\n", b"/tmp/home\n")
    succeeds(one, begin(one, "own", f"id -u >/pfs/out/uid; {COPY}", user="1234", **ONCE))
    assert one.daemon.read("own", "uid") == b"1234\n"
    with pytest.raises(kit.HttpError) as refused:
        begin(one, "root", COPY, user="0")
    error = refused.value.error
    assert refused.value.status == 400 and error["field"].endswith("user") and f'user "0" is root, which namespace {one.kubelet.namespace} forbids' in error["message"], error


OPENSHIFT = "securitycontextconstraints.security.openshift.io"
ANY = 1000650000  # of the range that OpenShift gives a namespace


def constrain(request):
    """As SecurityContextConstraints `restricted-v2` do: users and groups of the namespace's range; who names one of its own is refused."""
    spec = request["object"]["spec"]
    every = [("containers", i, one) for i, one in enumerate(spec["containers"])] + [("initContainers", i, one) for i, one in enumerate(spec.get("initContainers", []))]
    if "fsGroup" in spec.get("securityContext", {}) or any("runAsUser" in one.get("securityContext", {}) for _, _, one in every):
        return "unable to validate against any security context constraint: runAsUser or fsGroup is not in the range of the namespace"
    made = [{"op": "add", "path": "/spec/securityContext/fsGroup", "value": ANY}]
    for kind, i, one in every:
        made += [] if "securityContext" in one else [{"op": "add", "path": f"/spec/{kind}/{i}/securityContext", "value": {}}]
        made.append({"op": "add", "path": f"/spec/{kind}/{i}/securityContext/runAsUser", "value": ANY})
    return made


@pytest.fixture
def openshift(plane, tmp_path):
    """make(world): what makes the API server one of OpenShift's, as far as pods are concerned, before the daemon starts."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    kind = {"plural": "securitycontextconstraints", "singular": "securitycontextconstraint", "kind": "SecurityContextConstraints", "listKind": "SecurityContextConstraintsList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    with contextlib.ExitStack() as stack:
        hook = stack.enter_context(webhooks.Server(tmp_path / "hook", constrain))

        def speaks(kubelet):
            code, answer = plane.request("POST", path, {"metadata": {"name": OPENSHIFT}, "spec": {"group": "security.openshift.io", "scope": "Cluster", "names": kind, "versions": [version]}})
            assert code == 201, answer
            kubelet.until(lambda: any(group["name"] == "security.openshift.io" for group in plane.request("GET", "/apis")[1]["groups"]), "its group is served")
            stack.enter_context(webhooks.Admission(kubelet)).webhook(hook, timeout_s=10)
            return kubelet.kubeconfig

        yield speaks
    plane.request("DELETE", f"{path}/{OPENSHIFT}")
    kit.wait_until(lambda: all(group["name"] != "security.openshift.io" for group in plane.request("GET", "/apis")[1]["groups"]), "its group is served no more")


def test_on_openshift_no_user_is_named_and_stages_run_as_the_namespace_s(world, openshift):  # noqa: F811
    one = world([nodes.cpu("a")], speaks=openshift)
    succeeds(one, begin(one, "st", f"id -u >/pfs/out/uid; {COPY}", **ONCE))
    assert one.daemon.read("st", "uid") == f"{ANY}\n".encode()
