"""One control plane for all tests of the folder; a test's own nodes on it, with a kubelet that runs what is bound to them."""
import itertools
import pathlib
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parent.parent / "daemon")]
import by_path  # noqa: E402
import containers  # noqa: E402  the folder must be on the path first
import control_plane  # noqa: E402
import kubelet as library  # noqa: E402
import pods  # noqa: E402

kit = by_path.load("daemon_kit", "daemon/conftest.py")
NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def plane(tmp_path_factory):
    server = control_plane.ControlPlane(tmp_path_factory.mktemp("plane"))
    server.api_options = ("--runtime-config=resource.k8s.io/v1beta1=true,"  # as clusters serve it that have no newer one
                          "admissionregistration.k8s.io/v1beta1=true", "--feature-gates=MutatingAdmissionPolicy=true")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def cluster(plane, tmp_path, request):
    """make(nodes, images=, play=) -> kubelet.Kubelet with `kubeconfig`, in a namespace of its own; one at a time, for nodes are everybody's. Where
    containers cannot be had, only what is played goes on."""
    made = []

    def make(nodes, play=None, **more):
        if play is None and containers.why_not():
            print(f"{request.node.name}: {containers.why_not()}")
            pytest.skip(containers.why_not())
        assert not made, "one cluster a test"
        namespace = f"{library.name_of(request.node.name)}-{next(NUMBERS)}"
        one = library.Kubelet(plane, tmp_path / "kubelet", nodes, play=play, namespace=namespace, **more)
        made.append(one)
        one.start()
        one.kubeconfig = plane.kubeconfig(namespace, namespace=namespace)
        return one

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def gate():
    one = kit.Gate()
    yield one
    one.close()


@pytest.fixture
def at_once():
    """A play for `cluster`: pods have ended as soon as they are bound."""
    return pods.at_once
