"""Stages with GPUs through the daemon on a real control plane: what it makes of the ways in which clusters offer them, and what it goes on with when none
is free. Agents, runners and commands really run; the devices are the simulated kubelet's."""
import nodes
from test_demo import kit, world  # noqa: F401  a fixture
from test_pod_faults import begin, gate, hold, names, says, succeeds  # noqa: F401  a fixture


def limits(pod):
    return next(one for one in pod["spec"]["containers"] if one["name"] == "main")["resources"]["limits"]


def shares(mode, **more):
    return {"share": {"mode": mode, **more}}


def test_gpu_memory_is_asked_for_in_the_unit_of_the_cluster(world):  # noqa: F811
    """And in that of its first node that counts otherwise, while the daemon runs."""
    one = world([nodes.gpu_mem("gib", gpus=1, each=14)])
    succeeds(one, begin(one, "up", "cp /pfs/in/f /pfs/out/f", gpu=shares("gpu-mem", amount=1500, unit="MiB")))
    assert [limits(pod)["aliyun.com/gpu-mem"] for pod in one.pods("up")] == ["2"], one.tell()
    one.kubelet.remove_node("gib")
    one.kubelet.add_node(nodes.gpu_mem("mib", gpus=2, each=15109))
    kit.wait_until(lambda: [row["capacity"] for row in one.daemon.get("/gpus")["nodes"]] == [30218], "the other node is seen")
    for stage, amount, unit in (("gib", 5, "GiB"), ("mib", 700, "MiB")):
        succeeds(one, begin(one, stage, "cp /pfs/in/f /pfs/out/f", gpu=shares("gpu-mem", amount=amount, unit=unit)))
    assert [limits(pod)["aliyun.com/gpu-mem"] for stage in ("gib", "mib") for pod in one.pods(stage)] == ["5120", "700"], one.tell()
    run = begin(one, "large", "cp /pfs/in/f /pfs/out/f", gpu=shares("gpu-mem", amount=20))
    says(one, run, "large", "no node offers 20480 aliyun.com/gpu-mem of one device: one has 15109 at most")


def test_turns_are_asked_for_as_the_nodes_of_their_strategy_name_them(world):  # noqa: F811
    """The plugin of some nodes renames what it shares, that of others does not."""
    one = world([nodes.gpu("whole", count=1), nodes.time_slicing("turns", rename=True), nodes.mps("mps")])
    wanted = {"turns": ("time-slicing", "nvidia.com/gpu.shared"), "mps": ("mps", "nvidia.com/gpu")}
    began = {stage: begin(one, stage, "cp /pfs/in/f /pfs/out/f", gpu=shares(mode)) for stage, (mode, _) in wanted.items()}
    for stage, run in began.items():
        succeeds(one, run)
        pod, = one.pods(stage)
        assert (pod["spec"]["nodeName"], limits(pod).get(wanted[stage][1])) == (stage, "1"), one.tell()
