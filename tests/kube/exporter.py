"""The API server with what a cluster's exporters of metrics say: whatever is asked of a pod's /metrics is answered here, all else by the real server
behind. A real one proxies to no address of this machine alone."""
import http.client
import http.server
import re
import ssl
import threading
import urllib.parse

METRICS = re.compile(r"^/api/v1/namespaces/([^/]+)/pods/([^/:]+):(\d+)/proxy/metrics$")
HOP = {"connection", "transfer-encoding", "content-length", "host"}


class Front:
    """`says[namespace, pod]` = (status, text). `read` lists who was asked."""

    def __init__(self, plane):
        self.says, self.read = {}, []
        self.behind = urllib.parse.urlsplit(plane.endpoint)
        self.context = ssl.create_default_context(cafile=str(plane.certs / "apiserver.crt"))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def handler(self):
        front = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self):
                asked = METRICS.match(self.path)
                if asked:
                    front.read.append(asked.groups()[:2])
                    status, text = front.says.get(asked.groups()[:2], (503, "no exporter"))
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text.encode())
                    return
                self.pass_on()

            do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = answer

            def pass_on(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                behind = http.client.HTTPSConnection(front.behind.hostname, front.behind.port, context=front.context)
                behind.request(self.command, self.path, body or None, {key: value for key, value in self.headers.items() if key.lower() not in HOP})
                got = behind.getresponse()
                self.send_response(got.status)
                for key, value in got.getheaders():
                    if key.lower() not in HOP:
                        self.send_header(key, value)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                try:
                    while piece := got.read1(65536):
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    self.wfile.write(b"0\r\n\r\n")
                except (OSError, http.client.HTTPException):  # one of the two has gone
                    self.close_connection = True
                finally:
                    behind.close()

        return Handler
