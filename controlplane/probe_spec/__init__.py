"""What each kind of probe asks and expects, typed; read from stored JSON or from a form, field by field.

A kind is one file here, which describes it, and one in `workers.probers`, which asks. No Django in either.
"""

import json
from collections.abc import Mapping
from typing import Any

from controlplane.probe_spec.conditions import CONTAINS, JSON_EQUALS
from controlplane.probe_spec.dns import DnsSpec
from controlplane.probe_spec.fields import BadSpec, Spec, headers, read_as, read_text, refuse, web_address
from controlplane.probe_spec.grpc import GrpcSpec
from controlplane.probe_spec.http import METHODS, HttpSpec
from controlplane.probe_spec.llm import LlmSpec
from controlplane.probe_spec.mcp import McpSpec
from controlplane.probe_spec.postgres import PostgresSpec
from controlplane.probe_spec.redis import RedisSpec
from controlplane.probe_spec.steps import StepsSpec
from controlplane.probe_spec.tcp import TcpSpec
from controlplane.probe_spec.tls import TlsSpec

__all__ = [
    "CONTAINS",
    "DEFAULT",
    "JSON_EQUALS",
    "KINDS",
    "METHODS",
    "BadSpec",
    "HttpSpec",
    "LlmSpec",
    "McpSpec",
    "Spec",
    "kind_of",
    "read",
    "read_secrets",
    "web_address",
]

DEFAULT = HttpSpec.KIND
KINDS: Mapping[str, type[Spec]] = {
    each.KIND: each
    for each in (
        HttpSpec,
        StepsSpec,
        McpSpec,
        LlmSpec,
        GrpcSpec,
        PostgresSpec,
        RedisSpec,
        TcpSpec,
        TlsSpec,
        DnsSpec,
    )
}
"""In the order in which an editor offers them."""


def kind_of(name: Any) -> type[Spec]:
    """The kind of this name."""
    if not isinstance(name, str) or name not in KINDS:
        refuse("kind", "no such kind of probe", f"use one of {', '.join(KINDS)}")
    return KINDS[name]


def read(given: Mapping[str, Any], kind: str = DEFAULT) -> Any:
    """The probe that these values describe; raise BadSpec at the first that cannot be used."""
    spec: Spec = read_as(kind_of(kind), given)
    for name, value in spec.to_dict().items():
        _demand_storable(name, value)
    return spec


def _demand_storable(name: str, value: Any) -> None:
    """However deep it stands: neither NaN nor infinity, no NUL, no half of a character."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
    except (ValueError, TypeError, RecursionError):
        refuse(name, "it holds something that cannot be stored", "leave out NaN, infinity and broken characters")
    if "\\u0000" in text:
        refuse(name, "it holds a NUL character", "leave it out")


def read_secrets(given: Mapping[str, Any], kind: str = DEFAULT) -> dict[str, str]:
    """Values that are stored encrypted and shown to nobody: headers of whatever name, or those that the kind takes."""
    known = kind_of(kind).SECRETS
    if known is None:
        return headers(given, "secret_headers")
    for name, value in given.items():
        if name not in known:
            takes = f"use {', '.join(known)}" if known else "leave it out: this kind of probe takes none"
            refuse("secret_values", f"{str(name)[:50]} is no secret of this kind of probe", takes)
        read_text(value, "secret_values", 4000)
    return {name: value for name, value in given.items() if value}
