"""The simulated kubelet itself: that pods run on it as on a real one, and that it writes what a real one writes."""
import json
import pathlib
import re
import urllib.error

import containers
import kubelet as library
import nodes
import pods
import pytest
from kubelet import condition, phase, said_to, state

GOLDEN = pathlib.Path(__file__).parent.parent / "unit" / "kube" / "pod" / "data" / "pods"


def pod(name, script="true", spec=None, **container):
    """One container with a shell."""
    return {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "main", "image": "any", "command": ["sh", "-c", script], **container}], **(spec or {})}}


def over(one):
    return phase(one) in ("Succeeded", "Failed")


def golden(name, main, agent, spec=None):
    """A pod as the product renders it, with other commands in main and agent."""
    made = json.loads((GOLDEN / f"{name}.json").read_text())
    made["metadata"] = {"name": made["metadata"]["name"], "labels": made["metadata"]["labels"], "annotations": made["metadata"]["annotations"]}
    for container, script in zip(made["spec"]["containers"], (main, agent)):
        container["command"] = ["/bin/sh", "-ec", script]
    for container in [*made["spec"]["containers"], *made["spec"]["initContainers"]]:
        container["resources"] = {kind: {key: value for key, value in of.items() if "/" in key or key == "memory"}
                                  for kind, of in container.get("resources", {}).items() if kind != "claims"}
    made["spec"].pop("runtimeClassName", None)
    made["spec"].update(spec or {})
    return made


OURS = {"reg.example/train:7": containers.Image(user=1234), "reg.example/pipelined:1": containers.Image(replace={"/usr/local/bin": str(containers.BIN)})}


def ours(made):
    """The path of our programs in the image of OURS, which keeps /usr/bin."""
    for container in made["spec"]["initContainers"]:
        container["command"] = [word.replace("/usr/bin/", "/usr/local/bin/") for word in container["command"]]
    return made


def test_a_pod_of_three_containers_runs_as_rendered(cluster):
    """Folders, users and groups are what the product's pod asks for; what the containers print and how they end is told."""
    kubelet = cluster([nodes.cpu("c")], images=OURS)
    main = """id; echo out of main >/pfs/out/file; ! touch /pfs/no 2>/dev/null; ! touch /pl/bin/no 2>/dev/null; touch /tmp/t; ls /pl/bin; hostname
              until [ -e /tmp/agent ]; do sleep 0.02; done; echo $NVIDIA_VISIBLE_DEVICES; exit 3"""
    agent = """id; until [ -s /pl/pfs/out/file ]; do sleep 0.02; done; cat /pl/pfs/out/file; touch /pl/tmp/agent; ! touch /no 2>/dev/null
               echo to stderr >&2; echo $PIPELINED_WORKER_TOKEN"""
    made = ours(golden("cpu-restricted", main, agent))
    kubelet.create(made)
    name = made["metadata"]["name"]
    done = kubelet.wait(name, over)
    assert phase(done) == "Failed" and state(done, "main")[1]["exitCode"] == 3 and state(done, "agent")[1]["exitCode"] == 0, kubelet.logs(name, "main")
    assert state(done, "install")[1]["reason"] == "Completed" and state(done, "main")[1]["reason"] == "Error"
    said = kubelet.logs(name, "main").splitlines()
    assert said[0] == "uid=10001 gid=0(root) groups=0(root),10003", said
    assert "pl-runner" in said and said[-2:] == [name, "void"], said
    said = kubelet.logs(name, "agent").splitlines()
    assert said[0].startswith("uid=10002 ") and set(said[1:]) == {"out of main", "to stderr", "plw_secret"}, said


def test_what_an_image_says_holds_where_the_pod_says_nothing(cluster):
    images = {"any": containers.Image(user=1234, env={"A": "image", "B": "image"}, entrypoint=("sh", "-c"), cmd=("exit 1",), workdir="/tmp")}
    kubelet = cluster([nodes.cpu("c")], images=images)
    made = pod("p", env=[{"name": "B", "value": "pod"}, {"name": "C", "value": "$(B)-$$(B)-$(D)"}], args=["echo $(id -u) $A $B $C $PWD"])
    del made["spec"]["containers"][0]["command"]
    made["spec"]["containers"][0]["args"] = ["echo $$(id -u) $A $B $C $PWD"]
    kubelet.create(made)
    kubelet.wait("p", lambda one: phase(one) == "Succeeded")
    assert kubelet.logs("p", "main") == "1234 image pod pod-$(B)-$(D) /tmp\n"


def test_secrets_and_configmaps_are_waited_for(cluster):
    """A variable holds up its container, a volume the pod; both go on when it is there."""
    kubelet = cluster([nodes.cpu("c")])
    spaced = f"/api/v1/namespaces/{kubelet.namespace}"
    env = [{"name": "DSN", "valueFrom": {"secretKeyRef": {"name": "pg", "key": "dsn"}}},
           {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
           {"name": "MAY", "valueFrom": {"secretKeyRef": {"name": "no", "key": "no", "optional": True}}}]
    kubelet.create(pod("env", "echo $DSN $ME ${MAY-unset}", env=env))
    kubelet.create(pod("volume", "cat /etc/pipelined/ca/ca.crt; ls -ln /etc/pipelined/ca | grep -c 10003", volumeMounts=[{"name": "ca", "mountPath": "/etc/pipelined/ca"}],
                       spec={"volumes": [{"name": "ca", "configMap": {"name": "ca"}}], "securityContext": {"fsGroup": 10003}}))
    waiting = kubelet.wait("env", lambda one: said_to(one, "main", "CreateContainerConfigError"))
    assert state(waiting, "main")[1]["message"] == 'secret "pg" not found'
    kubelet.until(lambda: "FailedMount" in kubelet.events("volume"), "the event")
    assert kubelet.events("volume")["FailedMount"] == 'MountVolume.SetUp failed for volume "ca" : configmap "ca" not found'
    assert kubelet.plane.request("POST", f"{spaced}/secrets", {"metadata": {"name": "pg"}, "stringData": {"other": "x"}})[0] == 201
    kubelet.wait("env", lambda one: "couldn't find key dsn in Secret" in state(one, "main")[1].get("message", ""))
    assert kubelet.plane.request("PATCH", f"{spaced}/secrets/pg", {"stringData": {"dsn": "there"}}, content_type="application/merge-patch+json")[0] == 200
    assert kubelet.plane.request("POST", f"{spaced}/configmaps", {"metadata": {"name": "ca"}, "data": {"ca.crt": "trusted\n"}})[0] == 201
    for name in ("env", "volume"):
        kubelet.wait(name, lambda one: phase(one) == "Succeeded")
    assert kubelet.logs("env", "main") == "there env unset\n"
    assert kubelet.logs("volume", "main") == "trusted\n1\n"


def test_an_image_that_is_not_there_is_tried_again(cluster):
    kubelet = cluster([nodes.cpu("c")], images={})
    kubelet.create(pod("p"))
    assert "not found" in state(kubelet.wait("p", lambda one: said_to(one, "main", "ErrImagePull")), "main")[1]["message"]
    kubelet.wait("p", lambda one: said_to(one, "main", "ImagePullBackOff"))
    kubelet.until(lambda: "BackOff" in kubelet.events("p"), "the event")
    kubelet.create(pod("bad", image="Not/An:Image:Name"))
    kubelet.wait("bad", lambda one: said_to(one, "main", "InvalidImageName"))
    kubelet.add_image("any")
    kubelet.wait("p", lambda one: phase(one) == "Succeeded")
    kubelet.delete("bad")
    kubelet.wait_gone("bad")


@pytest.mark.parametrize("command,why", [
    (["/no/such"], 'exec: "/no/such": stat /no/such: no such file or directory'), (["nosuch"], 'exec: "nosuch": executable file not found in $PATH'),
    (["/etc/passwd"], 'exec: "/etc/passwd": permission denied')])
def test_a_command_that_cannot_start_says_why(cluster, command, why):
    kubelet = cluster([nodes.cpu("c")])
    kubelet.create(pod("p", command=command))
    ended = state(kubelet.wait("p", over), "main")[1]
    assert ended["reason"] == "StartError" and ended["exitCode"] == 128 and why in ended["message"], ended


def test_more_memory_than_the_limit_ends_the_container(cluster):
    if not containers.Cgroup.place():
        print("no cgroup of memory may be made here")
        pytest.skip("no cgroup of memory may be made here")
    kubelet = cluster([nodes.cpu("c")])
    kubelet.create(pod("p", "/usr/bin/python3 -c 'bytearray(200 << 20)'; sleep 1000", resources={"limits": {"memory": "32Mi"}}))
    ended = state(kubelet.wait("p", over), "main")[1]
    assert ended["reason"] == "OOMKilled" and ended["exitCode"] == 137, ended


def test_the_last_words_of_a_container_are_told(cluster):
    kubelet = cluster([nodes.cpu("c")])
    kubelet.create(pod("file", "echo done well >/dev/termination-log"))
    kubelet.create(pod("log", "echo what went wrong; exit 1", terminationMessagePolicy="FallbackToLogsOnError"))
    assert state(kubelet.wait("file", over), "main")[1]["message"] == "done well\n"
    assert state(kubelet.wait("log", over), "main")[1]["message"] == "what went wrong\n"


def test_logs_are_followed_and_cut_as_asked(cluster):
    kubelet = cluster([nodes.cpu("c")], images={"any": containers.Image()})
    kubelet.create(pod("p", "echo one; echo two; head -c 40000 /dev/zero | tr '\\0' x; echo; echo four"))
    kubelet.create(pod("none", image="none"))
    kubelet.wait("p", lambda one: state(one, "main")[0] != "waiting")
    text = kubelet.logs("p", "main", follow="true")
    assert [len(line) for line in text.splitlines()] == [3, 3, 40000, 4]
    assert kubelet.logs("p", "main", tailLines=1) == "four\n"
    assert kubelet.logs("p", "main", limitBytes=5) == "one\nt"
    stamped = kubelet.logs("p", "main", timestamps="true").splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z one", stamped[0])
    assert kubelet.logs("p", "main", sinceTime=stamped[-1].split()[0]).endswith("four\n")
    kubelet.wait("none", lambda one: said_to(one, "main", "ImagePullBackOff"))
    with pytest.raises(urllib.error.HTTPError, match="400") as refused:
        kubelet.logs("none", "main")
    assert 'container "main" in pod "none" is waiting to start' in json.load(refused.value)["message"]


def test_a_deleted_pod_is_asked_and_then_killed(cluster):
    """SIGTERM, the grace, SIGKILL; then the object goes."""
    kubelet = cluster([nodes.cpu("c")])
    kubelet.create(pod("asked", "trap 'echo asked; exit 5' TERM; echo up; while :; do sleep 0.05; done"))
    kubelet.create(pod("deaf", "trap '' TERM; echo up; while :; do sleep 0.05; done", spec={"terminationGracePeriodSeconds": 1}))
    for name in ("asked", "deaf"):
        kubelet.wait(name, lambda one: state(one, "main")[0] == "running")
        kubelet.until(lambda name=name: kubelet.logs(name, "main") == "up\n", "its first word")
        kubelet.delete(name)
        kubelet.wait_gone(name)
    assert state(kubelet.pod("asked"), "main")[1]["exitCode"] == 5
    assert state(kubelet.pod("deaf"), "main")[1]["exitCode"] == 137
    kubelet.create(pod("now", "sleep 1000"))
    kubelet.wait("now", lambda one: state(one, "main")[0] == "running")
    process = kubelet.worker_of("now").processes["main"]
    kubelet.delete("now", grace_s=0)
    kubelet.wait_gone("now")
    kubelet.until(lambda: process.ended, "its process is gone")


def test_a_pod_has_only_its_time(cluster):
    kubelet = cluster([nodes.cpu("c")])
    kubelet.create(pod("p", "sleep 1000", spec={"activeDeadlineSeconds": 1}))
    assert kubelet.wait("p", over)["status"]["reason"] == "DeadlineExceeded"


def test_faults_are_told_as_clusters_tell_them(cluster):
    kubelet = cluster([nodes.cpu("c"), nodes.cpu("lost", labels={"which": "lost"})])
    long = "trap 'exit 0' TERM; while :; do sleep 0.05; done"
    for name in ("evicted", "preempted"):
        kubelet.create(pod(name, long, spec={"nodeName": "c"}))
        kubelet.wait(name, lambda one: phase(one) == "Running")
    kubelet.evict("evicted")
    done = kubelet.wait("evicted", over)
    assert done["status"]["reason"] == "Evicted" and "low on resource" in done["status"]["message"]
    assert condition(done, "DisruptionTarget")["reason"] == "TerminationByKubelet"
    kubelet.preempt("preempted")
    kubelet.wait_gone("preempted")
    assert condition(kubelet.pod("preempted"), "DisruptionTarget")["reason"] == "PreemptionByScheduler"
    kubelet.refuse(lambda one: one["metadata"]["name"] == "refused", "UnexpectedAdmissionError", "no device")
    kubelet.create(pod("refused"))
    assert kubelet.wait("refused", over)["status"]["reason"] == "UnexpectedAdmissionError"
    kubelet.create(pod("there", long, spec={"nodeSelector": {"which": "lost"}}))
    kubelet.wait("there", lambda one: phase(one) == "Running")
    kubelet.lose_node("lost")
    marked = kubelet.wait("there", lambda one: "deletionTimestamp" in one["metadata"])
    assert condition(marked, "DisruptionTarget")["reason"] == "DeletionByTaintManager" and phase(marked) == "Running"
    with pytest.raises(urllib.error.HTTPError):
        kubelet.logs("there", "main")
    kubelet.remove_node("lost")
    kubelet.wait_gone("there")
    kubelet.create(pod("late", long, spec={"nodeName": "lost"}))
    kubelet.wait_gone("late")
    assert condition(kubelet.pod("late"), "DisruptionTarget")["reason"] == "DeletionByPodGC"


def test_played_pods_cost_two_writes(cluster):
    """A binding and one status each, whatever their containers are; and one that waits to be told ends as it is told."""
    kubelet = cluster([nodes.cpu(f"c{i}", cpu="64") for i in range(3)], play=pods.at_once)
    count = 60

    async def create_all():
        for i in range(count):
            await kubelet.api.request("POST", f"/api/v1/namespaces/{kubelet.namespace}/pods", pod(f"p{i}"))
    kubelet.call(create_all())
    kubelet.until(lambda: sum(phase(one) == "Succeeded" for one in kubelet.all()) == count, "all have ended")
    assert kubelet.api.requests["PATCH", "pods", "status"] == count
    for i in range(count):
        kubelet.delete(f"p{i}")
    kubelet.until(lambda: not kubelet.all() and not kubelet.workers, "all are gone")
    kubelet.play = pods.on_demand
    kubelet.create(pod("p"))
    kubelet.wait("p", lambda one: phase(one) == "Running")
    kubelet.finish("p", main=7)
    assert state(kubelet.wait("p", lambda one: phase(one) == "Failed"), "main")[1]["exitCode"] == 7


def test_nodes_beat_and_are_ready(cluster, at_once):
    kubelet = cluster([nodes.gpu("g", count=2)], play=at_once)
    status, made = kubelet.plane.request("GET", "/api/v1/nodes/g")
    assert status == 200 and library.condition(made, "Ready")["status"] == "True" and made["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert made["spec"]["taints"] == [nodes.NVIDIA_TAINT]

    def lease():
        status, found = kubelet.plane.request("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/g")
        return status == 200 and found["spec"]["holderIdentity"] == "g"
    kubelet.until(lease, "a lease")
