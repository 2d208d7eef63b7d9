"""Which GPUs a cluster has, who holds them and how they are used: the daemon on a real control plane, exporters as `exporter` plays them."""
import exporter
import nodes
import pods
import pytest
from test_demo import COMMANDS, kit, world  # noqa: F401  a fixture

EXPORTER = ("gpu-monitor", "dcgm-x")
TOLERANT = {"tolerations": [{"operator": "Exists"}]}


@pytest.fixture
def front(plane):
    one = exporter.Front(plane)
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": EXPORTER[0]}})
    yield one
    one.stop()


def behind(front):
    """For `world`: the daemon asks there."""
    return lambda kubelet: kubelet.plane.kubeconfig(f"front-{kubelet.namespace}", namespace=kubelet.namespace,
                                                    **{"server": front.url, "certificate-authority": ""})


SLEEPS = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done"]


def put_exporter(one, node):
    """A pod as the GPU operator's is, less what it says."""
    made = {"metadata": {"name": EXPORTER[1], "labels": {"app": "nvidia-dcgm-exporter"}},
            "spec": {"nodeName": node, "containers": [{"name": "exporter", "image": COMMANDS, "command": SLEEPS, "ports": [{"name": "metrics", "containerPort": 9400}]}],
                     **TOLERANT}}
    assert one.kubelet.plane.request("POST", f"/api/v1/namespaces/{EXPORTER[0]}/pods", made)[0] == 201


def told(pod, namespace, busy, mib):
    who = f'UUID="GPU-g-0",modelName="A",namespace="{namespace}",pod="{pod}",container="main"'
    return f"DCGM_FI_DEV_GPU_UTIL{{{who}}} {busy}\nDCGM_FI_DEV_FB_USED{{{who}}} {mib}\n"


def test_gpus_are_told_with_who_holds_them_and_how_they_are_used(world, gate, front):  # noqa: F811
    one = world([nodes.cpu("c"), nodes.gpu("g", count=4)], speaks=behind(front))
    foreign = {"name": "n", "image": COMMANDS, "command": SLEEPS,
               "resources": {"limits": {"nvidia.com/gpu": 1}}}
    one.kubelet.create({"metadata": {"name": "notebook"}, "spec": {"restartPolicy": "Never", "containers": [foreign], **TOLERANT}})
    one.kubelet.until(lambda: one.daemon.get("/gpus")["nodes"] and one.daemon.get("/gpus")["nodes"][0]["allocated"] == 1, "the notebook is seen")
    one.daemon.default.repo("in").stages(kit.sh("st", f"{gate.wait}; cp /pfs/in/f /pfs/out/f", gpu=2))
    run = one.daemon.push("in", "f", "x")["run"]
    gate.arrived()
    nothing = one.daemon.job(run, "st")
    assert nothing["gpu"] is None or nothing["gpu"]["used_ms"] is None
    pod, = one.pods("st")
    got = kit.wait_until(lambda: (lambda all: all["nodes"][0]["allocated"] == 3 and all)(one.daemon.get("/gpus")), "both are seen")
    row, = got["nodes"]
    assert (row["node"], row["resource"], row["capacity"], row["product"]) == ("g", "nvidia.com/gpu", 4, "NVIDIA-A100-SXM4-40GB"), row
    ours, theirs = sorted(row["by"], key=lambda holder: "stage" not in holder)
    assert (ours["project"], ours["stage"], ours["count"]) == ("default", "st", 2) and "utilisation" not in ours
    assert (theirs["namespace"], theirs["pod"], theirs["count"]) == (one.kubelet.namespace, "notebook", 1)
    shown = one.daemon.ctl("gpus").out
    assert "default/st ×2" in shown and "notebook ×1" in shown and "not measured, or not on all nodes: no running dcgm-exporter pod was found" in shown

    front.says[EXPORTER] = (200, told(pod["metadata"]["name"], one.kubelet.namespace, 37, 10240))
    put_exporter(one, "g")
    kit.wait_until(lambda: any(holder.get("utilisation") == 37 for holder in one.daemon.get("/gpus")["nodes"][0]["by"]), "its use is told")
    got = one.daemon.get("/gpus")
    assert got["not_measured"] == "" and [holder.get("used_mib") for holder in got["nodes"][0]["by"] if "stage" in holder] == [10240]
    shown = one.daemon.ctl("gpus").out
    assert "default/st ×2 (37 %, 10240 MiB)" in shown and "not measured" not in shown
    gate.open()
    assert one.daemon.wait(run)["state"] == "success", one.tell()
    gpu = one.daemon.job(run, "st")["gpu"]
    assert 0 < gpu["measured_ms"] == gpu["held_ms"] and abs(gpu["used_ms"] - gpu["measured_ms"] * 0.37) <= 2 and gpu["mem_peak"] == 10240 << 20, gpu
    shown = one.daemon.ctl("inspect", "job", f"st@{run}").out
    assert ("busy 37 % of " in shown or "busy 36 % of " in shown) and "at most 10.0 GiB of memory" in shown and "for one command" in shown, shown
    kit.wait_until(lambda: one.daemon.get("/gpus")["nodes"][0]["allocated"] == 1, "they are given back")
    one.kubelet.plane.request("DELETE", f"/api/v1/namespaces/{EXPORTER[0]}/pods/{EXPORTER[1]}?gracePeriodSeconds=0")
    kit.wait_until(lambda: "no running dcgm-exporter pod" in one.daemon.get("/gpus")["not_measured"], "it is gone")


def test_what_may_not_be_read_is_said(world, front):  # noqa: F811
    """A reason beside the table, in the API server's words; nothing is shown as idle."""
    one = world([nodes.gpu("g", count=1)], speaks=behind(front))
    front.says[EXPORTER] = (403, '{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"pods \\"dcgm-x\\" is forbidden: cannot get pods/proxy"}')
    put_exporter(one, "g")
    kit.wait_until(lambda: "cannot get pods/proxy" in one.daemon.get("/gpus").get("not_measured", ""), "why")
    assert "gpu-monitor/dcgm-x: " in one.daemon.ctl("gpus").out
    one.kubelet.plane.request("DELETE", f"/api/v1/namespaces/{EXPORTER[0]}/pods/{EXPORTER[1]}?gracePeriodSeconds=0")


def test_an_unhealthy_device_is_shown_with_who_holds_it(world):  # noqa: F811
    """A device that broke under a pod: its node has it, and no pod can get it any more."""
    one = world([nodes.gpu("g", count=2)], play=pods.on_demand)
    foreign = {"name": "n", "image": COMMANDS, "resources": {"limits": {"nvidia.com/gpu": 2}}}
    one.kubelet.create({"metadata": {"name": "notebook"}, "spec": {"restartPolicy": "Never", "containers": [foreign], **TOLERANT}})
    rows = lambda: one.daemon.get("/gpus")["nodes"]
    kit.wait_until(lambda: [(row["capacity"], row["allocated"], row.get("unhealthy")) for row in rows()] == [(2, 2, None)], rows)
    node = one.kubelet.nodes["g"]
    node.made["unhealthy"] = {"nvidia.com/gpu": 1}
    one.kubelet.call(one.kubelet.register(node))
    kit.wait_until(lambda: [(row["capacity"], row["allocated"], row.get("unhealthy"), row.get("unhealthy_held")) for row in rows()] == [(1, 2, 1, 1)], rows)
    assert [holder["unhealthy"] for holder in rows()[0]["by"]] == [1], rows()
    table = one.daemon.ctl("gpus").out
    assert "1, 1 unhealthy" in table and "/notebook ×2 (1 unhealthy)" in table, table
