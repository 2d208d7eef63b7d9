"""`setup` in pods: the environment is made in a pod of the stage's image, and each pod of the stage has it at /pl/env."""
import json

import nodes
import pytest
from package_index import Index, wheel
from test_demo import kit, world  # noqa: F401  a fixture
from test_pod_faults import succeeds

USE = 'import greet, os, sys; open(os.environ["PL_OUT"] + "/out", "w").write(" ".join([greet.VERSION, sys.prefix]))'


@pytest.fixture
def index():
    one = Index(wheel("greet", "1.0", {"greet.py": 'VERSION = "1.0"\ndef main():\n    print("hello")\n'}, scripts={"greet": "greet:main"}))
    yield one
    one.close()


def create(one, tmp_path, index, **more):
    (tmp_path / "requirements.txt").write_text("greet\n")
    (tmp_path / "p.json").write_text(json.dumps({"pipeline": "p", "repos": {"in": {}}, "stages": [{
        "name": "st", "input": {"repo": "in"}, "setup": {"python": "requirements.txt", "index": index.url}, **more}]}))
    one.daemon.ctl("create", "pipeline", "-f", tmp_path / "p.json")


@pytest.mark.parametrize("user", [None, "1000"])
def test_a_pod_has_what_another_pod_installed(world, tmp_path, index, user):  # noqa: F811
    one = world([nodes.cpu("a")])
    create(one, tmp_path, index, run=["python3", "-c", USE], **({"user": user} if user else {}))
    for content in "12":
        succeeds(one, one.daemon.push("in", "f", content)["run"])
        assert one.daemon.read("st", "out") == b"1.0 /pl/env"
    assert index.downloads == {"greet-1.0-py3-none-any.whl": 1}
    assert one.daemon.default.files("st-setup")["bin/python3"] == "link"


def test_a_command_is_found_in_it_and_cannot_change_it(world, tmp_path, index):  # noqa: F811
    one = world([nodes.cpu("a")])
    create(one, tmp_path, index, script='greet >"$PL_OUT/out"; ! touch /pl/env/bin/x 2>/dev/null; ! touch /pl/env/y 2>/dev/null')
    succeeds(one, one.daemon.push("in", "f", "1")["run"])
    assert one.daemon.read("st", "out") == b"hello\n"
