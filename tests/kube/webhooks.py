"""What a cluster's admission can do to pods: a policy of the API server's own, and a webhook of the test's: HTTPS on loopback, by its own authority."""
import base64
import http.server
import json
import ssl
import threading

import control_plane

GROUP = "/apis/admissionregistration.k8s.io"
PODS = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}


def probe(labels=None):
    return {"metadata": {"name": "probe", "labels": labels or {}}, "spec": {"containers": [{"name": "main", "image": "any"}]}}


class Admission:
    """What was registered for a namespace; it goes with the block."""

    def __init__(self, kubelet):
        self.kubelet, self.plane, self.space = kubelet, kubelet.plane, kubelet.namespace
        self.made = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for path in reversed(self.made):
            self.plane.request("DELETE", path)

    def here(self):
        return {"matchLabels": {"kubernetes.io/metadata.name": self.space}}

    def register(self, kind, name, version="v1", **body):
        code, answer = self.plane.request("POST", f"{GROUP}/{version}/{kind}", {"metadata": {"name": name}, **body})
        assert code == 201, answer
        self.made.append(f"{GROUP}/{version}/{kind}/{name}")

    def asked(self, dry_run=True):
        """What the server says to a pod of the namespace: (status, answer)."""
        return self.plane.request("POST", f"/api/v1/namespaces/{self.space}/pods{'?dryRun=All' if dry_run else ''}", probe())

    def until(self, check, what):
        """What is registered counts a moment later."""
        self.kubelet.until(lambda: check(*self.asked()), lambda: f"{what}: {self.asked()}")

    def policy(self, expression, message, name="team"):
        """Pods for which the CEL expression does not hold are refused."""
        name = f"{name}-{self.space}"
        self.register("validatingadmissionpolicies", name, spec={"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [PODS]},
                                                                 "validations": [{"expression": expression, "message": message}]})
        self.register("validatingadmissionpolicybindings", name, spec={"policyName": name, "validationActions": ["Deny"],
                                                                       "matchResources": {"namespaceSelector": self.here()}})
        self.until(lambda code, _: code == 422, "the policy is in force")

    def mutating_policy(self, *expressions):
        """Pods are changed as these CEL expressions (ApplyConfiguration) say, one after the other; the label "changed" is put on beside them."""
        name = f"change-{self.space}"
        every = [*expressions, 'Object{metadata: Object.metadata{labels: {"changed": "yes"}}}']
        self.register("mutatingadmissionpolicies", name, "v1beta1", spec={
            "failurePolicy": "Fail", "reinvocationPolicy": "Never", "matchConstraints": {"resourceRules": [PODS]},
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": one}} for one in every]})
        self.register("mutatingadmissionpolicybindings", name, "v1beta1",
                      spec={"policyName": name, "matchResources": {"namespaceSelector": self.here()}})
        self.until(lambda _, answer: answer.get("metadata", {}).get("labels", {}).get("changed") == "yes", "the policy is in force")

    def webhook(self, server, change=True, timeout_s=1, asked=True):
        """failurePolicy Fail. Waits until the API server asks it, unless `asked` is false."""
        kind = "mutatingwebhookconfigurations" if change else "validatingwebhookconfigurations"
        self.register(kind, f"hook-{self.space}", webhooks=[{
            "name": "hook.tests.example", "clientConfig": {"url": server.url, "caBundle": server.bundle}, "rules": [PODS], "failurePolicy": "Fail", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "timeoutSeconds": timeout_s, "namespaceSelector": self.here()}])
        if asked:
            self.until(lambda *_: server.calls, "the webhook is asked")

    def end(self):
        """All of it goes, and that counts."""
        self.__exit__()
        self.made = []
        self.until(lambda code, _: code == 201, "it is gone")


class Server:
    """A webhook that answers `answer(request)`: a list of operations (RFC 6902), or a text: why not. `silent`: it says nothing, or
    to those requests for which it holds. `names`: of the pods that it answered in earnest; `held`: of those that it did not;
    `calls`: how often it was asked, also in dry runs."""

    def __init__(self, folder, answer):
        self.folder, self.answer, self.silent, self.names, self.held = folder, answer, False, set(), set()
        self.calls = 0
        self.stopped = threading.Event()
        folder.mkdir()
        words = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "30", "-subj", "/CN=hook",
                 "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:TRUE")
        control_plane.servers.command("openssl", *words, cwd=folder)
        self.bundle = base64.b64encode((folder / "cert.pem").read_bytes()).decode()
        self.port = control_plane.servers.free_port()
        self.url = f"https://127.0.0.1:{self.port}/"
        self.server = None

    def __enter__(self):
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                hook.calls += 1
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
                silent = hook.silent(request) if callable(hook.silent) else hook.silent
                if not request.get("dryRun"):
                    (hook.held if silent else hook.names).add(request["object"]["metadata"]["name"])
                if silent:
                    hook.stopped.wait()
                    return
                said = hook.answer(request)
                response = {"uid": request["uid"], "allowed": not isinstance(said, str)}
                if isinstance(said, str):
                    response["status"] = {"code": 403, "message": said}
                elif said:
                    response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(said).encode()).decode()}
                body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "cert.pem", self.folder / "key.pem")
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.server.shutdown()
        self.server.server_close()
