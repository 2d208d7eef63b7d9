"""What a real kubelet makes of pods as pod_render gives them: who may run where, what they may write, how they end, what is said of it."""
import concurrent.futures
import json
import os
import pathlib
import signal
import time

import node
import pytest

PODS = pathlib.Path(__file__).resolve().parents[1] / "unit" / "kube" / "pod" / "data" / "pods"
LEVELS = ("privileged", "baseline", "restricted")


class Space:
    """A namespace with a level of Pod Security, and the pods in it."""

    def __init__(self, cluster, name, level="privileged"):
        self.cluster, self.name, self.level = cluster, name, level
        self.path = f"/api/v1/namespaces/{name}/pods"
        labels = {"pod-security.kubernetes.io/enforce": level}
        status, said = cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        assert status == 201, said
        cluster.until("account", lambda: cluster.request("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default")[0] == 200)

    def make(self, pod):
        status, said = self.cluster.request("POST", self.path, pod)
        assert status == 201, said
        return said["metadata"]["name"]

    def get(self, name):
        status, said = self.cluster.request("GET", f"{self.path}/{name}")
        assert status == 200, said
        return said

    def until(self, name, check, what, seconds=90):
        deadline = time.monotonic() + seconds
        while True:
            pod = self.get(name)
            got = check(pod)
            if got:
                return got
            assert time.monotonic() < deadline, f"{name}: not {what}: {json.dumps(pod['status'], indent=1)}"
            time.sleep(0.05)

    def ended(self, name):
        """{container: how it terminated}, of all of them."""
        def ends(pod):
            status = pod["status"]
            listed = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
            found = {one["name"]: one["state"]["terminated"] for one in listed if "terminated" in one["state"]}
            return found if len(found) == len(pod["spec"].get("initContainers", [])) + len(pod["spec"]["containers"]) else None
        return self.until(name, ends, "ended")

    def log(self, name, container):
        return self.cluster.text(f"{self.path}/{name}/log?container={container}")

    def delete(self, name):
        self.cluster.request("DELETE", f"{self.path}/{name}", {"gracePeriodSeconds": 0})


@pytest.fixture(scope="module")
def spaces(cluster):
    return {level: Space(cluster, f"at-{level}", level) for level in LEVELS}


def rendered(golden, name, image=node.PLAIN, url="https://127.0.0.1:9"):
    """A golden pod with images that are here, and no owner."""
    pod = json.loads((PODS / f"{golden}.json").read_text(encoding="utf-8"))
    pod["metadata"] = {"name": name, "labels": pod["metadata"]["labels"]}
    main, agent = pod["spec"]["containers"]
    main["image"] = image
    agent["image"] = pod["spec"]["initContainers"][0]["image"] = node.OURS
    agent["command"][agent["command"].index("--url") + 1] = url
    return pod


def alone(name, command, image=node.PLAIN, **container):
    """A pod with this command alone."""
    return {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "automountServiceAccountToken": False, "enableServiceLinks": False,
                                                 "containers": [{"name": "main", "image": image, "command": command, **container}]}}


# ---- the three containers


def test_what_installs_runs_first_and_the_other_two_run_beside_each_other(spaces):
    """The agent of this pod finds no daemon and goes on looking for it; it and the runner, which waits for it, end when they are told to."""
    space = spaces["privileged"]
    name = space.make(rendered("cpu", "three"))
    space.until(name, lambda pod: pod["status"]["phase"] == "Running" and all("running" in one["state"] for one in pod["status"]["containerStatuses"]),
                "running")
    installed = space.get(name)["status"]["initContainerStatuses"][0]["state"]["terminated"]
    assert (installed["exitCode"], installed["reason"]) == (0, "Completed"), space.log(name, "install")
    assert space.log(name, "main") == ""
    space.delete(name)


PROBE = """id -u; id -g
for place in /pfs/out /tmp; do echo x >$place/made && echo "$place yes" || echo "$place no"; done
for place in /pfs /pl/bin /pl/sock; do (echo x >$place/made) 2>/dev/null && echo "$place yes" || echo "$place no"; done
test -x /pl/bin/pl-runner && echo runner; ls /var/run/secrets/kubernetes.io 2>/dev/null; exit 7"""
USERS = ("", "0", "1000", "1000:1000", "nobody", "pipelined")


def golden_of(level):
    return "cpu-restricted" if level == "restricted" else "cpu-baseline" if level == "baseline" else "cpu"


@pytest.mark.parametrize("level", LEVELS)
def test_images_of_any_user_run_at_any_level(spaces, level):
    """The stage names no user: at "restricted" it is 10001, else the image's. Whoever it is may write its output and /tmp, and nothing else."""
    space = spaces[level]
    expected = {"": "0", "0": "0", "1000": "1000", "1000:1000": "1000", "nobody": "65534", "pipelined": "10002"}

    def check(user):
        pod = rendered(golden_of(level), f"user-{user.replace(':', '-') or 'none'}", node.user_image(user))
        pod["spec"]["containers"] = [{**pod["spec"]["containers"][0], "command": ["/bin/sh", "-c", PROBE]}]
        name = space.make(pod)
        end = space.ended(name)["main"]
        lines = space.log(name, "main").split("\n")
        assert end["exitCode"] == 7 and end["reason"] == "Error", (user, end, lines)
        assert lines[0] == ("10001" if level == "restricted" else expected[user]), (user, lines)
        assert lines[2:] == ["/pfs/out yes", "/tmp yes", "/pfs no", "/pl/bin no", "/pl/sock no", "runner", ""], (user, lines)
        space.delete(name)

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(check, USERS))


def test_an_image_that_insists_on_root_is_refused_where_root_is(spaces):
    """Without our 10001 the level does not stop the pod, the kubelet stops the container and says why."""
    space = spaces["restricted"]
    pod = rendered("cpu-restricted", "insists", node.user_image("0"))
    del pod["spec"]["containers"][0]["securityContext"]["runAsUser"]
    name = space.make(pod)
    waiting = space.until(name, lambda got: waits(got, "main", "CreateContainerConfigError"), "refused")
    assert "container has runAsNonRoot and image will run as root" in waiting["message"]
    space.delete(name)


def waits(pod, container, *reasons):
    """The waiting state of a container when it is one of these."""
    for one in pod["status"].get("containerStatuses", []):
        waiting = one["state"].get("waiting", {})
        if one["name"] == container and waiting.get("reason") in reasons:
            return waiting
    return None


# ---- how they end


@pytest.mark.parametrize("command, code, reason", [(["/bin/sh", "-c", "exit 0"], 0, "Completed"), (["/bin/sh", "-c", "exit 43"], 43, "Error"),
                                                   (["/no/such/program"], 128, "StartError")], ids=["0", "43", "no program"])
def test_exit_codes_and_reasons(spaces, command, code, reason):
    space = spaces["baseline"]
    name = space.make(alone(f"ends-{code}", command))
    end = space.ended(name)["main"]
    assert (end["exitCode"], end["reason"]) == (code, reason), end
    space.delete(name)


def test_what_takes_more_memory_than_its_limit(spaces):
    """The runtime hears of it and of the end by two ways: its shell lives a moment longer, where the kernel lets it."""
    space = spaces["baseline"]
    script = "sh -c 'x=0123456789abcdef; while :; do x=$x$x; done'; code=$?; sleep 5; exit $code"
    name = space.make(alone("greedy", ["/bin/sh", "-c", script], resources={"limits": {"memory": "64Mi"}}))
    end = space.ended(name)["main"]
    assert (end["exitCode"], end["reason"]) == (137, "OOMKilled"), end
    space.delete(name)


def process_with(*words):
    """The process with this command line; None when there is none."""
    wanted = b"".join(word.encode() + b"\0" for word in words)
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_bytes() == wanted:
                return int(folder.name)
        except OSError:
            continue
    return None


def test_one_that_is_killed_has_not_run_out_of_memory(spaces):
    """137 alone is no word about memory: only the reason is."""
    space = spaces["baseline"]
    name = space.make(alone("killed", ["/bin/sleep", "86413"]))
    os.kill(space.until(name, lambda _: process_with("/bin/sleep", "86413"), "running"), signal.SIGKILL)
    end = space.ended(name)["main"]
    assert (end["exitCode"], end["reason"]) == (137, "Error"), end
    space.delete(name)


def test_an_image_that_cannot_be_pulled_is_said(spaces):
    space = spaces["baseline"]
    name = space.make(alone("far", ["/bin/true"], image="127.0.0.1:1/nowhere/image:1"))
    waiting = space.until(name, lambda pod: waits(pod, "main", "ErrImagePull", "ImagePullBackOff"), "refused")
    assert "127.0.0.1:1/nowhere/image:1" in waiting["message"], waiting
    space.until(name, lambda pod: waits(pod, "main", "ImagePullBackOff"), "backed off")
    space.delete(name)


def test_a_name_that_is_no_image(spaces):
    space = spaces["baseline"]
    name = space.make(alone("nonsense", ["/bin/true"], image="Not/An Image"))
    assert space.until(name, lambda pod: waits(pod, "main", "InvalidImageName"), "refused")
    space.delete(name)


def test_lines_come_while_it_runs(spaces):
    """Of its two streams, which are two pipes: each line in its order, not one stream's beside the other's."""
    space = spaces["baseline"]
    name = space.make(alone("talks", ["/bin/sh", "-c", "echo one; echo two >&2; exec sleep 1000"]))
    space.until(name, lambda pod: pod["status"]["phase"] == "Running" and sorted(space.log(name, "main").split("\n")) == ["", "one", "two"], "talking")
    space.delete(name)


def test_a_gpu_that_no_node_has_is_waited_for(spaces):
    space = spaces["privileged"]
    pod = rendered("gpu", "gpu-less")
    pod["spec"].pop("runtimeClassName", None)
    name = space.make(pod)
    condition = space.until(name, lambda got: next((one for one in got["status"].get("conditions", []) if one["type"] == "PodScheduled"
                                                     and one["status"] == "False"), None), "refused by the scheduler")
    assert condition["reason"] == "Unschedulable" and "nvidia.com/gpu" in condition["message"], condition
    space.delete(name)
