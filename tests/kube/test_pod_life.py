"""The product's pods as they are rendered, agent and runner in them, on a simulated kubelet: what becomes of a datum whatever becomes of the pod. The
daemon is one made for workers."""
import base64
import hashlib
import json

import containers
import nodes
import pytest
import swapping_command
from fake_daemon import FakeDaemon, decode_ops, eventually, row
from kubelet import phase, state
from test_kubelet import GOLDEN, over

OURS = containers.Image(replace={"/usr/bin": str(containers.BIN)}, env={"ASAN_OPTIONS": "detect_leaks=1"})


class World:
    """A cluster, a daemon and a worker's pod."""

    def __init__(self, kubelet, daemon, made):
        self.kubelet, self.daemon, self.name = kubelet, daemon, made["metadata"]["name"]
        kubelet.create(made)

    def ended(self):
        return self.kubelet.wait(self.name, over)

    def exit_codes(self):
        return {one: state(self.ended(), one)[1]["exitCode"] for one in ("main", "agent")}

    def said(self):
        return f"{self.kubelet.logs(self.name, 'agent')}\n{self.kubelet.logs(self.name, 'main')}"


@pytest.fixture
def world(cluster):
    """make(shell command, golden, user=, memory=, images=, whole=, more of the stage)"""
    daemons = []

    def make(shell, golden="cpu-restricted", user=0, memory=None, images=None, whole=True, more=None, **stage):
        daemon = FakeDaemon({"run": ["sh", "-c", shell], **stage})
        daemons.append(daemon)
        made = json.loads((GOLDEN / f"{golden}.json").read_text())
        made["metadata"] = {"name": made["metadata"]["name"], "labels": made["metadata"]["labels"]}
        main, agent = made["spec"]["containers"]
        agent["command"][agent["command"].index("--url") + 1] = daemon.url
        agent["env"] = [{"name": "PIPELINED_WORKER_TOKEN", "value": "secret"}]
        main.pop("resources", None)
        if memory:
            main["resources"] = {"limits": {"memory": memory}}
        for one in made["spec"]["volumes"]:
            if "ephemeral" in one:  # what makes claims of storage is not here
                one["emptyDir"] = one.pop("ephemeral") and {}
        made["spec"].update(more or {})
        known = {"reg.example/pipelined:1": OURS, main["image"]: containers.Image(user=user)} if images is None else images
        return World(cluster([nodes.cpu("c")], images=known, whole=whole), daemon, made)

    yield make
    for daemon in daemons:
        daemon.down()


@pytest.mark.parametrize("golden,user,uid", [("cpu", 0, 0), ("cpu", 1234, 1234), ("cpu-restricted", 0, 10001), ("root", 1234, 0),
                                             ("user-restricted", 0, 1000)])
def test_datums_run_in_a_pod_whatever_its_user(world, golden, user, uid):
    """Files that only the command's user may touch are uploaded, and the next datum finds its folder clean."""
    one = world('umask 077; id -u >/pfs/out/uid; mkdir /pfs/out/d; echo -n $PL_DATUM_ID >/pfs/out/d/id; n=$(ls -A /pfs/out); echo $n >/pfs/out/n', golden, user)
    ids = [hashlib.sha256(bytes([48 + i])).hexdigest() for i in range(3)]
    one.daemon.give("t", [row(i, ids[i]) for i in range(3)], fence=7)
    rows = one.daemon.result()["rows"]
    for i in range(3):
        assert rows[i]["state"] == "success", (rows[i], one.said())
        assert decode_ops(rows[i]) == {"uid": (1, f"{uid}\n".encode()), "d/id": (1, ids[i].encode()), "n": (1, b"d uid\n")}
    one.daemon.end()
    assert one.exit_codes() == {"main": 0, "agent": 0} and phase(one.ended()) == "Succeeded", one.said()


def test_code_checkpoint_and_an_input_that_may_be_changed(world):
    one = world('[ "$PWD" = /code ]; echo kept >/pl/checkpoint/k; echo mine >/pfs/notes/mine; echo -n ok >/pfs/out/ok', "folders")
    one.daemon.give("t", [row()])
    answer = one.daemon.result()["rows"][0]
    assert answer["state"] == "success" and decode_ops(answer) == {"ok": (1, b"ok")}, (answer, one.said())
    one.daemon.end()
    assert one.exit_codes() == {"main": 0, "agent": 0}, one.said()


def test_a_command_that_lives_on_and_swaps_its_output_for_links_gets_nothing_of_the_agents(world, gate):
    """Links to what only the agent has, its environment with the worker's token; the pod's output, checkpoints and what is removed."""
    script = swapping_command.script("/proc/self", "/proc/self/environ", "/proc/self/cmdline", wait=gate.wait)
    one = world("", "folders", run=["/usr/bin/python3", "-c", script], datum={"batch": True}, checkpoint={"every": "100ms"})
    ids = [hashlib.sha256(b"%d" % i).hexdigest() for i in range(24)]
    one.daemon.give("t", [row(i, ids[i]) for i in range(24)])
    gate.arrived()
    eventually(lambda: one.daemon.checkpoints, 60)
    gate.leave_open()
    rows = one.daemon.result()["rows"]
    good = [got for got in rows if got["state"] == "success"]
    assert len(rows) == 24, (rows, one.said())
    assert {index for index, one_id in enumerate(ids) if swapping_command.left_alone(one_id)} <= {got["index"] for got in good}, (rows, one.said())
    assert one.daemon.checkpoints and one.daemon.packs, one.said()
    for bytes_ in [json.dumps(rows).encode(), *(base64.b64decode(got["output"]["ops"]) for got in good if "ops" in got["output"]), *one.daemon.packs.values()]:
        assert b"PIPELINED_WORKER_TOKEN" not in bytes_ and b"pipelined-worker" not in bytes_
    one.daemon.end()
    assert one.exit_codes()["agent"] == 0, one.said()
    swaps = [int(text.split(b"swaps: ")[-1].split()[0]) for text in one.daemon.logs.values() if b"swaps: " in text]  # printed text may come after results
    assert max(swaps) >= 1000, (swaps, one.said())


def memory_is_bounded():
    if not containers.Cgroup.place():
        print("no cgroup of memory may be made here")
        pytest.skip("no cgroup of memory may be made here")


HUNGRY = "case $PL_DATUM_ID in %s*) exec /usr/bin/python3 -c 'bytearray(300 << 20)';; esac; echo -n fine >/pfs/out/f"


def test_a_container_killed_for_memory_does_not_take_what_was_done(world):
    """The kernel kills all of main. What was finished is handed in, what was not begun is given back; of the datum between the pod's status tells."""
    memory_is_bounded()
    ids = [hashlib.sha256(bytes([48 + i])).hexdigest() for i in range(3)]
    one = world(HUNGRY % ids[1][:12], memory="128Mi")
    one.daemon.give("t", [row(i, ids[i]) for i in range(3)])
    ended = one.ended()
    rows = {got["index"]: got for result in one.daemon.results for got in result["rows"]}
    back = [index for result in one.daemon.results for index in result["gave_back"]]
    assert list(rows) == [0] and rows[0]["state"] == "success" and back == [2], (one.daemon.results, one.said())
    assert state(ended, "main")[1]["reason"] == "OOMKilled" and state(ended, "main")[1]["exitCode"] == 137
    assert state(ended, "agent")[1]["exitCode"] == 0, one.said()


def test_a_process_killed_for_memory_fails_its_datum_alone(world):
    """As on nodes that kill no more than they must: the runner lives, and says why the datum failed."""
    memory_is_bounded()
    ids = [hashlib.sha256(bytes([48 + i])).hexdigest() for i in range(2)]
    one = world(HUNGRY % ids[0][:12], memory="128Mi", whole=False)
    one.daemon.give("t", [row(i, ids[i]) for i in range(2)])
    rows = one.daemon.result()["rows"]
    assert rows[0]["state"] == "failed" and rows[0]["oom"] is True and rows[1]["state"] == "success", (rows, one.said())


def test_a_pod_told_to_end_gives_back_what_it_has(world):
    """Within its grace, however deaf its command."""
    one = world("trap '' TERM; echo begun; while :; do sleep 0.05; done")
    one.daemon.give("t", [row(0), row(1)])
    one.daemon.wait(lambda: any(one.daemon.logs.values()))
    one.kubelet.delete(one.name)
    one.kubelet.wait_gone(one.name, timeout=25)
    given = [index for result in one.daemon.results for index in result["gave_back"]]
    assert sorted(given) == [0, 1], one.daemon.results
    assert state(one.kubelet.pod(one.name), "agent")[1]["exitCode"] == 0


def test_without_its_agent_the_command_ends(world):
    one = world("echo begun; while :; do sleep 0.05; done")
    one.daemon.give("t", [row()])
    one.daemon.wait(lambda: any(one.daemon.logs.values()))
    one.kubelet.worker_of(one.name).processes["agent"].kill()
    assert one.exit_codes() == {"main": 75, "agent": 137}


def test_an_agent_whose_command_has_no_image_can_be_ended(world):
    one = world("true", images={"reg.example/pipelined:1": OURS})
    one.kubelet.wait(one.name, lambda pod: state(pod, "agent")[0] == "running" and state(pod, "main")[1].get("reason") == "ImagePullBackOff")
    one.kubelet.delete(one.name)
    one.kubelet.wait_gone(one.name, timeout=20)
    assert state(one.kubelet.pod(one.name), "agent")[1]["exitCode"] == 0, state(one.kubelet.pod(one.name), "agent")


def test_a_node_without_power_is_silence(world):
    """Nothing is given back: the lease will end. Nothing of it runs on."""
    one = world("echo begun; while :; do sleep 0.05; done")
    one.daemon.give("t", [row()])
    one.daemon.wait(lambda: any(one.daemon.logs.values()))
    processes = list(one.kubelet.worker_of(one.name).processes.values())
    one.kubelet.lose_node("c")
    assert all(process.ended for process in processes) and one.daemon.results == []
