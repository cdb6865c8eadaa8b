"""Which probes an agent process may be asked to send, and what it is told: the request, never a secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.probe_spec.fields import Spec
from controlplane.probe_spec.http import HttpSpec
from controlplane.probe_spec.tcp import TcpSpec

PLAIN_METHODS = ("GET", "HEAD")


def unfit(spec: Spec, secrets: Mapping[str, str]) -> str:
    """Why no agent may send this probe; empty where one may."""
    if secrets:
        return "no secret is ever sent to an agent"
    match spec:
        case HttpSpec():
            return _unfit_http(spec)
        case TcpSpec():
            return "an agent reads no greeting" if spec.body_condition is not None else ""
    return "agents send HTTP and TCP probes only"


def _unfit_http(spec: HttpSpec) -> str:
    if spec.method not in PLAIN_METHODS:
        return f"an agent sends {' and '.join(PLAIN_METHODS)} only"
    if spec.redirects != "never":
        return "an agent follows no redirect"
    if (spec.header_condition, spec.body_condition, spec.certificate_days) != (None, None, None):
        return "an agent tells the status and the time only: leave out what the header, body or certificate must show"
    return ""


def told(spec: Spec) -> dict[str, Any]:
    """The request as it stands in an offer."""
    request: dict[str, Any] = {"kind": spec.KIND, "host": host_and_port(spec), "time_limit_s": spec.time_limit_s}
    if isinstance(spec, HttpSpec):
        request |= {"url": spec.url, "method": spec.method, "headers": dict(spec.headers)}
    return request


def host_and_port(spec: Spec) -> str:
    """As an agent lists it: `crm.internal:443`."""
    name, port = spec.target
    return f"{f'[{name}]' if ':' in name else name}:{port}".casefold()
