"""A guarded connection for the kinds that speak no HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpcore

from workers import egress
from workers.egress import GuardedBackend
from workers.probers.answer import Findings
from workers.probers.web import note_certificate


@asynccontextmanager
async def connection(
    backend: GuardedBackend,
    host: str,
    port: int,
    found: Findings,
    *,
    tls_name: str = "",
    protocols: tuple[str, ...] = (),
) -> AsyncIterator[httpcore.AsyncNetworkStream]:
    """Connected to a checked address; `tls_name`: over TLS, with a certificate of this name."""
    stream = await backend.connect_tcp(host, port)
    try:
        if tls_name:
            stream = await stream.start_tls(egress.tls_context(*protocols), tls_name)
            note_certificate(stream.get_extra_info("ssl_object"), found)
        yield stream
    finally:
        await stream.aclose()
