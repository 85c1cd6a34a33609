"""IP addresses: which belong to the internet, and which to this machine or to a private network."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_GLOBAL_IPV6 = ipaddress.IPv6Network("2000::/3")
"""All that is assigned so far."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def address_of(text: str) -> Address | None:
    """Return the address that a text is, or None. A zone, as in `fe80::1%eth0`, is left out.

    >>> address_of("10.0.0.1"), address_of("app.example")
    (IPv4Address('10.0.0.1'), None)
    """
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def is_public(address: Address) -> bool:
    """Return whether an address belongs to the internet. If it carries an IPv4 address, that one decides.

    >>> [is_public(ipaddress.ip_address(one)) for one in ("93.184.215.14", "10.0.0.1", "::ffff:127.0.0.1")]
    [True, False, False]
    """
    address = ipv4_behind(address)
    if isinstance(address, ipaddress.IPv6Address):
        return address.is_global and address in _GLOBAL_IPV6
    return address.is_global and not (address.is_multicast or address.is_reserved)


def ipv4_behind(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address carries (mapped, 6to4, NAT64), else the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(address.packed[-4:])
    return address.ipv4_mapped or address.sixtofour or address


def is_within(address: Address, networks: Iterable[Network]) -> bool:
    """Return whether an address, or the IPv4 address that it carries, is in one of the networks."""
    return any(one in network for network in networks for one in (address, ipv4_behind(address)))
