"""A real control plane on loopback for tests: etcd (Debian's), kube-apiserver and kube-scheduler, built once from Go modules; kubectl, too.

They lie in a cache outside the tree (tests/s3/servers.py): PL_TEST_CACHE, else ~/.cache/pipelined-tests. A cold build takes about 20 minutes of a core.
    python3 control_plane.py build          makes the cache warm
    python3 control_plane.py run FOLDER     serves until it is interrupted; prints one JSON line with the kubeconfigs
"""
import base64
import importlib
import json
import os
import pathlib
import re
import shutil
import signal
import ssl
import sys
import tempfile
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))  # by hand no runner says so
VERSION = "v1.34.2"
PROGRAMS = ("kube-apiserver", "kube-scheduler", "kubelet")  # in one build: they share most of it
ADMIN = "admin-token-of-the-tests"
NOBODY = "token-of-somebody-without-rights"


servers = importlib.import_module("by_path").load("s3_servers", "s3/servers.py")
Unavailable = servers.Unavailable


def build(folder, names):
    """Programs of Kubernetes, at the versions of go.mod, into a folder."""
    major, minor = VERSION.removeprefix("v").split(".")[:2]
    package = "k8s.io/component-base/version"
    flags = f"-s -w -X {package}.gitVersion={VERSION} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    with tempfile.TemporaryDirectory(dir=servers.cache(), prefix="go-build-") as scratch:
        source = pathlib.Path(scratch) / "module"
        source.mkdir()
        for file in ("go.mod", "go.sum"):
            shutil.copy(HERE / file, source)
        env = {**os.environ, "GOPATH": f"{scratch}/path", "GOCACHE": f"{scratch}/cache", "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local",
               "CGO_ENABLED": "0"}
        servers.command("nice", servers.go(), "build", "-trimpath", "-ldflags", flags, "-o", f"{folder}/", *(f"k8s.io/kubernetes/cmd/{name}" for name in names),
                        cwd=source, env=env)


def programs():
    """A folder with what serves."""
    return servers.cached(f"kubernetes-with-kubelet-{VERSION}", lambda folder: build(folder, PROGRAMS))


def kubectl():
    """The program; `kubectl kustomize` is kustomize."""
    return servers.cached(f"kubectl-{VERSION}", lambda folder: build(folder, ["kubectl"])) / "kubectl"


ACCOUNT = "system:serviceaccount:pipelined:pipelined"  # of the daemon, where it is installed
# Who asked for what: of the daemon alone.
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
         "rules": [{"level": "Metadata", "users": [ACCOUNT, "nobody"]}, {"level": "None"}]}


class ControlPlane(servers.Server):
    """`start` returns once it is ready and the namespace "default" is there."""

    name = "kubernetes"
    token = ADMIN
    admission = "--disable-admission-plugins=ServiceAccount"  # nobody makes the accounts that it wants
    api_options = ()  # more of kube-apiserver

    def __init__(self, folder):
        super().__init__(folder)
        self.etcd_port, self.peer_port, self.scheduler_port = (servers.free_port() for _ in range(3))
        self.certs = self.folder / "certs"

    def audited(self, user=ACCOUNT):
        """What the daemon's account has asked for until now: events of the server's audit."""
        path = self.folder / "audit.log"
        written = path.read_text(encoding="utf-8") if path.exists() else ""
        events = [json.loads(line) for line in written[:written.rfind("\n") + 1].splitlines()]  # the last one may be half written
        return [event for event in events if event["user"]["username"] == user]

    @property
    def endpoint(self):
        return f"https://127.0.0.1:{self.port}"

    def request(self, method, path, body=None, token=ADMIN, content_type="application/json"):
        """-> (status, JSON of the answer)."""
        asked = urllib.request.Request(self.endpoint + path, method=method, data=body if body is None or isinstance(body, bytes) else json.dumps(body).encode(),
                                       headers={"Authorization": f"Bearer {token}", "Content-Type": content_type})
        context = ssl.create_default_context(cafile=str(self.certs / "apiserver.crt"))
        try:
            with urllib.request.urlopen(asked, timeout=30, context=context) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)

    def apply(self, document, dry_run=False):
        """As `kubectl apply --server-side` of one YAML document whose metadata is written by kustomize. -> (status, JSON of the answer)."""
        def find(pattern):
            found = re.search(pattern, document, re.M)
            return found.group(1) if found else None
        api, kind = find(r"^apiVersion: (\S+)$"), find(r"^kind: (\S+)$")
        metadata = re.search(r"^metadata:\n((?:  .*\n)+)", document + "\n", re.M).group(1)
        name, namespace = re.search(r"^  name: (\S+)$", metadata, re.M).group(1), re.search(r"^  namespace: (\S+)$", metadata, re.M)
        plural = {"NetworkPolicy": "networkpolicies"}.get(kind, kind.lower() + "s")
        path = ("/api/" if api == "v1" else "/apis/") + api + (f"/namespaces/{namespace.group(1)}" if namespace else "") + f"/{plural}/{name}"
        query = "?fieldManager=tests&force=true&fieldValidation=Strict" + ("&dryRun=All" if dry_run else "")
        return self.request("PATCH", path + query, document.encode(), content_type="application/apply-patch+yaml")

    def keep(self, key, thing):
        """Puts an object where etcd has it, past the API server: one that another version of it took."""
        body = {name: base64.b64encode(value.encode()).decode() for name, value in (("key", f"/registry/{key}"), ("value", json.dumps(thing)))}
        asked = urllib.request.Request(f"http://127.0.0.1:{self.etcd_port}/v3/kv/put", data=json.dumps(body).encode())
        with urllib.request.urlopen(asked, timeout=30) as answer:
            answer.read()

    def text(self, path, token=ADMIN):
        """The body of an answer that is no JSON."""
        asked = urllib.request.Request(self.endpoint + path, headers={"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(asked, timeout=30, context=ssl.create_default_context(cafile=str(self.certs / "apiserver.crt"))) as answer:
                return answer.read().decode("utf-8", "replace")
        except urllib.error.HTTPError as refusal:
            raise OSError(f"{path}: {refusal.code}: {refusal.read().decode('utf-8', 'replace')}") from None

    def is_ready(self):
        try:
            return (self.certs / "apiserver.crt").exists() and self.text("/readyz") == "ok" and \
                self.request("GET", "/api/v1/namespaces/default")[0] == 200
        except (OSError, ValueError):
            return False

    def start(self):
        self.launch()
        self.until("answer", self.is_ready)
        return self

    def make_keys(self):
        """What accounts are signed with; a CA for clients, and one of them."""
        self.certs.mkdir(exist_ok=True)
        made = (("genrsa", "-out", "sa.key", "2048"),
                ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=tests", "-days", "30"),
                ("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "client.key", "-out", "client.csr", "-subj", "/O=system:masters/CN=tester"),
                ("x509", "-req", "-in", "client.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-out", "client.crt", "-days", "30"))
        for words in made:
            servers.command("openssl", *words, cwd=self.certs)
        (self.folder / "tokens.csv").write_text(f'{ADMIN},admin,admin,"system:masters"\n{NOBODY},nobody,nobody\n', encoding="ascii")

    def launch(self):
        if not shutil.which("etcd"):
            raise Unavailable("etcd is missing: apt-get install --no-install-recommends etcd-server")
        folder, peer = programs(), f"http://127.0.0.1:{self.peer_port}"
        client = f"http://127.0.0.1:{self.etcd_port}"
        self.make_keys()
        (self.folder / "audit.json").write_text(json.dumps(AUDIT), encoding="ascii")
        self.spawn("etcd", "--data-dir", self.folder / "etcd", "--listen-client-urls", client, "--advertise-client-urls", client,
                   "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
                   env={"ETCD_UNSUPPORTED_ARCH": os.uname().machine.replace("aarch64", "arm64")})
        self.spawn(folder / "kube-apiserver", f"--etcd-servers={client}", f"--cert-dir={self.certs}", "--bind-address=127.0.0.1",
                   f"--secure-port={self.port}", f"--token-auth-file={self.folder / 'tokens.csv'}", "--authorization-mode=RBAC,Node",
                   "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={self.certs / 'sa.key'}",
                   f"--service-account-signing-key-file={self.certs / 'sa.key'}", "--service-cluster-ip-range=10.96.0.0/16",
                   f"--client-ca-file={self.certs / 'ca.crt'}", "--allow-privileged=true", self.admission,
                   f"--audit-policy-file={self.folder / 'audit.json'}", f"--audit-log-path={self.folder / 'audit.log'}", "--audit-log-mode=blocking",
                   *self.api_options)
        self.until("certificate", (self.certs / "apiserver.crt").exists)
        self.spawn(folder / "kube-scheduler", f"--kubeconfig={self.kubeconfig()}", f"--authentication-kubeconfig={self.kubeconfig()}",
                   f"--authorization-kubeconfig={self.kubeconfig()}", "--leader-elect=false", "--bind-address=127.0.0.1",
                   f"--secure-port={self.scheduler_port}", f"--cert-dir={self.folder / 'scheduler'}", "--kube-api-qps=500",
                   "--kube-api-burst=1000")

    def kubeconfig(self, name="admin", user=None, namespace="default", **cluster):
        """The path of a kubeconfig with this user (default: the admin's token). Text or data; JSON is YAML."""
        path = self.folder / f"{name}.kubeconfig"
        cluster = {"server": self.endpoint, "certificate-authority": "certs/apiserver.crt", **cluster}
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": name, "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user or {"token": ADMIN}}],
            "contexts": [{"name": name, "context": {"cluster": "c", "user": "u", "namespace": namespace}}]}, indent=1), encoding="ascii")
        return path

    def pem(self, name):
        return base64.b64encode((self.certs / name).read_bytes()).decode()


def main():
    if sys.argv[1:] == ["build"]:
        print(programs(), kubectl())
        return
    if len(sys.argv) != 3 or sys.argv[1] != "run":
        sys.exit("control_plane.py build | run FOLDER")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    plane = ControlPlane(sys.argv[2]).start()
    print(json.dumps({"endpoint": plane.endpoint, "kubeconfig": str(plane.kubeconfig())}), flush=True)
    try:
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
    finally:
        plane.stop()


if __name__ == "__main__":
    main()
