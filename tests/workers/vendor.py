"""A real HTTP server on loopback that does to its callers what vendors do: every path is a fault of its own."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

Answer = Callable[["Seen", asyncio.StreamWriter], Coroutine[None, None, None]]


@dataclass
class Seen:
    """One request as it came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


def reply(status: int, body: bytes | str = b"", **headers: str) -> Answer:
    """An ordinary answer; `Retry_After="2"` becomes Retry-After."""
    packed = body.encode() if isinstance(body, str) else body

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(packed)}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in named.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if seen.method == "HEAD" else packed))
        await writer.drain()

    return answer


async def hang(seen: Seen, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def drip(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.05)


async def reset(seen: Seen, writer: asyncio.StreamWriter) -> None:
    plug = writer.get_extra_info("socket")
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def cut(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf an ans")
    await writer.drain()


async def nonsense(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\x01SSH-2.0-OpenSSH\r\n\r\n")
    await writer.drain()


async def endless(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"results " * 8000)
        await writer.drain()


async def echo(seen: Seen, writer: asyncio.StreamWriter) -> None:
    await reply(200, json.dumps({"headers": seen.headers, "body": seen.body.decode()}))(seen, writer)


def bomb() -> bytes:
    """100 MiB that weigh 100 KiB."""
    return gzip.compress(b"results " + b"\0" * 100 * 1024 * 1024, 9)


ROUTES: dict[str, Answer] = {
    "/ok": reply(200, '{"results": [{"ok": true, "n": 3}], "note": "results"}'),
    "/bad": reply(400, "what?"),
    "/down": reply(503, "gone", Retry_After="7"),
    "/later": reply(503, "", Date="Mon, 01 Jun 2026 12:00:00 GMT", Retry_After="Mon, 01 Jun 2026 12:01:30 GMT"),
    "/gzip": reply(200, gzip.compress(b"the results are here"), Content_Encoding="gzip"),
    "/brotli": reply(200, b"\x0b\x02\x80abc\x03", Content_Encoding="br"),
    "/suspended": reply(200, "your account is suspended"),
    "/moved": reply(302, "", Location="/suspended"),
    "/circle": reply(302, "", Location="/circle"),
    "/inside": reply(302, "", Location="http://169.254.169.254/latest/meta-data/"),
    "/file": reply(302, "", Location="file:///etc/passwd"),
    "/hang": hang,
    "/drip": drip,
    "/reset": reset,
    "/cut": cut,
    "/nonsense": nonsense,
    "/endless": endless,
    "/echo": echo,
}


@dataclass
class Vendor:
    """The server, its routes (open to change while it runs) and all that it saw."""

    routes: dict[str, Answer] = field(default_factory=lambda: dict(ROUTES))
    seen: list[Seen] = field(default_factory=list)
    tls: ssl.SSLContext | None = None
    port: int = 0

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def count(self, path: str) -> int:
        return sum(each.path.partition("?")[0] == path for each in self.seen)

    def __enter__(self) -> Vendor:
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _serve(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._connected, "127.0.0.1", self.port, ssl=self.tls, limit=2**20)
        )
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()
        server.close()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            seen = await _read(reader)
            self.seen.append(seen)
            await self.routes.get(seen.path.partition("?")[0], reply(404))(seen, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    headers = {name.casefold(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return Seen(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))
