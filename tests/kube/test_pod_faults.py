"""What users are told, and what becomes of their job, when a pod comes to nothing: daemon, agents, runners and commands are real, and so is the
control plane; the faults are the simulated kubelet's."""
import containers
import nodes
import openmetrics
import pytest
from kubelet import phase, state
from test_demo import AGENT, COMMANDS, IMAGES, kit, world  # noqa: F401  a fixture

ONCE = {"datum": {"tries": 1}}  # what is counted as a try ends the job
ROUNDS = 5  # of a test that may have to try again: after the second loss in a row it waits for 10 s, then 20 s, 40 s, and then longer than a gate


def begin(one, stage, script, **more):
    """A stage of one datum; its run."""
    one.daemon.default.repo(f"in-{stage}").stages(kit.sh(stage, script, **{"input": {"repo": f"in-{stage}", "name": "in", "glob": "/"}, **more}),
                                                  pipeline=stage)
    return one.daemon.push(f"in-{stage}", "f", stage)["run"]


def says(one, run, stage, *words, timeout=30):
    """Waits until the job carries a sentence with these words; the job."""
    return one.daemon.wait_job(run, stage, lambda job: all(word in f"{job['reason']} {job.get('message', '')}" for word in words),
                               f"says {words}\n{one.tell()}", timeout)


def succeeds(one, run, timeout=60):
    end = one.daemon.wait(run, timeout)
    assert end["state"] == "success", (end, one.tell())
    return end


def runs(pod):
    return state(pod, "main")[0] == "running"


def names(one, stage):
    return {pod["metadata"]["name"] for pod in one.pods(stage)}


def hold(gate):
    """A command that stops at the gate, and then does its work."""
    return f"{gate.wait}; cp /pfs/in/f /pfs/out/f"


def test_a_pod_that_is_taken_away_is_made_again(world, gate, request):  # noqa: F811
    """By hand, by its node that is short of memory, by the scheduler for a more important one, or refused by its node: no try of the datum is used."""
    one = world([nodes.gpu("a", count=1)])
    one.kubelet.refuse(lambda pod: "refused" in pod["metadata"]["name"], "UnexpectedAdmissionError", "Allocate failed due to no healthy devices present")
    faults = {"deleted": one.kubelet.delete, "evicted": one.kubelet.evict, "preempted": one.kubelet.preempt, "refused": None}
    tolerant = {"placement": {"tolerations": [{"operator": "Exists"}]}}
    refused_gate = kit.Gate()  # of its own: its second pod may be there before the first ones of the others
    request.addfinalizer(refused_gate.close)
    began = {stage: begin(one, stage, hold(gate if fault else refused_gate), **tolerant, **ONCE) for stage, fault in faults.items()}
    gate.arrived(3)
    for stage, fault in faults.items():
        if fault:
            name, = names(one, stage)
            fault(name)
    gate.arrived(3)
    refused_gate.arrived()
    gate.open()
    refused_gate.open()
    for stage, run in began.items():
        succeeds(one, run)
        assert len(names(one, stage)) == 2, (stage, one.tell())


def test_a_node_that_is_lost_takes_no_job_with_it(world, gate):  # noqa: F811
    one = world([nodes.cpu("a"), nodes.cpu("b")])
    run = begin(one, "st", hold(gate), **ONCE)
    gate.arrived()
    name, = names(one, "st")
    node = one.kubelet.pod(name)["spec"]["nodeName"]
    one.kubelet.lose_node(node)
    one.kubelet.remove_node(node)
    gate.arrived()
    gate.open()
    succeeds(one, run)
    assert one.nodes("st") == {"a", "b"}


def test_a_node_that_is_lost_while_it_makes_a_pod_is_not_waited_for(world):  # noqa: F811
    """Its pod is told to end and never does: the node stays there, and says nothing any more. Not even its agent has come: it has no image yet."""
    one = world([nodes.cpu("a"), nodes.cpu("b")], images={AGENT: None})
    run = begin(one, "st", "cp /pfs/in/f /pfs/out/f", **ONCE)
    says(one, run, "st", AGENT, "not found")
    first, = names(one, "st")
    node = one.kubelet.pod(first)["spec"]["nodeName"]
    one.kubelet.lose_node(node)
    one.kubelet.until(lambda: one.nodes("st") >= {"a", "b"}, "another node has one")
    one.kubelet.add_image(AGENT, IMAGES[AGENT])
    succeeds(one, run)
    assert one.kubelet.pod(first)["metadata"]["deletionTimestamp"]


def test_after_two_losses_on_one_node_another_one_has_the_datum(world, gate):  # noqa: F811
    """As long as there is one; and no try of the datum is used."""
    one = world([nodes.cpu("a")])
    run = begin(one, "st", hold(gate), **ONCE)
    for more in (None, "b"):
        gate.arrived()
        name, = one.kubelet.until(lambda: [pod["metadata"]["name"] for pod in one.pods("st") if runs(pod)], "its pod runs")
        if more:
            one.kubelet.add_node(nodes.cpu(more))
        one.kubelet.evict(name)
    gate.arrived()
    gate.open()
    succeeds(one, run)
    first, second, third = sorted(one.pods("st"), key=lambda pod: int(pod["metadata"]["name"].split("-")[-2]))  # as they were made
    avoids = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}]}
    asked = [pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution") for pod in (first, second, third)]
    assert asked == [None, None, avoids] and third["spec"]["nodeName"] == "b"
    attempts = one.daemon.default.datums("st", run)
    assert [(a["state"], a["attempt"], a["node"]) for a in attempts] == [("lost", 1, "a"), ("lost", 1, "a"), ("success", 1, "b")]
    assert {tuple(pod["metadata"]["labels"].get(f"pipelined.io/{name}") for name in ("project", "pipeline", "stage", "run")) for pod in (first, second, third)} == {
        ("default", "st", "st", run)}
    assert [a["pod"] for a in attempts] == [pod["metadata"]["name"] for pod in (first, second, third)]
    job = one.daemon.get(f"/jobs/default/st/{run}")
    assert job["workers_lost"] == 2
    assert [(w["pod"], w["node"]) for w in job["workers"] if w["state"] == "lost"] == [(pod["metadata"]["name"], "a") for pod in (second, first)]


def test_an_image_that_is_not_there_is_said_and_waited_for(world):  # noqa: F811
    one = world([nodes.cpu("a")])
    run = begin(one, "st", "cp /pfs/in/f /pfs/out/f", image="registry.test/later:1")
    says(one, run, "st", "later:1", "not found")
    one.kubelet.add_image("registry.test/later:1")
    succeeds(one, run)


def test_what_no_node_has_is_said_until_one_has_it(world):  # noqa: F811
    """By us, where no node could ever take it; by the scheduler, where one could if it were free."""
    one = world([nodes.gpu("g", count=1, cpu="4")])
    run = begin(one, "st", "cp /pfs/in/f /pfs/out/f", gpu={"resource": "example.com/gpu"})
    says(one, run, "st", "no node offers example.com/gpu; known: nvidia.com/gpu (NVIDIA-A100-SXM4-40GB: 1, 1 free)")
    one.kubelet.add_node(nodes.vendor("other", "example.com/gpu", 1, cpu="4"))
    succeeds(one, run)


def test_what_is_not_free_is_waited_for_in_the_scheduler_s_words(world, gate):  # noqa: F811
    one = world([nodes.gpu("g", count=1)])
    first = begin(one, "first", hold(gate), gpu=1)
    gate.arrived()
    second = begin(one, "second", "cp /pfs/in/f /pfs/out/f", gpu=1)
    says(one, second, "second", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    gate.open()
    succeeds(one, first)
    succeeds(one, second)


def test_who_needs_more_memory_than_it_asked_for_is_told_so(world):  # noqa: F811
    if not containers.Cgroup.place():
        print("no cgroup of memory may be made here")
        pytest.skip("no cgroup of memory may be made here")
    one = world([nodes.cpu("a")])
    run = begin(one, "st", "/usr/bin/python3 -c 'bytearray(300 << 20)'", resources={"memory": "128Mi"}, **ONCE)
    end = one.daemon.wait(run, 90)
    job = next(job for job in end["jobs"] if job["stage"] == "st")
    assert end["state"] == "failure" and "OOMKilled: the command needs more than the 128Mi of its resources.memory" in job["reason"], (job, one.tell())


def test_an_eviction_by_its_own_use_of_disk_is_a_try(world, gate):  # noqa: F811
    """It would be evicted wherever it ran: that is a try of the datum."""
    one = world([nodes.cpu("a")])
    run = begin(one, "st", hold(gate), **ONCE)
    gate.arrived()
    name, = names(one, "st")
    one.kubelet.evict(name, "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ")
    end = one.daemon.wait(run)
    job, = end["jobs"]
    assert end["state"] == "failure" and job["reason"].endswith(
        "Evicted: Pod ephemeral local storage usage exceeds the total limit of containers 1Gi: the stage needs more disk: increase resources.disk"), job
    assert names(one, "st") == {name}


def test_a_daemon_that_comes_back_finds_its_pods(world, gate):  # noqa: F811
    """One pod before and after, whether the daemon was stopped or killed; the command runs on meanwhile."""
    one = world([nodes.cpu("a")])
    run = begin(one, "st", hold(gate), **ONCE)
    gate.arrived()
    one.daemon.kill()
    one.daemon.start()
    assert one.daemon.stop() == 0
    one.daemon.start()
    gate.open()
    succeeds(one, run)
    assert len(names(one, "st")) == 1, one.tell()
    one.kubelet.until(lambda: not one.kubelet.all(), "its pod is removed")


def test_pods_of_a_finished_job_are_removed_and_no_write_is_wasted(world):  # noqa: F811
    one = world([nodes.cpu("a")])
    succeeds(one, begin(one, "st", "cp /pfs/in/f /pfs/out/f"))
    one.kubelet.until(lambda: not one.kubelet.all(), "its pod is removed")
    pod, = one.pods("st")
    assert phase(pod) == "Succeeded", pod["status"]


def test_an_attempt_says_which_image_its_command_ran_in(world, gate):  # noqa: F811
    """As the node resolved it; said by then or a little later, for a command may be quicker than its node."""
    one = world([nodes.cpu("a")])
    for stage, script in (("quick", "cp /pfs/in/f /pfs/out/f"), ("slow", hold(gate))):
        run = begin(one, stage, script)
        if stage == "slow":
            gate.arrived()
            one.kubelet.until(lambda: [state(pod, "main")[0] for pod in one.pods("slow")] == ["running"], "its node says that it runs")
            gate.open()
        succeeds(one, run)
        name, = names(one, stage)
        attempt, = one.kubelet.until(lambda: [row for row in one.daemon.default.datums(stage, run) if "image_id" in row], "the image is known")  # noqa: B023
        assert attempt["image_id"] == f"simulated@{COMMANDS}" and name.split("-")[-2] == str(attempt["worker"] & 0xFFFFFFFF), (name, attempt)
        assert f"image  simulated@{COMMANDS}\n" in one.daemon.ctl("inspect", "datum", stage, attempt["id"]).out


def test_an_attempt_that_ended_with_its_pod_by_its_own_fault_has_computed(world, gate):  # noqa: F811
    """Nobody reports its times. They are those of its command, no wait for data, and its GPU's time is counted. The end of the agent may be seen
    before the pod's: that is a loss, and the datum runs again."""
    one = world([nodes.gpu("g")])
    run = begin(one, "st", hold(gate), gpu={"count": 1, "required": True}, **ONCE)
    attempts, tried = [], set()
    while not any(a["state"] == "failed" for a in attempts):
        assert len(tried) < ROUNDS, attempts
        gate.arrived()
        name, = one.kubelet.until(lambda: [pod["metadata"]["name"] for pod in one.pods("st") if runs(pod)
                                           and pod["metadata"]["name"] not in tried], "its pod runs")
        tried.add(name)
        one.kubelet.evict(name, "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ")
        kit.wait_until(lambda: any(a["pod"] == name for a in one.daemon.default.datums("st", run)), "its attempt is kept")
        attempts = one.daemon.default.datums("st", run)
    assert one.daemon.wait(run)["state"] == "failure", one.tell()
    failed, = [a for a in attempts if a["state"] == "failed"]
    assert (failed["pod"], failed["node"], failed["gpus"]) == (name, "g", 1), failed
    assert failed["reason"].startswith("Evicted: Pod ephemeral local storage usage exceeds") and failed["fence"] > 0
    assert failed["ms"]["compute"] == failed["ms"]["held"] == failed["gpu_ms"] > 0, failed
    lost_ms = sum(a["gpu_ms"] for a in attempts if a["state"] == "lost")
    job = one.daemon.get(f"/jobs/default/st/{run}")
    assert (job["gpu"]["held_ms"], job["gpu"]["waiting_ms"], job["gpu"]["lost_ms"]) == (failed["gpu_ms"] + lost_ms, 0, lost_ms), job["gpu"]
    metrics = openmetrics.read(one.daemon.http("GET", "/metrics", raw=True).decode())
    assert openmetrics.value(metrics, "pipelined_datums_ended", state="failed") == 1
    assert openmetrics.value(metrics, "pipelined_datum_phase_seconds", phase="compute") == pytest.approx(failed["ms"]["held"] / 1000)
    assert openmetrics.value(metrics, "pipelined_gpu_seconds", use="computing") == pytest.approx(failed["gpu_ms"] / 1000)

