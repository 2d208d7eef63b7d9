"""The S3 gateway of a daemon, asked by boto3, and by requests that are signed here, so that anything in them can be made wrong."""
import base64
import datetime
import hashlib
import hmac
import http.client
import re
import urllib.parse

ACCESS_KEY = "pipelined"
EMPTY = hashlib.sha256(b"").hexdigest()


def hexhmac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def escape(text, safe=""):
    return urllib.parse.quote(text, safe="-._~" + safe)


class Answer:
    def __init__(self, reply):
        self.status = reply.status
        self.headers = {name.lower(): value for name, value in reply.getheaders()}
        self.body = reply.read()

    @property
    def code(self):
        """S3's code of an error."""
        found = re.search(rb"<Code>(\w+)</Code>", self.body)
        return found.group(1).decode() if found else ""

    @property
    def message(self):
        found = re.search(rb"<Message>(.*?)</Message>", self.body, re.S)
        return found.group(1).decode() if found else ""


class Gateway:
    def __init__(self, daemon):
        self.daemon = daemon
        with open(f"{daemon.dir}/s3.url", encoding="utf-8") as f:
            self.url = f.read().strip()
        self.access_key, self.secret, self.region = ACCESS_KEY, daemon.token, "us-east-1"
        self.host = self.url.removeprefix("http://")

    def client(self, **config):
        """boto3, addressed by path, which asks again once."""
        import boto3  # here: the smoke test has none
        import botocore.client
        return boto3.client("s3", endpoint_url=self.url, aws_access_key_id=self.access_key, aws_secret_access_key=self.secret,
                            region_name=self.region,
                            config=botocore.client.Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, **config))

    # --- signing by hand
    def key(self, date, service="s3"):
        key = ("AWS4" + self.secret).encode()
        for part in (date, self.region, service, "aws4_request"):
            key = hexhmac(key, part)
        return key

    def signature(self, method, path, query, headers, signed, payload, time, service="s3"):
        pairs = "&".join(f"{escape(k)}={escape(v)}" for k, v in sorted(query.items()))
        lower = {k.lower(): " ".join(v.split()) for k, v in headers.items()}
        canonical = "\n".join([method, escape(path, "/"), pairs, "".join(f"{name}:{lower[name]}\n" for name in signed), ";".join(signed), payload])
        scope = f"{time[:8]}/{self.region}/{service}/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", time, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        return hexhmac(self.key(time[:8], service), text).hex(), scope

    def signed(self, method, path, query=None, headers=None, body=b"", payload=None, time=None, service="s3"):
        """The headers of a request signed in its head. `payload`: what x-amz-content-sha256 says, else the body's hash."""
        time = time or now()
        payload = payload or hashlib.sha256(body).hexdigest()
        sent = {"Host": self.host, "x-amz-date": time, "x-amz-content-sha256": payload, **(headers or {})}
        names = sorted(name.lower() for name in sent)
        value, scope = self.signature(method, path, query or {}, sent, names, payload, time, service)
        sent["Authorization"] = f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope}, SignedHeaders={';'.join(names)}, Signature={value}"
        return sent

    def presigned(self, method, path, query=None, expires=60, time=None, headers=None):
        """The query of a presigned URL."""
        time = time or now()
        sent = {"Host": self.host, **(headers or {})}
        names = sorted(name.lower() for name in sent)
        query = {**(query or {}), "X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Date": time, "X-Amz-Expires": str(expires),
                 "X-Amz-Credential": f"{self.access_key}/{time[:8]}/{self.region}/s3/aws4_request", "X-Amz-SignedHeaders": ";".join(names)}
        query["X-Amz-Signature"] = self.signature(method, path, query, sent, names, "UNSIGNED-PAYLOAD", time)[0]
        return query

    # --- asking
    def send(self, method, path, query=None, headers=None, body=b"", target=None):
        """As it is; `path` is escaped, `target` is not."""
        target = target or escape(path, "/") + ("?" + "&".join(f"{escape(k)}={escape(v)}" for k, v in query.items()) if query else "")
        connection = http.client.HTTPConnection(self.host, timeout=60)
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        sent = {"Host": self.host, **(headers or {})}
        if "Content-Length" not in sent and "Transfer-Encoding" not in sent:
            sent["Content-Length"] = str(len(body))
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders()
        try:
            connection.send(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has answered already
        answer = Answer(connection.getresponse())
        connection.close()
        return answer

    def ask(self, method, path, query=None, headers=None, body=b"", payload=None, time=None, unsigned=None, **more):
        """Signed in its head; `unsigned`: headers that are not signed."""
        sent = self.signed(method, path, query, headers, body, payload, time)
        return self.send(method, path, query, {**sent, **(unsigned or {})}, body, **more)

    # --- aws-chunked
    def chunked(self, path, chunks, trailers=None, sign=True, lie=None, checksum_header=None, decoded=None, behind=""):
        """PUT with the body in these chunks. `lie(framing bytes)` changes what is sent; `behind`: lines behind the trailers' signature."""
        time = now()
        payload = {(True, False): "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", (True, True): "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
                   (False, True): "STREAMING-UNSIGNED-PAYLOAD-TRAILER", (False, False): "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}[(sign, bool(trailers))]
        headers = {"Content-Encoding": "aws-chunked", "x-amz-decoded-content-length": str(sum(map(len, chunks)) if decoded is None else decoded)}
        if trailers:
            headers["x-amz-trailer"] = checksum_header or ",".join(trailers)
        sent = self.signed("PUT", path, {}, headers, payload=payload, time=time)
        previous = sent["Authorization"].rpartition("=")[2]
        scope = f"{time[:8]}/{self.region}/s3/aws4_request"
        key, body = self.key(time[:8]), b""
        for chunk in [*chunks, b""]:
            extension = ""
            if sign:
                text = "\n".join(["AWS4-HMAC-SHA256-PAYLOAD", time, scope, previous, EMPTY, hashlib.sha256(chunk).hexdigest()])
                previous = hexhmac(key, text).hex()
                extension = f";chunk-signature={previous}"
            body += f"{len(chunk):x}{extension}\r\n".encode() + chunk + (b"\r\n" if chunk else b"")
        if trailers:
            lines = "".join(f"{name}:{value}\n" for name, value in trailers.items() if value)
            body += lines.replace("\n", "\r\n").encode()
            if sign:
                text = "\n".join(["AWS4-HMAC-SHA256-TRAILER", time, scope, previous, hashlib.sha256(lines.encode()).hexdigest()])
                body += f"x-amz-trailer-signature:{hexhmac(key, text).hex()}\r\n".encode()
        body += behind.encode() + b"\r\n"
        return self.send("PUT", path, None, sent, lie(body) if lie else body)


def refusals_of(s3, operation, mend):
    """The (code, status) of each refusal of a call by this boto3 client, as a list that grows. `mend` is called after each, before boto3 asks
    again."""
    refusals = []

    def answered(response, **_):
        http, parsed = response or (None, {})
        if "Error" in parsed:
            refusals.append((parsed["Error"]["Code"], http.status_code))
            mend()

    s3.meta.events.register_first(f"needs-retry.s3.{operation}", answered)
    return refusals


def now(offset_s=0):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=offset_s)).strftime("%Y%m%dT%H%M%SZ")


def crc_table(polynomial):
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (polynomial if byte & 1 else 0)
        table.append(byte)
    return table


CRCS = {"crc32": (0xEDB88320, 32), "crc32c": (0x82F63B78, 32), "crc64nvme": (0x9A6C9329AC4BC9B5, 64)}


def checksum(name, data):
    """As x-amz-checksum-NAME has it."""
    if name in CRCS:
        polynomial, bits = CRCS[name]
        table, crc = crc_table(polynomial), (1 << bits) - 1
        for byte in data:
            crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
        raw = (crc ^ (1 << bits) - 1).to_bytes(bits // 8, "big")
    else:
        raw = hashlib.new(name, data).digest()
    return base64.b64encode(raw).decode()
