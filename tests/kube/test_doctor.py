"""pipelinectl doctor --cluster against a real API server that has no kubelet: what it says of rights, namespace, nodes and limits."""
import json
import os
import pathlib
import subprocess

import control_plane
import pytest

CTL = pathlib.Path(os.environ["PL_BIN"]) / "pipelinectl"
NODE = {"cpu": "8", "memory": "32Gi", "pods": "110"}


def doctor(kubeconfig, *words):
    """-> (exit status, {check: [(grade, text, remedy)]}, the error)."""
    done = subprocess.run([CTL, "--json", "doctor", "--cluster", "--kubeconfig", kubeconfig, *words], capture_output=True, text=True, check=False, timeout=100)
    found = {}
    for line in json.loads(done.stdout)["checks"] if done.stdout else []:
        found.setdefault(line["check"], []).append((line["grade"], line["text"], line.get("remedy", "")))
    return done.returncode, found, done.stderr


def make(plane, path, body):
    status, said = plane.request("POST", path, body)
    assert status in (201, 409), said


@pytest.fixture
def node(plane):
    """make(name, …), gone after the test: nodes are everybody's."""
    made = []

    def make_it(name, **more):
        made.append(name)
        make_node(plane, name, **more)

    yield make_it
    for name in made:
        plane.request("DELETE", f"/api/v1/nodes/{name}")


def make_node(plane, name, arch="amd64", ready=True, **resources):
    make(plane, "/api/v1/nodes", {"metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "Tesla-T4"} if resources else {}}})
    conditions = [{"type": "Ready", "status": "True" if ready else "False", "reason": "Tests"}]
    offered = {**NODE, **{key.replace("_", "/"): value for key, value in resources.items()}}
    status, said = plane.request("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"capacity": offered, "allocatable": offered, "conditions": conditions,
                                                                                       "nodeInfo": {"architecture": arch}}},
                                 content_type="application/merge-patch+json")
    assert status == 200, said


@pytest.fixture(scope="module")
def space(plane):
    make(plane, "/api/v1/namespaces", {"metadata": {"name": "stages", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}})
    return plane.kubeconfig("doctor", namespace="stages")


def test_no_server_no_rights_no_namespace(plane, space):
    status, found, said = doctor(plane.kubeconfig("away", server="https://127.0.0.1:1"))
    assert status == 5 and found["api server"][0][0] == "FAIL" and list(found) == ["api server"], found
    status, found, said = doctor(plane.kubeconfig("nobody-doctor", {"token": control_plane.NOBODY}, "stages"))
    assert "rights" in found, (found, said)
    assert status == 5 and found["rights"][0][0] == "FAIL" and found["rights"][0][1].startswith("create pods"), found
    assert {grade for grade, _, _ in found["rights"][1:]} == {"warn"} and found["namespace"][0][0] == "warn", found
    assert "probe" not in found
    status, found, _ = doctor(space, "--namespace", "nowhere")
    assert status == 5 and found["namespace"] == [("FAIL", "nowhere does not exist", "Create it with all that it needs: kubectl apply -k pipelined/deploy/cluster")]
    status, found, said = doctor(plane.folder / "nothing-there")
    assert status != 0 and not found and "nothing-there" in said, said


def test_without_a_node(space):
    status, found, _ = doctor(space)
    assert status == 5 and found["nodes"][0][:2] == ("FAIL", "0 nodes, and none of them is ready for pods"), found
    assert found["gpus"][0][1].startswith("none"), found


def test_what_nodes_offer(space, node):
    node("cpu-1")
    node("gpu-1", **{"nvidia.com_gpu": "4"})
    node("arm-1", arch="arm64", ready=False)
    status, found, said = doctor(space)
    assert status == 0, (found, said)
    assert found["namespace"] == [("ok", "stages, Pod Security baseline", "")] and found["rights"][0][1].startswith("all "), found
    assert found["nodes"] == [("warn", "3 nodes, 2 ready for pods", "")], found
    assert found["gpus"][0][1].startswith("nvidia.com/gpu (Tesla-T4: 4, 4 free"), found
    assert found["architectures"][0][0] == "warn" and "arm64" in found["architectures"][0][1], found
    assert found["claims"][0][1].startswith("resource.k8s.io/v1, device classes: none"), found
    assert found["quota"] == [("ok", "none", "")] and found["probe"][0][0] == "warn", found


def test_maps_quotas_and_what_the_configuration_says(plane, space):
    make(plane, "/api/v1/namespaces", {"metadata": {"name": "limited", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}})
    make(plane, "/api/v1/namespaces/limited/configmaps", {"metadata": {"name": "authority"}, "data": {"other": "x"}})
    make(plane, "/api/v1/namespaces/limited/resourcequotas", {"metadata": {"name": "team"}, "spec": {"hard": {"limits.memory": "64Gi", "pods": "10"}}})
    config = plane.folder / "daemon.json"
    config.write_text(json.dumps({"worker_url": "https://127.0.0.1:9", "kubernetes": {
        "namespace": "limited", "owner": "pipelined", "ca": "authority", "arch": "amd64", "node_cache": "/var/cache/x"}}), encoding="ascii")
    status, found, _ = doctor(plane.kubeconfig("other-space"), "--config", config)
    assert status == 5
    assert found["owner"][0][:2] == ("FAIL", "ConfigMap pipelined is not in namespace limited"), found
    assert found["ca"][0][:2] == ("FAIL", "ConfigMap authority has no key ca.crt"), found
    assert any(grade == "warn" and text.startswith("the quota demands limits.memory of every container") for grade, text, _ in found["quota"]), found
    assert found["namespace"][0][0] == "warn" and "/var/cache/x" in found["namespace"][0][1], found
    for nonsense, words in (("{nonsense", "daemon.json:1:"), (json.dumps({"kubernetes": {"node_cache": "/"}}), "kubernetes.node_cache is ")):
        config.write_text(nonsense, encoding="ascii")
        status, _, said = doctor(space, "--config", config)
        assert status == 5 and words in said, said


def test_limits_that_refuse_our_own_containers_are_said_with_the_setting(plane):
    narrow = "/api/v1/namespaces/narrow"
    make(plane, "/api/v1/namespaces", {"metadata": {"name": "narrow"}})
    make(plane, f"{narrow}/limitranges", {"metadata": {"name": "team"}, "spec": {"limits": [{"type": "Container", "max": {"memory": "256Mi"}}]}})
    kubeconfig, config = plane.kubeconfig("narrow-space", namespace="narrow"), plane.folder / "narrow.json"
    sentence = "LimitRange team allows a container at most 256Mi of memory, and container agent has a limit of 512Mi"
    status, found, _ = doctor(kubeconfig)
    assert status == 5 and found["limits"][0][:2] == ("FAIL", sentence) and "kubernetes.agent_memory" in found["limits"][0][2], found
    config.write_text(json.dumps({"kubernetes": {"agent_memory": "192Mi"}}), encoding="ascii")
    assert doctor(kubeconfig, "--config", config)[1]["limits"][0][0] == "ok"
    make(plane, f"{narrow}/resourcequotas", {"metadata": {"name": "small"}, "spec": {"hard": {"limits.memory": "128Mi"}}})
    found = doctor(kubeconfig, "--config", config)[1]
    assert found["limits"][0][1].startswith("ResourceQuota small allows all pods together 128Mi of limits.memory, and container agent of each has"), found
    config.write_text(json.dumps({"kubernetes": {"agent_memory": "lots"}}), encoding="ascii")
    status, _, said = doctor(kubeconfig, "--config", config)
    assert status == 5 and "kubernetes.agent_memory is " in said and "use a quantity such as 512Mi" in said, said


def test_a_pod_that_cannot_start_is_said_and_taken_away(plane, space):
    status, found, _ = doctor(space, "--image", "reg.example/pipelined:1", "--wait", "1")
    grade, text, remedy = found["probe"][0]
    assert status == 5 and grade == "FAIL" and text.startswith("its pod did not finish: ") and remedy, found
    left = plane.request("GET", "/api/v1/namespaces/stages/pods")[1]["items"]
    assert not left, [one["metadata"]["name"] for one in left]


def test_options_of_a_cluster_need_cluster():
    done = subprocess.run([CTL, "doctor", "--image", "reg.example/pipelined:1"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--image is an option of doctor --cluster" in done.stderr and "this machine and its daemon" in done.stderr, done.stderr
