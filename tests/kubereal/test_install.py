"""docs/kubernetes.md from an empty cluster to the digits, typed as it is written: the daemon in a pod of pipelined/deploy beside stages in pods, and
what becomes of them when the daemon, its account or the kubelet goes away meanwhile."""
import contextlib
import json
import os
import signal
import subprocess

import node
from world import DAEMONS, POD, commands, kit


def test_the_daemon_is_in_a_pod_that_may_little(world):
    """Its namespace admits what Pod Security calls restricted alone."""
    said = world.sh(f"kubectl -n {DAEMONS} exec {POD} -- sh -c 'id -u; id -G; touch /x 2>&1; stat -c %u:%a /data/pipelined; uname -n'").split("\n")
    assert said == ["10002", "10002", "touch: cannot touch '/x': Read-only file system", "10002:2700", POD, ""], said
    container = world.daemons_container()
    assert container["ready"] and container["restartCount"] == 0, world.tell()
    log = world.daemon.log()
    assert "workers are pods of namespace pipelined-stages" in log and "not allowed" not in log and not kit.SANITIZER.search(log), log


def test_doctor_says_that_all_is_well(world):
    *lines, last, _ = world.sh(commands(3)).split("\n")
    assert all(line.startswith("ok ") for line in lines) and last == f"{len(lines)} ok, 0 warn, 0 FAIL" and len(lines) > 10, (lines, last)
    assert any(f"{node.DEMO} runs on node {node.NODE}" in line for line in lines), lines


@contextlib.contextmanager
def in_the_background(world, script, what):
    """Runs while the block does; begins when `what` was said."""
    process = subprocess.Popen(["sh", "-c", f"exec {script}"], cwd=world.checkout, env=world.env, stdout=subprocess.PIPE, text=True)
    try:
        said = iter(process.stdout.readline, "")
        assert any(what in line for line in said), (script, world.tell())
        yield
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def test_the_digits_demo_is_trained_in_pods(world):
    """Nothing here has a GPU, and `train` does without."""
    forward, rest = commands(4).split(" &\n")
    with in_the_background(world, forward, "Forwarding from 127.0.0.1:7380"):
        world.sh(rest, 240)
    report = json.loads((world.checkout / "report" / "report.json").read_text(encoding="utf-8"))
    assert report["accuracy"] >= 0.95, report


def uids(world, stage):
    return [pod["metadata"]["uid"] for pod in world.pods(stage)]


def test_a_daemon_that_was_killed_takes_over_the_pod_that_runs(world):
    run = world.begin_waiting("survives")
    before, restarts = uids(world, "survives"), world.daemons_container()["restartCount"]
    os.kill(process_of_the_daemon(), signal.SIGKILL)
    kit.wait_until(lambda: world.daemons_container()["restartCount"] > restarts and world.daemons_container()["ready"], world.tell)
    assert len(before) == 1 and uids(world, "survives") == before, world.tell()
    world.let_go("survives")
    world.succeeds(run)
    assert world.daemon.read("survives", "f") == b"survives"


def process_of_the_daemon():
    listed = subprocess.run(["pgrep", "-f", "^/usr/bin/pipelined --config "], capture_output=True, text=True, check=True).stdout
    number, = listed.split()
    return int(number)


def test_an_account_that_is_made_anew_and_a_kubelet_that_was_killed(world):
    """Tokens of the account before are refused; the file has the new one once the kubelet has written it."""
    run = world.begin_waiting("kept")
    before = uids(world, "kept")
    world.cluster.kill_kubelet()
    try:
        assert world.cluster.request("DELETE", f"/api/v1/namespaces/{DAEMONS}/serviceaccounts/pipelined")[0] == 200
        world.sh("kubectl apply -k pipelined/deploy/cluster")
        world.let_go("kept")
    finally:
        world.cluster.start_kubelet()
    world.succeeds(run)
    assert len(before) == 1 and world.daemon.read("kept", "f") == b"kept"
    # a pod that the old token is refused for is tried again after 10, 30 and 70 s
    world.succeeds(world.begin("after", "cp /pfs/in/f /pfs/out/f"), 180)
    assert world.daemons_container()["restartCount"] == 1, world.tell()
