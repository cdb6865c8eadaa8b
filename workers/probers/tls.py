"""The TLS prober: a handshake whose certificate must be trusted and of the right name."""

from collections.abc import Mapping
from typing import Any

from controlplane.probe_spec.tls import TlsSpec
from workers.egress import GuardedBackend
from workers.probers.answer import Findings
from workers.probers.stream import connection


def asked(spec: TlsSpec, secrets: Mapping[str, str]) -> dict[str, Any]:
    """A handshake, with which name."""
    return {"method": "TLS handshake", "address": spec.shown_address, "name": spec.server_name or spec.host}


async def converse(
    spec: TlsSpec, secrets: Mapping[str, str], backend: GuardedBackend, found: Findings, time_limit_s: float
) -> None:
    """Shake hands; a certificate that is not valid ends it."""
    async with connection(backend, spec.host, spec.port, found, tls_name=spec.server_name or spec.host):
        return
