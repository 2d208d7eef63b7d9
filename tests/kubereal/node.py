"""A cluster of one real node: the control plane of tests/kube with a kubelet, containerd and runc, inside a corner of this machine (inside.py).

Pods have a network of their own (a bridge that leads nowhere but to this corner) or the corner's. Images are imported, none is pulled.
    python3 node.py build       makes the cache warm
"""
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "kube"))
import control_plane  # noqa: E402  the folder must be on the path first

import controllers  # noqa: E402
import images  # noqa: E402
import registry  # noqa: E402
import services  # noqa: E402

TOP = HERE.parents[1]
Unavailable = control_plane.Unavailable
NODE = "localhost"  # also the host by which the API server finds the kubelet
OURS, DEMO, PLAIN = "pipelined.test/pipelined:1", "pipelined.test/numpy:1", "pipelined.test/debian:1"
BARE, HOMELESS, FOREIGN = "pipelined.test/no-shell:1", "pipelined.test/homeless:1", "pipelined.test/foreign:1"
REGISTRY_PORT = 5000
DISK = {"ephemeral-storage": "100Gi"}
PRIVATE = f"127.0.0.1:{REGISTRY_PORT}/team/debian:1"
TRIPLET = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}[platform.machine()]
CONTAINERD = """version = 2
root = "{folder}/containerd/root"
state = "{folder}/containerd/state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "pipelined.test/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
"""


def kubelet():
    return control_plane.programs() / "kubelet"


def group_of_packages(group):
    lines = (TOP / "pipelined/deploy/debian-packages.txt").read_text(encoding="utf-8").splitlines()
    return [line.split()[1].split("|")[0] for line in lines if line.startswith(f"{group} ")]


def our_programs():
    """Those of the build, where the image's have them."""
    build = pathlib.Path(os.environ["PL_BIN"])
    return {f"/usr/bin/{name}": str(build / name) for name in ("pipelined", "pipelinectl", "pipelined-worker", "pl-git", "pl-next", "pl-runner")}


def sanitizers():
    """The libraries that only a build with sanitizers is linked with."""
    listed = subprocess.run(["ldd", str(pathlib.Path(os.environ["PL_BIN"]) / "pipelined")], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"(lib(?:a|ub|t)san\.so\.\d+|libstdc\+\+\.so\.\d+) => (\S+)", listed)
    return {f"/usr/lib/{TRIPLET}/{name}": pathlib.Path(os.path.realpath(path)).read_bytes() for name, path in found}


def alternatives():
    """Libraries of numpy that Debian leaves to update-alternatives."""
    return {f"/usr/lib/{TRIPLET}/{name}.so.3": images.Link(f"{name.removeprefix('lib')}/{name}.so.3") for name in ("libblas", "liblapack")}


def write_images(folder):
    """-> (the path of an archive of the images that tests use, the blobs and manifests of the private one)."""
    base = images.Layer({**images.debian(group_of_packages("image")), **sanitizers(), "/data": images.Folder(0o755, 10002)})
    numpy = images.Layer({**images.package_files(images.closure(["python3", "python3-numpy"])), **alternatives()})
    ours = images.Layer(our_programs())
    plain = {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}
    made = {"pipelined.test/pause:1": ([base], {**plain, "Entrypoint": ["/usr/bin/sleep", "infinity"]}),
            OURS: ([base, ours], {"User": "10002:10002", "Entrypoint": ["/usr/bin/pipelined"],
                                  "Env": [*plain["Env"], "XDG_DATA_HOME=/data", "HOME=/tmp", "ASAN_OPTIONS=detect_leaks=0"]}),
            DEMO: ([base, numpy], plain),
            BARE: ([images.Layer({**images.package_files(images.closure(["coreutils"])), **images.TOP})], plain),
            FOREIGN: ([base, images.Layer({"/app": images.program_of("arm64" if images.ARCH == "amd64" else "amd64")})], plain),
            HOMELESS: ([base], {**plain, "User": "65534", "WorkingDir": "/root"})}
    for user in ("", "0", "1000", "1000:1000", "nobody", "pipelined"):
        made[user_image(user)] = ([base], {**plain, "User": user} if user else plain)
    return images.write_archive(folder / "images.tar", made), images.blobs_of({PRIVATE: ([base], plain)})


def user_image(user):
    """The name of an image of a small Debian that is made for this user."""
    return PLAIN if not user else f"pipelined.test/user-{user.replace(':', '-')}:1"


class Node(control_plane.ControlPlane):
    """`start` returns once pods can run."""

    admission = "--enable-admission-plugins=ServiceAccount"
    api_options = ("--kubelet-preferred-address-types=Hostname",)

    def __init__(self, folder):
        super().__init__(folder)
        self.kubelet_port = control_plane.servers.free_port()
        self.kubelet = self.containerd = self.controllers = self.api_server = None

    def start(self):
        super().start()
        self.controllers = controllers.Controllers(self)
        return self

    def launch(self):
        super().launch()
        self.start_containerd()
        archive, private = write_images(self.folder)
        registry.Registry(REGISTRY_PORT, *private)
        control_plane.servers.command("ctr", "--address", self.folder / "containerd.sock", "-n", "k8s.io", "images", "import", archive)
        self.start_kubelet()

    def is_ready(self):
        if not super().is_ready():
            return False
        status, node = self.request("GET", f"/api/v1/nodes/{NODE}")
        ready = status == 200 and any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions", []))
        if ready and node["spec"].get("taints"):  # which a controller would take away; and a corner has no device that the kubelet could measure
            self.request("PATCH", f"/api/v1/nodes/{NODE}", {"spec": {"taints": None}}, content_type="application/merge-patch+json")
            self.request("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": {"capacity": DISK, "allocatable": DISK}},
                         content_type="application/merge-patch+json")
        return ready and not node["spec"].get("taints")

    def start_containerd(self):
        (self.folder / "cni").mkdir(exist_ok=True)
        bridge = {"type": "bridge", "bridge": "pl0", "isGateway": True, "ipMasq": False, "hairpinMode": True,
                  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": str(self.folder / "addresses")}}
        (self.folder / "cni" / "pods.conflist").write_text(json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, {"type": "loopback"}]}),
                                                           encoding="ascii")
        config = self.folder / "containerd.toml"
        config.write_text(CONTAINERD.format(folder=self.folder), encoding="ascii")
        self.containerd = self.spawn("containerd", "--config", config)
        self.until("containerd", (self.folder / "containerd.sock").exists)

    def start_kubelet(self):
        config = {"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "cgroupDriver": "cgroupfs",
                  "cgroupRoot": os.environ["PL_CGROUP"], "failSwapOn": False, "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
                  "authorization": {"mode": "AlwaysAllow"}, "address": "127.0.0.1", "port": self.kubelet_port, "readOnlyPort": 0, "healthzPort": 0,
                  "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "50Mi"},
                  "containerRuntimeEndpoint": f"unix://{self.folder}/containerd.sock", "podLogsDir": f"{self.folder}/pod-logs",
                  "enforceNodeAllocatable": ["pods"], "localStorageCapacityIsolation": False, "imageGCHighThresholdPercent": 100,
                  "nodeStatusUpdateFrequency": "2s", "clusterDNS": [services.ADDRESS], "clusterDomain": services.DOMAIN, "syncFrequency": "10s", "serializeImagePulls": False,
                  "registerNode": True}
        path = self.folder / "kubelet.json"
        path.write_text(json.dumps(config), encoding="ascii")
        self.kubelet = self.spawn(kubelet(), f"--config={path}", f"--kubeconfig={self.kubeconfig()}", f"--root-dir={self.folder}/kubelet",
                                  f"--cert-dir={self.folder}/kubelet-certs", f"--hostname-override={NODE}", "--v=2")

    def kill_kubelet(self):
        self.kubelet.kill()
        self.kubelet.wait()
        self.processes.remove(self.kubelet)

    def kill_api_server(self):
        """Nobody listens on its port until start_api_server. Its words follow those of setpriv."""
        self.api_server, = (one for one in self.processes if pathlib.Path(one.args[3]).name == "kube-apiserver")
        self.api_server.kill()
        self.api_server.wait()
        self.processes.remove(self.api_server)

    def start_api_server(self):
        """The same again; returns once it answers."""
        self.spawn(*self.api_server.args[3:])
        self.until("answer", super().is_ready)


def main():
    if sys.argv[1:] != ["build"]:
        sys.exit("node.py build")
    print(control_plane.programs(), control_plane.kubectl())


if __name__ == "__main__":
    main()
