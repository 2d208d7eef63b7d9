"""Pods of others that carry the labels of ours: copies that somebody made, pods made by hand, those of another daemon in the same namespace."""
import pathlib

import nodes
from kubelet import phase
from test_demo import COMMANDS, kit, world  # noqa: F401  a fixture
from test_pod_faults import ONCE, begin, hold, names, succeeds

SLEEPS = {"restartPolicy": "Never", "containers": [{"name": "main", "image": COMMANDS, "command": ["sleep", "1000"]}]}
SAYS = "pod {} has the labels of this daemon's pods but was not created by it: ignored"


def test_who_carries_our_labels_is_not_ours_for_that(world, gate):  # noqa: F811
    """It is not taken for a worker, not removed, and said once; a daemon that was killed knows its own from it when it is back; when it goes nothing happens."""
    one = world([nodes.cpu("a")])
    run = begin(one, "st", hold(gate), **ONCE)
    gate.arrived()
    name, = names(one, "st")
    ours = one.kubelet.pod(name)["metadata"]
    foreign = {"copy": {"labels": ours["labels"], "annotations": ours["annotations"]},
               "by-hand": {"labels": {key: ours["labels"][key] for key in ("pipelined.io/store", "app.kubernetes.io/managed-by") if key in ours["labels"]}},
               "of-another": {"labels": {**ours["labels"], "pipelined.io/store": "f" * 32}, "annotations": ours["annotations"]}}
    for other, metadata in foreign.items():
        one.kubelet.create({"metadata": {"name": other, **metadata}, "spec": SLEEPS})
        one.kubelet.wait(other, lambda pod: phase(pod) == "Running")
    for other in ("copy", "by-hand"):
        kit.wait_until(lambda other=other: SAYS.format(other) in one.daemon.log(), f"the daemon to see pod {other}")
    one.daemon.kill()
    one.daemon.start()
    gate.open()
    succeeds(one, run)
    one.kubelet.until(lambda: {pod["metadata"]["name"] for pod in one.kubelet.all()} == set(foreign), "ours is removed, theirs are not")
    assert one.daemon.job(run, "st")["datums"]["done"] == 1 and all(phase(one.kubelet.pod(other)) == "Running" for other in foreign)
    for other, lives in (("copy", 2), ("by-hand", 2), ("of-another", 0)):
        assert sum(SAYS.format(other) in line for log in one.daemon.logs for line in pathlib.Path(log).read_text(encoding="utf-8").splitlines()) == lives, other
        one.kubelet.delete(other, grace_s=0)
        one.kubelet.wait_gone(other)
    run = one.daemon.push("in-st", "f", "again")["run"]
    gate.arrived()
    gate.open()
    succeeds(one, run)
