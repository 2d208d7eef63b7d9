"""Each setting of "kubernetes" in the daemon's configuration: what it does to a stage's pod as the API server has it, or how it is refused."""
import json
import os
import subprocess

import nodes
import pods
import pytest
from test_demo import kit, world  # noqa: F401  a fixture
from test_pod_faults import ONCE, begin, names


def container(pod, name):
    return next(one for one in [*pod["spec"]["containers"], *pod["spec"]["initContainers"]] if one["name"] == name)


def env(pod, name):
    return {one["name"]: one.get("value") for one in container(pod, name).get("env", [])}


def volume(pod, name):
    return next((one for one in pod["spec"]["volumes"] if one["name"] == name), {})


def requires(pod):
    """{label: (operator, values)} of its node."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    return {one["key"]: (one["operator"], one.get("values")) for term in affinity.get("nodeSelectorTerms", []) for one in term.get("matchExpressions", [])}


def prefers(pod):
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    return {one["key"] for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution", []) for one in term["preference"]["matchExpressions"]}


IMAGE = "registry.test/other:2"
SETTINGS = {  # what is set, where that is seen, what stands there then, and what without it
    "image": (IMAGE, lambda pod: [container(pod, name)["image"] for name in ("install", "agent")], [IMAGE] * 2, ["registry.test/pipelined:1"] * 2),
    "default_image": ("registry.test/commands:9", lambda pod: container(pod, "main")["image"], "registry.test/commands:9", "registry.test/python:3"),
    "pull_secrets": ("one, two", lambda pod: pod["spec"].get("imagePullSecrets"), [{"name": "one"}, {"name": "two"}], None),
    "arch": ("amd64,arm64", lambda pod: requires(pod).get("kubernetes.io/arch"), ("In", ["amd64", "arm64"]), None),
    "owner": ("stages", lambda pod: [(one["kind"], one["name"], one.get("controller")) for one in pod["metadata"].get("ownerReferences", [])],
              [("ConfigMap", "stages", True)], []),
    "ca": ("trusted", lambda pod: (env(pod, "agent").get("PIPELINED_CA"), env(pod, "main").get("PIPELINED_CA"), volume(pod, "ca").get("configMap", {}).get("name")),
           ("/etc/pipelined/ca/ca.crt", None, "trusted"), (None, None, None)),
    "trust_bundle": ("company", lambda pod: (env(pod, "agent").get("SSL_CERT_FILE"), env(pod, "main").get("REQUESTS_CA_BUNDLE"),
                                             volume(pod, "trust").get("configMap", {}).get("name")),
                     ("/etc/pipelined/trust/ca.crt", "/etc/pipelined/trust/ca.crt", "company"), (None, None, None)),
    "proxy_env": ({"HTTPS_PROXY": "http://proxy.example:3128"}, lambda pod: [env(pod, name).get("HTTPS_PROXY") for name in ("main", "agent")],
                  ["http://proxy.example:3128"] * 2, [None] * 2),
    "cpu_on_gpu_nodes": ("never", lambda pod: ("nvidia.com/gpu.present" in requires(pod), "nvidia.com/gpu.present" in prefers(pod)), (True, False), (False, True)),
    "mesh": (True, lambda pod: ("sidecar.istio.io/inject" in pod["metadata"]["labels"], "linkerd.io/inject" in pod["metadata"]["annotations"],
                                "--mesh" in container(pod, "agent")["command"]), (False, False, True), (True, True, False)),
    "grace": ("2m", lambda pod: pod["spec"]["terminationGracePeriodSeconds"], 120, 30),
    "agent_memory": ("1Gi", lambda pod: [container(pod, name)["resources"]["limits"]["memory"] for name in ("install", "agent")], ["1Gi"] * 2, ["512Mi"] * 2),
    "node_cache": ("/var/cache/pipelined", lambda pod: (volume(pod, "cache").get("hostPath", {}).get("path"), "--cache" in container(pod, "agent")["command"]),
                   ("/var/cache/pipelined", True), (None, False)),
    "pod_template": ({"metadata": {"annotations": {"cost-centre": "7"}}, "spec": {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.0.0.1"]}}},
                     lambda pod: (pod["metadata"]["annotations"].get("cost-centre"), pod["spec"]["dnsPolicy"]), ("7", "None"), (None, "ClusterFirst")),
}


def config(tmp_path, **kubernetes):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"kubernetes": kubernetes}))
    return "--config", str(path)


def first(one, stage):
    name, = one.kubelet.until(lambda: names(one, stage), "a pod of the stage")
    return one.kubelet.pod(name)


def owner(kubelet):
    code, answer = kubelet.plane.request("POST", f"/api/v1/namespaces/{kubelet.namespace}/configmaps", {"metadata": {"name": "stages"}})
    assert code == 201, answer
    return kubelet.kubeconfig


def seen(pod, column):
    wrong = {key: (row[1](pod), row[column]) for key, row in SETTINGS.items() if row[1](pod) != row[column]}
    assert not wrong, json.dumps({key: {"is": repr(is_), "should be": repr(should)} for key, (is_, should) in wrong.items()}, indent=1)


def test_what_is_set_is_seen_on_pods(world, tmp_path):  # noqa: F811
    """A file says it; where the command line says otherwise that counts, so this daemon has neither image there."""
    said = {key: row[0] for key, row in SETTINGS.items()}
    one = world([nodes.gpu("g", count=1), nodes.cpu("a")], play=pods.on_demand, speaks=owner, options=config(tmp_path, **said), images_said=False)
    begin(one, "st", "true", **ONCE)
    seen(first(one, "st"), 2)


def test_without_it_pods_are_as_they_are_documented(world):  # noqa: F811
    one = world([nodes.gpu("g", count=1), nodes.cpu("a")], play=pods.on_demand)
    begin(one, "st", "true", **ONCE)
    seen(first(one, "st"), 3)


def test_a_stage_s_own_grace_comes_before_the_daemon_s(world):  # noqa: F811
    one = world([nodes.cpu("a")], play=pods.on_demand, options=("--kubernetes-grace", "2m"))
    begin(one, "st", "true", placement={"grace": "5m"}, **ONCE)
    assert first(one, "st")["spec"]["terminationGracePeriodSeconds"] == 300


def test_the_context_and_the_namespace_that_are_named_are_taken(world):  # noqa: F811
    """Of a kubeconfig whose current context leads nowhere."""
    def speaks(kubelet):
        made = json.loads(kubelet.kubeconfig.read_text())
        made["clusters"].append({"name": "away", "cluster": {"server": "https://127.0.0.1:9"}})
        made["contexts"] = [{"name": "away", "context": {"cluster": "away", "user": "u"}}, {"name": "here", "context": {"cluster": "c", "user": "u"}}]
        made["current-context"] = "away"
        path = kubelet.kubeconfig.with_name(f"{kubelet.namespace}-contexts.kubeconfig")
        path.write_text(json.dumps(made))
        return path

    one = world([nodes.cpu("a")], play=pods.on_demand, speaks=speaks,
                options=lambda kubelet: ("--kubernetes-context", "here", "--kubernetes-namespace", kubelet.namespace))
    begin(one, "st", "true", **ONCE)
    assert first(one, "st")["metadata"]["namespace"] == one.kubelet.namespace


def test_nodes_that_could_come_and_presets_of_one_s_own(world, tmp_path):  # noqa: F811
    """A stage waits for a node that an autoscaler could bring: its pod is made. One of another vendor is not."""
    shapes = [{"cpu": 8, "memory": "32Gi", "resources": {"example.com/gpu": 2}}]
    presets = {"ours": {"limits": {"example.com/gpu": "${count}"}, "annotations": {"example.com/part": "${part}"}}}
    one = world([nodes.cpu("a")], play=pods.on_demand, options=config(tmp_path, gpu_shapes=shapes, gpu_presets=presets))
    begin(one, "comes", "true", gpu={"resource": "example.com/gpu"}, **ONCE)
    assert container(first(one, "comes"), "main")["resources"]["limits"]["example.com/gpu"] == "1"
    begin(one, "part", "true", gpu={"share": {"mode": "custom", "preset": "ours", "values": {"part": "half"}}}, **ONCE)
    pod = first(one, "part")
    assert pod["metadata"]["annotations"]["example.com/part"] == "half" and container(pod, "main")["resources"]["limits"]["example.com/gpu"] == "1", pod
    run = begin(one, "never", "true", gpu={"resource": "other.com/gpu"}, **ONCE)
    one.daemon.wait_job(run, "never", lambda job: "no node offers other.com/gpu" in job["reason"], "says that nobody has it")
    assert not names(one, "never")


REFUSED = [
    ({"image": ""}, "--executor kubernetes needs --kubernetes-image"),
    ({"arch": "amd64,ppc64le"}, 'kubernetes.arch is "ppc64le": use amd64 or arm64'),
    ({"cpu_on_gpu_nodes": "sometimes"}, 'kubernetes.cpu_on_gpu_nodes is "sometimes": use avoid, never or allow'),
    ({"agent_memory": "lots"}, 'kubernetes.agent_memory is "lots": use a quantity such as 512Mi'),
    ({"agent_memory": "0"}, 'kubernetes.agent_memory is "0": use a quantity such as 512Mi'),
    ({"grace": "0s"}, 'kubernetes.grace is "0ms": use a duration from 1s to 24h'),
    ({"grace": "25h"}, 'kubernetes.grace is "25h": use a duration from 1s to 24h'),
    ({"grace": "soon"}, 'kubernetes.grace is "soon": use a duration such as 2s, 500ms or 1m30s'),
    ({"mesh": "perhaps"}, "kubernetes.mesh"),
    ({"proxy_env": {"HTTPS_PROXY": 1}}, "kubernetes.proxy_env.HTTPS_PROXY is 1: use a string"),
    ({"pull_secrets": ",".join(f"s{i}" for i in range(65))}, "kubernetes.pull_secrets has more than 64 names"),
    ({"pull_secrets": "Not_A_Name"}, 'kubernetes.pull_secrets is "Not_A_Name"'),
    ({"claims": "Not_A_Name"}, 'kubernetes.claims is "Not_A_Name": use names of PersistentVolumeClaims, or PROJECT/CLAIM'),
    ({"claims": "imagenet,no.project/claim"}, 'kubernetes.claims is "no.project/claim"'),
    ({"claims": ",".join(f"s{i}" for i in range(65))}, "kubernetes.claims has more than 64 names"),
    ({"owner": "Not_A_Name"}, 'kubernetes.owner is "Not_A_Name"'),
    ({"ca": "Not_A_Name"}, 'kubernetes.ca is "Not_A_Name"'),
    ({"trust_bundle": "Not_A_Name"}, 'kubernetes.trust_bundle is "Not_A_Name"'),
    ({"namespace": "Not_A_Name"}, 'kubernetes.namespace is "Not_A_Name"'),
    ({"node_cache": "relative/folder"}, 'kubernetes.node_cache is "relative/folder"'), ({"node_cache": "/"}, 'kubernetes.node_cache is "/": use a folder'),
    ({"node_cache": "/etc/pipelined"}, 'kubernetes.node_cache is "/etc/pipelined"'),
    ({"pod_template": [1]}, "kubernetes.pod_template"),
    ({"pod_template": {"spec": {"containers": "all"}}}, "kubernetes.pod_template"),
    ({"pod_template": {"speck": {}}}, "kubernetes.pod_template"),
    ({"gpu_shapes": {"cpu": 1}}, "kubernetes.gpu_shapes"),
    ({"gpu_shapes": [{"cpus": 1}]}, "kubernetes.gpu_shapes"),
    ({"gpu_presets": {"ours": {"limit": {}}}}, "kubernetes.gpu_presets"),
    ({"gpu_presets": []}, "kubernetes.gpu_presets"),
    ({"trusted_projects": "no/name"}, 'kubernetes.trusted_projects is "no/name"'),
    ({"kubeconfig": "/nowhere"}, "/nowhere"),
    ({"nodes": 3}, "kubernetes.nodes"),
]


@pytest.mark.parametrize("said, words", REFUSED, ids=[json.dumps(said)[:60] for said, _ in REFUSED])
def test_what_cannot_be_is_refused_by_its_name_when_the_daemon_starts(tmp_path, said, words):
    """No cluster is needed to say so."""
    options = config(tmp_path, **{"image": IMAGE, "kubeconfig": str(tmp_path / "none"), **said})
    done = subprocess.run([os.path.join(kit.BIN, "pipelined"), "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--executor", "kubernetes", *options],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (1, 2) and words in done.stderr, (done.returncode, done.stderr)
