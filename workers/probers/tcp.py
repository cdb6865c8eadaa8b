"""The TCP prober: a connection, and the greeting that a server sends by itself."""

from collections.abc import Mapping
from typing import Any

import httpcore

from controlplane.probe_spec.tcp import TcpSpec
from workers.egress import GuardedBackend
from workers.probers.answer import Findings
from workers.probers.stream import connection

LONGEST_GREETING = 4096


def asked(spec: TcpSpec, secrets: Mapping[str, str]) -> dict[str, Any]:
    """A connection."""
    return {"method": "TCP connect", "address": spec.shown_address}


async def converse(
    spec: TcpSpec, secrets: Mapping[str, str], backend: GuardedBackend, found: Findings, time_limit_s: float
) -> None:
    """Connect; where a greeting is wanted, read until it holds what it must, or ends."""
    async with connection(backend, spec.host, spec.port, found) as stream:
        if spec.body_condition is not None:
            await _greeting(spec, stream, found)


async def _greeting(spec: TcpSpec, stream: httpcore.AsyncNetworkStream, found: Findings) -> None:
    heard = b""
    assert spec.body_condition is not None
    while len(heard) < LONGEST_GREETING:
        more = await stream.read(LONGEST_GREETING)
        heard += more
        found.seen.body = heard[:LONGEST_GREETING].decode(errors="replace")
        if not more or spec.body_condition.holds(found.seen.body):
            return
