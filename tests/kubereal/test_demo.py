"""The daemon and its stages on a real kubelet, from images, with the rights, the namespaces and the certificate of pipelined/deploy: the digits
demo, and what becomes of running pods when the daemon or the kubelet is killed."""
import importlib.util
import json
import pathlib
import shutil
import subprocess

import control_plane
import inside
import node
import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
DIGITS = TOP / "pipelines" / "digits"
STAGES = "pipelined-stages"


def load(path):
    spec = importlib.util.spec_from_file_location("daemon_kit", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


kit = load(TOP / "tests" / "daemon" / "conftest.py")


class World:
    def __init__(self, cluster, daemon, kubeconfig, url):
        self.cluster, self.daemon, self.kubeconfig, self.url = cluster, daemon, kubeconfig, url

    def pods(self, stage):
        listed = self.cluster.request("GET", f"/api/v1/namespaces/{STAGES}/pods?labelSelector=pipelined.io/stage%3D{stage}")[1]["items"]
        return listed

    def start_waiting(self, stage):
        """A stage of one datum that says that it runs, and ends when it is told to; -> (run, how to tell it)."""
        script = "echo here >/pfs/out/began; until [ -s /pfs/in/f ] && [ -e /tmp/go ]; do sleep 0.1; done; cp /pfs/in/f /pfs/out/f"
        self.daemon.default.repo(f"in-{stage}").stages(kit.sh(stage, script, input={"repo": f"in-{stage}", "name": "in", "glob": "/"}), pipeline=stage)
        run = self.daemon.push(f"in-{stage}", "f", stage)["run"]
        kit.wait_until(lambda: any(self.is_running(pod) for pod in self.pods(stage)), lambda: f"a pod of {stage}: {self.tell()}")
        return run

    @staticmethod
    def is_running(pod):
        states = [one["state"] for one in pod["status"].get("containerStatuses", [])]
        return len(states) == 2 and all("running" in state for state in states)

    def let_go(self, stage):
        """Into /tmp of its command: the volume's folder, which the kubelet has."""
        pod, = self.pods(stage)
        volume = self.cluster.folder / "kubelet" / "pods" / pod["metadata"]["uid"] / "volumes" / "kubernetes.io~empty-dir" / "pl" / "tmp"
        (volume / "go").touch()

    def tell(self):
        return json.dumps([pod["status"] for pod in self.cluster.request("GET", f"/api/v1/namespaces/{STAGES}/pods")[1]["items"]], indent=1) + self.daemon.log()[-5000:]


@pytest.fixture(scope="module")
def world(cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("deploy") / "deploy"
    shutil.copytree(TOP / "pipelined" / "deploy", folder, ignore=shutil.ignore_patterns("tls"))
    control_plane.servers.command("sh", folder / "cluster" / "certificate.sh", inside.ADDRESS)
    documents = control_plane.servers.command(control_plane.kustomize(), "build", folder / "cluster").split("\n---\n")
    for document in sorted(documents, key=lambda document: "kind: Namespace\n" not in document):
        if "kind: StatefulSet\n" not in document:
            status, said = cluster.apply(document)
            assert status in (200, 201), said
    status, token = cluster.request("POST", "/api/v1/namespaces/pipelined/serviceaccounts/pipelined/token", {"spec": {"expirationSeconds": 3600}})
    assert status == 201, token
    kubeconfig = cluster.kubeconfig("account", {"token": token["status"]["token"]}, STAGES)
    url = f"https://{inside.ADDRESS}:{control_plane.servers.free_port()}"
    tls = folder / "cluster" / "tls"
    daemon = kit.Daemon(tmp_path_factory.mktemp("daemon"), "--listen", url.removeprefix("https://"), "--tls-cert", tls / "tls.crt", "--tls-key", tls / "tls.key",
                        "--worker-url", url, "--executor", "kubernetes", "--kubernetes-kubeconfig", kubeconfig, "--kubernetes-namespace", STAGES,
                        "--kubernetes-image", node.OURS, "--kubernetes-default-image", node.DEMO, "--kubernetes-owner", "pipelined", "--kubernetes-ca",
                        "pipelined-ca")
    yield World(cluster, daemon.start(), kubeconfig, url)
    code = daemon.stop()
    assert code in (None, 0), f"the daemon ended with {code}: {daemon.log()[-4000:]}"


def test_doctor_says_that_all_is_well(world, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"worker_url": world.url, "kubernetes": {"namespace": STAGES, "owner": "pipelined", "ca": "pipelined-ca", "image": node.OURS,
                                                                          "default_image": node.DEMO}}), encoding="ascii")
    done = subprocess.run([pathlib.Path(kit.BIN) / "pipelinectl", "--json", "doctor", "--cluster", "--kubeconfig", world.kubeconfig, "--config", config],
                          capture_output=True, text=True, check=False)
    checks = json.loads(done.stdout)["checks"]
    assert done.returncode == 0 and not [one for one in checks if one["grade"] != "ok"], checks
    found = {one["check"]: one["text"] for one in checks}
    assert found["image"] == f"{node.DEMO} runs on node {node.NODE}: as user 0, group 0" and found["daemon"] == f"pods reach it at {world.url}", found


def test_the_digits_demo_is_trained_in_pods(world, tmp_path):
    """Its spec as it is, its image the cluster's default; nothing here has a GPU, and `train` does without."""
    data = tmp_path / "data"
    for part in ("train", "test"):
        shutil.copytree(DIGITS / "data" / part, data / part)
    world.daemon.ctl("create", "pipeline", "-f", DIGITS / "pipeline.json")
    world.daemon.ctl("put", "file", "digits@master:/", "-r", "-f", data)
    done = world.daemon.ctl("wait", "run", "digits@master", "--timeout", "150s", ok=False)
    assert done.code == 0, done.out + done.err + world.tell()
    assert json.loads(world.daemon.read("report", "report.json"))["accuracy"] >= 0.95


def test_a_daemon_that_was_killed_takes_over_the_pod_that_runs(world):
    run = world.start_waiting("survives")
    before = [pod["metadata"]["uid"] for pod in world.pods("survives")]
    world.daemon.kill()
    world.daemon.start()
    assert len(before) == 1 and [pod["metadata"]["uid"] for pod in world.pods("survives")] == before, world.tell()
    world.let_go("survives")
    end = world.daemon.wait(run)
    assert end["state"] == "success", (end, world.tell())
    assert world.daemon.read("survives", "f") == b"survives"


def test_a_kubelet_that_was_killed_finds_its_pods_again(world):
    run = world.start_waiting("kept")
    world.cluster.kill_kubelet()
    world.let_go("kept")
    world.cluster.start_kubelet()
    end = world.daemon.wait(run)
    assert end["state"] == "success", (end, world.tell())
