"""A vendor to probe, leave to reach it, and the counterparts that are slow to start."""

import ipaddress

import pytest

from controlplane.services import alerts, egress
from tests.factories import NOON, cast
from tests.workers.certificates import Made
from tests.workers.receiver import Receiver
from tests.workers.vendor import Vendor

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


@pytest.fixture
def vendor():
    with Vendor() as running:
        yield running


@pytest.fixture
def stage(db, frozen_clock):
    """Everybody, and leave to reach the receivers of alerts."""
    made = cast()
    egress.allow_network(network="127.0.0.0/8", reason="the tests' receivers", actor="ada", now=NOON)
    return made


@pytest.fixture
def receiver():
    """Somebody who is told by webhook."""
    with Receiver() as running:
        yield running


@pytest.fixture
def secret(stage, receiver):
    """What signs the messages to the receiver, which is a channel of prod."""
    _, shown = alerts.save_channel(
        environment=stage.prod, kind="webhook", name="pager", target=receiver.hook, actor="ada", now=NOON
    )
    return shown


@pytest.fixture(scope="session")
def servers(tmp_path_factory):
    """An MCP server, a gRPC server, and the certificate that this one has."""
    from tests.workers.counterparts import GrpcServer, McpServer

    certificate = Made(tmp_path_factory.mktemp("tls") / "server.pem")
    with McpServer() as mcp, GrpcServer(certificate) as grpc:
        yield {"mcp": mcp, "grpc": grpc, "certificate": certificate}
