"""What admission makes of our pods: refused by a policy, changed by a webhook, held up by one that does not answer; and containers that it puts beside ours.
The API server is real, and so are policy, webhook, daemon, agents and commands."""
import contextlib
import http.server
import json
import threading

import containers
import nodes
import pytest
import webhooks
from kubelet import state
from test_demo import COMMANDS, kit, world  # noqa: F401  a fixture
from test_pod_faults import ONCE, begin, hold, names, runs, says, succeeds

PROXY = "registry.test/proxy:1"
COPY = "cp /pfs/in/f /pfs/out/f"


@pytest.fixture
def admission():
    """make(world) -> webhooks.Admission"""
    with contextlib.ExitStack() as stack:
        yield lambda one: stack.enter_context(webhooks.Admission(one.kubelet))


@pytest.fixture
def hook(tmp_path):
    """make(answer) -> webhooks.Server that serves"""
    with contextlib.ExitStack() as stack:
        yield lambda answer: stack.enter_context(webhooks.Server(tmp_path / "hook", answer))


def create(one, stage, script=COPY, **more):
    """A pipeline of one stage; the answer."""
    return one.daemon.default.repo(f"in-{stage}").stages(kit.sh(stage, script, **{"input": {"repo": f"in-{stage}", "name": "in", "glob": "/"}, **more}),
                                                         pipeline=stage)


def test_a_policy_that_refuses_pods_is_quoted(world, admission):  # noqa: F811
    """When the pipeline is made; and when the policy came later, by the job, which ends: what was tried is not tried for ever. Once it is gone the job's
    rerun succeeds."""
    one = world([nodes.cpu("a")])
    policies = admission(one)
    begun = begin(one, "before", COPY, **ONCE)
    succeeds(one, begun)
    one.kubelet.until(lambda: not one.kubelet.all(), "its pod is removed")
    policies.policy("has(object.metadata.labels) && 'team' in object.metadata.labels", "every pod says whose it is: label team")
    with pytest.raises(kit.HttpError) as refused:
        create(one, "after", resources={"cpu": "10m"})  # another pod than the one that was taken a moment ago
    assert refused.value.status == 400 and "every pod says whose it is: label team" in refused.value.error["message"], refused.value
    run = one.daemon.push("in-before", "f", "again")["run"]
    end = one.daemon.wait(run)
    job, = end["jobs"]
    assert end["state"] == "failure" and "denied request: every pod says whose it is: label team" in job["reason"], (end, one.tell())
    assert "permission" not in job["reason"], job
    policies.end()
    again = one.daemon.ctl("--json", "rerun", run, "--failed").json
    succeeds(one, again["run"])


def test_what_a_stage_says_is_what_a_policy_sees(world, admission):  # noqa: F811
    one = world([nodes.cpu("a")])
    admission(one).policy("has(object.metadata.labels) && 'team' in object.metadata.labels", "every pod says whose it is: label team")
    run = begin(one, "st", COPY, placement={"labels": {"team": "vision"}}, **ONCE)
    succeeds(one, run)


def change(request):
    """A variable, a label, an annotation, other resources, a sidecar."""
    spec = request["object"]["spec"]
    main = next(i for i, one in enumerate(spec["containers"]) if one["name"] == "main")
    proxy = {"name": "istio-proxy", "image": PROXY, "command": ["sh", "-c", "trap 'exit 143' TERM; echo up; while :; do sleep 0.05; done"]}
    return [{"op": "add", "path": f"/spec/containers/{main}/env", "value": [*spec["containers"][main].get("env", []), {"name": "TEAM", "value": "vision"}]},
            {"op": "add", "path": f"/spec/containers/{main}/resources", "value": {"requests": {"cpu": "50m"}}},
            {"op": "add", "path": "/metadata/labels/team", "value": "vision"}, {"op": "add", "path": "/metadata/annotations/seen", "value": "true"},
            {"op": "add", "path": "/spec/containers/0", "value": proxy}]


def begin_held(one):
    """A command that waits, then keeps its TEAM -> (gate, run, name of its pod, the pod)."""
    gate_ = kit.Gate()
    run = begin(one, "st", f'{gate_.wait}; printf %s "$TEAM" >/pfs/out/team; {COPY}', **ONCE)
    gate_.arrived()
    name, = names(one, "st")
    pod = one.kubelet.pod(name)
    return gate_, run, name, pod


def succeeds_in_next_life(one, gate_, run):
    """Of a daemon that was killed while the command waited."""
    one.daemon.kill()
    one.daemon.start()
    gate_.open()
    gate_.close()
    succeeds(one, run)


def test_a_pod_that_a_webhook_changed_is_still_ours(world, admission, hook):  # noqa: F811
    """Known again by a daemon that was killed meanwhile; over when our containers have ended, though the one that was put before them has not; then
    it is removed."""
    one = world([nodes.cpu("a")], images={PROXY: containers.Image()})
    server = hook(change)
    admission(one).webhook(server)
    gate_, run, name, pod = begin_held(one)
    assert [container["name"] for container in pod["spec"]["containers"]] == ["istio-proxy", "main", "agent"]
    assert pod["metadata"]["labels"]["team"] == "vision" and pod["metadata"]["annotations"]["seen"] == "true"
    succeeds_in_next_life(one, gate_, run)
    assert one.daemon.read("st", "team") == b"vision" and names(one, "st") == {name} == server.names
    one.kubelet.until(lambda: not one.kubelet.all(), "its pod is removed")
    last = one.kubelet.pod(name)
    assert state(last, "main")[1]["exitCode"] == state(last, "agent")[1]["exitCode"] == 0, last["status"]


def test_a_pod_that_a_policy_of_the_server_changed_is_still_ours(world, admission):  # noqa: F811
    """The same by a MutatingAdmissionPolicy: no webhook is asked, so the dry run that a pipeline is checked by sees the change, too."""
    one = world([nodes.cpu("a")], images={PROXY: containers.Image(entrypoint=("sleep", "1000"))})
    admission(one).mutating_policy(
        'Object{metadata: Object.metadata{labels: {"team": "vision"}, annotations: {"seen": "true"}}}',
        'Object{spec: Object.spec{containers: [Object.spec.containers{name: "main", env: [Object.spec.containers.env{name: "TEAM", value: "vision"}]}]}}',
        f'Object{{spec: Object.spec{{containers: [Object.spec.containers{{name: "istio-proxy", image: "{PROXY}"}}]}}}}')
    gate_, run, name, pod = begin_held(one)
    assert {container["name"] for container in pod["spec"]["containers"]} == {"istio-proxy", "main", "agent"}
    assert pod["metadata"]["labels"]["team"] == "vision" and pod["metadata"]["annotations"]["seen"] == "true"
    succeeds_in_next_life(one, gate_, run)
    assert one.daemon.read("st", "team") == b"vision" and names(one, "st") == {name}, one.tell()
    one.kubelet.until(lambda: not one.kubelet.all(), "its pod is removed")


def test_what_a_policy_of_the_server_makes_of_a_pod_is_what_is_checked(world, admission):  # noqa: F811
    """It puts a container there that asks for the impossible: the pipeline is refused in the server's words."""
    one = world([nodes.cpu("a")])
    admission(one).mutating_policy('object.metadata.name == "probe" ? Object{} : '
                                   'Object{spec: Object.spec{activeDeadlineSeconds: -1}}')
    with pytest.raises(kit.HttpError) as refused:
        create(one, "st", **ONCE)
    assert refused.value.status == 400 and "activeDeadlineSeconds" in refused.value.error["message"], refused.value


@pytest.mark.parametrize("fails", ["exit 7", "sleep 0.2; exit 7"])
def test_a_sidecar_that_fails_fails_nothing(world, admission, hook, fails):  # noqa: F811
    one = world([nodes.cpu("a")], images={PROXY: containers.Image()})
    proxy = {"name": "log-shipper", "image": PROXY, "command": ["sh", "-c", fails]}
    server = hook(lambda request: [{"op": "add", "path": "/spec/containers/-", "value": proxy}])
    admission(one).webhook(server)
    run = begin(one, "st", f"sleep 0.5; {COPY}", **ONCE)
    succeeds(one, run)
    assert len(names(one, "st")) == 1, one.tell()
    one.kubelet.until(lambda: not one.kubelet.all(), "its pod is removed")


def test_a_webhook_that_is_down_or_silent_is_waited_for(world, admission, hook):  # noqa: F811
    """Its failure is told beside the job, no try is used; the pipeline is made, not checked."""
    one = world([nodes.cpu("a")])
    server = hook(lambda request: [])
    hooks = admission(one)
    server.__exit__()
    hooks.webhook(server, asked=False)
    hooks.until(lambda code, _: code == 500, "the webhook is asked")
    warned = create(one, "st", **ONCE)["warnings"]
    assert any("not checked: " in line and 'failed calling webhook "hook.tests.example"' in line for line in warned), warned
    run = one.daemon.push("in-st", "f", "x")["run"]
    says(one, run, "st", 'failed calling webhook "hook.tests.example"', "connection refused")
    server.silent = True
    server.stopped.clear()
    server.__enter__()
    says(one, run, "st", 'failed calling webhook "hook.tests.example"', "context deadline exceeded", timeout=90)
    server.silent = False
    succeeds(one, run, 90)
    assert len(names(one, "st")) == 1 and server.names == names(one, "st"), one.tell()


def test_a_name_that_somebody_else_has_is_left_to_them(world, admission, hook):  # noqa: F811
    """The pod's name is seen before it is made, and taken: ours is made under another, theirs stays as it is."""
    one = world([nodes.cpu("a")])
    server = hook(lambda request: [])
    server.silent = lambda request: request["object"]["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") == "pipelined"
    hooks = admission(one)
    hooks.webhook(server)
    one.kubelet.until(lambda: hooks.asked(dry_run=False) and "probe" in server.names, "the webhook is asked")
    one.kubelet.until(lambda: one.kubelet.delete("probe", grace_s=0), "the probe goes")
    run = begin(one, "st", COPY, **ONCE)
    one.kubelet.until(lambda: server.held, "the pod was to be made")
    name, = server.held
    theirs = one.kubelet.create({"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [
        {"name": "main", "image": COMMANDS, "command": ["sleep", "1000"]}]}})
    server.silent = False
    succeeds(one, run, 90)
    ours, = names(one, "st")
    assert ours != name and one.kubelet.pod(name)["metadata"]["uid"] == theirs["metadata"]["uid"], one.tell()
    one.kubelet.until(lambda: [pod["metadata"]["name"] for pod in one.kubelet.all()] == [name], "ours is removed, theirs is not")


def test_a_webhook_s_no_is_quoted(world, admission, hook):  # noqa: F811
    one = world([nodes.cpu("a")])
    server = hook(lambda request: "images come from registry.example")
    admission(one).webhook(server, change=False)
    run = begin(one, "st", COPY, **ONCE)
    end = one.daemon.wait(run)
    job, = end["jobs"]
    assert end["state"] == "failure" and 'admission webhook "hook.tests.example" denied the request: images come from registry.example' in job["reason"], job
    assert "permission" not in job["reason"], job


def test_a_webhook_without_dry_runs_leaves_pipelines_unchecked(world, admission, hook):  # noqa: F811
    """Of one registered by what is no longer served (v1beta1, sideEffects Some): the server keeps those, and says 400 to any dry run."""
    one = world([nodes.cpu("a")])
    server = hook(lambda request: [])
    hooks = admission(one)
    hooks.webhook(server)
    old = json.loads(one.kubelet.plane.text(hooks.made[-1]))
    old["webhooks"][0]["sideEffects"] = "Some"
    one.kubelet.plane.keep("mutatingwebhookconfigurations/" + old["metadata"]["name"], old)
    hooks.until(lambda code, answer: code == 400, "dry runs are refused")
    warned = create(one, "st", **ONCE)["warnings"]
    assert any("not checked: " in line and 'admission webhook "hook.tests.example" does not support dry run' in line for line in warned), warned
    succeeds(one, one.daemon.push("in-st", "f", "x")["run"])


class Proxy:
    """What answers on loopback as a mesh's proxy does to its pod: paths that were posted, by port."""

    def __init__(self):
        proxy = self
        self.posted, self.came = [], threading.Condition()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                with proxy.came:
                    proxy.posted.append((self.server.server_port, self.path))
                    proxy.came.notify_all()
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.servers = [http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler) for port in (15020, 4191)]
        for server in self.servers:
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()


def test_in_a_mesh_the_agent_ends_the_proxies_last(world, gate):  # noqa: F811
    one = world([nodes.cpu("a")], options=("--kubernetes-mesh", "true"))
    proxy = Proxy()
    try:
        run = begin(one, "st", hold(gate), **ONCE)
        gate.arrived()
        name, = names(one, "st")
        meta = one.kubelet.pod(name)["metadata"]
        assert "sidecar.istio.io/inject" not in meta["labels"] and "linkerd.io/inject" not in meta["annotations"], meta
        assert proxy.posted == []
        gate.open()
        succeeds(one, run)
        with proxy.came:
            assert proxy.came.wait_for(lambda: len(proxy.posted) == 2, 30), one.tell()
        assert proxy.posted == [(15020, "/quitquitquit"), (4191, "/shutdown")]
    finally:
        proxy.close()


def test_outside_a_mesh_pods_are_left_out_of_it_and_nothing_is_posted(world):  # noqa: F811
    one = world([nodes.cpu("a")])
    proxy = Proxy()
    try:
        succeeds(one, begin(one, "st", COPY, **ONCE))
        one.kubelet.until(lambda: not one.kubelet.all(), "its pod is removed")
        pod, = one.pods("st")
        assert pod["metadata"]["labels"]["sidecar.istio.io/inject"] == "false" and pod["metadata"]["annotations"]["linkerd.io/inject"] == "disabled"
        assert proxy.posted == []
    finally:
        proxy.close()
