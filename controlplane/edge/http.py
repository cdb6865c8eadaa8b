"""The little of HTTP that the hot routes need, on bare ASGI."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

import msgspec

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = dict[bytes, bytes]

MOST_SENT = 1024 * 1024
MOST_UNPACKED = 4 * 1024 * 1024
MOST_MEMBERS = 16
"""Of a gzip: nobody sends that many, and each costs a turn."""

GUARDS: Headers = {
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"same-origin",
    b"x-content-type-options": b"nosniff",
}
"""On streams and refusals, to which a browser may be led; what agents are answered goes without."""


class Problem(Exception):
    """An answer other than success, in the one shape that all errors have."""

    def __init__(
        self, status: int, code: str, message: str, mend: str, *, field: str | None = None, retry_after_s: int = 0
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s
        self.error = {"code": code, "field": field, "message": message, "mend": mend}


class Disconnected(Exception):
    """The caller went away while it was still sending."""


def unavailable(retry_after_s: int = 2) -> Problem:
    """Postgres is away, or too many wait for it."""
    return Problem(
        503,
        "unavailable",
        "the database cannot be reached, or too many requests wait for it",
        "keep merging and send again after Retry-After",
        retry_after_s=retry_after_s,
    )


def too_large() -> Problem:
    """More than a batch may hold."""
    return Problem(413, "too_large", "over 1 MiB as sent or 4 MiB unpacked", "split the batch")


def headers_of(scope: Scope) -> Headers:
    """The request's headers, names in lower case."""
    return dict(scope["headers"])


def asked_once(scope: Scope, name: str) -> str:
    """What the query says of this name; empty where it says nothing, or several things."""
    try:
        given = parse_qs(scope.get("query_string", b"").decode("latin-1"), max_num_fields=8).get(name, [])
    except ValueError:
        return ""
    return given[0] if len(given) == 1 else ""


async def body_of(receive: Receive, headers: Headers) -> bytes:
    """The whole body, unpacked; never more than the limits, however it is packed."""
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding not in (b"identity", b"gzip", b""):
        raise Problem(415, "bad_encoding", "this Content-Encoding is not understood", "use identity or gzip")
    sent = await _sent(receive, headers)
    return unpacked(sent) if encoding == b"gzip" else sent


async def _sent(receive: Receive, headers: Headers) -> bytes:
    declared = headers.get(b"content-length", b"0")
    if declared.isdigit() and int(declared[:12]) > MOST_SENT:
        raise too_large()
    parts = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        parts += message.get("body", b"")
        if len(parts) > MOST_SENT:
            raise too_large()
        more = message.get("more_body", False)
    return bytes(parts)


def unpacked(packed: bytes) -> bytes:
    """The content of a gzip, which may have several members; a bomb is stopped at the limit."""
    content = bytearray()
    for _ in range(MOST_MEMBERS):
        member = zlib.decompressobj(wbits=31)
        try:
            content += member.decompress(packed, MOST_UNPACKED + 1 - len(content))
        except zlib.error:
            raise _broken_gzip() from None
        if len(content) > MOST_UNPACKED:
            raise too_large()
        if not member.eof:
            raise _broken_gzip()
        packed = member.unused_data
        if not packed:
            return bytes(content)
    raise Problem(400, "bad_encoding", "the gzip has too many members", f"send one; {MOST_MEMBERS} are the most")


def _broken_gzip() -> Problem:
    return Problem(400, "bad_encoding", "the body is no whole gzip", "send a complete gzip, or none")


async def answer(
    send: Send, status: int, body: bytes = b"", headers: Headers | None = None, *, kind: bytes = b"application/json"
) -> None:
    """A whole response."""
    named = {b"cache-control": b"no-store", b"content-type": kind, b"content-length": str(len(body)).encode()}
    named |= headers or {}
    await send({"type": "http.response.start", "status": status, "headers": list(named.items())})
    await send({"type": "http.response.body", "body": body})


async def not_modified(send: Send, etag: str) -> None:
    """What most polls are answered: the fewest steps."""
    head = [(b"cache-control", b"no-store"), (b"etag", etag.encode())]
    await send({"type": "http.response.start", "status": 304, "headers": head})
    await send({"type": "http.response.body", "body": b""})


async def refuse(send: Send, problem: Problem) -> None:
    """A problem as a response."""
    headers = dict(GUARDS)
    if problem.retry_after_s:
        headers[b"retry-after"] = str(problem.retry_after_s).encode()
    if problem.status == 401:
        headers[b"www-authenticate"] = b"Bearer"
    await answer(send, problem.status, msgspec.json.encode({"error": problem.error}), headers)
