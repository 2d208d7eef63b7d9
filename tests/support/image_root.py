"""Files of a container image, taken from this machine: programs with their libraries, and Python with its own."""
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"


def libraries(path):
    """The libraries that a program or library loads."""
    done = subprocess.run(["ldd", path], capture_output=True, text=True, check=False)
    return re.findall(r"(/\S+) \(0x", done.stdout)


def copy(root, path):
    """Copies a file of this machine to the same place, whatever links lead to it."""
    to = root / os.path.realpath(os.path.dirname(path)).lstrip("/") / os.path.basename(path)
    if not to.exists():
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(os.path.realpath(path), to)


def make(root, *programs, python=False):
    """Makes the folder `root` with these programs of /usr/bin, a shell as `sh`, and what an image of Debian has besides."""
    root = pathlib.Path(root)
    for folder in ("usr/bin", "usr/lib", "usr/lib64", "usr/sbin", "etc", "tmp", "var/lib", "root", "proc", "dev", "sys", "run", "home"):
        (root / folder).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/of-the-image").write_text("a file of the image\n")
    files = [f"/usr/bin/{name}" for name in ("dash", *programs)]
    if python:
        standard = pathlib.Path("/usr/lib") / PYTHON
        shutil.copytree(standard, root / "usr/lib" / PYTHON, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "test", "*.a"))
        if os.path.isdir("/usr/share/python-wheels"):
            shutil.copytree("/usr/share/python-wheels", root / "usr/share/python-wheels")
        for name in ("libstdc++.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"):  # of wheels with C and C++
            files += glob.glob(f"/usr/lib/*/{name}")
        files += [f"/usr/bin/{PYTHON}", *map(str, (standard / "lib-dynload").glob("*.so"))]
        (root / "usr/bin/python3").symlink_to(PYTHON)
    for path in files:
        for library in libraries(path):
            copy(root, library)
        copy(root, path)
    (root / "usr/bin/sh").symlink_to("dash")
    return root
