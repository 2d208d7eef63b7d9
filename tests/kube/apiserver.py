"""A client of an API server for the simulated kubelet: a few connections that stay, requests counted, lists that are watched. asyncio alone."""
import asyncio
import collections
import json
import ssl
import urllib.parse

MERGE = "application/merge-patch+json"
RETRIES, RETRY_S = 5, 0.5  # of what the server could not do just now


class Refused(Exception):
    """The server's answer was no success; `reason` and `message` are its Status'."""

    def __init__(self, code, status):
        self.code, self.reason, self.message = code, status.get("reason", ""), status.get("message", "")
        super().__init__(f"{code} {self.reason}: {self.message}")


class Lost(Exception):
    """The connection ended before its answer."""


async def read_head(reader):
    """-> (first line, headers in lower case)."""
    try:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError) as end:
        raise Lost(str(end)) from None
    return lines[0], {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines[1:] if line)}


async def read_chunks(reader):
    """The pieces of a chunked body."""
    while True:
        try:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            piece = (await reader.readexactly(size + 2))[:-2]
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError) as end:
            raise Lost(str(end)) from None
        if not size:
            return
        yield piece


async def read_body(reader, headers):
    if headers.get("transfer-encoding") == "chunked":
        return b"".join([piece async for piece in read_chunks(reader)])
    try:
        return await reader.readexactly(int(headers.get("content-length", 0)))
    except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError) as end:
        raise Lost(str(end)) from None


def query(path, **words):
    return path + "?" + urllib.parse.urlencode(words)


class Api:
    """Not thread-safe: all of it belongs to one loop. `requests` counts by (method, resource, subresource)."""

    def __init__(self, endpoint, token, ca, connections=8):
        self.host, self.port = urllib.parse.urlsplit(endpoint).hostname, urllib.parse.urlsplit(endpoint).port
        self.token = token
        self.context = ssl.create_default_context(cafile=str(ca)) if endpoint.startswith("https:") else None
        self.idle = []
        self.free = asyncio.Semaphore(connections)
        self.requests = collections.Counter()

    async def connect(self):
        try:
            return await asyncio.open_connection(self.host, self.port, ssl=self.context, limit=1 << 24)
        except (OSError, ssl.SSLError) as end:
            raise Lost(str(end)) from None

    def send(self, writer, method, path, body, content_type):
        data = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        head = (f"{method} {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nAuthorization: Bearer {self.token}\r\nAccept: application/json\r\n"
                f"User-Agent: simulated-kubelet\r\nContent-Type: {content_type}\r\nContent-Length: {len(data)}\r\n\r\n")
        writer.write(head.encode() + data)

    async def exchange(self, connection, method, path, body, content_type):
        reader, writer = connection
        self.send(writer, method, path, body, content_type)
        first, headers = await read_head(reader)
        data = await read_body(reader, headers)
        return int(first.split(" ", 2)[1]), json.loads(data) if data else {}

    def count(self, method, path):
        words = urllib.parse.urlsplit(path).path.split("/")
        words = words[3 if words[1] == "api" else 4:]
        if words[0] == "namespaces" and len(words) > 2:
            words = words[2:]
        self.requests[method, words[0], "/".join(words[2:])] += 1

    async def request(self, method, path, body=None, content_type="application/json"):
        """The JSON of the answer. Refused; Lost when the server is away. Retries server errors (5xx), except for POST, as of an etcd that was too slow."""
        async with self.free:
            self.count(method, path)
            tries = 0
            while True:
                reused = bool(self.idle)
                connection = self.idle.pop() if reused else await self.connect()
                try:
                    code, answer = await self.exchange(connection, method, path, body, content_type)
                except Lost:
                    connection[1].close()
                    if reused:  # it had been closed meanwhile
                        continue
                    raise
                except BaseException:
                    connection[1].close()
                    raise
                self.idle.append(connection)
                if code < 500 or method == "POST" or tries == RETRIES:
                    break
                tries += 1
                await asyncio.sleep(RETRY_S)
        if code >= 400:
            raise Refused(code, answer)
        return answer

    async def get(self, path):
        return await self.request("GET", path)

    async def patch(self, path, body):
        return await self.request("PATCH", path, body, MERGE)

    async def put_there(self, collection, body):
        """Creates it, or replaces what it says by merging."""
        try:
            return await self.request("POST", collection, body)
        except Refused as refusal:
            if refusal.reason != "AlreadyExists":
                raise
            return await self.patch(f"{collection}/{body['metadata']['name']}", body)

    async def frames(self, path):
        """Objects of a watch, as it brings them: {"type", "object"}."""
        reader, writer = await self.connect()
        try:
            self.send(writer, "GET", path, None, "application/json")
            first, headers = await read_head(reader)
            code = int(first.split(" ", 2)[1])
            if code != 200:
                raise Refused(code, json.loads(await read_body(reader, headers) or b"{}"))
            rest = b""
            async for piece in read_chunks(reader):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield json.loads(line)
        finally:
            writer.close()

    async def list(self, collection):
        """-> ({(namespace, name): object}, the version to watch from), asked for in pages."""
        found, rest = {}, ""
        while True:
            listed = await self.get(query(collection, limit=1000, **({"continue": rest} if rest else {})))
            found.update({(item["metadata"].get("namespace"), item["metadata"]["name"]): item for item in listed["items"]})
            rest = listed["metadata"].get("continue")
            if not rest:
                return found, listed["metadata"]["resourceVersion"]

    async def follow(self, collection, on_change):
        """Lists and watches until it is cancelled: on_change("ADDED" | "MODIFIED" | "DELETED", object)."""
        known = {}
        while True:
            try:
                now, version = await self.list(collection)
                for key in [key for key in known if key not in now]:
                    on_change("DELETED", known.pop(key))
                for key, item in now.items():
                    on_change("MODIFIED" if key in known else "ADDED", item)
                known = now
                await self.watch(collection, version, known, on_change)
            except (Lost, Refused):
                await asyncio.sleep(0.2)

    async def watch(self, collection, version, known, on_change):
        while True:
            path = query(collection, watch=1, resourceVersion=version, allowWatchBookmarks="true", timeoutSeconds=300)
            async for frame in self.frames(path):
                item = frame["object"]
                if frame["type"] == "ERROR":
                    return
                version = item["metadata"]["resourceVersion"]
                if frame["type"] == "BOOKMARK":
                    continue
                key = item["metadata"].get("namespace"), item["metadata"]["name"]
                if frame["type"] == "DELETED":
                    known.pop(key, None)
                else:
                    known[key] = item
                on_change(frame["type"], item)

    def close(self):
        while self.idle:
            self.idle.pop()[1].close()
