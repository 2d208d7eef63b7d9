"""What users are told, and what becomes of their job, by a real kubelet: images, commands, users, memory. All stages but one begin at
once; each test waits for its own."""
import node
import pytest
from world import kit

ONCE = {"datum": {"tries": 1}}
COPY = "cp /pfs/in/f /pfs/out/f"
READ_ONLY = {"placement": {"pod_patch": {"containers": [{"name": "main", "securityContext": {"readOnlyRootFilesystem": True}}]}}}
WRITES = ("echo x >/pfs/out/f; echo x >/tmp/x; cp /tmp/x /pfs/out/tmp; cd ~ 2>/dev/null || echo none >/pfs/out/home; id -u >/pfs/out/user;"
          " (echo x >/usr/x) 2>/dev/null && echo yes >/pfs/out/root || echo no >/pfs/out/root")
STAGES = {  # name: script, more of the stage
    "greedy": ("x=0123456789abcdef; while :; do x=$x$x; done", {"resources": {"memory": "64Mi"}, **ONCE}),
    "absent": (COPY, {"image": "127.0.0.1:1/team/absent:1"}),
    "code": ("echo said; exit 43", ONCE),
    "nowhere": ("", {"run": ["/no/such/program"], **ONCE}),
    "foreign": ("", {"image": node.FOREIGN, "run": ["/app"], **ONCE}),
    "bare-script": ("", {"image": node.BARE, "run": None, "script": COPY, **ONCE}),
    "bare-run": ("", {"image": node.BARE, "run": ["cp", "/pfs/in/f", "/pfs/out/f"]}),
    "read-only": (WRITES, {"image": node.PLAIN, **READ_ONLY}),
    "homeless": (WRITES, {"image": node.HOMELESS}),
}


@pytest.fixture(scope="module")
def runs(world):
    return {name: world.begin(name, script, **more) for name, (script, more) in STAGES.items()}


def ended(world, runs, stage, state):
    end = world.daemon.wait(runs[stage], 120)
    assert end["state"] == state, (end, world.tell())
    return end["jobs"][0]["reason"]


def test_who_needs_more_memory_than_its_limit_is_told_which(world, runs):
    reason = ended(world, runs, "greedy", "failure")
    assert "64Mi" in reason and "resources.memory" in reason, reason  # of the pod, or of the one process that the kernel killed


def test_an_image_that_is_not_there_is_said_and_another_one_runs(world, runs):
    world.says(runs["absent"], "absent", "of main", "127.0.0.1:1/team/absent:1")
    world.daemon.default.stages(world.stage("absent", COPY, {"image": node.PLAIN}), pipeline="absent", update=True)
    kit.wait_until(lambda: world.daemon.default.commits("absent"), world.tell, 120)
    assert world.daemon.read("absent", "f") == b"absent"


def test_the_command_s_exit_code_is_the_job_s(world, runs):
    assert "exit code 43" in ended(world, runs, "code", "failure")


def test_a_program_that_the_image_does_not_have(world, runs):
    assert "cannot start /no/such/program: there is no such program" in ended(world, runs, "nowhere", "failure")


def test_a_program_for_another_architecture(world, runs):
    assert "cannot start /app: it is neither a program for this machine's architecture" in ended(world, runs, "foreign", "failure")


def test_a_script_in_an_image_without_a_shell(world, runs):
    reason = ended(world, runs, "bare-script", "failure")
    assert "the image has no /bin/sh" in reason and '"run"' in reason, reason


def test_a_command_in_an_image_without_a_shell(world, runs):
    ended(world, runs, "bare-run", "success")
    assert world.daemon.read("bare-run", "f") == b"bare-run"


def test_a_root_that_may_only_be_read(world, runs):
    ended(world, runs, "read-only", "success")
    assert world.daemon.default.contents("read-only")["root"] == b"no\n"


def test_a_user_who_may_not_enter_the_folder_that_the_image_begins_in(world, runs):
    """Nor its home: it is nobody's, and the image's folder is root's alone."""
    ended(world, runs, "homeless", "success")
    assert world.daemon.default.contents("homeless")["user"] == b"65534\n"


def test_an_image_of_a_private_registry_comes_with_the_pull_secret(world):
    """Without it the registry's refusal is told; the secret that config.json names comes, and the pod goes on by itself."""
    run = world.begin("private", COPY, image=node.PRIVATE)  # here: a kubelet waits twice as long after each try
    world.says(run, "private", "of main", node.PRIVATE)
    host = node.PRIVATE.split("/")[0]
    world.sh(f"kubectl -n pipelined-stages create secret docker-registry registry --docker-server {host} --docker-username {node.registry.USER}"
             f" --docker-password {node.registry.PASSWORD}")
    ended(world, {"private": run}, "private", "success")
    assert world.daemon.read("private", "f") == b"private"
