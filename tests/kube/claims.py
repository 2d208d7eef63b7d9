"""What makes claims of devices work (resource.k8s.io) beside the scheduler, which allocates them: the drivers' slices and classes, a claim for
each pod that has a template for one, and its end with the pod."""
import contextlib
import hashlib

import apiserver
import nodes as kinds

API = "/apis/resource.k8s.io/v1"


def slice_of(node):
    made = node.made["slice"]
    return {"metadata": {"name": f"{node.name}-{made['driver']}"},
            "spec": {"driver": made["driver"], "nodeName": node.name, "devices": made["devices"],
                     "pool": {"name": node.name, "generation": 1, "resourceSliceCount": 1}}}


def claim_name(pod, claim):
    digest = hashlib.sha256(f"{pod['metadata']['uid']}/{claim['name']}".encode()).hexdigest()[:5]
    return f"{pod['metadata']['name']}-{claim['name']}-{digest}"


class Controller:
    def __init__(self, api):
        self.api = api
        self.published = []  # paths
        self.busy = set()  # uids whose claims are being made or removed
        self.made = {}  # uid: paths of claims

    async def publish(self, nodes):
        drivers = set()
        for node in nodes:
            if "slice" in node.made:
                drivers.add(node.made["slice"]["driver"])
                await self.put(f"{API}/resourceslices", slice_of(node))
        for driver in drivers:
            for made in kinds.device_classes(driver):
                await self.put(f"{API}/deviceclasses", made)

    async def put(self, collection, body):
        await self.api.put_there(collection, body)
        self.published.append(f"{collection}/{body['metadata']['name']}")

    async def remove(self):
        for paths in list(self.made.values()):
            for path in paths:
                await self.release(path)
        for path in self.published:
            with contextlib.suppress(apiserver.Refused):
                await self.api.request("DELETE", path)

    async def on_pod(self, kind, pod):
        uid = pod["metadata"]["uid"]
        over = kind == "DELETED" or pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        wanted = [claim for claim in pod["spec"].get("resourceClaims", []) if "resourceClaimTemplateName" in claim]
        if not wanted or uid in self.busy or (not over and (uid in self.made or pod["status"].get("resourceClaimStatuses"))):
            return
        self.busy.add(uid)
        try:
            if over:
                for path in self.made.get(uid, []):  # until it is done: who ends meanwhile does it again
                    await self.release(path)
                self.made.pop(uid, None)
            else:
                await self.make(pod, wanted)
        finally:
            self.busy.discard(uid)

    async def make(self, pod, wanted):
        names, namespace = {}, pod["metadata"]["namespace"]
        for claim in wanted:
            path = f"{API}/namespaces/{namespace}/resourceclaimtemplates/{claim['resourceClaimTemplateName']}"
            try:
                template = await self.api.get(path)
            except apiserver.Refused:  # the scheduler says that the pod waits for it; nothing tells when it comes but another change of the pod
                return
            names[claim["name"]] = claim_name(pod, claim)
            self.made.setdefault(pod["metadata"]["uid"], []).append(f"{API}/namespaces/{namespace}/resourceclaims/{names[claim['name']]}")
            owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"], "controller": True}
            await self.api.put_there(f"{API}/namespaces/{namespace}/resourceclaims", {
                "metadata": {"name": names[claim["name"]], "ownerReferences": [owner],
                             "annotations": {"resource.kubernetes.io/pod-claim-name": claim["name"]}}, "spec": template["spec"]["spec"]})
        with contextlib.suppress(apiserver.Refused):
            await self.api.patch(f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}/status", {
                "status": {"resourceClaimStatuses": [{"name": name, "resourceClaimName": made} for name, made in names.items()]}})

    async def release(self, path):
        """No pod has it any more, so no device is allocated to it, so it can go."""
        with contextlib.suppress(apiserver.Refused):
            await self.api.patch(f"{path}/status", {"status": {"reservedFor": None}})
            await self.api.patch(f"{path}/status", {"status": {"allocation": None}})
            await self.api.patch(path, {"metadata": {"finalizers": None}})
            await self.api.request("DELETE", path)
