"""The executor `kubernetes` on the fake API server, with the simulated kubelet of tests/kube: agent, runner and command really run."""
import subprocess

import containers
import control_plane
import kubelet as library
import nodes
import pytest
from conftest import kit

AGENT, COMMANDS = "registry.test/pipelined:1", "registry.test/python:3"
IMAGES = {AGENT: containers.Image(replace={"/usr/bin": kit.BIN}), COMMANDS: containers.Image(env={"PATH": "/usr/bin:/bin"})}


class Plane(control_plane.ControlPlane):
    """The fake in the place of etcd, API server and scheduler."""

    endpoint = ""  # the class has a property

    def start(self):
        self.process = subprocess.Popen([f"{kit.TEST_BIN}/kube_fake_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint = self.process.stdout.readline().strip()
        return self

    def stop(self):
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0


class Cluster(library.Kubelet):
    """Binds each pod to its first node that has the GPUs asked for, which is all that these tests want of a scheduler; and gives it the status that
    an API server gives each new pod."""

    def on_pod(self, kind, pod):
        super().on_pod(kind, pod)
        if kind == "ADDED" and not pod["spec"].get("nodeName"):
            asked = pod["spec"]["containers"][0].get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0)
            node = next(node for node in self.nodes.values() if bool(node.made["devices"]) == bool(asked))
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            self.spawn(self.api.patch(path, {"spec": {"nodeName": node.name}, "status": {"phase": "Pending"}}))


@pytest.fixture
def cluster(tmp_path):
    if containers.why_not():
        pytest.skip(containers.why_not())
    plane = Plane(tmp_path / "plane").start()
    with Cluster(plane, tmp_path / "kubelet", [nodes.cpu("cpu"), nodes.gpu("gpu", count=1)], images=IMAGES) as cluster:
        yield cluster
    plane.stop()


def test_stages_run_as_pods_on_the_nodes_of_their_kind(make_daemon, cluster):
    daemon = make_daemon("--executor", "kubernetes", "--kubernetes-kubeconfig", cluster.plane.kubeconfig(), "--kubernetes-image", AGENT,
                         "--kubernetes-default-image", COMMANDS).start()
    daemon.default.repo("in").stages(
        kit.sh("prepare", "tr a-z A-Z </pfs/in/f >/pfs/out/f"),
        kit.sh("train", 'cp /pfs/prepare/f /pfs/out/f; echo "$CUDA_VISIBLE_DEVICES" >/pfs/out/devices', "prepare", gpu=True))
    run = daemon.wait(daemon.push("in", "f", "some letters")["run"])
    assert run["state"] == "success", (run, cluster.tell(), daemon.log()[-3000:])
    assert daemon.read("train", "f") == b"SOME LETTERS"
    every = {**cluster.gone, **cluster.pods}.values()
    assert {pod["metadata"]["labels"]["pipelined.io/stage"]: pod["spec"]["nodeName"] for pod in every} == {"prepare": "cpu", "train": "gpu"}
    cluster.until(lambda: not cluster.all(), "all pods are removed")


def test_a_command_that_fails_says_so(make_daemon, cluster):
    daemon = make_daemon("--executor", "kubernetes", "--kubernetes-kubeconfig", cluster.plane.kubeconfig(), "--kubernetes-image", AGENT,
                         "--kubernetes-default-image", COMMANDS).start()
    daemon.default.repo("in").stages(kit.sh("st", "echo the reason >&2; exit 3", datum={"tries": 1}))
    run = daemon.wait(daemon.push("in", "f", "x")["run"])
    assert run["state"] == "failure", run
    assert "the reason" in daemon.default.logs("st")


TRY = """import errno, socket
try:
    socket.socket(socket.AF_INET)
except OSError as end:
    print(errno.errorcode[end.errno])
else:
    print("opened")
"""


def test_a_project_without_network_has_none_in_pods(make_daemon, cluster):
    """A warm pod that has it ends when it is switched off, and a pod with a container of its own is made no more."""
    daemon = make_daemon("--executor", "kubernetes", "--kubernetes-kubeconfig", cluster.plane.kubeconfig(), "--kubernetes-image", AGENT,
                         "--kubernetes-default-image", COMMANDS).start()
    beside = {"placement": {"pod_patch": {"containers": [{"name": "extra", "image": COMMANDS, "command": ["true"]}]}}}
    one = daemon.default.repo("in")
    one.stages(kit.sh("st", f"/usr/bin/python3 -c '{TRY}' >/pfs/out/said", keep_warm="1h"))
    one.stages(kit.sh("two", "cp /pfs/in/f /pfs/out/f", **beside), pipeline="two")
    one.run("in", {"f": "1"})
    assert one.read("st", "said") == b"opened\n"
    daemon.http("PATCH", "/api/v1/projects/default", {"network": False})
    run = one.commit("in", {"f": "2"})["run"]
    says = 'containers[2] is an additional container ("extra"), which would have network access, but the network is off in project "default"'
    daemon.wait_job(run, "two", lambda job: says in job["reason"], f"to say: {says}")
    daemon.wait_job(run, "st", lambda job: job["state"] == "success", "to end")
    assert one.read("st", "said") == b"EAFNOSUPPORT\n"
    with pytest.raises(kit.HttpError) as refused:
        one.stages(kit.sh("two", "true", **beside), pipeline="two", update=True)
    assert refused.value.status == 403 and says in refused.value.error["message"]
    daemon.http("PATCH", "/api/v1/projects/default", {"network": True})
    assert daemon.wait(run)["state"] == "success"
