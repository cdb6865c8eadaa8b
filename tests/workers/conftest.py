"""A vendor to probe, leave to reach it, and the counterparts that are slow to start."""

import ipaddress

import pytest

from tests.workers.certificates import Made
from tests.workers.vendor import Vendor

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


@pytest.fixture
def vendor():
    with Vendor() as running:
        yield running


@pytest.fixture(scope="session")
def servers(tmp_path_factory):
    """An MCP server, a gRPC server, and the certificate that this one has."""
    from tests.workers.counterparts import GrpcServer, McpServer

    certificate = Made(tmp_path_factory.mktemp("tls") / "server.pem")
    with McpServer() as mcp, GrpcServer(certificate) as grpc:
        yield {"mcp": mcp, "grpc": grpc, "certificate": certificate}
