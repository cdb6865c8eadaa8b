"""Which private networks probes and webhooks may reach: none, until an admin says so."""

import ipaddress
from datetime import datetime

from controlplane import egress
from controlplane.models import AllowedNetwork
from controlplane.probe_spec.fields import web_target
from controlplane.selectors.networks import allowed_networks
from controlplane.services import audit
from controlplane.services.errors import Refused


@audit.refusals("allow_network")
def allow_network(*, network: str, reason: str, actor: str, now: datetime) -> AllowedNetwork:
    """Open a range such as 10.1.0.0/16 to probes and webhooks; allowing it again changes nothing."""
    wanted = _read(network)
    if not reason.strip():
        raise Refused("reason_missing", "no reason is given", "say who needs this network and what for", "reason")
    row, made = AllowedNetwork.objects.get_or_create(
        network=str(wanted), defaults={"reason": reason.strip()[:500], "created_at": now, "created_by": actor}
    )
    if made:
        audit.record(actor=actor, action="allow_network", target=str(wanted), accepted=True, reason=reason)
    return row


@audit.refusals("close_network")
def close_network(*, network: str, actor: str) -> None:
    """Take a range back."""
    wanted = str(_read(network))
    if AllowedNetwork.objects.filter(network=wanted).delete()[0]:
        audit.record(actor=actor, action="close_network", target=wanted, accepted=True)


def demand_reachable(url: str, *, field: str) -> None:
    """Refuse an address that no probe or webhook would be let through to."""
    demand_target(*web_target(url), field=field)


def demand_target(host: str, port: int, *, field: str) -> None:
    """The same of a host and a port; every refusal has the same words."""
    try:
        egress.check_target(host, port, networks=allowed_networks())
    except egress.Blocked as blocked:
        raise Refused("refused_address", str(blocked), egress.MENDING, field) from None
    except egress.Unresolvable as unknown:
        raise Refused("unresolvable", str(unknown), "check its spelling, or the name servers", field) from None


def _read(network: str) -> egress.Network:
    try:
        return ipaddress.ip_network(network.strip())
    except ValueError:
        mend = "write it as 10.1.0.0/16, host bits zero"
        raise Refused("bad_network", "this is not a network", mend, "network") from None
