"""The daemon with `--executor kubernetes` on the real control plane: the digits demo as it stands in the tree, stages on the nodes that have their
GPUs, and what users are told when a pod comes to nothing. Agents, runners and commands really run."""
import json
import pathlib
import shutil

import by_path
import containers
import control_plane
import nodes
import pytest
from test_gpu_nodes import EVERY

HERE = pathlib.Path(__file__).resolve().parent
DIGITS = HERE.parent.parent / "pipelines" / "digits"
AGENT, COMMANDS = "registry.test/pipelined:1", "registry.test/python:3"
IMAGES = {AGENT: containers.Image(replace={"/usr/bin": str(containers.BIN)}, env={"ASAN_OPTIONS": "detect_leaks=1"}),
          COMMANDS: containers.Image(env={"PATH": "/usr/bin:/bin"})}


kit = by_path.load("daemon_kit", "daemon/conftest.py")


class World:
    """A cluster and the daemon whose workers are its pods."""

    def __init__(self, kubelet, daemon):
        self.kubelet, self.daemon = kubelet, daemon

    def pods(self, stage):
        """Those of a stage, also the deleted ones, as they were last."""
        every = [*self.kubelet.all(), *self.kubelet.gone.values()]
        return [pod for pod in every if pod["metadata"].get("labels", {}).get("pipelined.io/stage") == stage]

    def nodes(self, stage):
        return {pod["spec"].get("nodeName") for pod in self.pods(stage)}

    def runs(self, stage, *gpu, **more):
        """One stage over one file, run to its end; the run."""
        gpu = {"gpu": gpu[0]} if gpu else {}
        self.daemon.default.repo(f"in-{stage}").stages(kit.sh(stage, "cp /pfs/in/f /pfs/out/f", **{"input": {
            "repo": f"in-{stage}", "name": "in", "glob": "/"}, **gpu, **more}), pipeline=stage)
        return self.daemon.push(f"in-{stage}", "f", stage)["run"]

    def tell(self):
        return f"{self.kubelet.tell()}\n{self.daemon.log()[-6000:]}"


@pytest.fixture
def world(cluster, tmp_path):
    """make(nodes, speaks=, options=, images=) -> World; `speaks(kubelet)`: the kubeconfig of the daemon, where it is not the admin's; `options`: more of
    the daemon's words, or what gives them to the kubelet's cluster; without `images_said` its images are among them."""
    made = []

    def make(some, speaks=None, options=(), images=None, images_said=True, **more):
        kubelet = cluster(some, images={**IMAGES, **(images or {})}, **more)
        kubeconfig = speaks(kubelet) if speaks else kubelet.kubeconfig
        root = tmp_path / "daemon"
        root.mkdir()
        port = control_plane.servers.free_port()  # pods know it: a daemon that comes back has it again
        said = ["--kubernetes-image", AGENT, "--kubernetes-default-image", COMMANDS] if images_said else []
        daemon = kit.Daemon(root, "--listen", f"127.0.0.1:{port}", "--executor", "kubernetes", "--kubernetes-kubeconfig", str(kubeconfig), *said,
                            *(options(kubelet) if callable(options) else options))
        made.append(daemon.start())
        return World(kubelet, daemon)

    yield make
    for daemon in made:
        code = daemon.stop()
        assert code in (None, 0), f"the daemon ended with {code}: {daemon.log()[-4000:]}"
        for log in daemon.logs:
            kit.check_log(log)


def test_the_digits_demo_is_trained_in_pods(world, tmp_path):
    """Its spec as it is; its image is the cluster's default. `train` has the GPU, the others go where none is."""
    one = world([nodes.cpu("cpu"), nodes.gpu("gpu", count=1)])
    data = tmp_path / "data"
    shutil.copytree(DIGITS / "data" / "train", data / "train")
    shutil.copytree(DIGITS / "data" / "test", data / "test")
    one.daemon.ctl("create", "pipeline", "-f", DIGITS / "pipeline.json")
    one.daemon.ctl("put", "file", "digits@master:/", "-r", "-f", data)
    done = one.daemon.ctl("wait", "run", "digits@master", "--timeout", "120s", ok=False)
    assert done.code == 0, done.out + done.err + one.tell()
    report = json.loads(one.daemon.read("report", "report.json"))
    assert report["accuracy"] >= 0.95, report
    assert {stage: one.nodes(stage) for stage in ("prepare", "train", "infer", "report")} == {
        "prepare": {"cpu"}, "train": {"gpu"}, "infer": {"cpu"}, "report": {"cpu"}}


SHARES = {
    "whole": ({"count": 2, "product": ["*A100*"]}, {"whole"}), "mixed": ({"share": {"mode": "mig", "profile": "1g.5gb"}}, {"mig-mixed"}),
    "single": ({"share": {"mode": "mig", "profile": "3g.20gb"}}, {"mig-big"}), "turns": ({"share": {"mode": "time-slicing"}}, {"turns", "turns-renamed"}), "memory": ({"share": {"mode": "gpu-mem", "amount": 5}}, {"memory"}),
    "claimed": ({"memory": "40Gi", "share": {"mode": "dra", "class": "gpu.nvidia.com"}}, {"claimed"}),
}


def test_stages_go_where_their_gpus_are(world):
    one = world([*EVERY, nodes.mig_single("mig-big", "3g.20gb")])
    runs = {stage: one.runs(stage, gpu) for stage, (gpu, _) in SHARES.items()}
    for stage, run in runs.items():
        end = one.daemon.wait(run)
        assert end["state"] == "success", (stage, json.dumps(end, indent=1), one.tell())
    assert {stage: one.nodes(stage) <= allowed for stage, (_, allowed) in SHARES.items()} == dict.fromkeys(SHARES, True), one.tell()

