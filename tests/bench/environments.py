"""What an environment costs: `setup` beside the installer by hand, over the same packages on the loopback; and commands in an image, got by a real podman.

  setup    numpy and scikit-learn: the first job, and the start of a worker later, beyond that of a stage without an environment
  image    the start of a worker in an image, and a datum after the first, beyond those of a stage without an image
"""
import os
import pathlib
import shutil
import subprocess
import sys

import measure
import ours

sys.path[:0] = [str(pathlib.Path(__file__).parents[1] / "support"), str(pathlib.Path(__file__).parents[1] / "daemon")]
import image_registry  # noqa: E402  the folders must be on the path first
import image_root  # noqa: E402
from package_index import WHEELS, Index, real_wheels  # noqa: E402

STARTS = 15
DATUMS = 40


def put(target, folder, name):
    (folder / name).write_text(name)
    return target.ctl_json("put", "file", f"in@master:/{name}", "-f", folder / name)[0]["run"]


def seconds(target, run, stage):
    """How long a job took, from its creation to its end."""
    job = next(j for j in target.ctl_json("inspect", "run", run)[0]["jobs"] if j["stage"] == stage)
    if job["state"] != "success":
        raise measure.Failed(f"stage {stage}: {job['reason']}")
    return (job["finished_us"] - job["created_us"]) / 1e6


def starts(target, stages):
    """Runs of one stage at a time over what was there, with `cache` off, whose workers are new ones -> {stage: seconds}."""
    found = {stage: [] for stage in stages}
    for _ in range(STARTS):
        for stage in stages:
            run = target.ctl_json("run", "pipeline", "p", "--stage", stage, "--force")[0]["run"]
            target.ctl("wait", "run", run)
            found[stage].append(seconds(target, run, stage))
            measure.settle()
    return {stage: measure.median(values) for stage, values in found.items()}


def setup(bench):
    bench.say("setup: numpy and scikit-learn, by hand and by setup, from an index on the loopback")
    folder = bench.folder / "setup"
    folder.mkdir(parents=True)
    index = Index(*real_wheels())
    env = {"PIP_INDEX_URL": index.url, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run(["git", "init", "-q", folder], check=True)  # build/ of the checkout is ignored, and code folders leave out what git ignores
    (folder / "requirements.txt").write_text("\n".join(WHEELS) + "\n")
    hand, first = [], []
    try:
        for i in range(bench.runs):
            measure.settle()
            made = measure.run(["sh", "-ec", f"/usr/bin/python3 -m venv {folder}/venv{i} && {folder}/venv{i}/bin/python -m pip install --no-cache-dir -q -r {folder}/requirements.txt"], env)
            hand.append(made.wall)
            measure.settle()
            with ours.Daemon(folder / f"d{i}", ["--linger", "0s"], **env) as target:
                target.folder = folder  # the spec lies beside its requirements
                target.pipeline({"pipeline": "p", "repos": {"in": {}}, "stages": [
                    {"name": "bare", "input": {"repo": "in", "glob": "/*"}, "run": ["true"]},
                    {"name": "used", "input": {"repo": "in", "glob": "/*"}, "setup": {"python": "requirements.txt"}, "run": ["true"]}]})
                run = put(target, folder, "first")
                target.ctl("wait", "run", run)
                first.append(seconds(target, run, "used-setup"))
                if i == bench.runs - 1:
                    later = starts(target, ("bare", "used"))
    finally:
        index.close()
    values = {"ours": measure.median(first), "by hand": measure.median(hand)}
    bench.row("setup of numpy + scikit-learn, the first time; beside venv and pip", "s", values, "≤ 1.1 ×", values["ours"] <= 1.1 * values["by hand"])
    beyond = 1000 * (later["used"] - later["bare"])
    bench.row("… a later job of one datum with a new worker, beyond one without an environment", "ms", {"ours": beyond}, "≤ 50 ms", beyond <= 50)


def image(bench):
    if os.geteuid() != 0 or not shutil.which("podman"):
        raise measure.Failed("podman is missing, or this is not root")
    bench.say("image: commands in an image that a real podman gets from a registry on the loopback")
    folder = bench.folder / "image"
    folder.mkdir(parents=True)
    registry = image_registry.Registry()
    registry.add("library/tools", "1", registry.layer(image_root.make(folder / "root", "true", "cat")))
    (folder / "storage.conf").write_text(f'[storage]\ndriver = "overlay"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/store"\n')
    (folder / "registries.conf").write_text(f'[[registry]]\nprefix = "docker.io"\nlocation = "{registry.address}"\ninsecure = true\n')
    env = {"CONTAINERS_STORAGE_CONF": f"{folder}/storage.conf", "CONTAINERS_REGISTRIES_CONF": f"{folder}/registries.conf"}
    stages = [{"name": name, "input": {"repo": "in", "glob": "/*"}, "run": ["true"], **more} for name, more in (("bare", {}), ("used", {"image": "tools:1"}))]
    try:
        with ours.Daemon(folder / "d", ["--linger", "0s"], **env) as target:
            target.pipeline({"pipeline": "p", "repos": {"in": {}}, "stages": stages})
            target.ctl("wait", "run", put(target, folder, "first"))
            later = starts(target, ("bare", "used"))
            many = folder / "many"
            many.mkdir()
            for i in range(DATUMS):
                (many / f"n{i}").write_text(str(i))
            run = target.ctl_json("put", "file", "in@master:/", "-r", "-f", many)[0]["run"]
            target.ctl("wait", "run", run)
            spent = {}
            for stage in ("bare", "used"):
                rows = target.ctl_json("list", "datum", f"{stage}@{run}", "--all")[0]["datums"]
                held = [row["ms"]["held"] for row in rows if row["state"] == "success"]
                if len(held) < DATUMS:
                    raise measure.Failed(f"{len(held)} of {DATUMS} datums are kept")
                spent[stage] = measure.median(held)  # of one worker: all but one are after the first
    finally:
        subprocess.run(["podman", "image", "unmount", "--all", "--force"], env={**os.environ, **env}, capture_output=True, check=False)
        registry.close()
    beyond = 1000 * (later["used"] - later["bare"])
    bench.row("image: a job of one datum with a new worker, beyond one without an image", "ms", {"ours": beyond}, "", None)
    bench.row("… a datum after the first, beyond one without an image", "ms", {"ours": spent["used"] - spent["bare"]}, "≤ 5 ms", spent["used"] - spent["bare"] <= 5)


EVERY = {"setup": setup, "image": image}
