"""The gRPC prober against a real server with the standard health service."""

import pytest
from recloser.core.types import Verdict

from tests.workers.kinds import ask, asks
from tests.workers.vendor import reply


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        ("search", (Verdict.GOOD, "passed", False)),
        ("payments", (Verdict.BAD, "serving", False)),
        ("absent", (Verdict.INCONCLUSIVE, "bad_request", True)),
    ],
)
async def test_the_health_of_a_service_is_the_verdict(servers, service, expected):
    servers["grpc"].set("payments", serving=False)
    found = await ask("grpc", asks("grpc", servers["grpc"].port, service=service))

    assert found.ruling() == expected, found.answered()


async def test_over_tls_the_name_may_be_another_than_the_hosts(servers, monkeypatch):
    servers["certificate"].trusted(monkeypatch)
    there = {"host": "127.0.0.1", "port": servers["grpc"].tls_port, "tls": True}

    async def itself(host, port):
        return [host]

    named = await ask("grpc", {**there, "server_name": "vendor.example", "certificate_days": 30}, resolve=itself)
    other = await ask("grpc", {**there, "server_name": "other.example"}, resolve=itself)

    assert named.ruling() == (Verdict.GOOD, "passed", False), named.answered()
    assert other.ruling()[:2] == (Verdict.BAD, "certificate")


async def test_a_web_server_is_no_grpc_server(vendor):
    vendor.routes["/"] = reply(200, "hello")
    found = await ask("grpc", asks("grpc", vendor.port), limit=1)

    assert found.ruling().verdict is Verdict.BAD
