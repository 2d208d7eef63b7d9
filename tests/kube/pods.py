"""A pod on its node: admission and devices, volumes, containers in their order, and the status that a real kubelet would write about them.

    refused ◀── admitted ──▶ volumes ──▶ init containers, one after the other ──▶ containers together ──▶ over
                               └──────── what is not there is waited for ────────┘
A pod that is told to end (deleted, evicted) goes to "over" from anywhere; one that was deleted is then removed from the API server."""
import asyncio
import contextlib
import re
import shutil
import signal

import apiserver
import containers
import volumes

RETRY_S = 0.2      # a real kubelet's are 10 s and more
PULL_RETRY_S = 10  # so long is ErrImagePull there to be seen
LIVE = ("Pending", "Running")
SANITIZER = re.compile(r"ERROR: (Address|Leak|Thread|Undefined)\w*|runtime error:|WARNING: ThreadSanitizer")
IMAGE_NAME = re.compile(r"[a-z0-9]+([._/-]+[a-z0-9]+)*(:[0-9]+(/[a-z0-9._/-]+)?)?(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?")


class Rejected(Exception):
    """The node does not take the pod: reason and message of its status."""


def is_extended(resource):
    return "/" in resource and not resource.startswith("kubernetes.io/")


def limits(pod, kind="containers"):
    """(resource, count, container) of what counts devices."""
    for container in pod["spec"].get(kind, []):
        for resource, count in container.get("resources", {}).get("limits", {}).items():
            if is_extended(resource):
                yield resource, int(volumes.amount(count)), container["name"]


class Worker:
    """What a pod that runs and one that is played have in common."""

    def __init__(self, kubelet, node, pod):
        self.kubelet, self.node, self.pod = kubelet, node, pod
        self.uid, self.name, self.namespace = (pod["metadata"][key] for key in ("uid", "name", "namespace"))
        self.path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        self.processes = {}  # that have started: containers.Process
        self.told = None  # (reason, message, condition) of an end that the node wants
        self.stopping = False
        self.silent = False  # its node has lost its power
        self.lasts = True  # the API server has it
        self.task = self.stopper = None
        self.times = {}  # {condition: (what it says, since when)}
        self.began = containers.stamp()

    def why_waits(self, _):
        return "ContainerCreating"

    # --- admission
    def refuse_by_rule(self):
        for rule in self.kubelet.rules:
            check, reason, message = rule
            if check(self.pod):
                self.kubelet.rules.remove(rule)
                raise Rejected(reason, f"Pod was rejected: {message}")

    def allocate(self):
        """{container: {resource: devices}}; Rejected as the device plugins or the kubelet do."""
        got, held = {}, self.node.held.setdefault(self.uid, {})
        for resource, count, container in limits(self.pod):
            if resource == "aliyun.com/gpu-mem":
                devices = self.part_of_one(count)
            elif resource in self.node.made["devices"]:
                devices = self.some_of(resource, count)
            else:
                continue
            held.setdefault(resource, []).extend(devices)
            got.setdefault(container, {})[resource] = devices
        return got

    def some_of(self, resource, count):
        free, most = self.node.free(resource), self.node.made.get("shared_max")
        if count > len(free):
            there = len(self.node.made["devices"][resource])
            raise Rejected(f"OutOf{resource}", f"Pod was rejected: Node didn't have enough resource: {resource}, requested: {count}, "
                                               f"used: {there - len(free)}, capacity: {there}")
        if most and count > most:
            raise Rejected("UnexpectedAdmissionError", "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = request for "
                                                       f"'{resource}: {count}' too large: maximum request size for shared resources is {most}")
        return free[:count]

    def part_of_one(self, units):
        """Of the GPU with the least that suffices, as the scheduler's extender chooses."""
        free = self.node.memory_free()
        fitting = sorted((left, index) for index, left in enumerate(free) if left >= units)
        if not fitting:
            raise Rejected("UnexpectedAdmissionError", f"Pod was rejected: no GPU has {units} units of aliyun.com/gpu-mem: free are {free}")
        return [(fitting[0][1], units)]

    # --- status
    def conditions(self, flags):
        """The scheduler's, and ours: {type: (status, reason)}."""
        made, now = [], containers.stamp()
        for kind, says in flags.items():
            if self.times.get(kind, (None,))[0] != says:
                self.times[kind] = says, now
            made.append({"type": kind, "status": "True" if says[0] else "False", "lastTransitionTime": self.times[kind][1],
                         **({"reason": says[1]} if says[1] else {}), **({"message": says[2]} if len(says) > 2 else {})})
        kept = [one for one in self.kubelet.pods.get((self.namespace, self.name), self.pod)["status"].get("conditions", []) if one["type"] not in flags]
        return kept + made

    async def write(self, status):
        if self.silent or not self.lasts:
            return
        try:
            await self.kubelet.api.patch(f"{self.path}/status", {"metadata": {"uid": self.uid}, "status": status})
        except apiserver.Refused as refusal:
            if refusal.code not in (404, 409):  # it is gone, or another has its name
                raise

    async def remove(self):
        """The last word about a pod that was deleted."""
        if not self.silent and self.lasts:
            with contextlib.suppress(apiserver.Refused):
                await self.kubelet.api.request("DELETE", self.path, {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}})

    def on_change(self, kind, pod):
        self.pod = pod
        if kind == "DELETED":
            self.lasts = False
            self.stop(0)
        elif "deletionTimestamp" in pod["metadata"]:
            self.stop(pod["metadata"].get("deletionGracePeriodSeconds", 30))

    def stop(self, grace_s):
        raise NotImplementedError

    async def vanish(self):
        """As when the node's power fails."""
        self.silent = True
        self.stop(0)
        await asyncio.gather(self.task, *([self.stopper] if self.stopper else []), return_exceptions=True)
        self.kubelet.over(self)


class Container:
    """One of the pod's: what its status says."""

    def __init__(self, spec):
        self.spec, self.name = spec, spec["name"]
        self.state = {"waiting": {"reason": "PodInitializing"}}
        self.image_id = f"simulated@{spec['image']}"

    def pulled(self, image):
        if image.digest:
            self.image_id = f"{self.spec['image'].rpartition(':')[0]}@{image.digest}"

    def status(self):
        which, what = next(iter(self.state.items()))
        running = which == "running"
        return {"name": self.name, "image": self.spec["image"], "imageID": "" if which == "waiting" else self.image_id,
                "ready": running or (which == "terminated" and what["exitCode"] == 0 and "init" in self.spec), "started": running, "restartCount": 0,
                "state": {which: what}}

    def ended(self):
        return "terminated" in self.state

    def end(self, code, reason=None, message="", started=None):
        what = {"exitCode": code, "reason": reason or ("Completed" if code == 0 else "Error"), "startedAt": started or "1970-01-01T00:00:00Z",
                "finishedAt": containers.stamp(), "containerID": f"containerd://{self.name}"}
        self.state = {"terminated": {**what, **({"message": message} if message else {})}}


class Pod(Worker):
    """Its containers are processes."""

    def __init__(self, kubelet, node, pod):
        super().__init__(kubelet, node, pod)
        self.folder = kubelet.folder / "pods" / self.uid
        self.init = [Container({**spec, "init": True}) for spec in pod["spec"].get("initContainers", [])]
        self.main = [Container(spec) for spec in pod["spec"]["containers"]]
        self.volumes = volumes.Volumes(kubelet.api, pod, self.folder / "volumes", node.name)
        self.devices = {}
        self.writing = asyncio.Lock()
        self.wrote = None
        self.preparing = set()  # tasks
        self.finished = False
        self.said = set()  # events that stand already

    def why_waits(self, name):
        found = next((one for one in self.init + self.main if one.name == name), None)
        return found.state.get("waiting", {}).get("reason", "PodInitializing") if found else "not found"

    # --- life
    async def life(self):
        try:
            self.refuse_by_rule()
            self.devices = self.allocate()
            await self.live()
        except Rejected as refusal:
            self.told = *refusal.args, None
            await self.write({"phase": "Failed", "reason": refusal.args[0], "message": refusal.args[1], "startTime": self.began})
            self.node.held.pop(self.uid, None)

    async def live(self):
        deadline = self.pod["spec"].get("activeDeadlineSeconds")
        timer = self.kubelet.loop.call_later(deadline, self.over_time) if deadline else None
        try:
            await self.run()
        except asyncio.CancelledError:
            if not self.stopping:
                raise
        finally:
            if timer:
                timer.cancel()
        self.node.held.pop(self.uid, None)
        self.finished = True
        await self.publish()

    def over_time(self):
        self.kubelet.spawn(self.fail("DeadlineExceeded", "Pod was active on the node longer than the specified deadline", None))

    async def run(self):
        self.publish_soon()
        await self.patiently("FailedMount", self.volumes.make)
        for container in self.init:
            await self.run_one(container)
            if self.stopping or container.state["terminated"]["exitCode"]:
                return
        await asyncio.gather(*(self.run_one(container) for container in self.main))

    async def patiently(self, reason, make):
        """What make() gives, once all is there that it needs."""
        while True:
            try:
                return await make()
            except volumes.NotThere as lack:
                await self.event(reason, str(lack))
                await asyncio.sleep(RETRY_S)

    # --- one container
    def waits(self, container, reason, message=""):
        container.state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
        self.publish_soon()

    async def pull(self, container):
        """Its image, once there is one."""
        name, policy = container.spec["image"], container.spec.get("imagePullPolicy")
        if not IMAGE_NAME.fullmatch(name):
            self.waits(container, "InvalidImageName", f'Failed to apply default image tag "{name}": couldn\'t parse image name "{name}": '
                                                      "invalid reference format")
            await asyncio.Event().wait()
        tries = 0
        while (image := self.kubelet.image(name)) is None:
            why = f'failed to pull and unpack image "{name}": failed to resolve reference "{name}": {name}: not found'
            if policy == "Never":
                self.waits(container, "ErrImageNeverPull", f'Container image "{name}" is not present with pull policy of Never')
            elif tries == 0:
                self.waits(container, "ErrImagePull", f'rpc error: code = NotFound desc = {why}')
                await self.publish()  # before it is overtaken by the next state
                await self.event("Failed", f'Failed to pull image "{name}": rpc error: code = NotFound desc = {why}')
            else:
                self.waits(container, "ImagePullBackOff", f'Back-off pulling image "{name}": ErrImagePull: rpc error: code = NotFound desc = {why}')
                await self.event("BackOff", f'Back-off pulling image "{name}"')
            tries += 1
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.kubelet.image_came.wait(), PULL_RETRY_S if tries == 1 else None)
                self.kubelet.image_came.clear()
        container.pulled(image)
        return image

    def device_env(self, container):
        """What device plugins say in a container that has devices."""
        said = {}
        for resource, devices in self.devices.get(container.name, {}).items():
            if resource == "aliyun.com/gpu-mem":
                (index, units), = devices
                said = {"NVIDIA_VISIBLE_DEVICES": str(index), "ALIYUN_COM_GPU_MEM_IDX": str(index), "ALIYUN_COM_GPU_MEM_POD": str(units),
                        "ALIYUN_COM_GPU_MEM_CONTAINER": str(units), "ALIYUN_COM_GPU_MEM_DEV": str(self.node.made["gpu_mem"][index])}
            elif resource.startswith("nvidia.com/"):
                said = {"NVIDIA_VISIBLE_DEVICES": ",".join(sorted({device.split("::")[0] for device in devices}))}
        return said

    async def variables(self, container, image):
        """NotThere is a state of the container, not of the pod."""
        while True:
            try:
                env = await volumes.environment(self.kubelet.api, self.pod, container.spec, image.env, self.node.name)
                containers.security(self.pod, container.spec, image)
                return {**env, **self.device_env(container)}
            except (volumes.NotThere, ValueError) as lack:
                self.waits(container, "CreateContainerConfigError", str(lack))
                await self.event("Failed", f"Error: {lack}")
                await asyncio.sleep(RETRY_S)

    async def prepare(self, container):
        image = await self.pull(container)
        return image, await self.variables(container, image)

    async def prepared(self, container):
        """(image, variables) once all is there that it needs; None: the pod ends before."""
        task = self.kubelet.loop.create_task(self.prepare(container))
        self.preparing.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if not self.stopping:
                raise
            return None
        finally:
            task.cancel()
            self.preparing.discard(task)

    async def run_one(self, container):
        """To its end."""
        made = None if self.stopping else await self.prepared(container)
        if made is None or self.stopping:
            return
        image, env = made
        process = self.processes[container.name] = containers.Process(container.name, self.folder, self.kubelet.whole)
        memory = int(volumes.amount(container.spec.get("resources", {}).get("limits", {}).get("memory", "0")))
        spec = {**container.spec, **{key: [volumes.expand(word, env) for word in container.spec[key]] for key in ("command", "args")
                                     if key in container.spec}}
        why = await process.start(self.pod, spec, image, self.volumes.source, env, memory)
        if why:
            container.end(128, "StartError", containers.RUNTIME_SAYS.format(why))
            await self.event("Failed", f"Error: {containers.RUNTIME_SAYS.format(why)}")
            self.publish_soon()
            return
        began = containers.stamp()
        container.state = {"running": {"startedAt": began}}
        self.publish_soon()
        if self.stopping:
            process.kill()
        code, oom = await process.end()
        if found := SANITIZER.search(process.log.read_text(errors="replace") if process.log.exists() else ""):
            self.kubelet.failures.append(AssertionError(f"{self.name}/{container.name}: {found.string[found.start():][:4000]}"))
        container.end(code, "OOMKilled" if oom else None, process.last_words(container.spec.get("terminationMessagePolicy"), code != 0), began)
        self.publish_soon()

    # --- its end
    def stop(self, grace_s):
        if self.stopper is None or self.stopper.done():
            if not self.stopping or self.task.done():
                self.stopping = True
                self.stopper = self.kubelet.spawn(self.end(grace_s))
        elif grace_s == 0:
            self.kill()

    def kill(self):
        for process in self.processes.values():
            process.kill()

    async def end(self, grace_s):
        """All of it, then what is said of it, and then, if it was deleted, its object. What is about to start is killed by who starts it."""
        running = [process for process in self.processes.values() if not process.ended]
        for task in self.preparing:
            task.cancel()
        if not running and not self.preparing and not self.task.done():
            self.task.cancel()
        if running and grace_s:
            for process in running:
                process.signal(signal.SIGTERM)
            await asyncio.wait([self.task], timeout=grace_s)
        self.kill()
        await asyncio.gather(self.task, return_exceptions=True)
        if not self.lasts or "deletionTimestamp" in self.pod["metadata"]:
            await self.gone()

    async def gone(self):
        await self.remove()
        self.kubelet.over(self)
        shutil.rmtree(self.folder, ignore_errors=True)

    async def fail(self, reason, message, disruption):
        """The node's own wish, with no grace."""
        self.told = reason, message, disruption
        self.stop(0)
        await self.stopper

    # --- what is said of it
    def publish_soon(self):
        self.kubelet.spawn(self.publish())

    async def publish(self):
        """The newest state; what came meanwhile is in one write."""
        async with self.writing:
            status = self.status()
            if status != self.wrote:
                self.wrote = status
                await self.write(status)

    def phase(self):
        if self.finished and (self.told or not all(one.ended() for one in self.main)):
            return "Failed"
        if any(one.ended() and one.state["terminated"]["exitCode"] for one in self.init):
            return "Failed"
        if all(one.ended() for one in self.main):
            return "Failed" if any(one.state["terminated"]["exitCode"] for one in self.main) else "Succeeded"
        return "Running" if any("running" in one.state or one.ended() for one in self.main) else "Pending"

    def status(self):
        phase = self.phase()
        initialized = all(one.ended() and one.state["terminated"]["exitCode"] == 0 for one in self.init)
        over = phase in ("Succeeded", "Failed")
        ready = phase == "Running" and all("running" in one.state for one in self.main)
        why = "PodCompleted" if phase == "Succeeded" else "PodFailed" if phase == "Failed" else "" if ready else "ContainersNotReady"
        flags = {"PodReadyToStartContainers": (not over, ""), "Initialized": (initialized, "" if initialized else "ContainersNotInitialized"),
                 "Ready": (ready, why), "ContainersReady": (ready, why)}
        if self.told and self.told[2] and over:  # a kubelet says why with the last phase, not before
            flags["DisruptionTarget"] = True, *self.told[2]
        return {"phase": phase, "startTime": self.began, "hostIP": "127.0.0.1", "podIP": "127.0.0.1", "conditions": self.conditions(flags),
                "initContainerStatuses": [one.status() for one in self.init], "containerStatuses": [one.status() for one in self.main],
                **({"reason": self.told[0], "message": self.told[1]} if self.told and over else {})}

    async def event(self, reason, message):
        """A warning; the same is said once."""
        if (reason, message) in self.said or self.silent:
            return
        self.said.add((reason, message))
        now = containers.stamp()
        with contextlib.suppress(apiserver.Refused):
            await self.kubelet.api.request("POST", f"/api/v1/namespaces/{self.namespace}/events", {
                "metadata": {"name": f"{self.name}.{self.uid[:8]}{len(self.said)}", "namespace": self.namespace}, "reason": reason, "message": message,
                "type": "Warning", "count": 1, "firstTimestamp": now, "lastTimestamp": now, "source": {"component": "kubelet", "host": self.node.name},
                "involvedObject": {"kind": "Pod", "apiVersion": "v1", "namespace": self.namespace, "name": self.name, "uid": self.uid}})


async def at_once(_):
    """A play: it has ended as soon as it is bound."""
    return {}


async def on_demand(worker):
    """A play: it runs until Kubelet.finish."""
    worker.demanded = asyncio.get_running_loop().create_future()
    await worker.write(worker.status("Running", None))
    return await worker.demanded


class Played(Worker):
    """Nothing runs: `kubelet.play(worker)` gives the exit codes. One write, and one more where the play says that it runs."""

    def status(self, phase, codes):
        made = [Container(spec) for spec in self.pod["spec"]["containers"]]
        init = [Container({**spec, "init": True}) for spec in self.pod["spec"].get("initContainers", [])]
        for one in init:
            one.end(0, started=self.began)
        for one in made:
            if codes is None:
                one.state = {"running": {"startedAt": self.began}}
            else:
                one.end(codes.get(one.name, 0), started=self.began)
        return {"phase": phase, "startTime": self.began, "podIP": "127.0.0.1", "hostIP": "127.0.0.1",
                "initContainerStatuses": [one.status() for one in init], "containerStatuses": [one.status() for one in made],
                **({"reason": self.told[0], "message": self.told[1]} if self.told else {}),
                **({"conditions": self.conditions({"DisruptionTarget": (True, *self.told[2])})} if self.told and self.told[2] else {})}

    async def life(self):
        try:
            self.refuse_by_rule()
            self.allocate()
            codes = await self.kubelet.play(self)
            await self.write(self.status("Failed" if any(codes.values()) else "Succeeded", codes))
        except Rejected as refusal:
            self.told = *refusal.args, None
            await self.write({"phase": "Failed", "reason": refusal.args[0], "message": refusal.args[1], "startTime": self.began})
        except asyncio.CancelledError:
            if not self.stopping:
                raise
            if self.told:
                await self.write(self.status("Failed", {one["name"]: 137 for one in self.pod["spec"]["containers"]}))
        self.node.held.pop(self.uid, None)

    def stop(self, grace_s):
        if self.stopper is None or self.stopper.done():
            self.stopping = True
            self.stopper = self.kubelet.spawn(self.end())

    async def end(self):
        if not self.task.done():
            self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        if not self.lasts or "deletionTimestamp" in self.pod["metadata"]:
            await self.remove()
            self.kubelet.over(self)

    async def fail(self, reason, message, disruption):
        self.told = reason, message, disruption
        self.stop(0)
        await self.stopper
