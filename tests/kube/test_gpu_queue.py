"""What waits for the GPUs of a cluster, who holds them, and what they did: the daemon on a real control plane, nodes that are played."""
import nodes
from test_demo import kit, world  # noqa: F401  a fixture
from test_pod_faults import begin


def test_a_pod_that_waits_for_gpus_is_told_with_who_holds_them(world, gate):  # noqa: F811
    one = world([nodes.cpu("c"), nodes.gpu("g", count=2)])
    held = begin(one, "holds", f"{gate.wait}; cp /pfs/in/f /pfs/out/f", gpu=2)
    gate.arrived()
    run = begin(one, "waits", "cp /pfs/in/f /pfs/out/f", gpu={"count": 1, "product": ["*A100*"]})
    entry = kit.wait_until(lambda: next((q for q in one.daemon.get("/queue")["queue"] if q["stage"] == "waits" and q["for"] == "pod"), None), one.tell)
    assert (entry["run"], entry["want"]["gpus"], entry["want"]["product"], entry["free"], entry["of"]) == (run, 1, ["*A100*"], 0, 2), entry
    assert entry["holders"] == [{"gpus": 2, "project": "default", "stage": "holds", "run": held, "node": "g", "computing": 2}], entry
    assert entry["start"] == f"it starts when holds of run {held[:8]} ends" and entry["since_us"] > 0
    assert one.daemon.get(f"/jobs/default/waits/{run}")["waits"]["start"] == entry["start"]
    got = kit.wait_until(lambda: (lambda h: h["total"]["used_ms"] > 0 and h)(one.daemon.get("/gpus/history")), "time in which it computes")
    series, = got["series"]
    assert (series["node"], series["product"]) == ("g", "NVIDIA-A100-SXM4-40GB") and "slot" not in series
    assert [one["stage"] for one in got["stages"]] == ["holds"] and got["total"]["idle_ms"] <= got["total"]["held_ms"]
    gate.open()
    assert one.daemon.wait(run)["state"] == "success", one.tell()
    kit.wait_until(lambda: {"holds", "waits"} <= {stage.get("stage") for stage in one.daemon.get("/gpus/history")["stages"]}, "both are in the history")
