"""An event stream on bare ASGI: one writer, one watch on the caller, and an end that comes at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any

from controlplane.delivery.hub import HEARTBEAT
from controlplane.edge.http import GUARDS, Receive, Send

_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
        *GUARDS.items(),
    ],
}
_END = {"type": "http.response.body", "body": b"", "more_body": False}
GIVE_UP_S = 0.2


async def begin(send: Send) -> None:
    """The response's head."""
    await send(_START)
    await write(send, HEARTBEAT)


async def write(send: Send, data: bytes) -> None:
    """A part of the stream."""
    await send({"type": "http.response.body", "body": data, "more_body": True})


class Life:
    """How long a stream lasts: until its writer ends, its caller goes, or somebody ends it."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()

    def end(self) -> None:
        """End it, though its caller may not be reading."""
        self._ended.set()

    async def run(self, writer: Coroutine[Any, Any, None], receive: Receive, send: Send) -> None:
        """Let it live."""
        parts = [asyncio.ensure_future(each) for each in (writer, _gone(receive), self._ended.wait())]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            outcome, *_ = await asyncio.gather(*parts, return_exceptions=True)
        if isinstance(outcome, Exception):
            raise outcome
        await _finish(send)


async def _finish(send: Send) -> None:
    """The last part; a caller that does not read is not waited for."""
    ending: Awaitable[None] = send(_END)
    try:
        await asyncio.wait_for(ending, GIVE_UP_S)
    except (TimeoutError, OSError):
        return


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
