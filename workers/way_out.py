"""The way out as this installation is set: the guard, and the proxy behind it where there is one."""

from django.conf import settings

from controlplane.egress import Network
from workers.egress import GuardedBackend


def way_out(networks: tuple[Network, ...]) -> GuardedBackend:
    """One connection's guard; `networks` are those that an admin allows."""
    return GuardedBackend(networks, proxy=settings.EGRESS_PROXY)
