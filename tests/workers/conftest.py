"""A vendor to probe, and leave to reach it."""

import ipaddress

import pytest

from tests.workers.vendor import Vendor

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


@pytest.fixture
def vendor():
    with Vendor() as running:
        yield running
