"""Images without a registry: the files of installed Debian packages and some of ours, as an OCI archive that `ctr images import` takes.

Images share layers; nothing of the machine but what its packages brought is in them.
"""
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import struct
import subprocess
import tarfile
import typing

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
SLIM = ["base-files", "dash", "coreutils", "libc-bin", "sed", "grep"]  # of what Debian's slim image has, what tests use
UNWANTED = re.compile(r"^/usr/share/(doc|man|locale|info|lintian|bug|perl5|bash-completion)/|^/usr/lib/python3[^/]*/(test|idlelib|tkinter)/|\.(pyc|a|h)$")
LEFT_OUT = {"debconf", "perl-base", "dpkg", "tar"}  # they are for installing
TOP_LINKS = ("bin", "sbin", "lib", "lib64")
PASSWD = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\npipelined:x:10002:10002::/data:/usr/sbin/nologin\n"
GROUP = b"root:x:0:\nnogroup:x:65534:\npipelined:x:10002:\n"


def program_of(machine):
    """The head of a program for "amd64" or "arm64", which no other machine runs."""
    number = {"amd64": 62, "arm64": 183}[machine]
    return Program(struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, number, 1, 0x400000, 64, 0, 0, 64, 56, 0, 64, 0, 0))


class Link(typing.NamedTuple):
    target: str


class Folder(typing.NamedTuple):
    mode: int
    owner: int = 0


class Program(bytes):
    """A file that may be executed."""


def closure(packages):
    """These packages and all that they depend on, as they are installed here."""
    said = subprocess.run(["dpkg-query", "-W", "-f", "${binary:Package}\t${Provides}\t${Pre-Depends}, ${Depends}\n"], capture_output=True, text=True,
                          check=True).stdout
    needs, providers = {}, {}
    for line in said.splitlines():
        name, provides, depends = line.split("\t")
        name = name.split(":")[0]
        needs[name] = [[re.sub(r"[ (:].*", "", one.strip()) for one in group.split("|")] for group in depends.split(",") if group.strip()]
        for virtual in provides.split(","):
            providers.setdefault(virtual.split("(")[0].strip(), name)
    found, left = set(), list(packages)
    while left:
        name = left.pop()
        name = name if name in needs else providers.get(name)
        if name is None or name in found:
            continue
        found.add(name)
        left += [next((one for one in group if one in needs or one in providers), group[0]) for group in needs[name]]
    return sorted(found - LEFT_OUT)


def merged(path):
    """/bin, /lib and so on are links to /usr/…: what packages put there is below /usr."""
    return re.sub(r"^/(bin|sbin|lib|lib64|lib32|libx32)/", r"/usr/\1/", path)


def package_files(packages):
    """{path in the image: path here} of all files of these packages."""
    listed = subprocess.run(["dpkg-query", "-L", *packages], capture_output=True, text=True, check=True).stdout
    alone = {f"/{name}" for name in (*TOP_LINKS, "lib32", "libx32", ".")}
    return {merged(line): line for line in listed.splitlines() if line.startswith("/") and line not in alone and not UNWANTED.search(line)}


def entry_of(path, source):
    """The header and the data of one file: root's and without times, so that equal content is an equal layer."""
    entry, data = tarfile.TarInfo(path.lstrip("/")), None
    if isinstance(source, Link):
        entry.type, entry.linkname = tarfile.SYMTYPE, source.target
    elif isinstance(source, Folder):
        entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, source.mode, source.owner, source.owner
    elif isinstance(source, bytes):
        entry.mode, data = 0o755 if isinstance(source, Program) else 0o644, source
    elif os.path.islink(source):
        entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(source)
    else:
        entry.mode = os.stat(source).st_mode & 0o7777
        if os.path.isdir(source):
            entry.type = tarfile.DIRTYPE
        else:
            data = pathlib.Path(source).read_bytes()
    entry.size = len(data or b"")
    return entry, data


TOP = {f"/{name}": Link(f"usr/{name}") for name in TOP_LINKS}


class Layer:
    """A tar of {path in the image: path here, bytes, Link or Folder}. What is a path here and is not there is left out."""

    def __init__(self, files):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for path, source in sorted(files.items()):
                if isinstance(source, (bytes, Link, Folder)) or os.path.lexists(source):
                    entry, data = entry_of(path, source)
                    tar.addfile(entry, None if data is None else io.BytesIO(data))
        self.data = out.getvalue()
        self.digest = hashlib.sha256(self.data).hexdigest()


def debian(packages):
    """The files of a small Debian with these packages."""
    return {**package_files(closure([*SLIM, *packages])), "/etc/passwd": PASSWD, "/etc/group": GROUP, "/tmp": Folder(0o1777), **TOP}


def blobs_of(images):
    """-> ({digest: bytes}, manifests as an index lists them). `images`: {"name:tag": (layers, config)}, config as in the image specification ("User",
    "Env", "Entrypoint", "Cmd")."""
    blobs, manifests = {}, []

    def blob(data, media):
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)}

    for name, (layers, config) in images.items():
        document = {"architecture": ARCH, "os": "linux", "config": config,
                    "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in layers]}}
        manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                    "config": blob(json.dumps(document).encode(), "application/vnd.oci.image.config.v1+json"),
                    "layers": [blob(layer.data, "application/vnd.oci.image.layer.v1.tar") for layer in layers]}
        manifests.append({**blob(json.dumps(manifest).encode(), manifest["mediaType"]), "annotations": {"io.containerd.image.name": name}})
    return blobs, manifests


def write_archive(path, images):
    """An OCI archive."""
    blobs, manifests = blobs_of(images)
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": json.dumps({"schemaVersion": 2, "manifests": manifests}).encode(),
             **{f"blobs/sha256/{digest}": data for digest, data in blobs.items()}}
    pathlib.Path(path).write_bytes(Layer(files).data)
    return path
