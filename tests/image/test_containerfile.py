"""The image as a real builder makes it: buildah, every step in a chroot, over Debian's packages alone (debootstrap, once into the cache of test servers),
for no registry is asked. As root; where the machine forbids it the reason is printed."""
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile

import by_path
import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
FILE = TOP / "pipelined/deploy/Containerfile"
SIZE_MOST = 330 << 20  # of all files; 210 MiB of them are Debian's minimal system
PROGRAMS = {"pipelined": ["--version"], "pipelinectl": ["--version"], "pipelined-worker": ["--help"], "pl-git": [], "pl-next": [], "pl-runner": []}

pytestmark = pytest.mark.timeout(1800)  # all of the product is compiled


servers = by_path.load("s3_servers", "s3/servers.py")


def why_not():
    if os.geteuid() != 0:
        return "not root: the users of an image cannot be had here"
    for program in ("buildah", "debootstrap"):
        if not shutil.which(program):
            return f"{program} is missing: apt-get install --no-install-recommends buildah debootstrap"
    return None


def debian():
    """The files of Debian's minimal system: what its image on a registry is made of."""
    return servers.cached("debian-12-minbase", lambda folder: servers.command("debootstrap", "--variant=minbase", "bookworm", folder / "root")) / "root"


class Builder:
    """buildah with storage of its own."""

    def __init__(self, folder):
        self.words = ["buildah", "--root", folder / "storage", "--runroot", folder / "run"]

    def __call__(self, *words):
        done = subprocess.run([str(word) for word in (*self.words, *words)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"buildah {' '.join(map(str, words))}: {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
        return done.stdout.strip()


class Built:
    """A container of the image: `root` is where its files lie, `config` what the image says of itself."""

    def __init__(self, builder, image):
        self.builder, self.name = builder, builder("from", image)
        self.root = pathlib.Path(builder("mount", self.name))
        self.config = json.loads(builder("inspect", "--type", "image", image))["OCIv1"]["config"]

    def run(self, *words):
        """As who the image says, in a chroot. -> (exit status, what it printed)"""
        done = subprocess.run([str(word) for word in (*self.builder.words, "run", "--isolation", "chroot", self.name, "--", *words)],
                              capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=300)
        return done.returncode, done.stdout + done.stderr

    def files(self):
        """(path in the image, lstat) of all of them."""
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = pathlib.Path(folder) / name
                yield "/" + str(path.relative_to(self.root)), path.lstat()


@pytest.fixture(scope="module")
def built():
    if why_not():
        print(f"image: {why_not()}")
        pytest.skip(why_not())
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pl-image-"))  # not pytest's: what is mounted there must go before it
    try:
        yield build(Builder(folder))
    finally:
        subprocess.run(["umount", "--recursive", "--quiet", folder / "storage" / "overlay"], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def build(builder):
    base = builder("from", "scratch")
    subprocess.run(["cp", "-a", f"{debian()}/.", builder("mount", base)], check=True)
    builder("umount", base)
    builder("commit", "--rm", base, "localhost/debian:12-slim")
    builder("build", "--isolation", "chroot", "--build-arg", "BASE=localhost/debian:12-slim", "-f", FILE, "-t", "localhost/pipelined:test", TOP)
    return Built(builder, "localhost/pipelined:test")


def test_it_is_nobody_special(built):
    """No root, nothing that makes one of somebody else beyond Debian's own, and a folder of its own that it may write to."""
    assert built.config["User"] == "10002:10002" and built.config["Entrypoint"] == ["/usr/bin/pipelined"], built.config
    assert set(built.config["Volumes"]) == {"/data"} and {"7380/tcp", "7381/tcp"} == set(built.config["ExposedPorts"]), built.config
    assert built.run("id", "-u")[1].strip() == "10002" and built.run("id", "-g")[1].strip() == "10002"
    assert built.run("sh", "-c", "echo >/data/x && cat /data/x && rm /data/x")[0] == 0
    assert built.run("touch", "/usr/bin/x")[0] != 0
    assert (built.root / "data").stat().st_uid == 10002
    theirs = {"/" + str(path.relative_to(debian())) for path in debian().rglob("*") if not path.is_symlink() and path.is_file() and path.stat().st_mode & 0o6000}
    assert {path for path, its in built.files() if stat.S_ISREG(its.st_mode) and its.st_mode & 0o6000} <= theirs


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_starts(built, program):
    """Its libraries are there. Who asks for a version is told; who has to be given something says what."""
    status, said = built.run(f"/usr/bin/{program}", *PROGRAMS[program])
    assert "error while loading shared libraries" not in said and status not in (126, 127), said
    if PROGRAMS[program]:
        assert status == 0 and program in said, (status, said)
    if PROGRAMS[program] == ["--version"]:
        assert re.fullmatch(rf"{program} \d+\.\d+\.\d+\n", said), said


def test_what_made_it_is_not_in_it(built):
    """No compiler, no sources, no lists of packages; it has a size that was meant."""
    for path in ("src", "build", "usr/bin/gcc", "usr/bin/cc", "usr/bin/cmake", "usr/include/jansson.h"):
        assert not (built.root / path).exists(), path
    assert not list((built.root / "var/lib/apt/lists").glob("*"))
    size = sum(its.st_size for _, its in built.files() if stat.S_ISREG(its.st_mode))
    print(f"image: {size >> 20} MiB")
    assert size < SIZE_MOST, f"{size >> 20} MiB"


def test_it_says_where_its_daemon_keeps_its_folder(built):
    assert {"XDG_DATA_HOME=/data", "HOME=/tmp"} <= set(built.config["Env"])


def test_nothing_in_it_is_for_one_architecture():
    """`--platform linux/amd64,linux/arm64` is all that it takes: no line knows on what it is built, and packages are named without one."""
    lines = [line for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    lines += [line for line in (TOP / "pipelined/deploy/debian-packages.txt").read_text(encoding="utf-8").splitlines() if re.match(r"(build|image) ", line)]
    found = [line for line in lines if re.search(r"amd64|arm64|x86|aarch64|TARGETARCH|--platform|:any", line)]
    assert len(lines) > 30 and not found, found
