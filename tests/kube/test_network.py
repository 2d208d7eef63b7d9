"""A command whose stage has no network, in a pod: the kernel refuses it, whatever the cluster's own network does; the agent goes on."""
import nodes
import pytest
from test_demo import kit, world  # noqa: F401  a fixture

TRY = """import errno, socket, sys
for family in socket.AF_INET, socket.AF_INET6:
    try:
        socket.socket(family)
    except OSError as end:
        print(errno.errorcode[end.errno])
    else:
        print("opened")
here, there = socket.socketpair()
"""


@pytest.mark.parametrize("network, says", [(False, "EAFNOSUPPORT"), (True, "opened")])
def test_a_command_without_network_has_no_socket_that_leaves_its_pod(world, network, says):  # noqa: F811
    one = world([nodes.cpu("cpu")])
    one.daemon.default.repo("in").stages(kit.sh("st", f"/usr/bin/python3 -c '{TRY}' >/pfs/out/said; cp /pfs/in/f /pfs/out/f", network=network))
    run = one.daemon.push("in", "f", "x")["run"]
    assert one.daemon.wait(run)["state"] == "success", one.tell()
    assert one.daemon.read("st", "said").decode().split() == [says, says]
    assert one.daemon.read("st", "f") == b"x"
