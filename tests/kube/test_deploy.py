"""What pipelined/deploy/ puts into a cluster: taken by a real API server as kubectl gives it, and no more rights in it than are used."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import containers
import control_plane
import kubelet as library
import nodes
import pytest
from test_client import rows
from test_demo import AGENT, COMMANDS, IMAGES, World, kit

TOP = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = TOP / "pipelined" / "deploy"
COMPONENTS = sorted(folder.name for folder in (DEPLOY / "components").iterdir())
DAEMONS, STAGES, EXPORTERS = "pipelined", "pipelined-stages", "gpu-operator"
BESIDE = {("get", "core", "namespaces")}  # done without asking whether it may: for Pod Security's label; without it the namespace admits everything


def rendered(folder):
    """What kustomize makes of a folder: YAML documents."""
    done = subprocess.run([control_plane.kubectl(), "kustomize", folder], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split("\n---\n")


@pytest.fixture(scope="module")
def deploy(tmp_path_factory, plane):
    """A copy with a certificate."""
    folder = tmp_path_factory.mktemp("deploy") / "deploy"
    shutil.copytree(DEPLOY, folder, ignore=shutil.ignore_patterns("tls"))
    made = subprocess.run(["sh", folder / "cluster" / "certificate.sh", "data.example", "192.0.2.7"], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return folder


def chosen(deploy, components, **image):
    """A folder beside `cluster` that takes it with these components, as one would edit it."""
    folder = deploy / "-".join(["with", *components])
    shutil.copytree(deploy / "cluster", folder, dirs_exist_ok=True)
    path = folder / "kustomization.yaml"
    text = path.read_text(encoding="utf-8")
    text = text.replace("components: []", f"components: {json.dumps([f'../components/{name}' for name in components])}")
    path.write_text(text.replace("newName: pipelined\n", f"newName: {image.get('name', 'pipelined')}\n"), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def installed(plane, deploy):
    documents = rendered(deploy / "cluster")
    for document in sorted(documents, key=lambda document: "kind: Namespace\n" not in document):
        status, said = plane.apply(document)
        assert status in (200, 201), said
    assert plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": EXPORTERS}})[0] == 201


@pytest.mark.parametrize("components", [[], *([name] for name in COMPONENTS), ["restricted", "bucket"]], ids=lambda names: "+".join(names) or "none")
def test_the_api_server_takes_it(plane, deploy, installed, components):
    documents = rendered(chosen(deploy, components))
    assert len(documents) == 16 + (2 if "gpu-use" in components else 0)
    for document in documents:
        status, said = plane.apply(document, dry_run=True)
        assert status in (200, 201), said


def test_one_image_is_named_once(deploy):
    text = "\n".join(rendered(chosen(deploy, [], name="registry.example/team/pipelined")))
    assert re.findall(r"\S*pipelined:0\.1\.0", text) == ["registry.example/team/pipelined:0.1.0"] * 2, text


def test_the_daemon_would_pass_the_restricted_level_and_stages_have_none_of_its_secrets(plane, installed):
    stateful = plane.request("GET", f"/apis/apps/v1/namespaces/{DAEMONS}/statefulsets/pipelined")[1]
    template = stateful["spec"]["template"]
    template["spec"]["volumes"].append({"name": "data", "emptyDir": {}})
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "as-the-daemon", **template["metadata"]}, "spec": template["spec"]}
    status, said = plane.request("POST", f"/api/v1/namespaces/{DAEMONS}/pods?dryRun=All", pod)
    assert status == 201, said
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    status, said = plane.request("POST", f"/api/v1/namespaces/{DAEMONS}/pods?dryRun=All", pod)
    assert status == 403 and "violates PodSecurity" in said["message"], said
    assert plane.request("GET", f"/api/v1/namespaces/{STAGES}/secrets")[1]["items"] == []


@pytest.mark.parametrize("components, level", [([], "baseline"), (["restricted"], "restricted"), (["node-cache"], "privileged")])
def test_what_the_stages_namespace_admits(deploy, components, level):
    stages = next(one for one in rendered(chosen(deploy, components)) if "kind: Namespace" in one and f"  name: {STAGES}" in one)
    assert f"pod-security.kubernetes.io/enforce: {level}\n" in stages


def test_nobody_is_named_on_openshift(deploy):
    text = "\n".join(rendered(chosen(deploy, ["openshift"])))
    assert "runAsNonRoot: true" in text and "runAsUser" not in text and "fsGroup" not in text and "runAsGroup" not in text


# ---- the image


def test_the_image_has_every_program_and_the_libraries_that_they_are_linked_with(tmp_path):
    build = pathlib.Path(os.environ["PL_BIN"]).parent
    done = subprocess.run(["cmake", "--install", build, "--prefix", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    programs = {path.name: path for path in (tmp_path / "bin").iterdir()}
    assert set(programs) == {"pipelined", "pipelinectl", "pipelined-worker", "pl-git", "pl-next", "pl-runner"}
    packages = {line.split()[1] for line in (TOP / "pipelined/deploy/debian-packages.txt").read_text(encoding="utf-8").splitlines() if line.startswith("image ")}
    of_slim = {"libc6", "libgcc-s1", "libstdc++6", "libasan8", "libubsan1"}  # the last two are of this build alone
    for name, path in programs.items():
        listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
        direct = subprocess.run(["objdump", "-p", path], capture_output=True, text=True, check=True).stdout
        for needed in (line.split()[1] for line in direct.splitlines() if line.split()[:1] == ["NEEDED"]):
            where = next((line.split()[2] for line in listed.splitlines() if line.split()[:1] == [needed] and "=>" in line), None)
            if where:
                owner = subprocess.run(["dpkg-query", "-S", f"*/{pathlib.Path(where).resolve().name}"], capture_output=True, text=True, check=True).stdout
                assert {line.split(":")[0] for line in owner.splitlines()} & (packages | of_slim), (name, needed, owner)


# ---- the configuration


def test_the_daemon_starts_with_the_configuration_and_the_account(plane, deploy, account, tmp_path):
    """As its container does, but for the places of its certificate and of its account."""
    config = json.loads((deploy / "cluster" / "config.json").read_text(encoding="utf-8"))
    config.update(listen="127.0.0.1:0", tls_cert=str(deploy / "cluster" / "tls" / "tls.crt"), tls_key=str(deploy / "cluster" / "tls" / "tls.key"))
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="ascii")
    log, url = tmp_path / "log", tmp_path / "data" / "pipelined.url"
    with open(log, "wb") as out:
        daemon = subprocess.Popen([pathlib.Path(os.environ["PL_BIN"]) / "pipelined", "--data", tmp_path / "data", "--config", tmp_path / "config.json",
                                   "--kubernetes-image", "pipelined:0.1.0", "--kubernetes-kubeconfig", plane.kubeconfig("daemon", {"token": account})],
                                  stdout=out, stderr=out)
    try:
        plane.until("daemon", lambda: url.exists() or daemon.poll() is not None)
    finally:
        daemon.terminate()
    assert daemon.wait(timeout=60) == 0, log.read_text(encoding="utf-8")
    assert f"workers are pods of namespace {STAGES}" in log.read_text(encoding="utf-8") and "not allowed" not in log.read_text(encoding="utf-8")


# ---- rights


@pytest.fixture(scope="module")
def account(plane, installed):
    """A kubeconfig as the daemon's pod has it: its account's token, its stages' namespace."""
    status, token = plane.request("POST", f"/api/v1/namespaces/{DAEMONS}/serviceaccounts/pipelined/token", {"spec": {"expirationSeconds": 3600}})
    assert status == 201, token
    return token["status"]["token"]


def rules(plane, token, namespace):
    """Which (verb, group, resource) somebody has, as the API server says it."""
    status, said = plane.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
                                 {"spec": {"namespace": namespace}}, token=token)
    assert status == 201 and not said["status"]["incomplete"], said
    return {(verb, group or "core", resource) for rule in said["status"]["resourceRules"] for verb in rule["verbs"]
            for group in rule["apiGroups"] for resource in rule["resources"]}


@pytest.fixture(scope="module")
def asked(plane):
    """Which rights the client asks for at its start: of the cluster, of the namespace."""
    lines = [line.split() for line in rows(plane.kubeconfig(), "questions").stdout.splitlines()]
    return tuple({tuple(line[:3]) for line in lines if line[3] == where} for where in ("cluster", "namespace"))


def test_with_these_rights_nothing_is_switched_off(plane, account):
    path = plane.kubeconfig("stages", {"token": account}, namespace=STAGES)
    done = rows(path, "access")
    assert done.returncode == 0 and done.stdout == "pods: yes\n", done.stdout + done.stderr
    status, said = plane.request("GET", f"/api/v1/namespaces/{STAGES}", token=account)
    assert status == 200 and said["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "baseline", said


def everything(one, gate):
    """What a daemon can do with a cluster."""
    def again(stage):
        """Once more, in a pod of its own."""
        one.kubelet.until(lambda: not one.kubelet.all(), "the pod before is removed")
        return one.daemon.push(f"in-{stage}", "f", "again")["run"]

    for words in (("create", "secret", "pg", "--value", "dsn=1"), ("update", "secret", "pg", "--value", "dsn=2"), ("list", "secret"), ("delete", "secret", "pg")):
        one.daemon.ctl(*words)
    claims = {"memory": "40Gi", "share": {"mode": "dra", "class": "gpu.nvidia.com"}}
    assert one.daemon.wait(one.runs("claimed", claims))["state"] == "success", one.tell()
    assert one.daemon.wait(again("claimed"))["state"] == "success", one.tell()  # the claim's template is there already
    one.daemon.default.repo("in-held").stages(kit.sh("held", f"{gate.wait}; cp /pfs/in/f /pfs/out/f", **{
        "input": {"repo": "in-held", "name": "in", "glob": "/"}}), pipeline="held")
    run = one.daemon.push("in-held", "f", "x")["run"]
    gate.arrived()
    (lost,) = {pod["metadata"]["name"] for pod in one.pods("held")}
    one.kubelet.delete(lost, grace_s=0)  # of which an Event tells
    gate.arrived()
    one.kubelet.until(lambda: len(one.pods("held")) == 2, "its pod is known")
    one.daemon.ctl("logs", "held", "--container", "agent")
    gate.open()
    assert one.daemon.wait(run)["state"] == "success", one.tell()
    one.kubelet.until(lambda: not one.kubelet.all(), "its pod is removed")
    (name,), namespace = {pod["metadata"]["name"] for pod in one.pods("held")} - {lost}, one.kubelet.namespace
    stem, index, incarnation = name.rsplit("-", 2)
    taken = [f"{stem}-{int(index) + more}-{incarnation}" for more in range(1, 13)]  # somebody has the names of the pods to come
    for other in taken:
        status, said = one.kubelet.plane.request("POST", f"/api/v1/namespaces/{namespace}/pods", {
            "metadata": {"name": other}, "spec": {"schedulingGates": [{"name": "tests/never"}], "containers": [{"name": "main", "image": "any"}]}})
        assert status == 201, said
    run = one.daemon.push("in-held", "f", "y")["run"]
    one.kubelet.until(lambda: any(event["verb"] == "get" and event.get("objectRef", {}).get("name") in taken for event in one.kubelet.plane.audited()),
                      "it looks at whose that pod is")


@pytest.fixture(scope="module")
def used(plane, account, tmp_path_factory):
    """Which rights a daemon uses in its life, by the API server's audit: of the cluster, of the namespace."""
    if containers.why_not():
        print(containers.why_not())
        pytest.skip(containers.why_not())
    root, gate, before = tmp_path_factory.mktemp("life"), kit.Gate(), len(plane.audited())
    with library.Kubelet(plane, root / "kubelet", [nodes.cpu("cpu"), nodes.dra("claimed")], images=dict(IMAGES), namespace=STAGES) as kubelet:
        daemon = kit.Daemon(root, "--executor", "kubernetes", "--kubernetes-image", AGENT, "--kubernetes-default-image", COMMANDS, "--kubernetes-owner", "pipelined",
                            "--kubernetes-kubeconfig", str(plane.kubeconfig("life", {"token": account}, namespace=STAGES))).start()
        try:
            everything(World(kubelet, daemon), gate)
        finally:
            gate.close()
            assert daemon.stop() == 0, daemon.log()[-4000:]
    found = [event for event in plane.audited()[before:] if event["userAgent"].startswith("pipelined/") and event.get("annotations", {}).get(
        "authorization.k8s.io/decision") == "allow" and event.get("objectRef", {}).get("resource") not in (None, "selfsubjectaccessreviews")]

    def right(event):
        about = event["objectRef"]
        return event["verb"], about.get("apiGroup", "core"), about["resource"] + (f"/{about['subresource']}" if "subresource" in about else "")

    return tuple({right(event) for event in found if ("namespace" in event["objectRef"]) == inside} for inside in (False, True))


def test_there_is_no_right_that_is_not_used(plane, account, used):
    """A daemon that does all that it can needs each of them."""
    of_cluster, of_namespace = used
    everybodys = rules(plane, control_plane.NOBODY, STAGES)
    assert rules(plane, account, STAGES) - everybodys == of_cluster | of_namespace
    for namespace in (DAEMONS, EXPORTERS, "default", "kube-system"):
        assert rules(plane, account, namespace) - everybodys == of_cluster, namespace


def test_what_is_used_was_asked_for_at_the_start(asked, used):
    """So that what is not allowed is said then."""
    of_cluster, of_namespace = used
    assert asked == (of_cluster, of_namespace - BESIDE)


@pytest.mark.parametrize("method, path", [("GET", f"/api/v1/namespaces/{DAEMONS}/secrets/pipelined-tls"), ("GET", "/api/v1/secrets"),
                                          ("DELETE", f"/api/v1/namespaces/{STAGES}/secrets"), ("DELETE", f"/api/v1/namespaces/{STAGES}/configmaps/pipelined"),
                                          ("POST", f"/api/v1/namespaces/{DAEMONS}/pods"), ("GET", "/api/v1/namespaces"),
                                          ("POST", f"/api/v1/namespaces/{STAGES}/serviceaccounts/default/token")])
def test_what_the_daemon_may_not(plane, account, method, path):
    status, said = plane.request(method, path, {} if method == "POST" else None, token=account)
    assert status == 403, said
