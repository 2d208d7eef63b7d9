"""Between a client and an API server, told when each pod's POST came from the client: what the server's own clock says of it has the server's wait for a
processor in it, and here both share two."""
import asyncio
import re
import ssl
import threading
import time

POST = re.compile(rb"POST /api/v1/namespaces/[^/ ]+/pods[? ]")
NAME = re.compile(rb'"metadata":\s*\{[^{}]*?"name":\s*"([^"]+)"')
PIECE = 1 << 16


class Relay:
    """with Relay(host, port, ca) as r: … r.url, a plain one; r.posted: {pod's name: seconds since 1970}."""

    def __init__(self, host, port, ca):
        self.server = (host, port)
        self.context = ssl.create_default_context(cafile=ca)
        self.posted = {}
        self.loop = asyncio.new_event_loop()
        self.up = threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        self.up.wait()
        return self

    def __exit__(self, *_):
        asyncio.run_coroutine_threadsafe(self.stop(), self.loop)
        self.thread.join()

    async def stop(self):
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.loop.stop()

    def run(self):
        asyncio.set_event_loop(self.loop)
        listener = self.loop.run_until_complete(asyncio.start_server(self.serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        self.up.set()
        self.loop.run_forever()

    async def serve(self, reader, writer):
        try:
            behind = await asyncio.open_connection(*self.server, ssl=self.context)
            await asyncio.gather(self.requests(reader, behind[1]), self.answers(behind[0], writer))
        except (OSError, asyncio.CancelledError):
            writer.close()

    async def requests(self, reader, writer):
        began, text = None, b""
        while piece := await reader.read(PIECE):
            now = time.time()
            if POST.match(piece):
                began, text = now, b""
            writer.write(piece)
            if began:
                text += piece
                if name := NAME.search(text):
                    self.posted.setdefault(name[1].decode(), began)
                    began = None
            await writer.drain()
        writer.close()

    @staticmethod
    async def answers(reader, writer):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
        writer.close()
