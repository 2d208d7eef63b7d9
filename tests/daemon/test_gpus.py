"""GPUs of one machine, as a library made for the test tells of them: which a stage gets, what it waits for, and what its job says of their use."""

import os
import re
import subprocess

import pytest
from conftest import sh, wait_until
from people import User

NVML = r"""
#include <stdio.h>
#include <string.h>
struct util { unsigned gpu, memory; };
struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
static const char *const names[] = {"NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3"};
static const unsigned long long mib[] = {40960, 40960, 81559};
#define I ((unsigned)(unsigned long)d - 1)
#define RESERVED (615ull << 20)
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return 0; }
int nvmlSystemGetDriverVersion(char *s, unsigned n) { snprintf(s, n, "550.1"); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(1 + (unsigned long)i); return 0; }
int nvmlDeviceGetName(void *d, char *s, unsigned n) { snprintf(s, n, "%s", names[I]); return 0; }
int nvmlDeviceGetUUID(void *d, char *s, unsigned n) { snprintf(s, n, "GPU-%u", I); return 0; }
int nvmlDeviceGetMinorNumber(void *d, unsigned *n) { *n = I; return 0; }
int nvmlDeviceGetUtilizationRates(void *d, struct util *u) { u->gpu = UTIL; u->memory = 0; return UTIL < 0 ? 3 : 0; }
int nvmlDeviceGetMemoryInfo(void *d, struct memory *m) { m->total = mib[I] << 20; m->used = RESERVED + (3ull << 30); m->free = m->total - m->used; return 0; }
int nvmlDeviceGetMemoryInfo_v2(void *d, struct memory_v2 *m)
{
    if (m->version != 0x2000028)
        return 25; /* NVML_ERROR_ARGUMENT_VERSION_MISMATCH */
    m->total = mib[I] << 20; m->reserved = RESERVED; m->used = 3ull << 30; m->free = m->total - m->used - RESERVED;
    return 0;
}
int nvmlDeviceGetCudaComputeCapability(void *d, int *a, int *b) { *a = I == 2 ? 9 : 8; *b = 0; return 0; }
"""


@pytest.fixture(name="machine")
def a_machine(make_daemon, tmp_path):
    def start(*options, util=60, env=None):
        (tmp_path / "nvml.c").write_text(NVML)
        subprocess.run(["cc", "-shared", "-fPIC", f"-DUTIL={util}", "-o", tmp_path / "libnvidia-ml.so.1", tmp_path / "nvml.c"], check=True)
        d = make_daemon(*options, sandbox="none").start(env={"LD_LIBRARY_PATH": str(tmp_path), **(env or {})})
        return d, d.default
    return start


def gpu_stage(name, gpu, script="echo $CUDA_VISIBLE_DEVICES $PL_DEVICE > $PL_OUT/got", **more):
    return sh(name, script, gpu=gpu, **more)


def test_a_stage_gets_a_device_that_is_what_it_asks_for(machine):
    d, project = machine()
    project.repo("in")
    project.stages(gpu_stage("any", True), gpu_stage("product", {"product": ["*B200*", "nvidia-h100-*"]}), gpu_stage("memory", {"memory": "80G"}),
                   gpu_stage("compute", {"compute": "9.0"}), gpu_stage("two", {"count": 2, "memory": "40G", "product": ["*a100*"]}),
                   gpu_stage("cpu", {"product": ["*B200*"], "required": False, "wait": "1m"}),
                   gpu_stage("never", {"product": ["*B200*"], "memory": "180G", "compute": "10.0"}))
    run = project.commit("in", {"x": "1"})["run"]
    says = ("waiting for 1 GPU per worker with product *B200*, at least 165888 MiB, compute capability 10.0: this machine has"
            " 2 × NVIDIA A100-SXM4-40GB (40960 MiB, compute 8.0), 1 × NVIDIA H100 80GB HBM3 (81559 MiB, compute 9.0)")
    d.wait_job(run, "never", lambda j: j["reason"] == says, "what it waits for")
    for stage, got in (("any", None), ("product", "GPU-2 gpu"), ("memory", "GPU-2 gpu"), ("compute", "GPU-2 gpu"), ("two", "GPU-0,GPU-1 gpu"),
                       ("cpu", "cpu")):
        job = d.wait_job(run, stage, lambda j: j["state"] == "success", "its end")
        text = project.read(stage, "got").decode().strip()
        assert text == got or (got is None and text.endswith(" gpu")), (stage, text)
        assert (job["gpu"] is None) == (stage == "cpu")
        assert job["warnings"] == ([] if stage != "cpu" else [
            "it runs on the CPU: gpu.required is false and no GPU is on offer with product *B200*: " + says.partition("10.0: ")[2]])
    listed = d.get("/gpus")
    assert [(g["product"], g["memory_mib"], g["compute"], g["used_mib"], g["utilisation"]) for g in listed["gpus"]][2] == (
        "NVIDIA H100 80GB HBM3", 81559, "9.0", 3072, 60)
    assert "NVIDIA H100 80GB HBM3" in d.ctl("gpus").out
    assert [(n["product"], n["resource"], n["capacity"]) for n in listed["nodes"]] == [
        ("NVIDIA A100-SXM4-40GB", "nvidia.com/gpu", 2), ("NVIDIA H100 80GB HBM3", "nvidia.com/gpu", 1)]


def test_what_could_not_run_is_said_when_it_is_created(machine):
    d, project = machine()
    project.repo("in")
    reply = project.stages(gpu_stage("a", {"product": ["*B200*"]}), gpu_stage("b", {"count": 4}), gpu_stage("c", {"count": 4, "required": False}),
                           sh("d", "true", resources={"memory": "100Ti"}), gpu_stage("e", {"count": 2}))
    said = [w for w in reply["warnings"] if "a worker wants" in w]
    assert [w.split(":")[0] for w in said] == ["stage a", "stage b", "stage d"]
    assert "a worker wants 1 GPU with product *B200*: this machine has 2 × NVIDIA A100-SXM4-40GB" in said[0]
    assert "a worker wants 4 GPUs and this machine has 3; its jobs wait" in said[1] and "104857600 MiB of memory" in said[2]
    spec = d.write("p.json", '{"pipeline": "q", "stages": [{"name": "z", "input": {"repo": "in"}, "run": ["true"], "gpu": {"count": 4}}]}')
    refused = d.ctl("create", "pipeline", "-f", spec, "--strict", ok=False)
    assert refused.code != 0 and "stage z: a worker wants 4 GPUs" in refused.err
    assert "stage z: a worker wants 4 GPUs and this machine has 3" in d.ctl("create", "pipeline", "-f", spec).err


def test_a_job_says_how_its_gpus_were_used(machine):
    d, project = machine()
    project.repo("in")
    project.stages(gpu_stage("s", {"count": 2}, "sleep 0.4; true"))
    run = project.run("in", {"x": "1"})
    gpu = run["job"]["s"]["gpu"]
    assert gpu["held_ms"] >= gpu["measured_ms"] >= 800 and gpu["used_ms"] == pytest.approx(gpu["measured_ms"] * 0.6, abs=2)
    assert gpu["mem_peak"] == 2 * (3 << 30) and 0 <= gpu["waiting_ms"] <= gpu["held_ms"]
    shown = d.ctl("inspect", "job", f"s@{run['id']}").out
    assert "busy 59 % of " in shown or "busy 60 % of " in shown
    assert run["job"]["s"]["mem_peak"] > 0 and re.search(r"(?m)^memory +at most [0-9.]+ [KM]iB for one command$", shown), shown


def test_what_no_driver_tells_is_not_measured_and_not_zero(make_daemon):
    d = make_daemon("--gpus", "1", sandbox="none").start()
    project = d.default.repo("in")
    project.stages(gpu_stage("s", True), gpu_stage("asks", {"product": ["*"]}))
    run = project.commit("in", {"x": "1"})["run"]
    job = d.wait_job(run, "s", lambda j: j["state"] == "success", "its end")
    assert job["gpu"]["used_ms"] is None and job["gpu"]["mem_peak"] is None and job["gpu"]["measured_ms"] == 0
    assert "use not measured" in d.ctl("inspect", "job", f"s@{run}").out
    d.wait_job(run, "asks", lambda j: "with product *: this machine has 1 × declared by --gpus" in j["reason"], "what it waits for")
    assert "not measured" in d.ctl("gpus").out


def test_a_stage_stays_warm_and_priority_decides_who_is_next(make_daemon):
    d = make_daemon("--gpus", "1", sandbox="none").start()
    project = d.default.repo("in", "before")
    go = os.path.join(d.root, "go")
    project.stages(sh("s", "echo $PPID > $PL_OUT/ppid", keep_warm="10m"), gpu_stage("first", True, f"while [ ! -e {go} ]; do sleep 0.01; done", repo="before"),
                   gpu_stage("low", True, priority=-1), gpu_stage("high", True, priority=1))
    before = project.commit("before", {"x": "1"})["run"]
    d.wait_job(before, "first", lambda j: j["state"] == "running", "that it has the GPU")
    run = project.commit("in", {"x": "1"})["run"]
    for stage in ("low", "high"):
        d.wait_job(run, stage, lambda j: j["reason"].startswith("waiting for 1 GPU"), "that it waits")
    (row,) = d.get("/gpus")["nodes"]
    assert (row["capacity"], row["allocated"]) == (1, 1) and [(h["stage"], h["count"]) for h in row["by"]] == [("first", 1)]
    eve = User(d, "eve", ("other", "reader"))
    assert eve.get("/gpus")["nodes"][0]["by"] == [{"count": 1}] and eve.get("/gpus")["gpus"][0]["by"] == {}
    d.write(go, "")
    first = project.wait(run)
    assert first["job"]["high"]["started_us"] < first["job"]["low"]["started_us"]
    runner = project.read("s", "ppid")
    project.run("in", {"x": "2"})
    assert project.read("s", "ppid") == runner
    wait_until(lambda: [w["stage"] for w in d.get("/status")["live"]["workers"]] == ["s"], "the warm one is left")
