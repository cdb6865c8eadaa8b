"""HTTP that connects to the very address the guard has checked; Host header and TLS name stay the name's."""

import functools
import ssl
import time
from collections.abc import Iterable
from typing import Any

import certifi
import httpcore
import httpx

from controlplane import egress

BODY_CAP = 256 * 1024


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Resolves and checks at each connection; remembers when the last one stood, for lateness."""

    def __init__(self, networks: tuple[egress.Network, ...], resolve: egress.Resolver = egress.look_up) -> None:
        self._networks, self._resolve = networks, resolve
        self._inner = httpcore.AnyIOBackend()
        self.first_connected_at: float | None = None

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Try the checked addresses in turn."""
        addresses = await egress.resolve_allowed(host, port, networks=self._networks, resolve=self._resolve)
        refused: Exception = httpcore.ConnectError("no address")
        for address in addresses:
            try:
                stream = await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                refused = error
            else:
                self.first_connected_at = self.first_connected_at or time.monotonic()
                return stream
        raise refused

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Never: a socket file is inside."""
        raise egress.Blocked

    async def sleep(self, seconds: float) -> None:
        """For httpcore's own retries, of which we ask none."""
        await self._inner.sleep(seconds)


class GuardedTransport(httpx.AsyncHTTPTransport):
    """httpx's own transport over a guarded pool; proxies named in the environment are not used."""

    def __init__(self, backend: httpcore.AsyncNetworkBackend, tls: ssl.SSLContext) -> None:
        # httpx's own constructor would only make a pool, and one that is not guarded
        self._pool = httpcore.AsyncConnectionPool(ssl_context=tls, network_backend=backend, max_keepalive_connections=0)


@functools.cache
def tls_context() -> ssl.SSLContext:
    """The system's authorities and the usual public ones; made once a process, it takes longer than a request."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def client(backend: GuardedBackend, *, time_limit_s: float, user_agent: str) -> httpx.AsyncClient:
    """A client for one request and its redirects, which the caller follows or not; answers come as they were sent."""
    return httpx.AsyncClient(
        transport=GuardedTransport(backend, tls_context()),
        headers={"User-Agent": user_agent, "Accept": "*/*", "Accept-Encoding": "identity"},
        timeout=time_limit_s,
        follow_redirects=False,
        trust_env=False,
    )
