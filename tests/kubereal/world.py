"""An installation of pipelined on the node of node.py, made by the commands of docs/kubernetes.md, and a daemon as tests know it."""
import json
import os
import pathlib
import re
import shutil
import ssl
import subprocess

import by_path
import control_plane
import node

TOP = pathlib.Path(__file__).resolve().parents[2]
DAEMONS, STAGES, POD = "pipelined", "pipelined-stages", "pipelined-0"
URL = "https://pipelined.pipelined.svc:7380"
IMAGES = {"registry.example/pipelined:0.1.0": node.OURS, "registry.example/numpy:1": node.DEMO}


kit = by_path.load("daemon_kit", "daemon/conftest.py")


def commands(step):
    """What the page has people type at a step, with images that are here."""
    page = (TOP / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    text = re.search(rf"^\*\*{step}\. .*?(?=^\*\*\d\. |^## )", page, re.M | re.S).group(0)
    typed = "".join(re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S))
    for name, here in IMAGES.items():
        typed = typed.replace(name, here)
    return typed


class Remote(kit.Daemon):
    """The daemon in its pod, by its Service."""

    def __init__(self, world):
        super().__init__(world.folder)
        self.world, self.url = world, URL
        self.tls = ssl.create_default_context(cafile=str(world.tls / "ca.crt"))
        self.token = world.sh(f"kubectl -n {DAEMONS} exec {POD} -- cat /data/pipelined/token").strip()
        (world.folder / "token").write_text(self.token, encoding="ascii")
        world.sh(f"pipelinectl login {URL} --ca {world.tls}/ca.crt --token-file {world.folder}/token")

    def ctl(self, *args, stdin=None, ok=True, cwd=None, timeout=240, env=None):
        done = subprocess.run(["pipelinectl", *map(str, args)], input=stdin, capture_output=True, cwd=cwd or self.world.checkout, timeout=timeout,
                              env={**self.world.env, **(env or {})}, check=False)
        result = kit.Result(done)
        assert not ok or result.code == 0, f"pipelinectl {' '.join(map(str, args))}: exit {result.code}\n{result.out}\n{result.err}"
        return result

    def log(self):
        """Of the container that runs and, where one ran before it, of that."""
        path = f"/api/v1/namespaces/{DAEMONS}/pods/{POD}/log"
        before = "?previous=true" if self.world.daemons_container()["restartCount"] else None
        return "".join(self.world.cluster.text(path + (query or "")) for query in (before, "") if query is not None)


class World:
    """One installation; `sh` types into a shell at the top of a checkout."""

    def __init__(self, cluster, folder):
        self.cluster, self.folder, self.checkout = cluster, folder, folder / "checkout"
        self.deploy = self.checkout / "pipelined" / "deploy"
        self.tls = self.deploy / "cluster" / "tls"
        programs = folder / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(control_plane.kubectl())
        (programs / "pipelinectl").symlink_to(pathlib.Path(kit.BIN) / "pipelinectl")
        self.env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"),
                    "KUBECONFIG": str(cluster.kubeconfig())}
        for part in ("pipelined/deploy", "pipelines/digits"):
            shutil.copytree(TOP / part, self.checkout / part, ignore=shutil.ignore_patterns("tls", "__pycache__"))
        self.configure()
        self.daemon = None

    def configure(self):
        """What the page says is different from cluster to cluster."""
        name, tag = node.OURS.split(":")
        path = self.deploy / "cluster" / "kustomization.yaml"
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("newName: pipelined\n", f"newName: {name}\n").replace("newTag: 0.1.0\n", f'newTag: "{tag}"\n'), encoding="utf-8")
        path = self.deploy / "cluster" / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        config["kubernetes"] |= {"default_image": node.DEMO, "pull_secrets": "registry"}
        path.write_text(json.dumps(config, indent=2), encoding="utf-8")

    def sh(self, script, seconds=150):
        """What it printed."""
        done = subprocess.run(["timeout", str(seconds), "sh", "-ec", script], cwd=self.checkout, env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{script}\nexit status {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.tell()}"
        return done.stdout

    def install(self):
        self.sh(commands(2))
        self.daemon = Remote(self)
        return self

    # --- the cluster

    def pods(self, stage):
        return self.cluster.request("GET", f"/api/v1/namespaces/{STAGES}/pods?labelSelector=pipelined.io/stage%3D{stage}")[1]["items"]

    def daemons_pod(self):
        return self.cluster.request("GET", f"/api/v1/namespaces/{DAEMONS}/pods/{POD}")[1]

    def daemons_container(self):
        return self.daemons_pod()["status"]["containerStatuses"][0]

    def tell(self):
        """What there is to see when something went wrong."""
        found = []
        for namespace in (DAEMONS, STAGES):
            for kind in ("pods", "events"):
                for one in self.cluster.request("GET", f"/api/v1/namespaces/{namespace}/{kind}")[1].get("items", []):
                    found.append(json.dumps(one["status"] if kind == "pods" else f"{one['reason']}: {one['message']}"))
        try:
            found.append(self.daemon.log()[-5000:] if self.daemon else self.cluster.text(f"/api/v1/namespaces/{DAEMONS}/pods/{POD}/log"))
        except (OSError, KeyError) as failure:
            found.append(str(failure))
        return "\n".join([*found, f"controllers: {self.cluster.controllers.failure}"])

    # --- stages

    @staticmethod
    def stage(name, shell, more):
        """Of one datum. What is None in `more` is left out."""
        spec = {**kit.sh(name, shell), "input": {"repo": f"in-{name}", "name": "in", "glob": "/"}, **more}
        return {key: value for key, value in spec.items() if value is not None}

    def begin(self, name, shell, /, content=None, **more):
        """A stage of one datum, a file with this content (its name if none is given); its run."""
        self.daemon.default.repo(f"in-{name}").stages(self.stage(name, shell, more), pipeline=name)
        return self.daemon.push(f"in-{name}", "f", content or name)["run"]

    def begin_waiting(self, stage):
        """One that runs, and ends when it is told to."""
        run = self.begin(stage, "until [ -e /tmp/go ]; do sleep 0.1; done; cp /pfs/in/f /pfs/out/f")
        kit.wait_until(lambda: any(is_running(pod) for pod in self.pods(stage)), lambda: f"a pod of {stage}: {self.tell()}", 150)
        return run

    def let_go(self, stage):
        pod, = self.pods(stage)
        self.let_pod_go(pod)

    def let_pod_go(self, pod):
        (self.tmp_of(pod) / "go").touch()

    def tmp_of(self, pod):
        """/tmp of its command: the volume's folder, which the kubelet has."""
        return self.cluster.folder / "kubelet" / "pods" / pod["metadata"]["uid"] / "volumes" / "kubernetes.io~empty-dir" / "pl" / "tmp"

    def says(self, run, stage, *words, seconds=90):
        """Waits until the job carries a sentence with these words; the job."""
        return self.daemon.wait_job(run, stage, lambda job: all(word in f"{job['reason']} {job.get('message', '')}" for word in words),
                                    f"says {words}\n{self.tell()}", seconds)

    def succeeds(self, run, seconds=90):
        end = self.daemon.wait(run, seconds)
        assert end["state"] == "success", (end, self.tell())
        return end


def is_running(pod):
    states = [one["state"] for one in pod["status"].get("containerStatuses", [])]
    return len(states) == 2 and all("running" in state for state in states)
