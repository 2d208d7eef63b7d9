"""A pod's volumes and variables, as a kubelet makes them: folders on this machine, ConfigMaps and Secrets read from the API server."""
import base64
import os
import pathlib
import re

import apiserver


class NotThere(Exception):
    """A Secret or ConfigMap, or a key of it, that is waited for; the text is the kubelet's."""


def decode(kind, data):
    return {key: base64.b64decode(value) if kind == "secret" else value.encode() for key, value in (data or {}).items()}


async def content(api, namespace, kind, name, optional=False):
    """{key: bytes} of a "secret" or "configmap"; None when it is optional and not there."""
    try:
        found = await api.get(f"/api/v1/namespaces/{namespace}/{kind}s/{name}")
    except apiserver.Refused as refusal:
        if refusal.code != 404:
            raise
        if optional:
            return None
        raise NotThere(f'{kind} "{name}" not found') from None
    return {**decode(kind, found.get("data")), **{key: base64.b64decode(value) for key, value in found.get("binaryData", {}).items()}}


def field(pod, path, node):
    """What a fieldRef names."""
    keyed = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if keyed:
        return pod["metadata"].get(keyed[1], {}).get(keyed[2], "")
    if path in ("metadata.labels", "metadata.annotations"):
        return "\n".join(f'{key}="{value}"' for key, value in sorted(pod["metadata"].get(path.split(".")[1], {}).items()))
    named = {"metadata.name": pod["metadata"]["name"], "metadata.namespace": pod["metadata"]["namespace"], "metadata.uid": pod["metadata"]["uid"],
             "spec.nodeName": node, "spec.serviceAccountName": pod["spec"].get("serviceAccountName", "default"), "status.podIP": "127.0.0.1",
             "status.podIPs": "127.0.0.1", "status.hostIP": "127.0.0.1", "status.hostIPs": "127.0.0.1"}
    return named[path]


UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


def amount(text):
    """A quantity as a number, of CPUs in thousands of one."""
    if str(text).endswith("m"):
        return int(text[:-1]) / 1000
    number, unit = re.fullmatch(r"([0-9.eE+-]+)([kMGT]i?|Ki|)", str(text)).groups()
    return float(number) * UNITS[unit]


def resource(pod, container, reference):
    name = reference.get("containerName", container["name"])
    of = next(one for one in [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])] if one["name"] == name)
    kind, _, what = reference["resource"].partition(".")
    return str(int(-(-amount(of.get("resources", {}).get(kind, {}).get(what, "0")) // amount(reference.get("divisor", "1") or "1"))))


async def value_from(api, pod, container, source, node):
    """None: optional, and not there."""
    if "fieldRef" in source:
        return field(pod, source["fieldRef"]["fieldPath"], node)
    if "resourceFieldRef" in source:
        return resource(pod, container, source["resourceFieldRef"])
    kind = "secret" if "secretKeyRef" in source else "configmap"
    reference = source["secretKeyRef" if kind == "secret" else "configMapKeyRef"]
    found = await content(api, pod["metadata"]["namespace"], kind, reference["name"], reference.get("optional"))
    if found is not None and reference["key"] in found:
        return found[reference["key"]].decode()
    if reference.get("optional"):
        return None
    called = "Secret" if kind == "secret" else "ConfigMap"
    raise NotThere(f"couldn't find key {reference['key']} in {called} {pod['metadata']['namespace']}/{reference['name']}")


def expand(text, known):
    """$(NAME) by what is known before it; $$ is $."""
    def one(found):
        if found[0] == "$$":
            return "$"
        return known.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^()]+)\)", one, text)


async def environment(api, pod, container, image_env, node):
    """The container's variables. NotThere."""
    made = {}
    for source in container.get("envFrom", []):
        kind = "secret" if "secretRef" in source else "configmap"
        reference = source["secretRef" if kind == "secret" else "configMapRef"]
        found = await content(api, pod["metadata"]["namespace"], kind, reference["name"], reference.get("optional"))
        made.update({source.get("prefix", "") + key: value.decode() for key, value in (found or {}).items()})
    for one in container.get("env", []):
        value = await value_from(api, pod, container, one["valueFrom"], node) if one.get("valueFrom") else expand(one.get("value", ""), made)
        if value is not None:
            made[one["name"]] = value
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **image_env, "HOSTNAME": pod["metadata"]["name"],
            "KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443", **made}


class Volumes:
    """The volumes of one pod below `folder`, made by `make`."""

    def __init__(self, api, pod, folder, node):
        self.api, self.pod, self.folder, self.node = api, pod, pathlib.Path(folder), node
        self.group = pod["spec"].get("securityContext", {}).get("fsGroup")
        self.hosts = {}  # hostPath: they are mounted themselves

    def give(self, path, mode):
        """As fsGroup says: its group, and the group may what the owner may."""
        if self.group is not None:
            os.chown(path, 0, self.group)
            mode |= 0o2770 if os.path.isdir(path) else 0o0040
        os.chmod(path, mode)

    async def files(self, source):
        """{path: (bytes, mode)} of a volume that is read from the API."""
        namespace = self.pod["metadata"]["namespace"]
        if "projected" in source:
            made = {}
            for one in source["projected"]["sources"]:
                made.update(await self.files(one))
            return made
        if "downwardAPI" in source:
            return {item["path"]: (field(self.pod, item["fieldRef"]["fieldPath"], self.node).encode(), 0o644)
                    for item in source["downwardAPI"].get("items", [])}
        kind = "secret" if "secret" in source else "configmap"
        of = source["secret" if kind == "secret" else "configMap"]
        found = await content(self.api, namespace, kind, of.get("secretName", of.get("name")), of.get("optional"))
        mode = of.get("defaultMode", 0o644)
        if not of.get("items"):
            return {key: (value, mode) for key, value in (found or {}).items()}
        lacking = [item["key"] for item in of["items"] if item["key"] not in (found or {})]
        if lacking and not of.get("optional"):
            raise NotThere(f"references non-existent {'secret' if kind == 'secret' else 'config'} key: {lacking[0]}")
        return {item["path"]: (found[item["key"]], item.get("mode", mode)) for item in of["items"] if item["key"] in (found or {})}

    async def make_one(self, volume):
        path = self.folder / volume["name"]
        if "hostPath" in volume:
            self.hosts[volume["name"]] = pathlib.Path(volume["hostPath"]["path"])
            if volume["hostPath"].get("type") == "DirectoryOrCreate":
                self.hosts[volume["name"]].mkdir(parents=True, exist_ok=True)
            return
        if not set(volume) & {"emptyDir", "configMap", "secret", "projected", "downwardAPI"}:
            raise NotThere(f"{', '.join(sorted(set(volume) - {'name'}))}: a simulated kubelet has no such volumes")
        files = {} if "emptyDir" in volume else await self.files(volume)
        path.mkdir(parents=True, exist_ok=True)
        self.give(path, 0o777 if "emptyDir" in volume else 0o755)
        for name, (data, mode) in files.items():
            file = path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            self.give(file, mode)

    async def make(self):
        """NotThere: what a volume is made of is not there (yet), in the words of event FailedMount."""
        for volume in self.pod["spec"].get("volumes", []):
            try:
                await self.make_one(volume)
            except NotThere as lack:
                raise NotThere(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {lack}') from None

    def source(self, mount):
        """The folder or file of the host that a container's volumeMount shows."""
        path = self.hosts.get(mount["name"], self.folder / mount["name"])
        sub = mount.get("subPath")
        if not sub:
            return path
        if ".." in sub.split("/"):
            raise NotThere(f"subPath {sub} must not contain '..'")
        whole = path / sub
        if not whole.exists():  # its folders are like the volume
            mode = path.stat().st_mode & 0o7777
            for at in [*reversed(whole.parents), whole]:
                if not at.exists():
                    at.mkdir()
                    os.chmod(at, mode)
        return whole
