"""The port of a kubelet at which the API server reads what containers print: /containerLogs/NAMESPACE/POD/CONTAINER?follow&timestamps&tailLines&…"""
import asyncio
import contextlib
import datetime
import ssl
import subprocess
import urllib.parse

import apiserver


def moment(text):
    """RFC 3339, of up to nine digits."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.datetime.fromisoformat(whole + "+00:00").timestamp(), fraction.ljust(9, "0")


class Selection:
    """Which of the lines are asked for, and how they are shown."""

    def __init__(self, query):
        self.follow, self.timestamps = query.get("follow") == "true", query.get("timestamps") == "true"
        self.tail = int(query["tailLines"]) if "tailLines" in query else None
        self.left = int(query["limitBytes"]) if "limitBytes" in query else None
        self.since = moment(query["sinceTime"]) if "sinceTime" in query else None
        if "sinceSeconds" in query:
            since = datetime.datetime.now(datetime.timezone.utc).timestamp() - int(query["sinceSeconds"])
            self.since = int(since), "0" * 9
        self.midway = False  # of a line in parts

    def show(self, line):
        when, _, flag, text = line.split(b" ", 3)
        if self.since and moment(when.decode()) < self.since:
            return b""
        shown = (when + b" " if self.timestamps and not self.midway else b"") + text + (b"\n" if flag == b"F" else b"")
        self.midway = flag == b"P"
        if self.left is not None:
            shown, self.left = shown[:self.left], max(0, self.left - len(shown))
        return shown


def certificate(folder):
    """A self-signed pair."""
    crt, key = folder / "kubelet.crt", folder / "kubelet.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", crt, "-subj", "/CN=kubelet", "-days", "30"],
                   check=True, capture_output=True)
    return crt, key


class Server:
    def __init__(self, kubelet):
        self.kubelet = kubelet
        self.server = None
        self.serving = set()  # tasks

    async def start(self):
        """The port."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate(self.kubelet.folder))
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=context)
        return self.server.sockets[0].getsockname()[1]

    async def stop(self):
        self.server.close()
        for task in self.serving:
            task.cancel()
        await asyncio.gather(*self.serving, return_exceptions=True)
        await self.server.wait_closed()

    async def serve(self, reader, writer):
        task = asyncio.current_task()
        self.serving.add(task)
        task.add_done_callback(self.serving.discard)
        with contextlib.suppress(apiserver.Lost, ConnectionError, ssl.SSLError):
            while True:
                first, headers = await apiserver.read_head(reader)
                await apiserver.read_body(reader, headers)
                await self.answer(first.split(" ")[1], writer)
        writer.close()

    async def answer(self, target, writer):
        path = urllib.parse.urlsplit(target)
        words = path.path.strip("/").split("/")
        worker = next((one for one in self.kubelet.workers.values() if words[:1] == ["containerLogs"] and words[1:3] == [one.namespace, one.name]), None)
        if worker is None or not worker.node.up:
            return refuse(writer, 404, f'pod "{"/".join(words[1:3])}" not found')
        process = worker.processes.get(words[3])
        if process is None or process.process is None:
            return refuse(writer, 400, f'container "{words[3]}" in pod "{worker.name}" is waiting to start: {worker.why_waits(words[3])}')
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        async for piece in read_log(process, Selection(dict(urllib.parse.parse_qsl(path.query)))):
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        return await writer.drain()


def refuse(writer, code, text):
    body = text.encode()
    writer.write(f"HTTP/1.1 {code} Refused\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


async def read_log(process, selection):
    """What is asked for, as it comes."""
    at, rest, first = 0, b"", True
    while True:
        ended = process.ended
        data = b""
        if process.log.exists():
            with open(process.log, "rb") as log:
                log.seek(at)
                data = log.read()
        at += len(data)
        *lines, rest = (rest + data).split(b"\n")
        if first and selection.tail is not None:
            lines = lines[-selection.tail:] if selection.tail else []
        first = False
        shown = b"".join(selection.show(line) for line in lines)
        if shown:
            yield shown
        if ended or not selection.follow or selection.left == 0:
            return
        async with process.more:
            if not process.ended and (process.log.stat().st_size if process.log.exists() else 0) == at:
                await process.more.wait()
