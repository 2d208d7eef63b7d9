"""`image` on one machine with a real podman: fetched from a registry on the loopback, mounted, and shown by the sandbox; as root and as another user."""
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

import image_root
import pytest
from conftest import BIN, SANDBOX
from image_registry import Registry
from package_index import Index, real_wheels
from test_python import follow

USER = "pipelined-tests"


def why_not():
    if os.geteuid() != 0:
        return "not root: images cannot be mounted in a store of one's own"
    if SANDBOX != "bwrap":
        return "an image needs namespaces"
    if not shutil.which("podman"):
        return "podman is missing: apt-get install --no-install-recommends podman crun uidmap"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # where the machine has no overlay file system, podman mounts nothing
        env = {**os.environ, **storage(pathlib.Path(folder), "127.0.0.1:1")}
        done = subprocess.run(["sh", "-c", "tar -cf - --files-from /dev/null | podman import -q - probe && podman image mount probe && podman image unmount probe"],
                              env=env, capture_output=True, text=True, check=False)
        subprocess.run(["umount", "-l", f"{folder}/store/overlay"], capture_output=True, check=False)
    return None if done.returncode == 0 else f"podman mounts no image here: {done.stderr.strip()[-300:]}"


def storage(folder, address):
    """Variables with which podman has its store in a folder and gets images of Docker's from the registry at an address."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "storage.conf").write_text(f'[storage]\ndriver = "overlay"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/store"\n')
    (folder / "registries.conf").write_text(f'[[registry]]\nprefix = "docker.io"\nlocation = "{address}"\ninsecure = true\n')
    return {"CONTAINERS_STORAGE_CONF": f"{folder}/storage.conf", "CONTAINERS_REGISTRIES_CONF": f"{folder}/registries.conf"}


WHY_NOT = why_not()
pytestmark = [pytest.mark.skipif(bool(WHY_NOT), reason=str(WHY_NOT)), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    one = Registry()
    tools = one.layer(image_root.make(folder / "tools", "cat", "ls", "id"))
    python = one.layer(image_root.make(folder / "python", "cat", "env", python=True))
    extra = folder / "extra"
    (extra / "opt").mkdir(parents=True)
    (extra / "opt/word").write_text("from the second layer\n")
    one.add("library/tools", "1", tools)
    one.add("library/more", "1", tools, one.layer(extra))
    one.add("library/other", "1", tools, arch="s390x")
    one.add("library/python", "3.12", python)
    yield one
    one.close()


@pytest.fixture
def store(tmp_path, registry):
    env = storage(tmp_path / "podman", registry.address)
    yield env
    subprocess.run(["podman", "image", "unmount", "--all", "--force"], env={**os.environ, **env}, capture_output=True, check=False)
    subprocess.run(["umount", "-l", tmp_path / "podman/store/overlay"], capture_output=True, check=False)


def stage(name="s", image="tools:1", script='cat /etc/of-the-image >"$PL_OUT/out"', **more):
    return {"name": name, "input": {"repo": "in", "glob": "/*"}, "image": image, "output": {"prefix": "${in.stem}/"}, "script": script, **more}


def test_an_image_is_fetched_once_and_its_digest_recorded(make_daemon, store, registry):
    daemon = make_daemon("--podman", "podman").start(env=store)
    daemon.default.repo("in").stages(stage(workers=6), stage("t", workers=6))
    before = dict(registry.downloads)
    run = daemon.default.run("in", {f"f{i}": str(i) for i in range(20)}, timeout=120)
    assert daemon.default.read("s", "f3/out") == b"a file of the image\n"
    digest = registry.tags["library/tools", "1"]
    assert daemon.ctl("why", "s@master:/f3/out", "--json").json["image_id"] == f"docker.io/library/tools@{digest}"
    new = {d: n - before.get(d, 0) for d, n in registry.downloads.items() if n != before.get(d, 0)}
    assert max(new.values()) <= 2, new  # podman reads a manifest twice
    # --- from then on the registry is not asked
    now = dict(registry.downloads)
    assert daemon.default.run("in", {"more": "1"}, timeout=60)["job"]["s"]["state"] == "success" and registry.downloads == now
    assert run["job"]["s"]["warnings"] == []


def test_layers_are_shared(make_daemon, store, registry):
    daemon = make_daemon("--podman", "podman").start(env=store)
    daemon.default.repo("in").stages(stage(), stage("t", "more:1", 'cat /etc/of-the-image /opt/word >"$PL_OUT/out"'))
    before = dict(registry.downloads)
    daemon.default.run("in", {"a": "1"}, timeout=120)
    assert daemon.default.read("t", "a/out") == b"a file of the image\nfrom the second layer\n"
    layers = [json.loads(registry.blobs[registry.tags["library/more", "1"]])["layers"][0]["digest"]]
    assert all(registry.downloads[d] - before.get(d, 0) <= 2 for d in layers)


@pytest.mark.parametrize("image, said", [
    ("nosuch:1", "image nosuch:1 cannot be fetched: "), ("other:1", "image other:1 is for s390x, and this machine is "),
    ("Upper/Case:1", "image Upper/Case:1: "),
])
def test_an_image_that_will_never_run_ends_the_job_at_once(make_daemon, store, image, said):
    daemon = make_daemon("--podman", "podman").start(env=store)
    daemon.default.repo("in").stages(stage(image=image))
    run = daemon.default.run("in", {"a": "1"}, state="failure")
    assert said in run["job"]["s"]["reason"], run["job"]["s"]["reason"]


def test_a_registry_that_refuses(make_daemon, store, registry):
    daemon = make_daemon("--podman", "podman").start(env=store)
    daemon.default.repo("in").stages(stage())
    registry.refuses = True
    try:
        run = daemon.default.run("in", {"a": "1"}, state="failure")
    finally:
        registry.refuses = False
    assert "unauthorized" in run["job"]["s"]["reason"] or "denied" in run["job"]["s"]["reason"], run["job"]["s"]["reason"]


def test_two_daemons_with_one_store(make_daemon, store):
    daemons = [make_daemon("--podman", "podman", name=name).start(env=store) for name in ("one", "two")]
    runs = []
    for daemon in daemons:
        daemon.default.repo("in").stages(stage(workers=2))
        runs.append(daemon.default.commit("in", {f"f{i}": str(i) for i in range(4)})["run"])
    for daemon, run in zip(daemons, runs):
        assert daemon.default.wait(run, timeout=120)["state"] == "success"


# --- without root ---


@pytest.fixture(scope="module")
def user():
    """A user with a range of ids for user namespaces."""
    try:
        pwd.getpwnam(USER)
        made = False
    except KeyError:
        subprocess.run(["useradd", "--create-home", "--shell", "/bin/sh", USER], check=True)
        made = True
    for name in ("subuid", "subgid"):
        path = pathlib.Path("/etc") / name
        if not path.exists() or f"{USER}:" not in path.read_text():
            with path.open("a") as f:
                f.write(f"{USER}:900000:65536\n")
    yield pwd.getpwnam(USER)
    if made:
        subprocess.run(["pkill", "-KILL", "-u", USER], check=False)
        subprocess.run(["userdel", "--force", "--remove", USER], check=False, capture_output=True)


@pytest.fixture
def without_root(make_daemon, user, registry):
    """A daemon of the user; its folders are in the user's home."""
    home = pathlib.Path(user.pw_dir)
    run_dir = home / "run"
    run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    programs = home / "bin"
    shutil.copytree(BIN, programs, ignore=lambda folder, names: [n for n in names if n.startswith("test_")], dirs_exist_ok=True)
    env = {**storage(home / "podman", registry.address), "XDG_RUNTIME_DIR": str(run_dir), "HOME": str(home), "PATH": "/usr/bin:/bin"}
    subprocess.run(["chown", "-R", USER, home], check=True)
    daemon = make_daemon("--podman", "podman", name="user")
    daemon.root, daemon.dir, daemon.bin = str(home), str(home / "data"), str(programs)
    daemon.before = ["setpriv", f"--reuid={USER}", f"--regid={user.pw_gid}", "--init-groups", "env", *(f"{k}={v}" for k, v in env.items())]
    yield daemon
    daemon.stop()
    subprocess.run(["pkill", "-KILL", "-u", USER], check=False)
    subprocess.run(["umount", "-R", home / "podman"], check=False, capture_output=True)
    for name in ("podman", "data", "run", "desk"):
        shutil.rmtree(home / name, ignore_errors=True)


def test_without_root(without_root):
    daemon = without_root.start()
    daemon.default.repo("in").stages(stage(script='id -u >"$PL_OUT/id"; cat /etc/of-the-image >"$PL_OUT/out"; ls /home >"$PL_OUT/home"'),
                                     {"name": "t", "input": {"repo": "in", "glob": "/*"}, "script": 'test ! -e /etc/of-the-image; id -u'})
    run = daemon.default.run("in", {"a": "1"}, timeout=120)
    assert daemon.default.read("s", "a/out") == b"a file of the image\n" and daemon.default.read("s", "a/home") == b""
    assert daemon.default.logs("t", run=run["id"]) == f"{pwd.getpwnam(USER).pw_uid}\n"
    # --- a try writes beside the caller
    desk = pathlib.Path(daemon.root) / "desk"
    (desk / "in").mkdir(parents=True)
    (desk / "in/a").write_text("1")
    (desk / "s.json").write_text(json.dumps({"pipeline": "p", "repos": {"in": {}}, "stages": [stage()]}))
    subprocess.run(["chown", "-R", USER, desk], check=True)
    done = subprocess.run([*daemon.before, f"{daemon.bin}/pipelinectl", "try", "-f", "s.json", "s", "-i", "in=in", "-o", "out"], cwd=desk, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and (desk / "out/a/out").read_text() == "a file of the image\n", done.stderr
    # --- a worker can be stopped, and leaves nothing
    daemon.default.stages(stage("slow", script="exec cat /dev/zero >/dev/null"), pipeline="slow")
    run = daemon.default.commit("in", {"b": "1"})["run"]
    daemon.wait_job(run, "slow", lambda job: job and job["state"] == "running", "the job")
    daemon.ctl("stop", "run", run)
    assert daemon.default.wait(run)["job"]["slow"]["state"] == "killed"


# --- the page ---


def test_the_page_on_images_as_it_stands(tmp_path, store):
    index = Index(*real_wheels())
    try:
        said = follow("A container image", tmp_path, PIP_INDEX_URL=index.url, **store)
    finally:
        index.close()
    assert "accuracy 1.0\n" in said[-1].stdout and "docker.io/library/python@sha256:" in said[-1].stdout
