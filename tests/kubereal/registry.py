"""A registry on loopback that gives images to one user: pulls of the OCI distribution protocol, with basic authentication."""
import base64
import hashlib
import http.server
import json
import threading

USER, PASSWORD = "puller", "secret-of-the-tests"
EXPECTED = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):  # pylint: disable=invalid-name
        if self.headers.get("Authorization") != EXPECTED:
            self.answer(401, b'{"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}', "application/json",
                        {"WWW-Authenticate": 'Basic realm="tests"'})
            return
        parts = self.path.split("?")[0].strip("/").split("/")  # v2/NAME/manifests|blobs/REFERENCE
        data, media = self.server.files.get((parts[-2], parts[-1]), (None, None)) if len(parts) >= 4 else (b"{}", "application/json")
        if data is None:
            self.answer(404, b"{}", "application/json")
        else:
            self.answer(200, data, media, {"Docker-Content-Digest": f"sha256:{hashlib.sha256(data).hexdigest()}"})

    do_HEAD = do_GET

    def answer(self, status, data, media, more=()):
        self.send_response(status)
        for name, value in {"Content-Type": media, "Content-Length": str(len(data)), **dict(more)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *_):
        """Nothing: a test's output is its own."""


class Registry(http.server.ThreadingHTTPServer):
    """Serves on a port of its own until the process ends. `blobs` {digest: bytes}, `manifests` as in the index of an OCI archive."""

    daemon_threads = True

    def __init__(self, port, blobs, manifests):
        super().__init__(("127.0.0.1", port), Handler)
        self.files = {("blobs", f"sha256:{digest}"): (data, "application/octet-stream") for digest, data in blobs.items()}
        for one in manifests:
            data = blobs[one["digest"].removeprefix("sha256:")]
            media = json.loads(data)["mediaType"]
            tag = one["annotations"]["io.containerd.image.name"].rsplit(":", 1)[1]
            self.files |= {("manifests", one["digest"]): (data, media), ("manifests", tag): (data, media)}
        threading.Thread(target=self.serve_forever, daemon=True).start()
