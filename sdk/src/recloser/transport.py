"""The only module that talks: short requests on a kept-alive connection, and one stream read without blocking.

Used by the client's own thread alone; nothing here is shared between threads. HTTP and TLS are loaded when the first
`Transport` is made and not when the SDK is imported; but then at once and in the caller's thread, because a process
that forks while another thread is importing leaves its child with a module that nobody finishes.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from recloser.errors import BadAddress, Refused, Unreachable

if TYPE_CHECKING:
    import http.client
    import socket
    import ssl

PREFIX = "/agent/v1"
MAX_BYTES = 16 * 1024 * 1024
MAX_EVENT_BYTES = 4 * 1024 * 1024
STREAM_SILENCE_S = 25.0
GZIP_FROM_BYTES = 1024


class Answer:
    """A status under 400, headers in lower case and the unpacked body."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def etag(self) -> str | None:
        """The tag to ask with the next time."""
        return self.headers.get("etag")


class Transport:
    """Requests to one control plane with one key.

    Raises `BadAddress` on a url that is not http(s) with a host; nothing is contacted until the first request. The
    usual variables (HTTPS_PROXY, HTTP_PROXY, NO_PROXY; SSL_CERT_FILE, SSL_CERT_DIR) are honoured.
    """

    def __init__(self, url: str, key: str, *, timeout_s: float = 5.0, user_agent: str = "recloser") -> None:
        import http.client

        self._host, self._port, self._base, self._tls = _address(url)
        "".encode("idna")  # a module, too, that is otherwise loaded by the first look-up of a name
        self._lost = (OSError, http.client.HTTPException)
        self._proxy = _proxy(self._host, self._port, self._tls)
        if self._proxy is not None and not self._tls:
            self._base = f"http://{_authority(self._host, self._port)}{self._base}"
        self._context: ssl.SSLContext | None = None
        if self._tls:
            import ssl

            self._context = ssl.create_default_context()
        self._timeout_s = self._wait_s = timeout_s
        self._headers = {"Authorization": f"Bearer {_header_safe(key)}", "User-Agent": user_agent}
        if self._proxy is not None and not self._tls:
            self._headers |= self._proxy.headers
        self._kept: http.client.HTTPConnection | None = None

    def get(self, path: str, *, etag: str | None = None) -> Answer:
        """GET a document; 304 comes back as an `Answer` of that status."""
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
        if etag:
            headers["If-None-Match"] = etag
        return self._ask("GET", path, None, headers)

    def post(self, path: str, body: Any, *, compress: bool = True) -> Answer:
        """POST JSON, gzipped when that is worth it."""
        data = encode(body)
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if compress and len(data) >= GZIP_FROM_BYTES:
            packer = zlib.compressobj(5, wbits=31)
            data = packer.compress(data) + packer.flush()
            headers["Content-Encoding"] = "gzip"
        return self._ask("POST", path, data, headers)

    def stream(self, path: str) -> Stream:
        """Ask for the event stream; its answer is read bit by bit through `Stream.events`."""
        connection = self._connection()
        try:
            connection.request("GET", self._base + path, headers={**self._headers, "Accept": "text/event-stream"})
        except self._lost as problem:
            connection.close()
            raise Unreachable(_said(problem)) from problem
        sock: socket.socket = connection.sock
        sock.setblocking(False)
        return Stream(sock)

    def within(self, seconds: float) -> None:
        """From now on no single wait on the line may last longer than this, nor than the usual time limit."""
        self._wait_s = max(0.001, min(self._timeout_s, seconds))
        if self._kept is not None and self._kept.sock is not None:
            self._kept.sock.settimeout(self._wait_s)

    def close(self) -> None:
        """Close the kept connection; the next request opens a new one."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def abandon(self) -> None:
        """In a forked child: close our copy of the parent's socket, and nothing else.

        A thread that was reading at the fork holds the reader's lock for ever: keep it from its finalizer.
        """
        kept, self._kept = self._kept, None
        if kept is not None:
            _abandoned.append(kept)
            _hang_up(kept.sock)

    def _ask(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> Answer:
        """One exchange. A kept connection that the server has closed meanwhile is replaced once."""
        reused = self._kept is not None
        try:
            return self._exchange(method, path, data, headers)
        except TimeoutError as problem:
            self.close()
            raise Unreachable(_said(problem)) from problem
        except self._lost as problem:
            self.close()
            if not reused:
                raise Unreachable(_said(problem)) from problem
        return self._ask(method, path, data, headers)

    def _exchange(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> Answer:
        if self._kept is None:
            self._kept = self._connection()
        self._kept.request(method, self._base + path, body=data, headers={**self._headers, **headers})
        response = self._kept.getresponse()
        body = response.read(MAX_BYTES + 1)
        if response.length:
            raise ConnectionError("the answer was cut off")
        if response.will_close or not response.isclosed():
            self.close()
        named = {name.lower(): value for name, value in response.getheaders()}
        return _judged(response.status, named, body)

    def _connection(self) -> http.client.HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection

        proxy = self._proxy
        host, port = (self._host, self._port) if proxy is None else (proxy.host, proxy.port)
        if not self._tls:
            return HTTPConnection(host, port, timeout=self._wait_s)
        connection = HTTPSConnection(host, port, timeout=self._wait_s, context=self._context)
        if proxy is not None:
            connection.set_tunnel(self._host, self._port, headers=dict(proxy.headers))
        return connection


class Stream:
    """A server-sent event stream on a socket that never blocks; `events` yields what has arrived, whole events only."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._head = bytearray()
        self._body: _Chunked | _Plain | None = None
        self._text = bytearray()

    def fileno(self) -> int:
        """For waiting on it."""
        return self._sock.fileno()

    @property
    def started(self) -> bool:
        """The server has answered with a stream."""
        return self._body is not None

    def events(self) -> Iterator[tuple[str, str]]:
        """Yield (event, data) for all that can be read now; ("", "") for a comment.

        Raises `Unreachable` when the stream ended or is no event stream, `Refused` when the server said no.
        """
        while (data := self._read()) is not None:
            for part in self._payload(data):
                self._text += part
                if len(self._text) > MAX_EVENT_BYTES:
                    raise Unreachable("an event of the stream is too large")
            yield from self._whole_events()
            if not data:
                raise Unreachable("the stream ended")

    def close(self) -> None:
        """Hang up."""
        self._sock.close()

    def abandon(self) -> None:
        """In a forked child: close our copy of the parent's socket."""
        _abandoned.append(self)
        _hang_up(self._sock)

    def _read(self) -> bytes | None:
        """Bytes, b"" at the end, None when nothing is there now."""
        try:
            return self._sock.recv(65536)
        except BlockingIOError:
            return None
        except (OSError, ValueError) as problem:
            if type(problem).__name__ in ("SSLWantReadError", "SSLWantWriteError"):
                return None
            raise Unreachable(_said(problem)) from problem

    def _payload(self, data: bytes) -> Iterator[bytes]:
        if self._body is None:
            self._head += data
            if len(self._head) > 65536:
                raise Unreachable("the stream's headers are too large")
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            head, data = bytes(self._head[: end + 4]), bytes(self._head[end + 4 :])
            self._body = _stream_body(head, data)
        yield from self._body.feed(data)

    def _whole_events(self) -> Iterator[tuple[str, str]]:
        while True:
            text = self._text.replace(b"\r\n", b"\n") if b"\r" in self._text else self._text
            end = text.find(b"\n\n")
            if end < 0:
                return
            block, self._text = bytes(text[:end]), bytearray(text[end + 2 :])
            yield _event(block.decode("utf-8", "replace"))


_abandoned: list[object] = []


def _hang_up(sock: socket.socket | None) -> None:
    if sock is not None:
        with contextlib.suppress(OSError):
            os.close(sock.detach())


class _Plain:
    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data


class _Chunked:
    """Chunked transfer coding, fed in any cut."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._left = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._held += data
        while self._held:
            if self._left == 0 and not self._next_size():
                return
            take = min(self._left, len(self._held))
            yield bytes(self._held[: max(0, min(take, self._left - 2))])
            del self._held[:take]
            self._left -= take
            if self._left and not self._held:
                return

    def _next_size(self) -> bool:
        end = self._held.find(b"\r\n")
        if end < 0:
            return False
        try:
            size = int(bytes(self._held[:end]).split(b";")[0].strip(), 16)
        except ValueError as problem:
            raise Unreachable("the stream's framing is broken") from problem
        if size == 0:
            raise Unreachable("the stream ended")
        del self._held[: end + 2]
        self._left = size + 2
        return True


def encode(body: Any) -> bytes:
    """JSON in UTF-8, strict: what is not JSON raises here and not at the other end."""
    return json.dumps(body, allow_nan=False, separators=(",", ":")).encode("ascii")


def decode(body: bytes) -> Any:
    """JSON as the protocol allows it; raises `ValueError` on anything else, NaN included."""
    return json.loads(body.decode("utf-8"), parse_constant=_no_constant)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def public_address(url: str) -> str:
    """Where the agent's routes are, as people may read it: no password in it."""
    host, port, base, tls = _address(url)
    name = f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{name}{'' if port is None else f':{port}'}{base}"


def _plain(url: str) -> str:
    """An address that cannot be used, without what may be a password in it."""
    return re.sub(r"//[^/]*@", "//", url)[:200]


def _address(url: str) -> tuple[str, int | None, str, bool]:
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as problem:
        raise BadAddress(f"{_plain(url)!r} is no address") from problem
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadAddress(f"{_plain(url)!r} must begin with http:// or https:// and name a host")
    return parts.hostname, port, parts.path.rstrip("/") + PREFIX, parts.scheme == "https"


class _Proxy:
    """Where requests go first, and what it is told of us."""

    __slots__ = ("headers", "host", "port")

    def __init__(self, host: str, port: int, headers: Mapping[str, str]) -> None:
        self.host = host
        self.port = port
        self.headers = headers


def _proxy(host: str, port: int | None, tls: bool) -> _Proxy | None:
    """The proxy that the environment names for this address; None for none. An unusable one is an error, said once."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib import request

    named = request.getproxies_environment()
    url = named.get("https" if tls else "http")
    if not url or request.proxy_bypass_environment(_authority(host, port), named):  # type: ignore[attr-defined]
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        at = parts.port or 80
    except ValueError as problem:
        raise BadAddress("the proxy that the environment names has no usable address") from problem
    if parts.scheme != "http" or not parts.hostname:
        raise BadAddress(f"the proxy that the environment names must be http://host:port, not {parts.scheme}")
    return _Proxy(parts.hostname, at, _proxy_headers(parts.username, parts.password))


def _proxy_headers(user: str | None, password: str | None) -> dict[str, str]:
    if user is None:
        return {}
    from base64 import b64encode

    both = f"{unquote(user)}:{unquote(password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {b64encode(both).decode('ascii')}"}


def _authority(host: str, port: int | None) -> str:
    name = f"[{host}]" if ":" in host else host
    return name if port is None else f"{name}:{port}"


def _header_safe(key: str) -> str:
    if not key.isascii() or not key.isprintable():
        raise BadAddress("the key holds characters that no key has")
    return key.strip()


def _judged(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """The answer, unpacked; raises `Refused` for what is not a success and `Unreachable` for what is not ours."""
    if len(body) > MAX_BYTES:
        raise Unreachable("the answer is too large")
    if status >= 300 and status != 304:
        raise _refusal(status, headers, body)
    if headers.get("content-encoding", "").lower() == "gzip" and body:
        body = _unpacked(body)
    return Answer(status, headers, body)


def _unpacked(body: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        data = unpacker.decompress(body, MAX_BYTES)
    except zlib.error as problem:
        raise Unreachable("the answer's compression is broken") from problem
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise Unreachable("the answer is too large or cut off")
    return data


def _refusal(status: int, headers: Mapping[str, str], body: bytes) -> Refused:
    from http.client import responses

    code, message, field = "", responses.get(status, "refused"), None
    try:
        error = decode(body)["error"]
        code, message = str(error["code"])[:64], str(error["message"])[:300]
        field = None if error.get("field") is None else str(error["field"])[:200]
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    return Refused(status, code, message, field=field, retry_after_s=_seconds(headers.get("retry-after")))


def _seconds(text: str | None) -> float | None:
    """Retry-After in seconds, at most an hour; its date form is ignored (no wall clock is compared)."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return min(value, 3600.0) if math.isfinite(value) and value >= 0 else None


def _stream_body(head: bytes, rest: bytes) -> _Chunked | _Plain:
    line, *fields = head.decode("latin-1").split("\r\n")
    try:
        status = int(line.split()[1])
    except (ValueError, IndexError) as problem:
        raise Unreachable("the stream's answer is not HTTP") from problem
    parted = (field.partition(":") for field in fields if field)
    headers = {name.strip().lower(): value.strip() for name, _, value in parted}
    if status != 200:
        raise _refusal(status, headers, rest)
    if not headers.get("content-type", "").lower().startswith("text/event-stream"):
        raise Unreachable("the answer is no event stream")
    return _Chunked() if "chunked" in headers.get("transfer-encoding", "").lower() else _Plain()


def _event(block: str) -> tuple[str, str]:
    """(event, data) of one block; ("", "") where it holds no data."""
    name, data = "", []
    for line in block.split("\n"):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
    return (name or "message", "\n".join(data)) if data else ("", "")


def _said(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {problem}"[:200]
