"""What kube-proxy and the cluster's DNS do, for the few Services of a test: each address of a Service is one of this corner, and what comes to it goes
on to a pod; a name of a Service is its address, in pods and in the corner."""
import contextlib
import http.client
import os
import socket
import socketserver
import struct
import subprocess
import threading

ADDRESS = "10.96.0.10"  # of the DNS server
DOMAIN = "cluster.local"
A, NXDOMAIN = 1, 3


class Connection(socketserver.BaseRequestHandler):
    """Bytes to and fro until both sides have ended."""

    def handle(self):
        target = None
        with contextlib.suppress(OSError):  # the cluster ends before this does
            target = self.server.target()
        if not target:
            return
        with contextlib.suppress(OSError), socket.create_connection(target, timeout=10) as far:
            far.settimeout(None)
            back = threading.Thread(target=self.copy, args=(far, self.request), daemon=True)
            back.start()
            self.copy(self.request, far)
            back.join()

    @staticmethod
    def copy(source, to):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                to.sendall(data)
        with contextlib.suppress(OSError):
            to.shutdown(socket.SHUT_WR)


class Port(socketserver.ThreadingTCPServer):
    """A port of a Service; `target()` is where it leads now, None when nowhere."""

    allow_reuse_address = daemon_threads = True
    request_queue_size = 128

    def __init__(self, address, target):
        self.target = target
        super().__init__(address, Connection)


class Names(socketserver.BaseRequestHandler):
    """One question of DNS: names of Services, and nothing else."""

    def handle(self):
        data, sock = self.request
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode("ascii", "replace"))
            at += 1 + data[at]
        kind = struct.unpack(">H", data[at + 1:at + 3])[0]
        found = self.server.find(".".join(labels).lower())
        answer = b"\xc0\x0c" + struct.pack(">HHIH", A, 1, 5, 4) + socket.inet_aton(found) if found and kind == A else b""
        head = data[:2] + struct.pack(">HHHHH", 0x8580 | (0 if found else NXDOMAIN), 1, 1 if answer else 0, 0, 0)
        sock.sendto(head + data[12:at + 5] + answer, self.client_address)


class Services:
    """`cluster` is a control_plane.ControlPlane. Ends with the corner."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.addresses = {}  # "name.namespace": address
        self.add_address(ADDRESS)
        names = socketserver.ThreadingUDPServer((ADDRESS, 53), Names)
        names.daemon_threads, names.find = True, self.find
        self.serve(names)
        self.resolve_here()

    @staticmethod
    def serve(server):
        threading.Thread(target=server.serve_forever, daemon=True).start()

    @staticmethod
    def add_address(address):
        subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)

    def resolve_here(self):
        """In the corner as in pods. Its mounts are its own."""
        path = self.cluster.folder / "resolv.conf"
        path.write_text(f"nameserver {ADDRESS}\nsearch svc.{DOMAIN} {DOMAIN}\noptions ndots:5\n", encoding="ascii")
        subprocess.run(["mount", "--bind", path, os.path.realpath("/etc/resolv.conf")], check=True)

    def find(self, name):
        parts = name.removesuffix(f".svc.{DOMAIN}").split(".")
        return self.addresses.get(name.removesuffix(f".svc.{DOMAIN}")) if name.endswith(f".svc.{DOMAIN}") and len(parts) == 2 else None

    def on_service(self, service):
        """A Service that is there."""
        name, namespace, spec = service["metadata"]["name"], service["metadata"]["namespace"], service["spec"]
        if f"{name}.{namespace}" in self.addresses or spec.get("clusterIP", "None") == "None":
            return
        self.add_address(spec["clusterIP"])
        for port in spec["ports"]:
            self.serve(Port((spec["clusterIP"], port["port"]), self.target_of(namespace, spec, port)))
        self.addresses[f"{name}.{namespace}"] = spec["clusterIP"]

    def target_of(self, namespace, spec, port):
        """The API server is no pod."""
        if not spec.get("selector"):
            return lambda: ("127.0.0.1", self.cluster.port)
        labels = ",".join(f"{key}={value}" for key, value in spec["selector"].items())
        known = []

        def look():
            status, there = self.cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods?labelSelector={labels}")
            if status != 200:  # an API server that has just begun
                return known[0] if known else None
            pods = [pod for pod in there["items"] if pod["status"].get("podIP") and "deletionTimestamp" not in pod["metadata"]]
            pods.sort(key=is_ready)  # a kubelet that begins anew says for a moment that nothing is
            return (pods[-1]["status"]["podIP"], number_of(pods[-1], port["targetPort"])) if pods else None

        def find():
            with contextlib.suppress(OSError, http.client.HTTPException):  # without an API server a proxy goes on with what it knows
                known[:] = [look()]
            return known[0] if known else None
        return find


def is_ready(pod):
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))


def number_of(pod, port):
    """A port of a pod by its name."""
    if isinstance(port, int):
        return port
    return next(one["containerPort"] for container in pod["spec"]["containers"] for one in container.get("ports", []) if one["name"] == port)
