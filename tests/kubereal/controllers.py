"""What kube-controller-manager does, as far as an installation of pipelined needs it: every namespace has its default account and the API server's
certificate; a StatefulSet of one has its claim, its volume and its pod, which is made anew when the template has changed."""
import copy
import hashlib
import http.client
import json
import queue
import ssl
import threading
import time
import traceback
import urllib.error
import urllib.request

import control_plane
import services

SETS = "/apis/apps/v1/statefulsets"
RETRY_S = 0.1
# not OSError: that a port cannot be served is one, too, and would be tried for ever
UNREACHABLE = (urllib.error.URLError, ConnectionError, TimeoutError, ssl.SSLError, http.client.HTTPException)


class Controllers:
    """Threads that watch, and one that does what is to be done; they end with the process."""

    def __init__(self, cluster):
        self.cluster, self.changed, self.failure = cluster, queue.SimpleQueue(), None
        self.services = services.Services(cluster)
        for path in ("/api/v1/namespaces", "/api/v1/services", "/api/v1/pods", SETS):
            threading.Thread(target=self.watch, args=(path,), daemon=True).start()
        threading.Thread(target=self.run, daemon=True).start()

    def watch(self, path):
        context = ssl.create_default_context(cafile=str(self.cluster.certs / "apiserver.crt"))
        while True:
            try:
                status, there = self.cluster.request("GET", path)
                if status != 200:  # an API server that has just begun
                    continue
                for one in there["items"]:
                    self.changed.put(("ADDED", {"kind": there["kind"].removesuffix("List"), **one}))
                asked = urllib.request.Request(f"{self.cluster.endpoint}{path}?watch=1&resourceVersion={there['metadata']['resourceVersion']}",
                                               headers={"Authorization": f"Bearer {control_plane.ADMIN}"})
                with urllib.request.urlopen(asked, context=context) as events:
                    for event in map(json.loads, events):
                        if event["type"] == "ERROR":
                            break
                        self.changed.put((event["type"], event["object"]))
            except urllib.error.HTTPError:
                continue
            except (OSError, ValueError, http.client.HTTPException):  # the API server has ended, in the midst of a line: for a while, or with the cluster and this process
                time.sleep(RETRY_S)

    def run(self):
        does = {"Namespace": self.on_namespace, "Service": self.services.on_service, "Pod": self.on_pod, "StatefulSet": self.on_set}
        while True:
            what, one = self.changed.get()
            try:
                if what != "DELETED" or one["kind"] == "Pod":
                    does[one["kind"]](one)
                elif one["kind"] == "StatefulSet":
                    self.request("DELETE", f"/api/v1/namespaces/{one['metadata']['namespace']}/pods/{one['metadata']['name']}-0")
            except UNREACHABLE:  # no API server: again
                self.changed.put((what, one))
                time.sleep(RETRY_S)
            except Exception as failure:  # pylint: disable=broad-except  # World.tell says it
                self.failure = "".join(traceback.format_exception(failure))
                return

    def request(self, *args, **more):
        """What an API server refuses that has just begun is asked again, as when there is none."""
        status, said = self.cluster.request(*args, **more)
        if status == 429 or status >= 500 or "not yet ready to handle request" in said.get("message", ""):
            raise ConnectionError(said)
        return status, said

    def make(self, path, body):
        """Makes it when it is not there."""
        status, said = self.request("POST", path, body)
        assert status == 201 or (status, said["reason"]) == (409, "AlreadyExists"), (path, said)

    def put_status(self, path, status):
        code, said = self.request("PATCH", f"{path}/status", {"status": status}, content_type="application/merge-patch+json")
        assert code in (200, 404), said

    def on_namespace(self, namespace):
        path = f"/api/v1/namespaces/{namespace['metadata']['name']}"
        if "deletionTimestamp" not in namespace["metadata"]:
            self.make(f"{path}/configmaps", {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": (self.cluster.certs / "apiserver.crt").read_text("ascii")}})
            self.make(f"{path}/serviceaccounts", {"metadata": {"name": "default"}})

    def on_pod(self, pod):
        for owner in pod["metadata"].get("ownerReferences", []):
            if owner["kind"] == "StatefulSet":
                code, found = self.request("GET", f"/apis/apps/v1/namespaces/{pod['metadata']['namespace']}/statefulsets/{owner['name']}")
                if code == 200:
                    self.on_set(found)

    def on_set(self, one):
        meta, spec = one["metadata"], one["spec"]
        name, pods = f"{meta['name']}-0", f"/api/v1/namespaces/{meta['namespace']}/pods"
        revision = f"{meta['name']}-{hashlib.sha256(json.dumps(spec['template'], sort_keys=True).encode()).hexdigest()[:10]}"
        if "deletionTimestamp" in meta:
            return
        code, pod = self.request("GET", f"{pods}/{name}")
        if code == 404:
            for claim in spec.get("volumeClaimTemplates", []):
                self.claim(meta["namespace"], claim, name)
            self.make(pods, self.pod_of(one, name, revision))
            return
        made_of = pod["metadata"]["labels"]["controller-revision-hash"]
        if made_of != revision and "deletionTimestamp" not in pod["metadata"]:
            self.request("DELETE", f"{pods}/{name}")
        ready = services.is_ready(pod)
        status = {"observedGeneration": meta["generation"], "replicas": 1, "readyReplicas": int(ready), "availableReplicas": int(ready),
                  "currentRevision": made_of, "updateRevision": revision, "currentReplicas": 1, "updatedReplicas": int(made_of == revision)}
        if {key: one["status"].get(key, 0) for key in status} != status:
            self.put_status(f"/apis/apps/v1/namespaces/{meta['namespace']}/statefulsets/{meta['name']}", status)

    @staticmethod
    def pod_of(one, name, revision):
        template, meta = copy.deepcopy(one["spec"]["template"]), one["metadata"]
        template["metadata"].update(name=name, ownerReferences=[{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": meta["name"], "uid": meta["uid"],
                                                                 "controller": True, "blockOwnerDeletion": True}])
        template["metadata"]["labels"] |= {"controller-revision-hash": revision, "statefulset.kubernetes.io/pod-name": name}
        template["spec"].update(hostname=name, subdomain=one["spec"]["serviceName"])
        template["spec"].setdefault("volumes", []).extend({"name": claim["metadata"]["name"], "persistentVolumeClaim": {
            "claimName": f"{claim['metadata']['name']}-{name}"}} for claim in one["spec"].get("volumeClaimTemplates", []))
        return template

    def claim(self, namespace, template, pod):
        """A claim with a volume of its own: a folder of the node, which is root's as a fresh disk is."""
        name = f"{template['metadata']['name']}-{pod}"
        folder = self.cluster.folder / "disks" / name
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        volume = f"of-{namespace}-{name}"
        size, modes = template["spec"]["resources"]["requests"]["storage"], template["spec"]["accessModes"]
        self.make(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", {
            "metadata": {"name": name, "labels": template["metadata"].get("labels", {}), "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {**template["spec"], "volumeName": volume}})
        made = self.request("GET", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")[1]
        self.make("/api/v1/persistentvolumes", {"metadata": {"name": volume}, "spec": {
            "capacity": {"storage": size}, "accessModes": modes, "local": {"path": str(folder)},
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, "uid": made["metadata"]["uid"]},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}]}}}})
        self.put_status(f"/api/v1/persistentvolumes/{volume}", {"phase": "Bound"})
        self.put_status(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}",
                        {"phase": "Bound", "capacity": {"storage": size}, "accessModes": modes})
