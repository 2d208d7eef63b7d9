"""How work is lost on a real kubelet: what the job's record says of it, how soon, when the datum runs again, and that nothing is left over. The stages begin
together; each test does its own harm. The seconds are printed as a table after the last test, and written to build/logs/losses.txt.

Not here: a pod that exceeds its own limit of disk. A kubelet measures a pod's disk only where it can see the device of its folder, which a corner does not
have (localStorageCapacityIsolation is off): tests/kube/test_pod_faults.py has a kubelet that is played say so."""
import contextlib
import os
import re
import signal
import subprocess
import time

import control_plane
import node
import pytest
from test_install import process_of_the_daemon
from world import STAGES, TOP, is_running, kit

ONCE = {"datum": {"tries": 1}}  # what is counted as a try ends the job
WAITS = "touch /tmp/begun; until [ -e /tmp/go ]; do sleep 0.1; done; "
COPY = "cp /pfs/in/f /pfs/out/f"
ABSENT = "127.0.0.1:1/team/none:1"
EVICTED = r"its pod was preempted: EvictionByEvictionAPI: "
GIVEN_BACK = "its worker was told to end"
MANY, SEEN = 12, 2  # pods of the stage that the daemon makes when it is killed, and how many of them are seen before
LONGEST = 130  # of a reason in the table
HANG_S = 150  # real pods that start together; only ends a hang
HEADS = ("what happened", "its reason, as `inspect job` shows it", "shown after", "next pod after", "runs again after", "left over")


# ---- faults


def path_of(pod):
    return f"/api/v1/namespaces/{STAGES}/pods/{pod['metadata']['name']}"


@contextlib.contextmanager
def deleted(world, pod, **how):
    assert world.cluster.request("DELETE", path_of(pod), how)[0] in (200, 202)
    yield


def deleted_with_grace_0(world, pod):
    return deleted(world, pod, gracePeriodSeconds=0)


@contextlib.contextmanager
def evicted(world, pod):
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["metadata"]["name"], "namespace": STAGES}}
    status, said = world.cluster.request("POST", path_of(pod) + "/eviction", eviction)
    assert status == 201, said
    yield


@contextlib.contextmanager
def drained(world, pod):
    """There is one node: it takes pods again once the reason was seen, and the drain is over."""
    stage = pod["metadata"]["labels"]["pipelined.io/stage"]
    with subprocess.Popen(["kubectl", "drain", node.NODE, f"--pod-selector=pipelined.io/stage={stage}", "--delete-emptydir-data", "--timeout=80s"],
                          env=world.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as drain:
        yield
        said = drain.communicate(timeout=90)[0]
    assert drain.returncode == 0 and f"node/{node.NODE} drained" in said, said
    world.sh(f"kubectl uncordon {node.NODE}")


@contextlib.contextmanager
def main_killed(world, pod):
    """By the container runtime."""
    main, = (one for one in pod["status"]["containerStatuses"] if one["name"] == "main")
    control_plane.servers.command("ctr", "--address", world.cluster.folder / "containerd.sock", "-n", "k8s.io", "tasks", "kill", "--signal", "SIGKILL",
                                  main["containerID"].removeprefix("containerd://"))
    yield


LOSSES = {  # name: (the fault, what the record says)
    "deleted": (deleted, r"its pod was deleted$"),
    "deleted-with-grace-0": (deleted_with_grace_0, r"its pod was deleted$"),
    "evicted": (evicted, EVICTED),
    "drained": (drained, EVICTED),
    "main-killed": (main_killed, r"main was killed"),
}
GREEDY = WAITS + "x=0123456789abcdef; while :; do x=$x$x; done"
STAGES_OF = {**{name: (WAITS + COPY, ONCE) for name in LOSSES}, "out-of-memory": (GREEDY, {"resources": {"memory": "64Mi"}, **ONCE})}


# ---- what is seen


class Table:
    """Rows of seconds."""

    def __init__(self):
        self.rows = []

    def add(self, what, reason, *seconds):
        cells = [f"{one:.1f} s" for one in seconds] + ["–"] * (3 - len(seconds))
        self.rows.append([what, reason.strip() if len(reason) < LONGEST else reason[:LONGEST] + "…", *cells, "nothing"])

    def text(self):
        lines = [list(HEADS), ["-" * len(head) for head in HEADS], *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(HEADS))]
        return "\n".join("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines) + "\n"


@pytest.fixture(scope="module")
def table(request):
    made = Table()
    yield made
    path = TOP / "build" / "logs" / "losses.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(made.text(), encoding="utf-8")
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{made.text()}", flush=True)


def objects(world):
    """What lies in the stages' namespace beside pods and events: {(kind, name)}."""
    return {(kind, one["metadata"]["name"]) for kind in ("secrets", "configmaps", "persistentvolumeclaims")
            for one in world.cluster.request("GET", f"/api/v1/namespaces/{STAGES}/{kind}")[1]["items"]}


@pytest.fixture(scope="module")
def before(world):
    return objects(world)


@pytest.fixture(scope="module")
def runs(world, before):  # noqa: ARG001  what was there is looked at first
    return {name: world.begin(name, script, **more) for name, (script, more) in STAGES_OF.items()}


def nothing_is_left(world, before, stage):
    kit.wait_until(lambda: not world.pods(stage), lambda: f"no pod of {stage} is left: {world.tell()}")
    assert objects(world) == before


def running(world, stage, *not_these):
    """The stage's pods whose containers run, but for these."""
    return [pod for pod in world.pods(stage) if is_running(pod) and pod["metadata"]["uid"] not in not_these]


def record(world, run, stage):
    return world.daemon.get(f"/jobs/default/{stage}/{run}")


def lost(world, run, stage, pod):
    """What the job's record says of the pod once it is lost."""
    return next((one for one in record(world, run, stage)["workers"] if one.get("pod") == pod["metadata"]["name"] and one["state"] == "lost"), None)


class Clock:
    """Seconds from its making until something is true."""

    def __init__(self):
        self.began = time.monotonic()

    def until(self, check, what):
        kit.wait_until(check, what, HANG_S)
        return time.monotonic() - self.began


# ---- the tests


@pytest.mark.parametrize("how", LOSSES)
def test_a_pod_that_is_lost_costs_no_try_and_its_datum_runs_again(world, runs, before, table, how):
    """One try is all that the datum has. Its attempts name the pod; an agent that is told to end gives the datum back before the daemon knows why."""
    harm, words = LOSSES[how]
    tell = lambda: f"{record(world, runs[how], how)}\n{world.tell()}"  # noqa: E731
    kit.wait_until(lambda: running(world, how), tell, HANG_S)
    pod, = world.pods(how)
    uid = pod["metadata"]["uid"]
    # its containers run some time before it has the task, and it has that before the command begins: what is given back before costs no attempt
    kit.wait_until((world.tmp_of(pod) / "begun").exists, tell, HANG_S)
    clock = Clock()
    with harm(world, pod):
        shown = clock.until(lambda: lost(world, runs[how], how, pod), tell)
        row = lost(world, runs[how], how, pod)
        assert re.search(words, row["reason"]) and row["node"] == node.NODE and row["tasks"] == 1, row
    made = clock.until(lambda: [one for one in world.pods(how) if one["metadata"]["uid"] != uid], tell)
    again = clock.until(lambda: running(world, how, uid), tell)
    kit.wait_until(lambda: len(world.pods(how)) == 1, tell)
    world.let_go(how)
    world.succeeds(runs[how])
    first, second = world.daemon.default.datums(how, runs[how])
    assert (first["state"], first["attempt"], first["pod"]) == ("lost", 1, pod["metadata"]["name"]), first
    assert first["reason"] == GIVEN_BACK or re.search(words, first["reason"]), first
    assert (second["state"], second["attempt"]) == ("success", 1), second
    assert record(world, runs[how], how)["workers_lost"] == 1
    nothing_is_left(world, before, how)
    table.add(how, row["reason"], shown, made, again)


def test_who_runs_out_of_memory_is_told_of_which(world, runs, before, table):
    stage = "out-of-memory"
    kit.wait_until(lambda: running(world, stage), world.tell, HANG_S)
    world.let_go(stage)
    clock = Clock()
    shown = clock.until(lambda: record(world, runs[stage], stage)["state"] == "failure", world.tell)
    reason = record(world, runs[stage], stage)["reason"]
    assert "64Mi" in reason and "resources.memory" in reason, reason
    nothing_is_left(world, before, stage)
    table.add(stage, reason, shown)


def test_an_image_that_cannot_be_pulled_is_said_until_the_run_is_stopped(world, before, table):
    clock = Clock()
    run = world.begin("no-image", COPY, image=ABSENT)
    job = world.says(run, "no-image", "of main", ABSENT)
    shown = time.monotonic() - clock.began
    world.daemon.post(f"/runs/{run}/stop")
    world.daemon.wait(run)
    nothing_is_left(world, before, "no-image")
    table.add("image cannot be pulled", job["reason"] or job["message"], shown)


def test_a_daemon_that_is_killed_while_it_makes_pods_goes_on_at_once(world, before, table):
    """The pods that it made are taken over, the rest is made; no worker is lost, and none has two pods. The seconds count from the start of the daemon's
    new process: how long a kubelet waits before it starts a container again is its own affair."""
    killed = process_of_the_daemon()  # looked up first: all pods are made within some tenths of a second
    more = {"input": {"repo": "in-many", "name": "in", "glob": "/*"}, "workers": MANY, "resources": {"cpu": "10m"}}
    world.daemon.default.repo("in-many").stages(world.stage("many", WAITS + "cp /pfs/in/* /pfs/out/", more), pipeline="many")
    run = world.daemon.default.commit("in-many", {f"f{i}": str(i) for i in range(MANY)})["run"]
    kit.wait_until(lambda: len(world.pods("many")) >= SEEN, world.tell)
    os.kill(killed, signal.SIGKILL)
    first = uids(world, "many")
    kit.wait_until(lambda: new_daemon(killed), world.tell)
    clock = Clock()
    made = clock.until(lambda: uids(world, "many") - first, world.tell)
    kit.wait_until(lambda: world.daemons_container()["ready"], world.tell)
    shown = clock.until(lambda: names(world, "many") <= {one.get("pod") for one in record(world, run, "many")["workers"]}, world.tell)
    let_all_go(world, "many", run)
    end = record(world, run, "many")
    assert end["workers_lost"] == 0 and "failed to start" not in world.daemon.log(), end
    workers = [one["worker"] for one in end["workers"]]
    assert len(set(workers)) == len(workers), end
    nothing_is_left(world, before, "many")
    table.add("daemon killed while it makes pods", "none: its pods are taken over", shown, made)


def uids(world, stage):
    return {pod["metadata"]["uid"] for pod in world.pods(stage)}


def names(world, stage):
    return {pod["metadata"]["name"] for pod in world.pods(stage)}


def new_daemon(killed):
    with contextlib.suppress(subprocess.CalledProcessError):  # none runs
        return process_of_the_daemon() != killed
    return False


def let_all_go(world, stage, run):
    """Pods that run now, and those that come later."""
    def over():
        for pod in running(world, stage):
            with contextlib.suppress(FileNotFoundError):  # it has ended, and its node has not said so yet
                world.let_pod_go(pod)
        return world.daemon.get(f"/runs/{run}/wait", timeout_ms=100)["done"]
    kit.wait_until(over, world.tell, HANG_S)
    world.succeeds(run)


def test_an_api_server_that_goes_and_comes_back_loses_nothing(world, before, table):
    """What runs goes on and is committed; what is to start says why it does not, and starts when the server is back."""
    run = world.begin_waiting("outlasts")
    pod, = world.pods("outlasts")
    outage = lambda: world.daemon.get("/status")["live"].get("outage")  # noqa: E731
    back = lambda: world.daemon.log().count(" can be used again, after ")  # noqa: E731
    assert outage() is None
    told = back()
    world.cluster.kill_api_server()
    try:
        clock = Clock()
        shown = clock.until(outage, "status says so")
        reason = outage()["reason"]
        assert reason.count("https://") == 1, reason
        ready = world.daemon.http("GET", "/readyz", token=False, raw=True).decode()
        assert ready.startswith("ok, but workers can be neither started nor watched: not_available"), ready
        later = world.begin("starts-later", COPY)
        world.daemon.wait_job(later, "starts-later", lambda one: reason.split(": ")[0] in one["reason"], "names the API server")
        world.let_pod_go(pod)
        assert world.daemon.wait(run)["state"] == "success"
    finally:
        world.cluster.start_api_server()
    clock = Clock()
    clock.until(lambda: outage() is None, world.tell)
    made = clock.until(lambda: world.pods("starts-later"), world.tell)
    world.succeeds(later)
    for stage, of in (("outlasts", run), ("starts-later", later)):
        assert record(world, of, stage)["workers_lost"] == 0
        nothing_is_left(world, before, stage)
    assert back() > told  # more than once, if the server refuses something in the seconds after its start
    table.add("API server gone and back", reason, shown, made)
