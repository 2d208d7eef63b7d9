"""What containers of pods print themselves: in the sentence of a job whose agent does not come, and by `pipelinectl logs --container`. All real but
the kubelet."""
import subprocess

import control_plane
import pytest
from test_demo import kit, nodes, world  # noqa: F401  a fixture
from test_pod_faults import ONCE, begin, hold, names, says, succeeds


def log_of(one, *words, ok=True):
    return one.daemon.ctl("logs", *words, ok=ok)


def test_why_an_agent_does_not_come_is_what_its_job_says(world):  # noqa: F811
    nobody = f"http://127.0.0.1:{control_plane.servers.free_port()}"
    one = world([nodes.cpu("a")], options=("--worker-url", nobody))
    run = begin(one, "st", "true")
    job = says(one, run, "st", f"but its agent has not connected: no server at {nobody}", timeout=90)
    name, = names(one, "st")
    assert f"pod {name} runs on node a, but" in job["reason"], job
    assert f"no server at {nobody}" in log_of(one, "st", "--container", "agent").out
    assert log_of(one, "st", "--container", "install").code == 0


def test_an_agent_that_cannot_resolve_the_daemon_s_name_names_the_setting(world):  # noqa: F811
    one = world([nodes.cpu("a")], options=("--worker-url", "http://pipelined.nowhere.invalid:7380"))
    run = begin(one, "st", "true")
    job = says(one, run, "st", "no server at http://pipelined.nowhere.invalid:7380: its name cannot be resolved: check worker_url", timeout=90)
    assert "--server" not in job["reason"], job


def test_an_agent_that_ends_before_it_came_tells_by_its_end(world, plane):  # noqa: F811
    """Without a request: the end of what it printed is in its pod's status."""
    one = world([nodes.cpu("a")], options=("--worker-url", plane.endpoint))  # a server whose certificate it does not trust
    run = begin(one, "st", "true")
    says(one, run, "st", f"agent ended with exit code 75: attach: the certificate of {plane.endpoint} is not trusted here", timeout=90)


def test_a_container_is_followed_to_its_end(world, gate):  # noqa: F811
    one = world([nodes.cpu("a")])
    run = begin(one, "st", hold(gate), **ONCE)
    gate.arrived()
    ctl = [kit.os.path.join(kit.BIN, "pipelinectl"), "--data", one.daemon.dir, "logs", "st", "--container", "agent", "-f"]
    with subprocess.Popen(ctl, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
        first = follower.stdout.readline()
        there = log_of(one, "st", "--container", "agent").out
        assert first and there.startswith(first), (first, there)
        assert log_of(one, "st", "--container", "agent", "-n", "1").out == there.splitlines(True)[-1]
        gate.open()
        succeeds(one, run)
        rest, said = follower.communicate(timeout=60)
    assert follower.returncode == 0, said
    assert (first + rest).startswith(there) and len(set((first + rest).splitlines())) == len((first + rest).splitlines()), first + rest


def test_what_cannot_be_shown_is_refused_in_words(world, gate):  # noqa: F811
    one = world([nodes.cpu("a")])
    run = begin(one, "st", hold(gate), **ONCE)
    gate.arrived()
    for words, code, said in ((("st", "--container", "sidecar"), 5, "a pod has main, agent and install"),
                              (("st", "--container", "agent", "-f", "--pod", "other"), 3, "the stage has no pod other; it may have ended"),
                              (("other", "--container", "agent"), 3, 'project "default" has no stage "other"'),
                              (("st", "--container", "agent", "--pod", "other"), 3, "the stage has no pod other; it may have ended"),
                              ((f"st@{run[:8]}", "--container", "agent"), 2, "give the stage without a run"),
                              (("st", "--container", "agent", "--datum", "1f"), 2, "do not go together"),
                              (("st", "--pod", "other"), 2, "--pod is only accepted with --container")):
        got = log_of(one, *words, ok=False)
        assert (got.code, said in got.err) == (code, True), (words, got.code, got.err)
    gate.open()
    succeeds(one, run)


def test_who_follows_what_prints_nothing_is_answered(world, gate):  # noqa: F811
    """By the status alone: what `main` prints is nothing, as long as its command runs."""
    one = world([nodes.cpu("a")])
    run = begin(one, "st", hold(gate), **ONCE)
    gate.arrived()
    request = kit.urllib.request.Request(one.daemon.url + "/api/v1/logs/default/st/main?follow=1", headers={"Authorization": f"Bearer {one.daemon.token}"})
    with kit.urllib.request.urlopen(request, timeout=120) as answer:
        assert answer.status == 200
        gate.open()
        succeeds(one, run)
        assert answer.read() == b""


@pytest.mark.parametrize("container", ["main", "agent"])
def test_a_stage_without_pods_says_so(world, container):  # noqa: F811
    one = world([nodes.cpu("a")])
    succeeds(one, begin(one, "st", "cp /pfs/in/f /pfs/out/f"))
    one.kubelet.until(lambda: not one.kubelet.all(), "its pod is removed")
    got = log_of(one, "st", "--container", container, ok=False)
    assert got.code == 3 and "the stage has no pod now" in got.err, got.err
