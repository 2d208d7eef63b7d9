"""A simulated kubelet for all nodes of a test, against a real API server: it really runs a pod's containers as processes (pods.py), or plays them
(`play`), for load. One thread with a loop of its own; what tests call is thread-safe and waits for events.

    with Kubelet(plane, folder, [nodes.cpu("c"), nodes.gpu("g")]) as kubelet:
        kubelet.create(pod)
        kubelet.wait("p", lambda pod: phase(pod) == "Succeeded")

It is what a cluster has besides API server and scheduler as far as pods need it: heart beats, claims from templates, taints of lost nodes.
"""
import asyncio
import contextlib
import json
import pathlib
import re
import shutil
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import apiserver
import claims
import containers
import logs
import nodes as kinds
import pods

HEART_BEAT_S = 10


def phase(pod):
    return pod.get("status", {}).get("phase")


def condition(thing, kind):
    """A condition of a pod or node; {}."""
    return next((one for one in thing.get("status", {}).get("conditions", []) if one["type"] == kind), {})


def state(pod, container):
    """-> (which, what of it) of a container's state; ("", {}) before it has one."""
    status = pod.get("status", {})
    for one in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]:
        if one["name"] == container:
            return next(iter(one["state"].items()), ("", {}))
    return "", {}


def said_to(pod, container, reason):
    """Whether a container waits or ended for this reason."""
    return state(pod, container)[1].get("reason") == reason


class Node:
    """A node in force: its devices and who holds them."""

    def __init__(self, made):
        self.made, self.name = made, made["name"]
        self.up = True
        self.ends = None  # an async function that ends a pod; None while the node stays
        self.ended = set()  # uids of the pods that it was called for
        self.held = {}  # {uid: {resource: [device ids]}}

    def free(self, resource):
        taken = {device for one in self.held.values() for device in one.get(resource, [])}
        return [device for device in self.made["devices"].get(resource, []) if device not in taken]

    def memory_free(self):
        """Units of each GPU of a node with aliyun.com/gpu-mem."""
        free = list(self.made.get("gpu_mem", []))
        for one in self.held.values():
            for index, units in one.get("aliyun.com/gpu-mem", []):
                free[index] -= units
        return free


class Kubelet:
    """`images`: {name: containers.Image}; without it every name is this machine's own root. `play(pod)`: nothing runs; an async function that gives
    {container: exit code}, 0 without; pods.at_once, or one of the test's own. `whole`: containers.Cgroup."""

    def __init__(self, plane, folder, nodes, images=None, play=None, namespace="default", connections=8, whole=True):
        self.plane, self.folder, self.namespace = plane, pathlib.Path(folder), namespace
        self.images, self.play, self.whole = images, play, whole
        self.nodes = {made["name"]: Node(made) for made in nodes}
        self.connections = connections
        self.pods = {}  # (namespace, name): as the watch last said
        self.gone = {}  # (namespace, name): the last of a deleted one
        self.changed = threading.Condition()
        self.changes = 0
        self.workers = {}  # uid: pods.Pod
        self.rules = []  # (check, reason, message) of pods that are refused
        self.image_came = None
        self.tasks = set()
        self.failures = []
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="kubelet", daemon=True)

    # --- life
    def __enter__(self):
        self.thread.start()
        self.call(self.begin())
        return self

    start = __enter__

    def __exit__(self, *_):
        self.stop()

    def call(self, coroutine, timeout=120):
        """Runs it in the loop; its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout)

    def spawn(self, coroutine):
        task = self.loop.create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.done)
        return task

    def done(self, task):
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() and not isinstance(task.exception(), apiserver.Lost):
            self.failures.append(task.exception())
            self.tell_change()

    def tell_change(self):
        with self.changed:
            self.changes += 1
            self.changed.notify_all()

    async def begin(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.image_came = asyncio.Event()
        self.api = apiserver.Api(self.plane.endpoint, self.plane.token, self.plane.certs / "apiserver.crt", self.connections)
        self.server = logs.Server(self)
        self.port = await self.server.start()
        if self.namespace != "default":
            await self.api.put_there("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for node in self.nodes.values():
            await self.register(node)
        if any("slice" in node.made for node in self.nodes.values()):
            self.claims = claims.Controller(self.api)
            await self.claims.publish(self.nodes.values())
        else:
            self.claims = None
        self.watching = [self.spawn(self.api.follow("/api/v1/pods", self.on_pod)), self.spawn(self.beat())]

    def stop(self):
        """Ends all containers, and removes what it made and all pods there are."""
        self.call(self.end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.failures:
            raise self.failures[0]

    async def end(self):
        for task in self.watching:
            task.cancel()
        await asyncio.gather(*self.watching, return_exceptions=True)
        await asyncio.gather(*(worker.vanish() for worker in list(self.workers.values())))
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for pod in (await self.api.list("/api/v1/pods"))[0].values():
            await self.forget(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}?gracePeriodSeconds=0")
        if self.claims:
            await self.claims.remove()
        for name in self.nodes:
            await self.forget(f"/api/v1/nodes/{name}")
        await self.server.stop()
        self.api.close()
        for _ in range(5):  # what closes itself does it in the loop's next rounds
            await asyncio.sleep(0)

    async def forget(self, path):
        with contextlib.suppress(apiserver.Refused):
            await self.api.request("DELETE", path)

    # --- nodes
    async def register(self, node):
        await self.api.put_there("/api/v1/nodes", kinds.manifest(node.made))
        await self.api.patch(f"/api/v1/nodes/{node.name}/status", {"status": kinds.status(node.made, self.port, containers.stamp())})
        await self.api.patch(f"/api/v1/nodes/{node.name}", {"spec": {"taints": node.made["taints"]}})

    async def beat(self):
        while True:
            for node in self.nodes.values():
                if node.up:
                    lease = {"metadata": {"name": node.name, "namespace": "kube-node-lease"},
                             "spec": {"holderIdentity": node.name, "leaseDurationSeconds": 40,
                                      "renewTime": containers.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")}}
                    with contextlib.suppress(apiserver.Lost, apiserver.Refused):
                        await self.api.put_there("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease)
            await asyncio.sleep(HEART_BEAT_S)

    def add_node(self, made):
        async def add():
            node = self.nodes[made["name"]] = Node(made)
            await self.register(node)
        self.call(add())

    # --- pods as the watch brings them
    def on_pod(self, kind, pod):
        key, uid = (pod["metadata"]["namespace"], pod["metadata"]["name"]), pod["metadata"]["uid"]
        if kind == "DELETED":
            self.pods.pop(key, None)
            self.gone[key] = pod
        else:
            self.pods[key] = pod
        self.tell_change()
        if self.claims:
            self.spawn(self.claims.on_pod(kind, pod))
        node = self.nodes.get(pod["spec"].get("nodeName"))
        worker = self.workers.get(uid)
        if node is not None and node.ends and worker is None and kind != "DELETED":  # the scheduler heard too late that the node goes
            self.end_with(node, [pod])
        if node is None or not node.up or node.ends and worker is None:
            return
        if worker is None and kind != "DELETED" and phase(pod) not in ("Succeeded", "Failed"):
            worker = self.workers[uid] = (pods.Played if self.play else pods.Pod)(self, node, pod)
            worker.task = self.spawn(worker.life())
        if worker is not None:
            worker.on_change(kind, pod)

    def over(self, worker):
        """Its containers are gone and its object is, too: nothing of it is kept."""
        self.workers.pop(worker.uid, None)
        worker.node.held.pop(worker.uid, None)

    def image(self, name):
        """None: there is no such image."""
        return containers.Image() if self.images is None else self.images.get(name)

    # --- what tests do
    def create(self, pod):
        async def post():
            return await self.api.request("POST", f"/api/v1/namespaces/{self.namespace}/pods", pod)
        return self.call(post())

    def delete(self, name, grace_s=None):
        """As somebody does by hand."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        return self.call(self.api.request("DELETE", path, {} if grace_s is None else {"gracePeriodSeconds": grace_s}))

    def pod(self, name):
        """As it is now, or as it was last; {} when it was never seen."""
        key = self.namespace, name
        return self.pods.get(key) or self.gone.get(key) or {}

    def all(self):
        """The pods of its namespace."""
        return [pod for pod in list(self.pods.values()) if pod["metadata"]["namespace"] == self.namespace]

    def on_node(self, name):
        """The pods of a node, of whatever namespace."""
        return [pod for pod in list(self.pods.values()) if pod["spec"].get("nodeName") == name]

    def until(self, check, what, timeout=60):
        """The first true value of check(), which is asked again after each change of a pod, and now and then. The lock is not held meanwhile."""
        deadline = time.monotonic() + timeout
        while True:
            seen = self.changes
            if self.failures:
                raise self.failures[0]
            value = check()
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {timeout} s for: {what() if callable(what) else what}\n{self.tell()}")
            with self.changed:
                self.changed.wait_for(lambda seen=seen: self.changes != seen, 0.2)

    def wait(self, name, check, timeout=60):
        """The pod (its last state when it is deleted) once check(pod) holds."""
        def probe():
            pod = self.pod(name)
            return pod and check(pod) and pod
        return self.until(probe, lambda: f"pod {name}: {json.dumps(self.pod(name).get('status'), indent=1)}", timeout)

    def wait_gone(self, name, timeout=60):
        return self.until(lambda: (self.namespace, name) in self.gone and (self.namespace, name) not in self.pods, f"pod {name} is gone", timeout)

    def tell(self):
        """For a test that failed: all pods, shortly."""
        return "\n".join(f"{name}: {phase(pod)} on {pod['spec'].get('nodeName')}: {condition(pod, 'PodScheduled').get('message', '')}"
                         for (_, name), pod in list(self.pods.items()))

    def logs(self, name, container, **query):
        """What `kubectl logs` would print: through the API server, from the node. urllib's HTTPError when it is refused."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/log?" + urllib.parse.urlencode({"container": container, **query})
        asked = urllib.request.Request(self.plane.endpoint + path, headers={"Authorization": f"Bearer {self.plane.token}"})
        context = ssl.create_default_context(cafile=str(self.plane.certs / "apiserver.crt"))
        with urllib.request.urlopen(asked, timeout=60, context=context) as answer:
            return answer.read().decode()

    def events(self, name):
        """{reason: message} of a pod's events."""
        path = apiserver.query(f"/api/v1/namespaces/{self.namespace}/events", fieldSelector=f"involvedObject.name={name}")
        return {event["reason"]: event["message"] for event in self.call(self.api.get(path))["items"]}

    def add_image(self, name, image=None):
        """It can be pulled now."""
        self.images = {**(self.images or {}), name: image or containers.Image()}
        self.loop.call_soon_threadsafe(self.image_came.set)

    # --- faults
    def refuse(self, check, reason, message="simulated"):
        """Pods for which check(pod) holds are refused by their node: "UnexpectedAdmissionError", "OutOfcpu", …"""
        self.rules.append((check, reason, message))

    def worker_of(self, name):
        uid = self.pod(name)["metadata"]["uid"]
        return self.workers[uid]

    def evict(self, name, message="The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi."):
        """By its node, which is short of something."""
        self.call(self.worker_of(name).fail("Evicted", message, ("TerminationByKubelet", message)))

    def bind(self, name, node):
        """As the scheduler does; nothing when it did already."""
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}

        async def post():
            with contextlib.suppress(apiserver.Refused):
                await self.api.request("POST", f"/api/v1/namespaces/{self.namespace}/pods/{name}/binding", binding)
        self.call(post())

    def preempt(self, name):
        """By the scheduler, for a more important pod."""
        self.call(self.disrupt(self.pod(name), "PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod", None))

    async def disrupt(self, pod, reason, message, grace_s):
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        now = containers.stamp()
        disrupted = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
        kept = [one for one in pod["status"].get("conditions", []) if one["type"] != "DisruptionTarget"]
        with contextlib.suppress(apiserver.Refused):
            await self.api.patch(f"{path}/status", {"status": {"conditions": [*kept, disrupted]}})
            await self.api.request("DELETE", path, {"preconditions": {"uid": pod["metadata"]["uid"]},
                                                    **({} if grace_s is None else {"gracePeriodSeconds": grace_s})})

    def lose_node(self, name):
        """Its power fails: containers end, nobody says so; the control plane sees no heart beat, marks and taints it, and has its pods deleted, which
        nobody does. `remove_node` is what a cloud does then."""
        self.call(self.lose(self.nodes[name]))

    async def lose(self, node):
        node.up = False
        for worker in [worker for worker in self.workers.values() if worker.node is node]:
            await worker.vanish()
        now, path = containers.stamp(), f"/api/v1/nodes/{node.name}"
        unknown = {"status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status.", "lastTransitionTime": now,
                   "lastHeartbeatTime": now}
        node.ends = self.taint
        ready = [{**one, **unknown} for one in (await self.api.get(path))["status"]["conditions"]]
        await self.api.patch(f"{path}/status", {"status": {"conditions": ready}})
        lost = [{"key": "node.kubernetes.io/unreachable", "effect": effect} for effect in ("NoSchedule", "NoExecute")]
        await self.api.patch(path, {"spec": {"taints": [*node.made["taints"], *lost]}})
        await self.end_with(node, self.on_node(node.name))

    async def taint(self, pod):
        """As the taint manager does on a node that has a taint with NoExecute."""
        await self.disrupt(pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", None)

    def end_with(self, node, pods_there):
        """Ends pods with their node, each once; the task in which it does."""
        new = [pod for pod in pods_there if pod["metadata"]["uid"] not in node.ended]
        node.ended.update(pod["metadata"]["uid"] for pod in new)

        async def end_all():
            for pod in new:
                await node.ends(pod)
        return self.spawn(end_all())

    def reclaim_node(self, name):
        """As a cloud takes back a spot node: a taint, its pods are told to end in their grace, and when they have it is gone."""
        async def reclaim():
            node, path = self.nodes[name], f"/api/v1/nodes/{name}"
            taint = {"key": "node.kubernetes.io/out-of-service", "value": "spot", "effect": "NoExecute"}
            await self.api.patch(path, {"spec": {"taints": [*node.made["taints"], taint]}})
            node.ends = self.taint
            await self.end_with(node, self.on_node(name))
        self.call(reclaim())
        self.until(lambda: not self.on_node(name), f"pods of node {name} have ended")
        self.remove_node(name)

    def remove_node(self, name):
        """The Node goes, and the pods that were on it, and those that the scheduler still puts there, since it heard first that the others ended."""
        async def remove():
            node = self.nodes[name]
            if node.up:
                node.up = False
                for worker in [worker for worker in self.workers.values() if worker.node is node]:
                    await worker.vanish()
            node.ends, node.ended = self.collect, set()  # also of pods that were evicted when the node was lost
            await self.forget(f"/api/v1/nodes/{name}")
            await self.end_with(node, self.on_node(name))
        self.call(remove())

    async def collect(self, pod):
        """As the garbage collector of pods does whose node is no more."""
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        with contextlib.suppress(apiserver.Refused):
            await self.api.patch(f"{path}/status", {"status": {"phase": "Failed"}})
        await self.disrupt(pod, "DeletionByPodGC", "PodGC: node no longer exists", 0)

    def finish(self, name, **codes):
        """Lets a played pod end that waits for it (pods.on_demand): exit codes by container."""
        self.loop.call_soon_threadsafe(self.worker_of(name).demanded.set_result, codes)


def name_of(text):
    """A test's name as a namespace."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:50]
