"""What the daemon counts while its workers are pods, on a real control plane: workers that run and that wait, and its calls to the API server."""
import exporter
import nodes
import openmetrics
import pytest
from test_demo import kit, world  # noqa: F401  a fixture
from test_pod_faults import ONCE, begin, succeeds


def metrics(one):
    return openmetrics.read(one.daemon.http("GET", "/metrics", raw=True, headers={"Accept": "application/openmetrics-text"}).decode())


def test_only_a_worker_that_runs_is_busy(world, gate):  # noqa: F811
    """Of two pods of one stage one runs, and the other waits for room. In `status` of the API and of the command line, and in the metrics."""
    one = world([nodes.cpu("a", cpu="4")])
    one.daemon.default.repo("in").stages(kit.sh("st", f"{gate.wait}; cp /pfs/in/* /pfs/out/", glob="/*", workers=2, resources={"cpu": "2500m"}), pipeline="st")
    run = one.daemon.default.commit("in", {"f": "1", "g": "2"})["run"]
    gate.arrived()
    one.kubelet.until(lambda: sorted(bool(pod["spec"].get("nodeName")) for pod in one.pods("st")) == [False, True], "one has no room")
    assert one.daemon.get("/status")["live"]["queue"]["workers_busy"] == 1
    assert "1 worker busy, " in one.daemon.ctl("status").out
    seen = metrics(one)
    assert {state: openmetrics.value(seen, "pipelined_workers", state=state) for state in ("starting", "busy", "idle")} == {"starting": 1, "busy": 1, "idle": 0}
    gate.leave_open()
    succeeds(one, run)
    kit.wait_until(lambda: one.daemon.get("/status")["live"]["queue"]["workers_busy"] == 0, "none is busy any more")


class Refusing(exporter.Front):
    """Refuses the next `refusals` requests that make a pod, with 429 and a time after which to ask again."""

    refusals = refused = 0

    def handler(self):
        front = self

        class Handler(super().handler()):
            def do_POST(self):
                if front.refused == front.refusals or not self.path.split("?")[0].endswith("/pods"):
                    self.answer()
                    return
                front.refused += 1
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                text = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","message":"too many requests","code":429}'
                self.send_response(429)
                self.send_header("Retry-After", "1")
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        return Handler


@pytest.fixture
def front(plane):
    one = Refusing(plane)
    yield one
    one.stop()


def test_calls_to_the_api_server_are_counted_with_its_refusals(world, front):  # noqa: F811
    one = world([nodes.cpu("a")], speaks=lambda kubelet: kubelet.plane.kubeconfig(
        f"front-{kubelet.namespace}", namespace=kubelet.namespace, **{"server": front.url, "certificate-authority": ""}))
    names = ("pipelined_kube_requests", "pipelined_kube_retries", "pipelined_kube_throttled")

    def counted():
        seen = metrics(one)
        return [openmetrics.value(seen, name) for name in names]

    succeeds(one, begin(one, "first", "cp /pfs/in/f /pfs/out/f", **ONCE))
    requests, retries, throttled = counted()
    assert requests > 0
    front.refusals = 2
    succeeds(one, begin(one, "second", "cp /pfs/in/f /pfs/out/f", **ONCE))
    assert front.refused == 2
    more = counted()
    # the API server itself may refuse some, too, when it is busy
    assert more[0] >= requests + 3 and more[1] >= retries + 2 and more[2] >= throttled + 2, (requests, retries, throttled, more)
