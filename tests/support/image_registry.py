"""A registry of container images on the loopback (the part of the OCI distribution API that pulls): images are made of folders. Downloads are counted."""
import gzip
import hashlib
import http.server
import io
import json
import os
import re
import tarfile
import threading

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
ROUTE = re.compile(r"/v2/(.+)/(manifests|blobs)/([^/]+)")


class Registry:
    def __init__(self):
        self.blobs, self.tags, self.downloads, self.refuses = {}, {}, {}, False
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):  # noqa: N802
                registry.answer(self)

            do_HEAD = do_GET  # noqa: N815

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def keep(self, data):
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return digest

    def layer(self, folder):
        """A layer of the files of a folder: what `add` takes."""
        out = io.BytesIO()
        def of_root(entry):
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            return entry
        with tarfile.open(fileobj=out, mode="w") as tar:
            tar.add(folder, arcname=".", filter=of_root)
        plain = out.getvalue()
        data = gzip.compress(plain, 1, mtime=0)
        return {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "size": len(data), "digest": self.keep(data)}, "sha256:" + hashlib.sha256(plain).hexdigest()

    def add(self, name, tag, *layers, arch=ARCH, env=("PATH=/usr/local/bin:/usr/bin:/bin",)):
        """An image; its digest."""
        config = json.dumps({"architecture": arch, "os": "linux", "config": {"Env": list(env)}, "rootfs": {"type": "layers", "diff_ids": [one[1] for one in layers]}}).encode()
        manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "size": len(config),
                                                                                    "digest": self.keep(config)}, "layers": [one[0] for one in layers]}).encode()
        self.tags[name, tag] = self.keep(manifest)
        return self.tags[name, tag]

    def answer(self, request):
        found = ROUTE.fullmatch(request.path)
        if self.refuses or not found:
            self.send(request, 401 if self.refuses else 200, b"{}", "application/json")
            return
        name, kind, which = found.groups()
        digest = self.tags.get((name, which), which)
        data = self.blobs.get(digest)
        if data is None:
            self.send(request, 404, b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}', "application/json")
            return
        if request.command == "GET":
            self.downloads[digest] = self.downloads.get(digest, 0) + 1
        self.send(request, 200, data, MANIFEST if kind == "manifests" else "application/octet-stream", digest)

    @staticmethod
    def send(request, status, data, kind, digest=None):
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(data)))
        if digest:
            request.send_header("Docker-Content-Digest", digest)
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(data)
