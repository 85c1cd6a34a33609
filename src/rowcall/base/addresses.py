"""IP addresses: which belong to the internet, and which to this machine, to a private network or to a cloud."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Our own list: that of the module `ipaddress` depends on the version of Python. It has the special-purpose registries
# of IANA as a whole: no web app is at an address in them, also where packets for it would be forwarded.
_SPECIAL_IPV4 = (
    "0.0.0.0/8",  # this network
    "10.0.0.0/8",  # private
    "100.64.0.0/10",  # shared by the customers of a provider; 100.100.100.200 has metadata of Alibaba Cloud
    "127.0.0.0/8",  # this machine
    "168.63.129.16/32",  # the platform of Azure
    "169.254.0.0/16",  # link-local; 169.254.169.254 has metadata of most clouds
    "172.16.0.0/12",  # private
    "192.0.0.0/24",  # protocol assignments; 192.0.0.192 has metadata of Oracle Cloud
    "192.0.2.0/24",  # documentation
    "192.31.196.0/24",  # AS112
    "192.52.193.0/24",  # automatic multicast tunnels
    "192.88.99.0/24",  # relays of 6to4
    "192.168.0.0/16",  # private
    "192.175.48.0/24",  # AS112
    "198.18.0.0/15",  # benchmarks
    "198.51.100.0/24",  # documentation
    "203.0.113.0/24",  # documentation
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved, and broadcast
)
_SPECIAL_IPV6 = (
    "2001::/23",  # protocol assignments, and in them Teredo, benchmarks and ORCHID
    "2001:db8::/32",  # documentation
    "2620:4f:8000::/48",  # AS112
    "3fff::/20",  # documentation
)
_GLOBAL_IPV6 = ipaddress.IPv6Network("2000::/3")
"""All that is assigned so far: neither `::1`, `fc00::/7` and `fe80::/10` nor segment identifiers (`5f00::/16`)."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_special_ipv4 = tuple(map(ipaddress.IPv4Network, _SPECIAL_IPV4))
_special_ipv6 = tuple(map(ipaddress.IPv6Network, _SPECIAL_IPV6))


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
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _special_ipv4)
    return address in _GLOBAL_IPV6 and not any(address in network for network in _special_ipv6)


def ipv4_behind(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address carries (mapped, 6to4, NAT64), else the address itself.

    A Teredo address carries two, and its packets go through a server of someone else: it is never public.
    """
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(address.packed[-4:])
    return address.ipv4_mapped or address.sixtofour or address


def is_within(address: Address, networks: Iterable[Network]) -> bool:
    """Return whether an address, or the IPv4 address that it carries, is in one of the networks."""
    return any(one in network for network in networks for one in (address, ipv4_behind(address)))
