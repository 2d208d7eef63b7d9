"""A package index on the loopback: PEP 503 pages over wheels that tests write themselves. What is downloaded is counted."""
import base64
import hashlib
import html
import http.server
import io
import subprocess
import tempfile
import threading
import zipfile

import by_path

WHEELS = ("numpy==2.1.3", "scikit-learn==1.6.1")


def wheel(name, version, files, scripts=None, requires=()):
    """The bytes of a wheel of pure Python. `scripts`: command → "module:function"."""
    info = f"{name}-{version}.dist-info"
    inside = {**files, f"{info}/METADATA": "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {r}" for r in requires)]) + "\n",
              f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    if scripts:
        inside[f"{info}/entry_points.txt"] = "[console_scripts]\n" + "".join(f"{k} = {v}\n" for k, v in scripts.items())
    rows = []
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for path, text in inside.items():
            data = text.encode() if isinstance(text, str) else text
            z.writestr(path, data)
            rows.append(f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}")
        z.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,"]) + "\n")
    return f"{name}-{version}-py3-none-any.whl", out.getvalue()


def real_wheels():
    """numpy and scikit-learn with what they need, from the cache of the tests."""
    servers = by_path.load("servers", "s3/servers.py")

    def make(folder):
        with tempfile.TemporaryDirectory() as tool:
            servers.command("/usr/bin/python3", "-m", "venv", tool)
            servers.command(f"{tool}/bin/python", "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest", folder, *WHEELS)
    folder = servers.cached("wheels-" + "-".join(one.replace("==", "-") for one in WHEELS), make)
    return [(path.name, path.read_bytes()) for path in folder.glob("*.whl")]


class Index:
    """`url` is the index's address. `password`: USER:PASSWORD that it asks for. `gate`: a file is sent once it is set."""

    def __init__(self, *wheels, password=None):
        self.wheels, self.password = dict(wheels), password
        self.downloads, self.refused, self.broken = {}, 0, False
        self.gate = threading.Event()
        self.gate.set()
        self.asked = threading.Event()  # a file was asked for
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):  # noqa: N802
                index.answer(self)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/simple"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def add(self, *wheels):
        self.wheels.update(wheels)

    def close(self):
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()

    def answer(self, request):
        said = request.headers.get("Authorization", "")
        if self.password and said != "Basic " + base64.b64encode(self.password.encode()).decode():
            self.refused += 1
            self.send(request, 401, b"", ("WWW-Authenticate", 'Basic realm="index"'))
        elif self.broken:
            self.send(request, 404, b"")
        elif request.path.startswith("/files/"):
            name = request.path.removeprefix("/files/")
            self.asked.set()
            self.gate.wait()
            self.downloads[name] = self.downloads.get(name, 0) + 1
            self.send(request, 200, self.wheels[name])
        else:
            wanted = request.path.strip("/").split("/")[-1].replace("-", "_")
            links = "".join(f'<a href="/files/{name}#sha256={hashlib.sha256(data).hexdigest()}">{html.escape(name)}</a>\n'
                            for name, data in self.wheels.items() if name.split("-")[0].lower() == wanted)
            self.send(request, 200 if links else 404, f"<!DOCTYPE html><html><body>{links}</body></html>".encode(), ("Content-Type", "text/html"))

    @staticmethod
    def send(request, status, body, *headers):
        try:
            request.send_response(status)
            for key, value in headers:
                request.send_header(key, value)
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)
        except OSError:  # the installer was ended
            pass
