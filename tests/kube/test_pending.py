"""placement.pending through the daemon on a real control plane: how long a stage waits for a node."""
import nodes
from test_demo import world  # noqa: F401  a fixture
from test_pod_faults import ONCE, begin, says


def test_a_stage_that_gets_no_node_in_time_fails_with_the_last_reason(world):  # noqa: F811
    """Its pod goes, and a stage without the bound waits on."""
    one = world([nodes.cpu("a")])
    lost = {"node_selector": {"which": "lost"}}
    waits = begin(one, "waits", "true", placement=lost, **ONCE)
    says(one, waits, "waits", "0/1 nodes are available")
    end = one.daemon.wait(begin(one, "st", "true", placement={**lost, "pending": "10s"}, **ONCE))
    job, = [job for job in end["jobs"] if job["stage"] == "st"]
    assert job["state"] == "failure" and job["reason"].startswith("no pod got a node within 10s (placement.pending): 0/1 nodes are available"), (job, one.tell())
    one.kubelet.until(lambda: len(one.kubelet.all()) == 1, "its pod is removed")
    assert one.daemon.job(waits, "waits")["state"] == "starting"
