"""The control address: a place that answers unless the prober itself is cut off."""

from controlplane.probe_spec.fields import BadSpec, host, refuse
from controlplane.probe_spec.tcp import TcpSpec

OFF = "off"
LIMIT_S = 2.0
"""How long a control address may take; a lease has so much more room where there is one."""


def in_force(of_environment: str, of_installation: str) -> str:
    """The address that an environment's probers ask; empty where none is asked."""
    chosen = of_environment.strip() or of_installation.strip()
    return "" if chosen.casefold() == OFF else chosen


def read_control(address: str) -> TcpSpec:
    """A connection to `host:port`; raise BadSpec where it is none."""
    name, _, port = address.strip().rpartition(":")
    if not port.isdecimal() or not 1 <= int(port) <= 65_535:
        refuse(
            "control_address", "this is no host and port", "write it as one.example.com:443, or off, or leave it empty"
        )
    return TcpSpec(host=host(name, "control_address"), port=int(port), time_limit_s=LIMIT_S)


def usable(address: str) -> TcpSpec | None:
    """The same, or None for what is empty or cannot be read."""
    try:
        return read_control(address) if address else None
    except BadSpec:
        return None
