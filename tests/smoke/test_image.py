"""What the container image is made of, without building one: the installed programs, and Debian's packages of the group `image`."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import kit

TOP = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("pipelined", "pipelinectl", "pipelined-worker", "pl-git", "pl-next", "pl-runner")
LOADED_LATER = ("libcurl", "libgit2")  # by dlopen: ldd does not show them


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """What `cmake --install` puts into the image."""
    folder = tmp_path_factory.mktemp("image")
    subprocess.run(["cmake", "--install", pathlib.Path(kit.BIN).parent, "--prefix", "/usr"], check=True, capture_output=True, env={**os.environ, "DESTDIR": str(folder)})
    return folder


def packages():
    lines = (TOP / "pipelined/deploy/debian-packages.txt").read_text(encoding="utf-8").splitlines()
    return {name for line in lines if line.startswith("image ") for name in line.split()[1].split("|")}


@pytest.mark.parametrize("program", PROGRAMS)
def test_its_packages_have_the_libraries_of_a_program(root, program):
    """Those that it links. libc6 and what other packages of the group depend on come with them."""
    said = subprocess.run(["ldd", root / "usr/bin" / program], capture_output=True, text=True, check=False)
    if "not a dynamic executable" in said.stderr + said.stdout or "statically linked" in said.stdout:
        return  # pl-runner: it runs in any image
    assert "not found" not in said.stdout, said.stdout
    linked = set(re.findall(r"NEEDED\s+(\S+)", subprocess.run(["objdump", "-p", root / "usr/bin" / program], capture_output=True, text=True, check=True).stdout))
    for path in re.findall(r"=> (/\S+)", said.stdout):
        if os.path.basename(path) not in linked:
            continue
        owner = next(line.split(":")[0] for name in (path, os.path.realpath(path), "/usr" + path) for line in
                     subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True, check=False).stdout.splitlines())
        assert owner in packages() | {"libc6"}, f"{program} links {path} of {owner}: add it to the group image of pipelined/deploy/debian-packages.txt"


def test_it_holds_the_programs_and_nothing_that_made_them(root):
    assert sorted(path.name for path in (root / "usr/bin").iterdir()) == sorted(PROGRAMS)
    assert not [path for path in root.rglob("*") if path.suffix in (".a", ".h", ".o", ".c")]


def test_its_daemon_serves_as_a_user_without_rights(root, tmp_path):
    """As the image starts it: uid 10002, XDG_DATA_HOME, every other variable unset."""
    if os.geteuid() != 0:
        pytest.skip("not root: no other user can be had here")
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is missing")
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, 10002, 10002)
    for folder in [data, *data.parents, *root.parents, root]:
        if folder.is_relative_to("/tmp") and folder != pathlib.Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o011)
    with subprocess.Popen(["env", "-i", f"XDG_DATA_HOME={data}", "HOME=/tmp", "setpriv", "--reuid=10002", "--regid=10002", "--clear-groups",
                           root / "usr/bin/pipelined", "--listen", "127.0.0.1:0", "--sandbox", "none"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/") as process:
        url = data / "pipelined" / "pipelined.url"
        try:
            kit.wait_until(lambda: url.exists() or process.poll() is not None, "the daemon's URL")
            assert process.poll() is None, process.stdout.read()
            said = subprocess.run([root / "usr/bin/pipelinectl", "--data", data / "pipelined", "status"], capture_output=True, text=True, check=False)
            assert said.returncode == 0, said
        finally:
            process.terminate()
        assert process.wait(timeout=60) == 0
