"""Where notices may go; pure. The hub stands inside a network, and whoever names a target must not reach into it.

What counts is the address a name has at the very moment of connecting, not the name: the check is asked with it, after
resolution, for each connection. Only public addresses pass, unless the setting ``alert_private_hosts`` names the
host, the address or its network.
"""

import ipaddress
from collections.abc import Iterable

from msgspec import Struct

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64 = (
    ipaddress.IPv6Network("64:ff9b::/96"),
    ipaddress.IPv6Network("64:ff9b:1::/48"),
)
"""The last 32 bits are the IPv4 address that is meant."""


class Allowed(Struct, frozen=True):
    """What an operator let notices reach besides public addresses."""

    names: frozenset[str] = frozenset()
    networks: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Allowed":
        """Names, addresses and networks, separated by commas.

        Raises:
            ValueError: one is none of them.
        """
        names, networks = set[str](), list[str]()
        for item in filter(None, (part.strip().lower() for part in text.split(","))):
            try:
                networks.append(str(ipaddress.ip_network(item)))
            except ValueError:
                plain = item.replace("-", "").replace("_", "").replace(".", "")
                if not (plain.isascii() and plain.isalnum()) or item.replace(".", "").isdigit():
                    raise ValueError(f"{item!r} is neither a host's name nor an address nor a network") from None
                names.add(item.rstrip("."))
        return cls(frozenset(names), tuple(networks))

    def host(self, name: str) -> bool:
        """Whether a name is one of those."""
        return name.lower().rstrip(".") in self.names


def refusal(address: str, allowed: Allowed) -> str:
    """Why no notice goes to an address; empty: one may."""
    try:
        there = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return f"{address!r} is no address"
    meant = _meant(there)
    for network in map(ipaddress.ip_network, allowed.networks):
        if any(one.version == network.version and one in network for one in (there, meant)):
            return ""
    for one in (there, meant):
        if not one.is_global or one.is_multicast:
            return (
                f"{address} is {_kind(one)}, which notices may not reach; "
                "PROVEWIRE_ALERT_PRIVATE_HOSTS can name it, its host or its network"
            )
    return ""


def _meant(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one that only wraps it."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if any(address in network for network in _NAT64):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _kind(address: Address) -> str:
    kinds: Iterable[tuple[bool, str]] = (
        (address.is_loopback, "this machine itself"),
        (address.is_link_local, "a link-local address"),
        (address.is_unspecified, "no machine's address"),
        (address.is_multicast, "a multicast address"),
        (address.is_private, "a private address"),
    )
    return next((name for holds, name in kinds if holds), "no public address")
