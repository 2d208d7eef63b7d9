"""What specs may not ask of a pod, asked for in each way that there is: refused when the pipeline is made, by the field's name, with its value and with who
may; of a trusted project it is the cluster's to refuse."""
import json

import nodes
import pytest
from test_demo import kit, world  # noqa: F401  a fixture
from test_pod_faults import ONCE, succeeds

MAIN, AGENT, INSTALL = (("containers", "main"), ("containers", "agent"), ("initContainers", "install"))


def of(container, **fields):
    return {container[0]: [{"name": container[1], **fields}]}


def secured(**fields):
    return of(MAIN, securityContext=fields)


def extra(**fields):
    return {"containers": [{"name": "extra", "image": "any", "securityContext": {"allowPrivilegeEscalation": False}, **fields}]}


def volume(**source):
    return {"volumes": [{"name": "v", **source}]}


def disk(**spec):
    return {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}}}


KEY = {"name": "theirs", "key": "token"}
# (the field that is named, the patch by names, what the cluster says to a trusted project: "" = it takes it)
FORBIDDEN = [
    ("hostNetwork", {"hostNetwork": True}, ""),
    ("hostPID", {"hostPID": True}, ""),
    ("hostIPC", {"hostIPC": True}, ""),
    ("shareProcessNamespace", {"shareProcessNamespace": True}, ""),
    ("automountServiceAccountToken", {"automountServiceAccountToken": True}, ""),
    ("serviceAccountName", {"serviceAccountName": "deployer"}, ""),
    ("serviceAccount", {"serviceAccount": "deployer"}, ""),
    ("nodeName", {"nodeName": "a"}, ""),
    ("restartPolicy", {"restartPolicy": "Always"}, ""),
    ("hostUsers", {"hostUsers": False}, ""),
    ("setHostnameAsFQDN", {"setHostnameAsFQDN": True}, ""),
    ("os", {"os": {"name": "linux"}}, ""),
    ("ephemeralContainers", {"ephemeralContainers": [{"name": "e", "image": "any"}]}, "ephemeralContainers"),
    ("priorityClassName", {"priorityClassName": "system-node-critical"}, ""),
    ("priority", {"priority": 2000001000}, "not checked: "),
    ("hostAliases", {"hostAliases": [{"ip": "10.0.0.9", "hostnames": ["daemon.example"]}]}, ""),
    ("dnsPolicy", {"dnsPolicy": "Default"}, ""),
    ("dnsConfig", {"dnsConfig": {"nameservers": ["10.0.0.9"]}}, ""),
    ("resourceClaims", {"resourceClaims": [{"name": "g", "resourceClaimName": "gpu"}]}, ""),
    ("securityContext.sysctls", {"securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]}}, ""),
    ("securityContext.supplementalGroups", {"securityContext": {"supplementalGroups": [0]}}, ""),
    ("securityContext.fsGroup", {"securityContext": {"fsGroup": 0}}, ""),
    ("securityContext.seLinuxOptions", {"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}, ""),
    ("securityContext.seccompProfile", {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, ""),
    ("securityContext.appArmorProfile", {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, ""),
    ("securityContext.runAsUser", {"securityContext": {"runAsUser": 10002}}, ""),
    ("securityContext.windowsOptions", {"securityContext": {"windowsOptions": {"hostProcess": True}}}, "hostProcess"),
    ("volumes[1].hostPath", volume(hostPath={"path": "/"}), ""),
    ("volumes[1].nfs", volume(nfs={"server": "files.example", "path": "/"}), ""),
    ("volumes[1].csi", volume(csi={"driver": "files.example"}), ""),
    ("volumes[1].secret", volume(secret={"secretName": "theirs"}), ""),
    ("volumes[1].projected", volume(projected={"sources": [{"serviceAccountToken": {"path": "t"}}]}), "serviceAccountToken"),
    ("volumes[1].projected", volume(projected={"sources": [{"secret": {"name": "theirs"}}]}), ""),
    ("volumes[1].persistentVolumeClaim", volume(persistentVolumeClaim={"claimName": "theirs"}), ""),
    ("volumes[1].ephemeral.volumeClaimTemplate.spec.dataSource", volume(ephemeral=disk(dataSource={"kind": "PersistentVolumeClaim", "name": "theirs"})), ""),
    ("volumes[1].ephemeral.volumeClaimTemplate.spec.volumeName", volume(ephemeral=disk(volumeName="theirs")), ""),
    ("imagePullSecrets", {"imagePullSecrets": [{"name": "theirs"}]}, ""),
    ("containers[0].env[1]", of(MAIN, env=[{"name": "T", "valueFrom": {"secretKeyRef": KEY}}]), ""),
    ("containers[0].envFrom[0]", of(MAIN, envFrom=[{"secretRef": {"name": "theirs"}}]), ""),
    ("containers[0].securityContext.privileged", secured(privileged=True, allowPrivilegeEscalation=True), ""),
    ("containers[0].securityContext.capabilities.add", secured(capabilities={"add": ["SYS_ADMIN"]}), ""),
    ("containers[0].securityContext.allowPrivilegeEscalation", secured(allowPrivilegeEscalation=True), ""),
    ("containers[0].securityContext.procMount", secured(procMount="Unmasked"), "procMount"),
    ("containers[0].securityContext.seccompProfile", secured(seccompProfile={"type": "Unconfined"}), ""),
    ("containers[0].securityContext.appArmorProfile", secured(appArmorProfile={"type": "Unconfined"}), ""),
    ("containers[0].securityContext.seLinuxOptions", secured(seLinuxOptions={"type": "spc_t"}), ""),
    ("containers[0].securityContext.windowsOptions", secured(windowsOptions={"hostProcess": True}), "HostProcess"),
    ("containers[0].securityContext.runAsUser", secured(runAsUser=10002), ""),
    ("containers[0].ports[0].hostPort", of(MAIN, ports=[{"containerPort": 80, "hostPort": 80}]), ""),
    ("containers[0].command", of(MAIN, command=["sh"]), ""),
    ("containers[0].args", of(MAIN, args=["-c", "true"]), ""),
    ("containers[0].lifecycle", of(MAIN, lifecycle={"preStop": {"exec": {"command": ["true"]}}}), ""),
    ("containers[0].resources.limits", of(MAIN, resources={"limits": {"nvidia.com/gpu": "1"}}), ""),
    ("containers[0].resources.limits", of(MAIN, resources={"limits": {"habana.ai/gaudi": "1"}}), ""),
    ("containers[0].env[0]", of(MAIN, env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]), ""),
    ("containers[0].livenessProbe.httpGet.host", of(MAIN, livenessProbe={"httpGet": {"host": "169.254.169.254", "port": 80}}), ""),
    ("containers[0].startupProbe.exec", of(MAIN, startupProbe={"exec": {"command": ["true"]}}), ""),
    ("containers[0].volumeMounts[5]", of(MAIN, volumeMounts=[{"name": "pl", "mountPath": "/all"}]), ""),
    ("containers[0].volumeMounts[5]", {**volume(emptyDir={}), **of(MAIN, volumeMounts=[{"name": "v", "mountPath": "/pl/bin/pl-runner"}])}, ""),
    ("containers[1]", of(AGENT, image="mine"), ""),
    ("containers[1]", of(AGENT, env=[{"name": "LD_PRELOAD", "value": "/pl/x.so"}]), ""),
    ("initContainers[0]", of(INSTALL, image="mine"), ""),
    ("containers[2].volumeMounts[0]", extra(volumeMounts=[{"name": "pl", "mountPath": "/pl"}]), ""),
    ("containers[2].envFrom[0]", extra(envFrom=[{"secretRef": {"name": "theirs"}}]), ""),
    ("containers[2].env[0]", extra(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]), ""),
    ("containers[2].resources.limits", extra(resources={"limits": {"google.com/tpu": "4"}}), ""),
    ("containers[2].livenessProbe.tcpSocket.host", extra(livenessProbe={"tcpSocket": {"host": "10.0.0.1", "port": 22}}), ""),
    ("containers[2].lifecycle.preStop.httpGet.host", extra(lifecycle={"preStop": {"httpGet": {"host": "10.0.0.1", "port": 80}}}), ""),
    ("containers[2].securityContext.privileged", extra(securityContext={"privileged": True}), ""),
]
PLACES = {"main": 0, "agent": 1, "install": 0}
LISTS = ("volumes", "env", "volumeMounts")  # of main or the pod, that are there already


def operations(value, at=""):
    """The same as RFC 6902 says it."""
    made = []
    for key, member in value.items():
        path = f"{at}/{key}"
        if isinstance(member, dict) and key in ("securityContext", "resources"):
            made += ([] if key == "securityContext" else [{"op": "add", "path": path, "value": {}}]) + operations(member, path)
        elif key in ("containers", "initContainers"):
            for one in member:
                fields = {name: what for name, what in one.items() if name != "name"}
                made += operations(fields, f"{path}/{PLACES[one['name']]}") if one["name"] in PLACES else [{"op": "add", "path": f"{path}/-", "value": one}]
        elif isinstance(member, list) and key in LISTS:
            made += [{"op": "add", "path": f"{path}/-", "value": one} for one in member]
        else:
            made.append({"op": "add", "path": path, "value": member})
    return made


def native(**placement):
    return kit.sh("st", "true", placement=placement)


def pachyderm(**more):
    return {"pipeline": {"name": "st"}, "transform": {"image": "any", "cmd": ["true"]}, "input": {"pfs": {"repo": "in", "glob": "/"}},
            **{key: json.dumps(value) for key, value in more.items()}}


def is_whole(patch):
    """Does it mean the same to who replaces lists?"""
    return not {"containers", "initContainers", "volumes"} & set(patch)


WAYS = {
    "pod_patch by names": lambda patch: native(pod_patch=patch),
    "pod_patch by operations": lambda patch: native(pod_patch=operations(patch)),
    "pod_spec": lambda patch: native(pod_spec=patch) if is_whole(patch) else None,
    "Pachyderm's pod_patch": lambda patch: pachyderm(pod_patch=operations(patch)),
    "Pachyderm's pod_spec": lambda patch: pachyderm(pod_spec=patch) if is_whole(patch) else None,
}


def ask(one, project, spec):
    """What is said of a pipeline that is not made."""
    whole = spec if "transform" in spec else {"pipeline": "p", "stages": [spec]}
    return one.daemon.post("/pipelines", {"spec": json.dumps({**whole, **({} if "transform" in spec else {"project": project})}), "filename": "spec.json",
                                          "dry_run": True, "project": project})


def values(patch):
    """What is asked for, as a message may show it."""
    if isinstance(patch, dict):
        return [text for value in patch.values() for text in values(value)]
    if isinstance(patch, list):
        return [text for value in patch for text in values(value)]
    return [json.dumps(patch)]


def test_what_specs_may_not_ask_for_is_refused_in_every_way_of_asking(world):  # noqa: F811
    one = world([nodes.cpu("a")])
    for project in ("vision", "theirs"):
        one.daemon.project(project).repo("in")
    one.daemon.ctl("create", "secret", "theirs", "--project", "theirs", "--value", "token=x")
    wrong = []
    for field, patch, _ in FORBIDDEN:
        for way, make in WAYS.items():
            spec = make(patch)
            if spec is None:
                continue
            try:
                wrong.append(f"{way}: {field}: accepted: {ask(one, 'vision', spec)}")
            except kit.HttpError as refusal:
                said = refusal.error["message"]
                fine = refusal.status == 403 and refusal.error.get("field") == field and f"{field} " in said and "kubernetes.trusted_projects" in said
                if not fine or not any(value in said for value in values(patch)):
                    wrong.append(f"{way}: {field}: {refusal.status} {refusal.error}")
    assert not wrong, "\n".join(wrong)
    assert one.daemon.get("/pipelines")["pipelines"] == []


def test_a_trusted_project_may_ask_for_all_that_the_cluster_takes(world):  # noqa: F811
    one = world([nodes.cpu("a")], options=("--kubernetes-trusted-projects", "other,vision"))
    one.daemon.project("vision").repo("in")
    wrong = []
    for field, patch, cluster in FORBIDDEN:
        try:
            said = ask(one, "vision", native(pod_patch=patch))["warnings"]
            if any("not checked: " in line for line in said) != (cluster == "not checked: "):
                wrong.append(f"{field}: {said}")
        except kit.HttpError as refusal:
            if cluster in ("", "not checked: ") or refusal.status != 400 or "the cluster rejects its pod: " not in refusal.error["message"] or cluster not in refusal.error["message"]:
                wrong.append(f"{field}: {refusal.status} {refusal.error}")
    assert not wrong, "\n".join(wrong)


ANNOTATIONS = ["container.apparmor.security.beta.kubernetes.io/main", "container.seccomp.security.alpha.kubernetes.io/main", "seccomp.security.alpha.kubernetes.io/pod"]


def test_profiles_cannot_be_switched_off_by_annotations_either(world):  # noqa: F811
    one = world([nodes.cpu("a")])
    one.daemon.project("vision").repo("in")
    for name in ANNOTATIONS:
        with pytest.raises(kit.HttpError) as refused:
            ask(one, "vision", native(annotations={name: "unconfined"}))
        assert refused.value.status == 403 and refused.value.error["field"] == f"metadata.annotations.{name}", refused.value.error


def test_what_a_trusted_project_asked_for_runs(world):  # noqa: F811
    one = world([nodes.cpu("a")], options=("--kubernetes-trusted-projects", "vision"))
    vision = one.daemon.project("vision").repo("in")
    patch = {**volume(hostPath={"path": "/etc"}), **of(MAIN, volumeMounts=[{"name": "v", "mountPath": "/host", "readOnly": True}])}
    vision.stages(kit.sh("st", "cp /host/hostname /pfs/out/f", placement={"pod_patch": patch}, **ONCE))
    succeeds(one, vision.commit("in", {"x": "1"})["run"])
    assert vision.read("st", "f")


def test_claims_are_mounted_that_the_daemon_is_told_of(world):  # noqa: F811
    """By all projects, or by the one that is named with it."""
    one = world([nodes.cpu("a")], options=("--kubernetes-claims", "imagenet, vision/mine"))
    for project in ("vision", "sound"):
        one.daemon.project(project).repo("in")

    def takes(project, claim):
        try:
            ask(one, project, native(pod_patch=volume(persistentVolumeClaim={"claimName": claim})))
        except kit.HttpError as refusal:
            assert refusal.status == 403 and refusal.error["field"] == "volumes[1].persistentVolumeClaim", refusal.error
            return False
        return True

    assert {(project, claim) for project in ("vision", "sound") for claim in ("imagenet", "mine", "other") if takes(project, claim)} == {
        ("vision", "imagenet"), ("vision", "mine"), ("sound", "imagenet")}


def test_what_the_operator_s_template_brings_is_refused_to_nobody_and_changed_by_nobody(world, tmp_path):  # noqa: F811
    """A folder of the node for old CUDA, and a container beside the command's."""
    template = {"spec": {"volumes": [{"name": "cuda", "hostPath": {"path": "/opt/cuda"}}], "containers": [
        {"name": "main", "volumeMounts": [{"name": "cuda", "mountPath": "/opt/cuda", "readOnly": True, "mountPropagation": "HostToContainer"}]},
        {"name": "vpn", "image": "registry.test/vpn:1", "securityContext": {"privileged": True}, "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"kubernetes": {"pod_template": template}}))
    one = world([nodes.cpu("a")], options=("--config", str(path)))
    one.daemon.project("vision").repo("in")
    ask(one, "vision", native())
    ask(one, "vision", native(pod_patch=of(MAIN, env=[{"name": "A", "value": "b"}])))
    for field, patch in (("containers[2]", {"containers": [{"name": "vpn", "command": ["sh"]}]}),
                         ("containers[0].volumeMounts[6]", of(MAIN, volumeMounts=[{"name": "cuda", "mountPath": "/w"}])),
                         ("volumes", {"volumes": [{"name": "cuda", "hostPath": {"path": "/"}}]})):
        with pytest.raises(kit.HttpError) as refused:
            ask(one, "vision", native(pod_patch=patch))
        assert refused.value.status == 403 and refused.value.error["field"] == field, refused.value.error
