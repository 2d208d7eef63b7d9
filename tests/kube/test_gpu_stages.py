"""Stages with GPUs through the daemon on a real control plane: what it makes of the ways in which clusters offer them, and what it goes on with when none
is free. Agents, runners and commands really run; the devices are the simulated kubelet's."""
import pathlib

import nodes
import pytest
from test_demo import COMMANDS, kit, world  # noqa: F401  a fixture
from test_gpu_use import SLEEPS
from test_pod_faults import begin, hold, names, says, succeeds


def limits(pod):
    return next(one for one in pod["spec"]["containers"] if one["name"] == "main").get("resources", {}).get("limits", {})


def seen_nodes(one):
    """What the daemon keeps of them."""
    path = pathlib.Path(one.daemon.dir, "nodes.json")
    return path.read_text(encoding="utf-8") if path.exists() else ""


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
    says(one, run, "large", "no node offers 20480 aliyun.com/gpu-mem of one device: the largest has 15109")


def test_turns_are_asked_for_as_the_nodes_of_their_strategy_name_them(world):  # noqa: F811
    """The plugin of some nodes renames what it shares, that of others does not."""
    one = world([nodes.gpu("whole", count=1), nodes.time_slicing("turns", rename=True), nodes.mps("mps")])
    wanted = {"turns": ("time-slicing", "nvidia.com/gpu.shared"), "mps": ("mps", "nvidia.com/gpu")}
    began = {stage: begin(one, stage, "cp /pfs/in/f /pfs/out/f", gpu=shares(mode)) for stage, (mode, _) in wanted.items()}
    for stage, run in began.items():
        succeeds(one, run)
        pod, = one.pods(stage)
        assert (pod["spec"]["nodeName"], limits(pod).get(wanted[stage][1])) == (stage, "1"), one.tell()


def test_nodes_that_an_autoscaler_took_away_are_known_to_the_next_life_of_the_daemon(world):  # noqa: F811
    """Who needs one waits for it as a pod, which is what brings it back; what no node ever had is said to be had nowhere."""
    one = world([nodes.cpu("cpu"), nodes.gpu("gpu", count=1)])
    kit.wait_until(lambda: "A100" in seen_nodes(one), "it is on the disk")
    one.daemon.kill()
    one.kubelet.remove_node("gpu")
    one.daemon.start()
    assert one.daemon.stop() == 0
    one.daemon.start()
    run = begin(one, "st", "cp /pfs/in/f /pfs/out/f", gpu=1)
    says(one, run, "st", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    never = begin(one, "never", "cp /pfs/in/f /pfs/out/f", gpu={"resource": "example.com/gpu"})
    says(one, never, "never", "no node offers example.com/gpu; known: nvidia.com/gpu (NVIDIA-A100-SXM4-40GB: 0, 0 free)")
    assert not names(one, "never")
    one.kubelet.add_node(nodes.gpu("gpu", count=1))
    succeeds(one, run)
    assert one.nodes("st") == {"gpu"}


def test_a_broken_file_of_nodes_is_no_reason_not_to_start(world):  # noqa: F811
    one = world([nodes.cpu("cpu"), nodes.gpu("gpu", count=1)])
    assert one.daemon.stop() == 0
    pathlib.Path(one.daemon.dir, "nodes.json").write_text('{"version": 1, "sha', encoding="ascii")
    one.daemon.start()
    kit.wait_until(lambda: "A100" in seen_nodes(one), "it is made anew")
    assert one.daemon.log().count("nodes.json: 1:") == 1 == one.daemon.log().count("the file will be rewritten")
    assert one.daemon.stop() == 0
    one.daemon.start()
    assert "nodes.json" not in one.daemon.log()


PRESETS = {  # preset: values, what the pod must have beside, what is said where nobody schedules by it
    "hami": ({"memory": 3000, "cores": 30}, {}, "0/1 nodes are available: 1 Insufficient nvidia.com/gpucores, 1 Insufficient nvidia.com/gpumem."),
    "kai": ({"fraction": 0.5, "queue": "team"}, {"gpu-fraction": "0.5", "kai.scheduler/queue": "team"}, "scheduler kai-scheduler has not examined the pod yet"),
    "volcano": ({"memory": 8000, "cores": 50}, {}, "scheduler volcano has not examined the pod yet: does the cluster have a scheduler of that name?"),
}


def test_presets_leave_it_to_their_schedulers_what_there_is(world):  # noqa: F811
    """HAMi's and Volcano's count what nodes do not list; KAI's reads annotations. Here none of them runs, and stages say that."""
    one = world([nodes.gpu("gpu", count=1)])
    began = {preset: begin(one, preset, "cp /pfs/in/f /pfs/out/f", gpu=shares("custom", preset=preset, values=values)) for preset, (values, _, _) in PRESETS.items()}
    for preset, (_, marks, words) in PRESETS.items():
        says(one, began[preset], preset, words)
        pod, = kit.wait_until(lambda of=preset: one.pods(of), f"the pod of {preset}")
        marked = {**pod["metadata"]["labels"], **pod["metadata"]["annotations"]}
        assert {key: marked.get(key) for key in marks} == marks, pod["metadata"]
    hami, volcano = ({name.partition("/")[2]: count for name, count in limits(one.pods(preset)[0]).items() if "/" in name} for preset in ("hami", "volcano"))
    assert hami == {"gpu": "1", "gpumem": "3k", "gpucores": "30"} and volcano == {"vgpu-number": "1", "vgpu-memory": "8k", "vgpu-cores": "50"}, (hami, volcano)


def holder(one, node="gpu", resource="nvidia.com/gpu", count=1):
    """Somebody else's pod, which has all that there is."""
    container = {"name": "n", "image": COMMANDS, "command": SLEEPS, "resources": {"limits": {resource: count}}}
    one.kubelet.create({"metadata": {"name": "notebook"}, "spec": {"restartPolicy": "Never", "containers": [container], "tolerations": [{"operator": "Exists"}]}})
    one.kubelet.wait("notebook", lambda pod: pod["spec"].get("nodeName") == node)


DEVICE = 'echo "$PL_DEVICE $PL_GPU_COUNT ${CUDA_VISIBLE_DEVICES-unset} $NVIDIA_VISIBLE_DEVICES" >/pfs/out/device'


def test_commands_find_the_devices_of_their_pod(world):  # noqa: F811
    """What the node gave to the container: nothing of ours hides it, and a stage without any is told so."""
    one = world([nodes.cpu("cpu"), nodes.gpu("gpu", count=3)])
    for stage, gpu in (("two", {"gpu": 2}), ("may", {"gpu": {"required": False}}), ("none", {})):
        succeeds(one, begin(one, stage, DEVICE, **gpu))
    two, may, none = (one.daemon.read(stage, "device").decode().strip("\n").split(" ") for stage in ("two", "may", "none"))
    assert two[:3] == ["gpu", "2", "unset"] and len(set(two[3].split(","))) == 2, two
    assert may[:3] == ["gpu", "1", "unset"] and may[3].startswith("GPU-gpu-"), may
    assert none == ["cpu", "0", "", "void"]


def test_who_can_do_without_a_gpu_does_when_none_comes_free_in_time(world):  # noqa: F811
    one = world([nodes.cpu("cpu"), nodes.gpu("gpu", count=1)])
    holder(one)
    run = begin(one, "st", DEVICE, gpu={"required": False, "wait": "10s"})
    succeeds(one, run)
    assert one.daemon.read("st", "device") == b"cpu 0  void\n"
    assert one.daemon.job(run, "st")["warnings"] == ["it runs on the CPU: gpu.required is false and no GPU came within 10s"]
    assert one.daemon.job(run, "st")["device"] == "cpu" and "cpu" in one.daemon.ctl("inspect", "job", f"st@{run}").out
    asked, went_on = sorted(one.pods("st"), key=lambda pod: pod["metadata"]["creationTimestamp"])
    assert limits(asked)["nvidia.com/gpu"] == "1" and "nodeName" not in asked["spec"]
    assert went_on["spec"]["nodeName"] == "cpu" and "nvidia.com/gpu" not in limits(went_on)


def test_who_can_do_without_a_gpu_says_that_no_node_has_one(world):  # noqa: F811
    one = world([nodes.cpu("cpu")])
    run = begin(one, "st", DEVICE, gpu={"required": False})
    succeeds(one, run)
    job = one.daemon.job(run, "st")
    warning, = job["warnings"]
    assert job["device"] == "cpu" and warning.startswith("it runs on the CPU: gpu.required is false and no GPU is on offer: no node offers nvidia.com/gpu"), job
    assert len(one.pods("st")) == 1, one.tell()


def test_a_gpu_that_comes_free_in_time_is_taken_by_who_could_do_without(world):  # noqa: F811
    one = world([nodes.cpu("cpu"), nodes.gpu("gpu", count=1)])
    holder(one)
    run = begin(one, "st", DEVICE, gpu={"required": False, "wait": "10m"})
    says(one, run, "st", "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.")
    one.kubelet.delete("notebook", grace_s=0)
    succeeds(one, run)
    assert one.daemon.read("st", "device") == b"gpu 1 unset GPU-gpu-0\n"
    assert one.daemon.job(run, "st")["device"] == "gpu" and one.nodes("st") == {"gpu"}


@pytest.mark.parametrize("away, bound", [(False, False), (True, False), (True, True)])
def test_a_pod_that_waits_for_what_nodes_have_no_more_is_made_anew(world, away, bound):  # noqa: F811
    """The plugin renames what it shares by now: no node will take the pod, and it is the only one that its stage may have. Also when that changed while the
    daemon was away, and when the scheduler, which heard that the other pod ended before it heard that the node went, has put the pod there."""
    one = world([nodes.time_slicing("old", replicas=1)])
    holder(one, "old")
    run = begin(one, "st", "cp /pfs/in/f /pfs/out/f", gpu=shares("time-slicing"), workers=1)
    says(one, run, "st", "Insufficient nvidia.com/gpu")
    if away:
        one.daemon.stop()
    one.kubelet.remove_node("old")
    if bound:
        one.kubelet.bind(one.pods("st")[0]["metadata"]["name"], "old")
    one.kubelet.add_node(nodes.time_slicing("new", replicas=1, rename=True))
    if away:
        one.daemon.start()
    succeeds(one, run)
    first, second = sorted(one.pods("st"), key=lambda pod: int(pod["metadata"]["resourceVersion"]))
    assert "nvidia.com/gpu" in limits(first) and "nvidia.com/gpu.shared" in limits(second), one.tell()
    assert first["spec"].get("nodeName") in (("old",) if bound else (None, "old")) and second["spec"]["nodeName"] == "new"
    job = one.daemon.job(run, "st")
    assert job["state"] == "success" and "failed to start" not in job["reason"], job


def test_who_waits_without_a_gpu_takes_one_that_comes_to_be_offered(world):  # noqa: F811
    """No node had one, so it was to go on without, and no CPU was free either."""
    one = world([nodes.cpu("cpu", cpu="2")])
    holder(one, "cpu", "cpu", 2)
    run = begin(one, "st", DEVICE, gpu={"required": False, "wait": "10m"}, resources={"cpu": 1}, workers=1)
    says(one, run, "st", "Insufficient cpu")
    one.kubelet.add_node(nodes.gpu("gpu", count=1))
    succeeds(one, run)
    assert one.daemon.read("st", "device") == b"gpu 1 unset GPU-gpu-0\n"


def table(*rows):
    """Columns as wide as their widest cell, two blanks between; the last one as it is."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths[:-1] + [0])) for row in rows]
    return "\n".join(lines) + "\n", "-" * (sum(widths) + 2 * len(widths) - 2)


def test_memory_that_is_shared_out_is_told_node_by_node_and_pod_by_pod(world, gate):  # noqa: F811
    """As kubectl-inspect-gpushare tells it: whom the scheduler gave which device, and what it has not said yet of which."""
    one = world([nodes.gpu_mem("mem", gpus=2, each=16)])
    container = {"name": "n", "image": COMMANDS, "command": SLEEPS, "resources": {"limits": {"aliyun.com/gpu-mem": 3}}}
    one.kubelet.create({"metadata": {"name": "notebook", "annotations": {"ALIYUN_COM_GPU_MEM_IDX": "1"}},
                        "spec": {"restartPolicy": "Never", "containers": [container], "tolerations": [{"operator": "Exists"}]}})
    run = begin(one, "st", hold(gate), gpu=shares("gpu-mem", amount=5))
    gate.arrived()
    space, (pod,) = one.kubelet.namespace, names(one, "st")
    kit.wait_until(lambda: [row["allocated"] for row in one.daemon.get("/gpus")["nodes"] if row["resource"] == "aliyun.com/gpu-mem"] == [8], "both are seen")
    rows, rule = table(("NAME", "IPADDRESS", "GPU0(Allocated/Total)", "GPU1(Allocated/Total)", "PENDING(Allocated)", "GPU Memory(GiB)"),
                       ("mem", "127.0.0.1", "0/16", "3/16", "5", "8/32"))
    total = "Allocated/Total GPU Memory In Cluster:\n8/32 (25%)\n"
    assert f"\n{rows}{rule}\n{total}" in one.daemon.ctl("gpus").out
    rows, rule = table(("NAME", "NAMESPACE", "GPU0(Allocated)", "GPU1(Allocated)", "Pending(Allocated)"), ("notebook", space, "0", "3", "0"), (pod, space, "0", "0", "5"))
    shown = one.daemon.ctl("gpus", "--details").out
    assert f"\nNAME:       mem\nIPADDRESS:  127.0.0.1\n\n{rows}Allocated:  8 (25%)\nTotal:      32\n{rule}\n\n\n{total}" in shown, shown
    gate.open()
    succeeds(one, run)
    kit.wait_until(lambda: "3/32" in one.daemon.ctl("gpus").out, "it is given back")
    one.kubelet.remove_node("mem")
    one.kubelet.add_node(nodes.gpu_mem("mib", gpus=1, each=15109))
    kit.wait_until(lambda: "GPU Memory(MiB)" in one.daemon.ctl("gpus").out, "the other node counts in MiB")
    assert "0/15109" in one.daemon.ctl("gpus").out
