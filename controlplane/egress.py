"""The one guard of everything we send to an address that somebody typed: probes and webhooks of every kind.

A host name is resolved once, every address it has is checked, and the caller connects to one of *those* addresses,
never to the name. Decimal, octal and hexadecimal forms are the resolver's to read: what is checked is what they come
to.
"""

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable

from controlplane import background

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolver = Callable[[str, int], Awaitable[list[str]]]

MENDING = "use a public address, or ask an admin to allow its network under Settings"

_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_UNICAST = ipaddress.IPv6Network("2000::/3")
_NEVER_PUBLIC = (
    ipaddress.IPv4Network("192.0.0.0/24"),  # protocol assignments; a cloud's metadata lives here
    ipaddress.IPv4Network("192.88.99.0/24"),  # the 6to4 relay
    ipaddress.IPv4Network("168.63.129.16/32"),  # another cloud's metadata, on a public address
)


class Blocked(Exception):
    """The target is none that we may reach. The words never tell why: that would map the inside network."""

    def __init__(self) -> None:
        super().__init__("this is not an address that Recloser may reach")


class ProxyRefused(Exception):
    """The proxy that everything goes out through lets us not; that says nothing about the target."""


class Unresolvable(Exception):
    """The name has no address."""

    def __init__(self) -> None:
        super().__init__("this host name does not resolve")


async def look_up(host: str, port: int) -> list[str]:
    """Every address of a host, as the system resolves it; an address is its own, without a thread."""
    if (plain := _plain_address(host)) is not None:
        return [plain]
    return await background.in_thread(lambda: _look_up(host, port))


async def resolve_allowed(
    host: str, port: int, *, networks: Iterable[Network], resolve: Resolver = look_up
) -> list[str]:
    """The checked addresses to connect to, best first; raise Blocked if even one of them is forbidden."""
    return checked(await resolve(host, port), networks=networks)


def check_target(host: str, port: int, *, networks: Iterable[Network]) -> None:
    """The same for a form: raise Blocked or Unresolvable now rather than at 03:12."""
    checked(_look_up(host, port), networks=networks)


def checked(addresses: list[str], *, networks: Iterable[Network]) -> list[str]:
    """These addresses, if each of them may be reached."""
    networks = tuple(networks)
    if not all(_may_reach(ipaddress.ip_address(address), networks) for address in addresses):
        raise Blocked
    return addresses


def _look_up(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise Unresolvable from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _plain_address(host: str) -> str | None:
    """Of a host that is written as an address in its usual form; every other form is the resolver's to read."""
    try:
        return None if "%" in host else str(ipaddress.ip_address(host))
    except ValueError:
        return None


def _may_reach(address: Address, networks: tuple[Network, ...]) -> bool:
    inner = _embedded(address)
    if any(_within(address, network) or _within(inner, network) for network in networks):
        return True
    return _public(address if inner is None else inner)


def _within(address: Address | None, network: Network) -> bool:
    return address is not None and address.version == network.version and address in network


def _public(address: Address) -> bool:
    if address.is_multicast or not address.is_global:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        return address in _UNICAST and not address.teredo
    return not any(address in network for network in _NEVER_PUBLIC)


def _embedded(address: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 one leads to: mapped, compatible, 6to4 or NAT64."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if inner := address.ipv4_mapped or address.sixtofour:
        return inner
    low = int(address) & 0xFFFFFFFF
    if any(address in network for network in _NAT64) or (address in _COMPATIBLE and low > 1):
        return ipaddress.IPv4Address(low)
    return None
