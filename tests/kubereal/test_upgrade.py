"""An installation that changes: a component, and its end."""
import os
import pathlib

from world import DAEMONS, POD, STAGES, commands, kit

APPLY = "kubectl apply -k pipelined/deploy/cluster; kubectl -n pipelined rollout status statefulset/pipelined"
CACHE = pathlib.Path("/var/cache/pipelined")


def cached():
    """When the one file of the node's cache was used last."""
    file, = (path for path in CACHE.glob("objects/*/*") if path.is_file())
    return file.stat().st_ctime_ns


def test_what_one_pod_has_read_the_next_one_on_its_node_does_not_fetch(world):
    """The component node-cache, switched on by its line; the daemon starts anew with it. The kubelet makes the folder for root."""
    path = world.deploy / "cluster" / "kustomization.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("components: []", "components: [../components/node-cache]"), encoding="utf-8")
    before = world.daemons_pod()["metadata"]["uid"]
    world.sh(APPLY)
    assert world.daemons_pod()["metadata"]["uid"] != before
    content = os.urandom(300000)
    count = "wc -c </pfs/in/f >/pfs/out/size"
    world.succeeds(world.begin("reads", count, content=content))
    first = cached()
    world.succeeds(world.begin("reads-again", count, content=content))
    assert cached() > first and world.daemon.read("reads-again", "size") == b"300000\n"


def test_what_is_taken_away_is_brought_back_with_all_that_it_held(world):
    world.sh(commands(5))
    pod = f"/api/v1/namespaces/{DAEMONS}/pods/{POD}"
    kit.wait_until(lambda: world.cluster.request("GET", pod)[0] == 404, world.tell)
    for namespace, kind in ((DAEMONS, "statefulsets,services,configmaps,secrets"), (STAGES, "configmaps")):
        left = world.sh(f"kubectl -n {namespace} get {kind} -o name").split()
        assert [one for one in left if "kube-root-ca" not in one] == [], left
    world.sh(APPLY)
    assert world.daemon.read("reads", "size") == b"300000\n"
