"""Metrics: which result is the best, what differs, curves while they grow; names and values that try to be markup."""
import json
import os
import subprocess

import pytest
from browser import SIZES
from conftest import kit

EVIL = "<img src=x onerror=window.hit=9>"
TRAIN = r"""
import json, os
lr = float(os.environ["PL_PARAM_LR"])
with open(os.environ["PL_OUT"] + "/metrics.jsonl", "w") as f:
    for step in range(1, 41):
        f.write(json.dumps({"step": step, "val_acc": 0.9 - lr / step ** .5, "loss": lr + 1 / step, %r: step}) + "\n")
    f.write("not json\n")
""" % EVIL


class Sweep:
    def __init__(self, daemon, folder):
        self.daemon = daemon
        spec = {"pipeline": "sweep", "repos": {"in": {}}, "stages": [
            {"name": "train", "input": {"cross": [{"repo": "in"}, {"params": {"lr": [0.5, 0.1, 0.01], "note": [EVIL], "aug": ["weak", "strong"]}}]}, "workers": 2, "run": ["python3", "-c", TRAIN], "output": {"prefix": "${datum}/"}},
            {"name": "quiet", "input": {"repo": "in"}, "run": ["true"]}]}
        (folder / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
        (folder / "f").write_text("1")
        for words in (["create", "pipeline", "-f", str(folder / "spec.json")], ["put", "file", "in@master:/f", "-f", str(folder / "f")], ["wait", "run", "in@master", "--timeout", "300s"]):
            done = subprocess.run([os.path.join(daemon.bin, "pipelinectl"), "--data", daemon.dir, *words], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
        self.run = daemon.http("GET", "/api/v1/jobs?stage=train&limit=1")["jobs"][0]["run"]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    root = tmp_path_factory.mktemp("sweep")
    daemon = kit.Daemon(root, "--sandbox", "none").start(env={"PATH": "/usr/bin:/bin"})
    (root / "files").mkdir()
    yield Sweep(daemon, root / "files")
    assert daemon.stop() == 0


@pytest.fixture
def view(chromium, sweep):
    yield chromium.open(sweep.daemon)
    assert chromium.do("complaints") == []


def ready(page, path):
    page.go(path)
    page.do("waitfor", js="!document.querySelector('.skeleton')")


def test_from_the_start_page_to_the_best_result(view, sweep):
    ready(view, "/")
    view.do("waitfor", js="document.querySelector('#h-results') !== null")
    view.do("click", at="section[aria-labelledby=h-results] a.main")
    view.do("settled")
    view.do("waitfor", js="document.querySelectorAll('figure .l').length >= 12")
    assert view.path.startswith("/metrics/default/train?metric=val_acc")
    assert view.headline.startswith("Best val_acc is 0.8984: run " + sweep.run[:8]) and "lr 0.01" in view.headline, view.headline
    assert view.js("[...document.querySelectorAll('#main table tbody tr')].filter((row) => row.textContent.includes('best')).length") == 1
    assert "6 lines of 6 results were no JSON object" in view.js("document.querySelector('main').textContent")


def test_only_what_differs_is_shown_first_and_the_choice_is_in_the_address(view):
    ready(view, "/metrics/default/train?metric=loss")
    heads = "[...document.querySelectorAll('thead th')].map((th) => th.textContent)"
    assert "lr" in view.js(heads) and "aug" in view.js(heads) and "note" not in view.js(heads)
    assert view.headline.startswith("Best loss is 0.0350")
    view.do("click", at="main >> text=All 3 parameters")
    view.do("settled")
    assert "note" in view.js(heads) and "all=1" in view.path
    ready(view, "/metrics/default/train?metric=loss&q=lr%3D0.5")
    view.do("waitfor", js="document.querySelectorAll('tbody input').length === 2")
    view.do("click", at="tbody input >> nth=0")
    view.do("waitfor", js="new URLSearchParams(location.search).get('runs')?.split(',').length === 1")


def test_the_page_of_a_job_has_its_curves(view, sweep):
    ready(view, f"/jobs/default/train/{sweep.run}")
    view.do("wait", at=".curves li")
    shown = view.js("[...document.querySelectorAll('.curves li')].map((one) => one.textContent)")
    assert len(shown) == 3 and any("val_acc from" in one and "40 points" in one for one in shown), shown


def test_names_and_values_that_are_markup_are_text(view):
    ready(view, "/metrics/default/train?all=1&metric=" + EVIL.replace(" ", "%20").replace("=", "%3D").replace("<", "%3C").replace(">", "%3E"))
    view.do("waitfor", js="document.querySelectorAll('figure').length > 0")
    assert EVIL in view.headline
    assert view.js("window.hit === undefined && !document.querySelector('main img')")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [*SIZES, (320, 640)])
def test_the_pages_fit_and_are_accessible(chromium, sweep, size, theme):
    chromium.open(sweep.daemon, size, theme)
    wrong = {}
    for name, path in (("metrics", "/metrics/default/train"), ("metric-stages", "/metrics/-"), ("no-metrics", "/metrics/default/quiet")):
        ready(chromium, path)
        found = [f"{one['id']}: {node}" for one in chromium.do("axe") for node in one["nodes"]]
        if chromium.js("document.documentElement.scrollWidth > innerWidth"):
            found.append("scrolls sideways")
        found += chromium.do("complaints")
        if found:
            wrong[name] = found
        if isinstance(size, str):
            chromium.picture(f"{name}-{size}-{theme}", True)
    assert wrong == {}
