"""GPUs of a device plugin, through the daemon: who gets which, who sees none, and what becomes of a pod whose device cannot be given."""
import device_plugin
import node
import pytest
from world import kit

RESOURCE = "nvidia.com/gpu"
DEVICES = ["GPU-a", "GPU-b"]
SEEN = "echo $NVIDIA_VISIBLE_DEVICES >/pfs/out/seen"


class Devices:
    """What the plugin's Allocate is told to do."""

    def __init__(self):
        self.refusals = []  # one each for the next ones

    def allocate(self, ids):
        if self.refusals:
            raise RuntimeError(self.refusals.pop())
        return {"NVIDIA_VISIBLE_DEVICES": ",".join(sorted(ids))}


@pytest.fixture(scope="module")
def devices(world):
    one = Devices()
    plugin = device_plugin.Plugin(RESOURCE, DEVICES, one.allocate)

    def offered():
        return world.cluster.request("GET", f"/api/v1/nodes/{node.NODE}")[1]["status"]["allocatable"].get(RESOURCE)

    kit.wait_until(lambda: offered() == "2", lambda: f"GPUs of the node: {offered()}")
    kit.wait_until(lambda: any(one["resource"] == RESOURCE for one in world.daemon.get("/gpus")["nodes"]), lambda: world.daemon.get("/gpus"))
    yield one
    plugin.stop()


def seen(world, run, stage):
    world.succeeds(run)
    return world.daemon.read(stage, "seen").decode().strip()


def test_who_asks_for_gpus_gets_them_and_who_does_not_sees_none(world, devices):
    runs = {"one": world.begin("one", SEEN, gpu=1), "none": world.begin("none", SEEN)}
    assert seen(world, runs["one"], "one") in DEVICES and seen(world, runs["none"], "none") == "void"
    assert seen(world, world.begin("two", SEEN, gpu=2), "two") == "GPU-a,GPU-b"


def test_a_node_that_cannot_give_its_device_costs_no_try(world, devices):
    """It is told while it is so, and another pod has the datum."""
    devices.refusals = ["no healthy devices present"]
    run = world.begin("refused", SEEN, gpu=1, datum={"tries": 1})
    world.says(run, "refused", "UnexpectedAdmissionError", "no healthy devices present")
    assert seen(world, run, "refused") in DEVICES and not devices.refusals
