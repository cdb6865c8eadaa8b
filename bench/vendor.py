"""A vendor that answers 200 to everything and remembers when each path was first connected to."""

from __future__ import annotations

import asyncio
import threading
import time

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


class Vendor:
    """One event loop on a thread of its own; `seen` is path to the moment its connection stood, POSIX seconds."""

    def __init__(self) -> None:
        self.seen: dict[str, float] = {}
        self.port = 0
        self._ready = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()
        self._ready.wait(10)

    def url(self, path: str) -> str:
        """Where a path is asked for."""
        return f"http://127.0.0.1:{self.port}/{path}"

    def wait_for(self, paths: list[str], within_s: float) -> None:
        """Until each was asked for."""
        deadline = time.monotonic() + within_s
        while any(path not in self.seen for path in paths):
            if time.monotonic() > deadline:
                missing = sum(path not in self.seen for path in paths)
                raise TimeoutError(f"{missing} of {len(paths)} were never asked for")
            time.sleep(0.05)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, backlog=2048)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stood_at = time.time()
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            writer.close()  # the caller gave up before it had sent anything
            return
        self.seen.setdefault(head.split(b" ", 2)[1].decode().lstrip("/"), stood_at)
        writer.write(ANSWER)
        await writer.drain()
        writer.close()
