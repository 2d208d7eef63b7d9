"""The page of the GPUs: who computes and who stands idle, what waits and what would let it start, the last 24 hours as a curve and as a table."""
import json
import os
import sqlite3
import subprocess
import time

import pytest
from browser import SIZES
from conftest import kit

# A driver of three GPUs: the first computes, the second is held and does nothing.
NVML = r"""
#include <stdio.h>
struct util { unsigned gpu, memory; };
struct memory { unsigned long long total, free, used; };
#define I ((unsigned)(unsigned long)d - 1)
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 4; return 0; }
int nvmlSystemGetDriverVersion(char *s, unsigned n) { snprintf(s, n, "550.1"); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(1 + (unsigned long)i); return 0; }
int nvmlDeviceGetName(void *d, char *s, unsigned n) { snprintf(s, n, I == 3 ? "NVIDIA H100 80GB HBM3" : "NVIDIA A100-SXM4-40GB"); return 0; }
int nvmlDeviceGetUUID(void *d, char *s, unsigned n) { snprintf(s, n, "GPU-%u", I); return 0; }
int nvmlDeviceGetMinorNumber(void *d, unsigned *n) { *n = I; return 0; }
int nvmlDeviceGetUtilizationRates(void *d, struct util *u) { u->gpu = I < 2 ? 94 - I : 0; u->memory = 0; return 0; }
int nvmlDeviceGetMemoryInfo(void *d, struct memory *m) { m->total = (I == 3 ? 81559ull : 40960ull) << 20; m->used = I < 2 ? 33ull << 30 : 1ull << 28; m->free = m->total - m->used; return 0; }
int nvmlDeviceGetCudaComputeCapability(void *d, int *a, int *b) { *a = I == 3 ? 9 : 8; *b = 0; return 0; }
"""
MINUTE_US = 60_000_000


def stage(name, repo, gpu, script):
    return {"name": name, "input": {"repo": repo}, "gpu": gpu, "run": ["sh", "-c", script]}


def day_before(path, node):
    """Rows of a day: two stages that take turns, one that idles in the evening, and two hours of which nothing is known."""
    now = int(time.time() * 1e6) // MINUTE_US * MINUTE_US
    rows = []
    for ago in range(24 * 60, 5, -1):
        if 690 < ago < 820:
            continue
        series = []
        for slot in range(4):
            held, stage = (60000, "train-vit") if (ago // 97 + slot) % 3 else (0, "")
            if slot == 2 and ago % 400 < 170:
                held, stage = 60000, "segment"
            idle = held if held and (stage == "segment" and ago % 400 < 60) else held // 12 if held else 0
            series.append({"node": node, "product": "NVIDIA H100 80GB HBM3" if slot == 3 else "NVIDIA A100-SXM4-40GB", "slot": slot, "capacity": 60000, "measured": 60000,
                           "busy": int((held - idle) * (0.8 + (ago % 7) / 50)), "by": [["default", stage, held, held - idle, idle]] if held else []})
        rows.append((now - ago * MINUTE_US, now - (ago - 1) * MINUTE_US, json.dumps(series)))
    with sqlite3.connect(path) as db:
        db.executemany("INSERT OR REPLACE INTO gpu_span VALUES (?, ?, ?)", rows)


@pytest.fixture(scope="module", name="machine")
def a_machine(tmp_path_factory):
    """train-vit computes on two GPUs, segment holds one and does nothing, embed waits for two."""
    root = tmp_path_factory.mktemp("gpus")
    (root / "nvml.c").write_text(NVML)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", root / "libnvidia-ml.so.1", root / "nvml.c"], check=True)
    env = {"LD_LIBRARY_PATH": str(root), "PATH": "/usr/bin:/bin"}
    d = kit.Daemon(root, "--sandbox", "none").start(env=env)
    node = d.get("/gpus")["node"]
    assert d.stop() == 0
    day_before(f"{d.dir}/pipelined.db", node)
    d.start(env=env)
    go = os.path.join(root, "go")
    wait = f"while [ ! -e {go} ]; do sleep 0.05; done"
    project = d.default.repo("photos", "labels", "masks")
    project.stages(stage("train-vit", "photos", {"count": 2, "product": ["*A100*"]}, wait), stage("segment", "labels", {"product": ["*A100*"]}, wait),
                   stage("embed", "masks", {"count": 2, "product": ["*A100*"]}, "true"), pipeline="vision")
    for repo, name in (("photos", "train-vit"), ("labels", "segment")):
        run = project.commit(repo, {"x": "1"})["run"]
        d.wait_job(run, name, lambda j: j["state"] == "running", "that it has its GPUs")
    run = project.commit("masks", {"x": "1"})["run"]
    d.wait_job(run, "embed", lambda j: j["reason"].startswith("waiting for 2 GPUs"), "that it waits")
    kit.wait_until(lambda: any("idle_since_us" in one for one in d.get("/gpus")["gpus"]), "that one is idle")
    yield d
    d.write(go, "")
    kit.wait_until(lambda: d.get("/queue")["queue"] == [] and all(one["state"] == "free" for one in d.get("/gpus")["gpus"]), "that all have ended")
    assert d.stop() == 0


def open_gpus(chromium, machine, *how):
    chromium.open(machine, *how)
    chromium.go("/gpus")
    chromium.do("waitfor", js="!document.querySelector('.skeleton') && document.querySelector('.day')")
    return chromium


def test_what_did_the_gpu_do_is_one_click_away(chromium, machine):
    page = chromium.open(machine)
    page.go("/")
    page.do("click", at="nav >> text=GPUs")
    page.do("waitfor", js="document.querySelector('.day')")
    assert page.headline == "2 of 4 GPUs compute, 1 is held idle, 1 is free. One stage waits for 2."
    shown = page.js("document.querySelector('main').textContent")
    for words in ("94 % busy", "train-vit", "segment", "33 GiB of 40 GiB", "driver 550.1", "2 × A100", "waiting for 2 GPUs: 0 of 3 free".removeprefix("waiting "),
                  "it starts when train-vit of run "):
        assert words in shown, (words, shown)
    assert page.js("document.querySelector('.slot.idle').textContent").startswith("GPU 2idle ")
    assert page.do("complaints") == []


def test_the_day_is_a_curve_with_the_same_numbers_in_a_table(chromium, machine):
    page = open_gpus(chromium, machine)
    label = page.js("document.querySelector('.day').getAttribute('aria-label')")
    assert label.startswith("The last 24 hours: on average 2.") and "of 4.0 GPUs computed" in label, label
    assert page.js("document.querySelectorAll('.day .unknown').length") >= 3, "what is not known is drawn as such"
    page.do("click", at="main >> text=As a table")
    rows = page.js("[...document.querySelectorAll('.behind tbody tr')].map((row) => row.textContent)")
    assert len(rows) == 24 and any("no record" in row for row in rows) and all(":" in row for row in rows), rows
    assert page.js("document.querySelectorAll('.slot svg.s[role=img]').length") == 4
    spent = page.js("document.querySelector('[aria-label=\"Where GPU time went\"]').textContent")
    assert "train-vit" in spent and "segment" in spent and "GPU-h" in spent


def test_the_address_names_a_node_and_a_time(chromium, machine):
    page = chromium.open(machine)
    node = machine.get("/gpus")["node"]
    page.go(f"/gpus?node={node}&since=hour")
    page.do("wait", at=".day")
    assert page.headline.startswith(f"{node}: 2 of 4 GPUs compute")
    assert page.js("document.querySelector('.day').getAttribute('aria-label')").startswith("The last hour: on average ")
    page.do("click", at="button:has-text('the last 6 hours')")
    page.do("waitfor", js="document.querySelector('.day')?.getAttribute('aria-label').startsWith('The last 6 hours: ')")
    assert page.path == f"/gpus?node={node}&since=6h"
    assert page.do("axe") == []
    page.go("/gpus?node=elsewhere")
    page.do("waitfor", js="document.querySelector('h1')?.textContent === 'No node elsewhere has a GPU.'")
    assert page.js("document.querySelectorAll('.slot').length") == 0
    page.js("(() => { const s = document.querySelector('select[aria-label=Node]'); s.value = ''; s.dispatchEvent(new Event('change', {bubbles: true})); })()")
    page.do("waitfor", js="document.querySelectorAll('.slot').length === 4")
    assert page.path == "/gpus"


def test_it_follows_what_the_gpus_do(chromium, machine):
    page = open_gpus(chromium, machine)
    project = machine.default.repo("more")
    seen = os.path.join(machine.root, "seen")
    project.stages(stage("quick", "more", {"product": ["*H100*"]}, f"while [ ! -e {seen} ]; do sleep 0.05; done"), pipeline="other")
    project.commit("more", {"x": "1"})
    page.do("waitfor", js="/quick/.test(document.querySelector('.slots').textContent)")
    machine.write(seen, "")
    page.do("waitfor", js="!/quick/.test(document.querySelector('.slots').textContent)")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_it_is_accessible_and_fits(chromium, machine, size, theme):
    page = open_gpus(chromium, machine, size, theme)
    assert page.do("axe") == []
    assert not page.js("document.documentElement.scrollWidth > innerWidth")
    page.picture(f"gpus-busy-{size}-{theme}", whole=True)
    page.do("click", at="main >> text=As a table")
    assert page.do("axe") == []
    page.open(machine, (320, 640), theme)
    page.go("/gpus")
    page.do("waitfor", js="document.querySelector('.day')")
    assert not page.js("document.documentElement.scrollWidth > innerWidth")
