"""real_node.py RUNS: in a corner of this machine (tests/kubereal/inside.py), on a real kubelet with containerd and runc: from a push to the committed
output of a trivial stage, and from making a pod with the same three containers, which do nothing, until it is known to have ended. In turn, RUNS
times each. Prints {"ours": [s, …], "bare": [s, …]}."""
import json
import os
import pathlib
import shutil
import sys
import time

import ours

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests" / "kubereal"), str(TOP / "tests" / "kube"), str(TOP / "tests" / "support")]
import control_plane  # noqa: E402 (of tests/kube)
import inside  # noqa: E402 (of tests/kubereal)
import node  # noqa: E402

PODS = "/api/v1/namespaces/default/pods"
LOOK_S = 0.01
LONGEST_S = 120


def certificate(folder):
    """-> a folder with tls.crt, tls.key and ca.crt."""
    folder.mkdir()
    script = shutil.copy(TOP / "pipelined" / "deploy" / "cluster" / "certificate.sh", folder)
    control_plane.servers.command("sh", script, inside.ADDRESS)
    return folder / "tls"


def until(check):
    last = time.monotonic() + LONGEST_S
    while not (value := check()):
        if time.monotonic() > last:
            sys.exit(f"what was awaited did not come in {LONGEST_S} s")
        time.sleep(LOOK_S)
    return value


def pods(cluster):
    return cluster.request("GET", PODS)[1]["items"]


def pushed(target, i):
    source = target.folder / "one"
    source.write_text(f"{i}\n")
    began = time.monotonic()
    target.ctl("put", "file", "-q", "in@master:/f", "-f", source)
    target.ctl("wait", "run", "in@master", "--timeout", "300s")
    return time.monotonic() - began


def bare(cluster, like, name):
    pod = json.loads(json.dumps(like))
    pod["metadata"]["name"] = name
    began = time.monotonic()
    status, said = cluster.request("POST", PODS, pod)
    if status != 201:
        sys.exit(f"{status}: {said.get('message')}")
    until(lambda: cluster.request("GET", f"{PODS}/{name}")[1]["status"]["phase"] == "Succeeded")
    took = time.monotonic() - began
    cluster.request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
    return took


def without_work(pod):
    """The same containers and volumes, nobody's; those that the stage's work is done by end at once."""
    spec = {key: pod["spec"][key] for key in ("initContainers", "containers", "volumes", "securityContext", "restartPolicy", "enableServiceLinks",
                                               "automountServiceAccountToken")}
    for container in spec["containers"]:
        container["command"] = ["/usr/bin/true"]
    return {"metadata": {}, "spec": spec}


def main():
    runs = int(sys.argv[1])
    corner = pathlib.Path(os.environ["PL_CORNER"])
    cluster = node.Node(corner / "node").start()
    cluster.until("account", lambda: cluster.request("GET", "/api/v1/namespaces/default/serviceaccounts/default")[0] == 200)
    tls = certificate(corner / "certificate")
    cluster.request("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "ca"}, "data": {"ca.crt": (tls / "ca.crt").read_text()}})
    url = f"https://{inside.ADDRESS}:{control_plane.servers.free_port()}"
    options = ["--listen", url.removeprefix("https://"), "--tls-cert", tls / "tls.crt", "--tls-key", tls / "tls.key", "--worker-url", url, "--executor", "kubernetes",
               "--kubernetes-kubeconfig", cluster.kubeconfig(), "--kubernetes-image", node.OURS, "--kubernetes-default-image", node.PLAIN, "--kubernetes-ca", "ca"]
    found = {"ours": [], "bare": []}
    try:
        with ours.Daemon(corner / "daemon", options) as target:
            target.ctl("create", "repo", "in")
            target.pipeline({"pipeline": "p", "stages": [{"name": "s", "input": {"repo": "in"}, "script": "cp $PL_INPUT_IN/f $PL_OUT/f"}]})
            source = target.folder / "one"
            source.write_text("first\n")
            target.ctl("put", "file", "-q", "in@master:/f", "-f", source)
            like = without_work(until(lambda: pods(cluster))[0])
            target.ctl("wait", "run", "in@master", "--timeout", "300s")
            for i in range(runs):
                until(lambda: not pods(cluster))
                found["ours"].append(pushed(target, i))
                until(lambda: not pods(cluster))
                found["bare"].append(bare(cluster, like, f"bare-{i}"))
    finally:
        cluster.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
