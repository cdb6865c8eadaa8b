"""A healthy counterpart for each kind of probe, and the probe that it passes; for tests that hold for every kind."""

from __future__ import annotations

import contextlib
import json

from controlplane import probe_spec
from tests.workers import counterparts
from tests.workers.conftest import LOOPBACK
from tests.workers.counterparts import NAME, listening, to_socket
from tests.workers.vendor import Vendor, reply
from workers import probers
from workers.egress import GuardedBackend

KINDS = list(probe_spec.KINDS)
MODELS = reply(200, json.dumps({"object": "list", "data": [{"id": "small-1"}, {"id": "large-1"}]}))


def asks(kind: str, port: int, host: str = NAME, **more) -> dict:
    """A probe of this kind, of somebody at this port."""
    plain = {"host": host, "port": port}
    web = {"url": f"http://{host}:{port}"}
    return {
        "http": {"url": f"{web['url']}/ok"},
        "steps": {**web, "steps": [{"name": "look", "path": "/ok"}]},
        "mcp": {"url": f"{web['url']}/mcp"},
        "llm": web,
        "grpc": {**plain, "tls": False},
        "postgres": {**plain, "database": counterparts.postgres_database(), "user": "postgres", "tls": "off"},
        "redis": plain,
        "tcp": {**plain, "body_condition": {"kind": "contains", "value": "220"}},
        "tls": plain,
        "dns": {"server": host, "port": port, "name": "api.example.com"},
    }[kind] | more


@contextlib.asynccontextmanager
async def healthy(kind: str, servers):
    """Its port; `servers` has those that are slow to start."""
    async with contextlib.AsyncExitStack() as stack:
        if kind in ("http", "steps", "llm"):
            vendor = stack.enter_context(Vendor())
            vendor.routes["/models"] = MODELS
            yield vendor.port
        elif kind == "dns":
            yield await stack.enter_async_context(counterparts.Names().serving())
        elif kind in ("mcp", "grpc"):
            yield servers[kind].port
        else:
            handle, tls = {
                "postgres": (to_socket(counterparts.postgres_socket()), None),
                "redis": (to_socket(counterparts.valkey_socket()), None),
                "tcp": (counterparts.greeting(b"220 vendor.example ESMTP\r\n"), None),
                "tls": (counterparts.silent, servers["certificate"].server()),
            }[kind]
            yield await stack.enter_async_context(listening(handle, tls))


async def loopback(host: str, port: int) -> list[str]:
    """Every name is this machine's; an address is its own."""
    assert host == NAME, f"{host} was looked up"
    return ["127.0.0.1"]


async def ask(kind, spec, *, secrets=None, networks=LOOPBACK, resolve=loopback, proxy="", limit=5.0):
    read = probe_spec.read(spec, kind)
    return await probers.ask(read, secrets or {}, GuardedBackend(networks, resolve, proxy), time_limit_s=limit)
