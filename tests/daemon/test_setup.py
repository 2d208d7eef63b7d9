"""`setup`: environments that are made once, in a stage of their own, and are at /pl/env in every worker."""
import json
import os
import subprocess
import time

import pytest

from conftest import SANDBOX, wait_until
from package_index import Index, real_wheels, wheel
from test_python import follow
from test_transfer_space import disks  # noqa: F401  a fixture
from test_try import Desk

pytestmark = pytest.mark.skipif(SANDBOX != "bwrap", reason="/pl/env needs namespaces")

GREET = {"greet.py": 'VERSION = "{0}"\ndef main():\n    print("hello from", VERSION)\n'}
USE = 'import greet, os, sys; print(greet.VERSION, sys.prefix, os.environ["PATH"].split(":")[1])'


def greet(version):
    return wheel("greet", version, {"greet.py": GREET["greet.py"].format(version)}, scripts={"greet": "greet:main"})


@pytest.fixture
def index():
    i = Index(greet("1.0"))
    yield i
    i.close()


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def stage(index, run=("python3", "-c", USE), glob="/*", **more):
    return {"name": "train", "input": {"repo": "in", "glob": glob}, "run": list(run), "setup": {"python": "requirements.txt", "index": index.url}, **more}


@pytest.fixture
def daemon(make_daemon):
    daemon = make_daemon().start()
    daemon.ctl("create", "repo", "in")
    return daemon


def create(daemon, desk, *stages, requirements="greet\n", verb="create", **files):
    (desk.top / "requirements.txt").write_text(requirements)
    desk.files(**files)
    return daemon.ctl(verb, "pipeline", "-f", desk.spec(*stages), *(["--yes"] if verb == "update" else []))


def pushed(daemon, state="success", **puts):
    return daemon.default.run("in", puts or {"a": str(time.monotonic_ns())}, state=state, timeout=180)


def downloads(index):
    return sum(index.downloads.values())


def test_requirements_are_installed_once_for_all(daemon, desk, index):
    create(daemon, desk, stage(index, workers=3))
    run = pushed(daemon, a="1", b="2", c="3")
    assert set(run["job"]) == {"train", "train-setup"}
    out = daemon.default.logs("train", run=run["id"]).splitlines()
    assert out and set(out) == {"1.0 /pl/env /pl/env/bin"}
    assert downloads(index) == 1
    # --- the next run has the same
    run = pushed(daemon, d="4")
    assert run["job"]["train-setup"]["datums"]["reused"] == 1 and downloads(index) == 1
    assert run["job"]["train"]["datums"]["reused"] == 3
    # --- what a result was made with
    made = daemon.default.files("train-setup")
    assert made["bin/greet"] == "exec" and made["bin/python3"] == "link" and "freeze.txt" in made
    assert "greet==1.0" in daemon.default.read("train-setup", "freeze.txt").decode()
    assert any("greet" in path and path.endswith(".pyc") for path in made)


@pytest.mark.others_work
def test_a_program_of_the_environment(daemon, desk, index):
    """By its name, with the path of the environment in its first line."""
    create(daemon, desk, stage(index, run=["greet"], glob="/"))
    run = pushed(daemon)
    assert daemon.default.logs("train", run=run["id"]) == "hello from 1.0\n"
    assert daemon.default.read("train-setup", "bin/greet").startswith(b"#!/pl/env/bin/python3\n")


@pytest.mark.others_work
def test_other_requirements_run_the_stage_again(daemon, desk, index):
    create(daemon, desk, stage(index))
    pushed(daemon, a="1")
    index.add(greet("2.0"))
    create(daemon, desk, stage(index), requirements="greet>=2\n", verb="update")
    wait_until(lambda: daemon.default.logs("train").splitlines()[-1:] == ["2.0 /pl/env /pl/env/bin"], "the run with the new one", 120)
    assert index.downloads["greet-2.0-py3-none-any.whl"] == 1


@pytest.mark.others_work
def test_what_cannot_be_installed_fails_with_the_installer_s_words(daemon, desk, index):
    create(daemon, desk, stage(index), requirements="greet\nnosuch\n")
    run = pushed(daemon, state="failure")
    assert run["job"]["train-setup"]["state"] == "failure" and run["job"]["train"]["state"] == "unrunnable"
    reason = run["job"]["train"]["reason"]
    assert "setup of train failed" in reason and "No matching distribution found for nosuch" in reason, reason
    assert "No matching distribution found for nosuch" in daemon.default.logs("train-setup", run=run["id"])
    # --- the next run tries again
    index.add(wheel("nosuch", "1", {"nosuch.py": ""}))
    run = pushed(daemon)
    assert run["job"]["train"]["state"] == "success"


@pytest.mark.others_work
def test_an_index_that_refuses_and_one_that_is_not_there(daemon, desk, index):
    index.password = "ana:word"
    create(daemon, desk, stage(index))
    run = pushed(daemon, state="failure")
    assert "setup of train failed" in run["job"]["train"]["reason"] and index.refused
    index.close()


def test_a_secret_opens_a_private_index(daemon, desk, index):
    index.password = "ana:a-long-word-for-the-index"
    daemon.ctl("create", "secret", "pypi", "--value", f"word={index.password}")
    own = stage(index)
    own["setup"]["secret"] = {"name": "pypi", "key": "word"}
    create(daemon, desk, own)
    run = pushed(daemon)
    assert run["job"]["train"]["state"] == "success"
    assert "a-long-word" not in daemon.default.logs("train-setup")
    assert not any(b"a-long-word" in data for data in daemon.default.contents("train-setup").values())


@pytest.mark.others_work
def test_a_script_makes_what_it_wants(daemon, desk, index):
    own = stage(index, run=["tool"], glob="/")
    own["setup"] = {"script": 'mkdir -p /pl/env/bin; cp tool.sh "$PL_OUT/bin/tool"; chmod +x /pl/env/bin/tool; ln -s /usr/bin/env /pl/env/bin/other', "files": ["tool.sh"]}
    create(daemon, desk, own, **{".": {"tool.sh": "#!/bin/sh\necho it runs; readlink -f /pl/env/bin/other\n"}})
    run = pushed(daemon)
    assert daemon.default.logs("train", run=run["id"]).splitlines()[0] == "it runs"
    assert daemon.default.files("train-setup")["bin/other"] == "link"


@pytest.mark.others_work
def test_a_script_that_makes_nothing_fails(daemon, desk, index):
    own = stage(index)
    own["setup"] = {"script": "true"}
    create(daemon, desk, own)
    run = pushed(daemon, state="failure")
    assert "train-setup" in run["job"]["train"]["reason"]


@pytest.mark.others_work
def test_the_environment_cannot_be_changed(daemon, desk, index):
    create(daemon, desk, stage(index, run=["sh", "-c", "echo x >/pl/env/bin/x || echo x >/pl/env/lib/x || echo x >>/pl/env/freeze.txt || echo as it was"], glob="/"))
    run = pushed(daemon)
    assert daemon.default.logs("train", run=run["id"]).splitlines()[-1] == "as it was"


@pytest.mark.others_work
def test_a_stage_without_network_has_an_environment(daemon, desk, index):
    create(daemon, desk, stage(index, network=False))
    assert pushed(daemon)["job"]["train"]["state"] == "success"


def test_a_project_without_network_has_none(daemon, desk, index):
    daemon.ctl("update", "project", "default", "--network", "off")
    (desk.top / "requirements.txt").write_text("greet\n")
    refused = daemon.ctl("create", "pipeline", "-f", desk.spec(stage(index)), ok=False)
    assert refused.code != 0 and "which is off in project" in refused.err, refused.err


def test_without_a_sandbox_there_is_no_place_for_it(make_daemon, desk, index):
    daemon = make_daemon(sandbox="none").start()
    (desk.top / "requirements.txt").write_text("greet\n")
    refused = daemon.ctl("create", "pipeline", "-f", desk.spec(stage(index)), ok=False)
    assert "/pl/env, which does not exist without a sandbox" in refused.err, refused.err


def test_a_file_that_is_missing_is_named(daemon, desk, index):
    refused = daemon.ctl("create", "pipeline", "-f", desk.spec(stage(index)), ok=False)
    assert refused.code != 0 and "requirements.txt" in refused.err, refused.err


@pytest.mark.others_work
def test_stages_share_what_they_have_in_common(daemon, desk, index):
    write = ["python3", "-c", 'import greet, os; open(os.environ["PL_OUT"] + "/v", "w").write(greet.VERSION)']
    create(daemon, desk, stage(index, run=write, glob="/"), {**stage(index), "name": "score", "input": {"repo": "train", "glob": "/"}})
    run = pushed(daemon)
    assert set(run["job"]) == {"train", "train-setup", "score"} and downloads(index) == 1
    assert daemon.default.logs("score", run=run["id"]) == "1.0 /pl/env /pl/env/bin\n"


@pytest.mark.others_work
def test_a_push_runs_only_what_reads_it(daemon, desk, index):
    """Stages that share an environment have nothing else in common."""
    daemon.ctl("create", "repo", "more")
    create(daemon, desk, stage(index), {**stage(index), "name": "other", "input": {"repo": "more", "glob": "/"}})
    pushed(daemon)
    daemon.default.run("more", {"b": "1"}, timeout=180)
    assert set(pushed(daemon)["job"]) == {"train", "train-setup"}
    assert daemon.ctl("status", "--stale").out == ""  # the newer commit of the environment has the same files


@pytest.mark.others_work
def test_a_stage_is_run_by_hand_after_its_environment_failed(daemon, desk, index):
    index.broken = True
    create(daemon, desk, stage(index))
    pushed(daemon, state="failure")
    index.broken = False
    run = daemon.ctl("--json", "run", "pipeline", "p", "--stage", "train").json
    assert daemon.wait(run["run"], timeout=120)["state"] == "success"


def test_each_push_of_a_queue_has_its_job(daemon, desk, index):
    index.gate.clear()
    create(daemon, desk, stage(index, on_new="queue", glob="/"))
    runs = [daemon.default.commit("in", {"a": str(i)})["run"] for i in range(3)]
    index.gate.set()
    assert [daemon.wait(run, timeout=120)["state"] for run in runs] == ["success"] * 3


@pytest.mark.others_work
def test_a_path_of_the_stage_comes_after_its_environment(daemon, desk, index):
    create(daemon, desk, stage(index, glob="/", env={"PATH": "/usr/bin:/bin"}, run=["python3", "-c", "import greet, sys; print(sys.prefix)"]))
    run = pushed(daemon)
    assert daemon.default.logs("train", run=run["id"]) == "/pl/env\n"


@pytest.mark.others_work
def test_datums_are_listed_without_an_environment(daemon, desk, index):
    desk.files(data={"a": "1", "b": "2"})
    (desk.top / "requirements.txt").write_text("greet\n")
    out = daemon.ctl("plan", "-f", desk.spec(stage(index)), "train", "-i", f"in={desk.top}/data").out
    assert len(out.splitlines()) == 2, out


@pytest.mark.others_work
def test_an_environment_of_another_pipeline(daemon, desk, index):
    create(daemon, desk, stage(index))
    pushed(daemon)
    other = desk.top / "other.json"
    other.write_text(json.dumps({"pipeline": "other", "stages": [{
        "name": "use", "run": ["python3", "-c", USE], "input": {"cross": [{"repo": "in"}, {"repo": "train-setup", "environment": True}]}}]}))
    daemon.ctl("create", "pipeline", "-f", other)
    pushed(daemon)
    assert set(daemon.default.logs("use").splitlines()) == {"1.0 /pl/env /pl/env/bin"}


def test_a_try_has_the_environment(daemon, desk, index):
    spec = desk.spec(stage(index, glob="/"))
    create(daemon, desk, stage(index, glob="/"), data={"a": "1"})
    pushed(daemon)
    assert daemon.ctl("try", "--sandbox", SANDBOX, "-f", spec, "train").out == "1.0 /pl/env /pl/env/bin\n"


def test_a_daemon_that_is_killed_while_it_is_made(daemon, desk, index):
    index.gate.clear()
    create(daemon, desk, stage(index))
    run = daemon.default.commit("in", {"a": "1"})["run"]
    assert index.asked.wait(180)  # a worker, python -m venv and pip begin first
    daemon.kill()
    daemon.start()
    index.gate.set()
    assert daemon.wait(run, timeout=180)["state"] == "success"


@pytest.mark.others_work
def test_a_hundred_datums_of_many_workers_make_it_once(daemon, desk, index):
    create(daemon, desk, stage(index, workers=20))
    pushed(daemon, **{f"f{i}": str(i) for i in range(100)})
    assert downloads(index) == 1


@pytest.mark.others_work
def test_a_time_limit_ends_what_never_ends(daemon, desk, index):
    own = stage(index)
    own["setup"]["timeout"] = "3s"
    index.gate.clear()
    create(daemon, desk, own)
    run = pushed(daemon, state="failure")
    assert "3s" in run["job"]["train-setup"]["reason"], run["job"]["train-setup"]["reason"]


@pytest.mark.others_work
def test_a_disk_that_fills_while_it_is_stored(make_daemon, desk, index, disks):
    disk = disks("store", 64)
    daemon = make_daemon("--store", f"file://{disk}/store").start()
    daemon.ctl("create", "repo", "in")
    index.add(wheel("big", "1", {"big.bin": os.urandom(80 << 20)}))
    create(daemon, desk, stage(index, run=["true"]), requirements="big\n")
    run = daemon.default.commit("in", {"a": "1"})["run"]
    log = os.path.join(daemon.dir, "logs", "workers.log")
    wait_until(lambda: "No space left on device: trying again" in open(log, encoding="utf-8").read(), "the full disk", 180)
    # --- with room it goes on, and what was installed is not installed again
    subprocess.run(["mount", "-o", "remount,size=512m", disk], check=True)
    assert daemon.default.wait(run, timeout=180)["state"] == "success" and downloads(index) == 1


@pytest.mark.others_work
def test_the_page_on_setup_as_it_stands(tmp_path):
    """From an empty folder to a model of scikit-learn."""
    index = Index(*real_wheels())
    try:
        said = follow("Packages that are installed for a stage", tmp_path, PIP_INDEX_URL=index.url)
    finally:
        index.close()
    assert said[-1].stdout.endswith("\naccuracy 1.0\n")
