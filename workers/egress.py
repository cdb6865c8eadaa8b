"""Connections to the very address the guard has checked; Host header, TLS name and authority stay the name's.

Where the installation has an egress proxy, it is the proxy that connects: CONNECT, with the checked address.
"""

import base64
import functools
import ssl
import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote, urlsplit

import certifi
import httpcore
import httpx

from controlplane import egress

BODY_CAP = 256 * 1024
LONGEST_PROXY_ANSWER = 8 * 1024
UPSTREAM_DOWN = frozenset({502, 503, 504})
"""What a proxy answers when it could not reach the target; anything else is its own doing."""


class Proxy:
    """The proxy that everything goes out through, as `http://user:password@proxy.example.com:3128`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.tls = parts.hostname or "", parts.scheme == "https"
        self.port = parts.port or (443 if self.tls else 80)
        self._credentials = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}" if parts.username else ""

    def request(self, address: str, port: int) -> bytes:
        """What is said to it: a checked address, never a name that it would look up itself."""
        target = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if self._credentials:
            lines.append(f"Proxy-Authorization: Basic {base64.b64encode(self._credentials.encode()).decode()}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """The one way out. Resolves and checks at each connection; remembers when the first one stood, for lateness."""

    def __init__(
        self,
        networks: tuple[egress.Network, ...],
        resolve: egress.Resolver = egress.look_up,
        proxy: str = "",
    ) -> None:
        self._networks, self._resolve = networks, resolve
        self._inner = httpcore.AnyIOBackend()
        self.proxy = Proxy(proxy) if proxy else None
        self.first_connected_at: float | None = None

    async def addresses(self, host: str, port: int) -> list[str]:
        """The checked addresses of a host, for those who must connect by themselves."""
        return await egress.resolve_allowed(host, port, networks=self._networks, resolve=self._resolve)

    def connected(self) -> None:
        """A connection stands."""
        self.first_connected_at = self.first_connected_at or time.monotonic()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Try the checked addresses in turn."""
        refused: Exception = httpcore.ConnectError("no address")
        for address in await self.addresses(host, port):
            try:
                stream = await self._connect(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                refused = error
            else:
                self.connected()
                return stream
        raise refused

    async def _connect(
        self, address: str, port: int, timeout: float | None, local: str | None, options: Iterable[Any] | None
    ) -> httpcore.AsyncNetworkStream:
        if self.proxy is None:
            return await self._inner.connect_tcp(address, port, timeout, local, options)
        try:
            stream = await self._to_proxy(self.proxy, timeout)
        except (httpcore.ConnectError, httpcore.ConnectTimeout):
            raise egress.ProxyRefused("the egress proxy cannot be reached") from None
        try:
            await _tunnel(stream, self.proxy.request(address, port), timeout)
        except BaseException:
            await stream.aclose()
            raise
        return stream

    async def _to_proxy(self, proxy: Proxy, timeout: float | None) -> httpcore.AsyncNetworkStream:
        stream = await self._inner.connect_tcp(proxy.host, proxy.port, timeout)
        return await stream.start_tls(tls_context(), proxy.host, timeout) if proxy.tls else stream

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Never: a socket file is inside."""
        raise egress.Blocked

    async def sleep(self, seconds: float) -> None:
        """For httpcore's own retries, of which we ask none."""
        await self._inner.sleep(seconds)


async def _tunnel(stream: httpcore.AsyncNetworkStream, request: bytes, timeout: float | None) -> None:
    """Ask for the connection; byte by byte, for what follows the answer is the target's own."""
    answer = bytearray()
    try:
        await stream.write(request, timeout)
        while not answer.endswith(b"\r\n\r\n"):
            byte = await stream.read(1, timeout)
            answer += byte
            if not byte or len(answer) > LONGEST_PROXY_ANSWER:
                raise egress.ProxyRefused("the egress proxy answered nonsense")
    except (httpcore.ReadError, httpcore.WriteError):
        raise egress.ProxyRefused("the egress proxy broke off") from None
    status = answer.split(b" ", 2)[1][:3] if answer.count(b" ") else b""
    if not status.isdigit():
        raise egress.ProxyRefused("the egress proxy answered nonsense")
    if int(status) in UPSTREAM_DOWN:
        raise httpcore.ConnectError("the egress proxy could not reach it")
    if int(status) // 100 != 2:
        raise egress.ProxyRefused(f"the egress proxy answered {int(status)}")


class GuardedTransport(httpx.AsyncHTTPTransport):
    """httpx's own transport over a guarded pool; proxies named in the environment are not used."""

    def __init__(self, backend: httpcore.AsyncNetworkBackend, tls: ssl.SSLContext, kept: int) -> None:
        # httpx's own constructor would only make a pool, and one that is not guarded
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls, network_backend=backend, max_keepalive_connections=kept
        )


def authorities() -> str:
    """A file of the authorities that we trust, for those who can use no context: the system's, else the usual ones."""
    return ssl.get_default_verify_paths().cafile or certifi.where()


@functools.cache
def tls_context(*protocols: str) -> ssl.SSLContext:
    """The system's authorities and the usual public ones; made once a process, it takes longer than a request.

    `protocols` are offered to the server, such as `h2`.
    """
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


def client(backend: GuardedBackend, *, time_limit_s: float, user_agent: str, kept: int = 0) -> httpx.AsyncClient:
    """A client for one request and its redirects, which the caller follows or not; answers come as they were sent.

    `kept` connections wait for the next request to the same host.
    """
    return httpx.AsyncClient(
        transport=GuardedTransport(backend, tls_context(), kept),
        headers={"User-Agent": user_agent, "Accept": "*/*", "Accept-Encoding": "identity"},
        timeout=time_limit_s,
        follow_redirects=False,
        trust_env=False,
    )
