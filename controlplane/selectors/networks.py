"""Where probes and webhooks may go beyond the public addresses."""

import ipaddress

from controlplane.egress import Network
from controlplane.models import AllowedNetwork


def allowed_networks() -> tuple[Network, ...]:
    """The ranges that an admin has opened."""
    rows = AllowedNetwork.objects.values_list("network", flat=True)
    return tuple(ipaddress.ip_network(row) for row in rows)
