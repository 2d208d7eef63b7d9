"""Every pod of tests/unit/kube/pod/data/pods is one that a real API server takes, in namespaces of each level of Pod Security, and knows all fields of."""
import itertools
import json
import os
import pathlib
import subprocess

import containers
import pytest

PODS = sorted((pathlib.Path(__file__).parent.parent / "unit" / "kube" / "pod" / "data" / "pods").glob("*.json"))
LEVELS = ("privileged", "baseline", "restricted")
FOR_RESTRICTED = {"mig-media", "dra-v1beta1"}  # beside those whose name says so
PRIVILEGED_ALONE = {"template", "cpu-full"}  # the operator's own hostPath, and cache of the node
NUMBERS = itertools.count(1)


def create(plane, path, body):
    """None, or why it was refused."""
    status, answer = plane.request("POST", path, body)
    return None if status in (200, 201) else f"{status} {answer['message']}"


@pytest.fixture(scope="module", name="namespaces")
def of_each_level(plane):
    number = next(NUMBERS)
    names = {level: f"golden-{level}-{number}" for level in LEVELS}
    for level, name in names.items():
        labels = {"pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/enforce-version": "latest"}
        assert create(plane, "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}}) is None
        for account in ("default", "stages"):
            create(plane, f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": account}})
    for path, kind, body in (("scheduling.k8s.io", "priorityclasses", {"metadata": {"name": "high"}, "value": 1000}),
                             ("node.k8s.io", "runtimeclasses", {"metadata": {"name": "kata"}, "handler": "kata"}),
                             ("node.k8s.io", "runtimeclasses", {"metadata": {"name": "nvidia"}, "handler": "nvidia"})):
        create(plane, f"/apis/{path}/v1/{kind}", body)
    return names


def dry_run(plane, namespace, pod):
    pod["metadata"]["namespace"] = namespace
    return create(plane, f"/api/v1/namespaces/{namespace}/pods?dryRun=All&fieldValidation=Strict", pod)


def dry_run_template(plane, namespace, template):
    template["metadata"]["namespace"] = namespace
    return create(plane, f"/apis/{template['apiVersion']}/namespaces/{namespace}/resourceclaimtemplates?dryRun=All&fieldValidation=Strict", template)


def level_of(name):
    if name in PRIVILEGED_ALONE:
        return "privileged"
    return "restricted" if name.endswith(("-restricted", "-openshift")) or name in FOR_RESTRICTED else "baseline"


@pytest.mark.parametrize("path", PODS, ids=lambda p: p.stem)
def test_the_api_server_takes_it_at_its_level(plane, namespaces, path):
    pod = json.loads(path.read_text(encoding="utf-8"))
    template = pod.pop("claim template beside it", None)
    most = LEVELS.index(level_of(path.stem))
    for level in LEVELS[:most + 1]:
        assert dry_run(plane, namespaces[level], pod) is None, level
    for level in LEVELS[most + 1:]:
        refused = dry_run(plane, namespaces[level], pod)
        assert refused is None or "violates PodSecurity" in refused  # what is stricter than it must be does no harm
    if template:
        assert dry_run_template(plane, namespaces["restricted"], template) is None


@pytest.fixture(scope="module", name="ways")
def ways_to_ask_for_gpus(tmp_path_factory):
    """{"mps.restricted": pod}: each way to ask for GPUs at each level, as the product renders it."""
    folder = tmp_path_factory.mktemp("ways")
    done = subprocess.run([str(containers.BIN / "test_pod_render")], env={**os.environ, "PL_PODS_OUT": str(folder)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}


@pytest.mark.parametrize("level", LEVELS)
def test_each_way_to_ask_for_gpus_is_taken_at_each_level(plane, namespaces, ways, level):
    of_level = {name: pod for name, pod in ways.items() if name.endswith(f".{level}")}
    assert len(of_level) >= 25 and len(of_level) * len(LEVELS) == len(ways)
    refused = {}
    for name, pod in of_level.items():
        template = pod.pop("claim template beside it", None)
        why = [dry_run(plane, namespaces[level], pod), template and dry_run_template(plane, namespaces[level], template)]
        if any(why):
            refused[name] = why
    assert not refused


def test_what_a_namespace_forbids_is_refused_there(plane, namespaces):
    by_name = {p.stem: json.loads(p.read_text(encoding="utf-8")) for p in PODS}
    assert "hostPath" in dry_run(plane, namespaces["baseline"], by_name["template"])
    assert "runAsNonRoot" in dry_run(plane, namespaces["restricted"], by_name["root"])
    assert "unknown field" in dry_run(plane, namespaces["privileged"], {**by_name["cpu"], "specs": {}})
