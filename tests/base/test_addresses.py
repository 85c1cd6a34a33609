from __future__ import annotations

import ipaddress

import pytest

from rowcall.base.addresses import address_of, is_public, is_within

PRIVATE = [
    *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("::1", "::", "fe80::1", "fc00::1", "fec0::1", "ff02::1", "2001:db8::1", "64:ff9b:1::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "2002:7f00:1::", "2002:a00:1::"),
    *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2001:0:4136:e378:8000:63bf:3fff:fdd2"),
    # of clouds, or in registries that Python 3.11 does not have
    *("168.63.129.16", "192.0.0.192", "192.0.0.9", "192.88.99.1", "192.31.196.1", "192.52.193.1", "192.175.48.1"),
    *(
        "100.100.100.200",
        "3fff::1",
        "3fff:fff::1",
        "2620:4f:8000::1",
        "2001:1::1",
        "5f00::1",
        "100::1",
        "fd00:ec2::254",
    ),
    *("fd00:ec2::254", "fd20:ce::254"),
    *("::ffff:168.63.129.16", "2002:a83f:8110::", "64:ff9b::a83f:8110", "::168.63.129.16", "::ffff:0:168.63.129.16"),
    *("::ffff:192.0.0.192", "2002:c000:c0::1", "64:ff9b::c000:c0", "64:ff9b:1::c000:c0"),
    *("::ffff:192.88.99.1", "2002:c058:6301::1", "64:ff9b::c058:6301"),
    # Teredo, by way of such a server, and for such a client
    *("2001:0:a83f:8110::1", "2001:0:5db8:d70e:8000:63bf:57c0:7eef"),
]
PUBLIC = [
    "93.184.215.14",
    "8.8.8.8",
    "168.63.129.15",
    "192.0.1.1",
    "192.88.98.1",
    "2001:200::1",
    "3ffe::1",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:808:808::",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_these_do_not_belong_to_the_internet(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_these_do(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


def test_a_zone_is_not_part_of_an_address() -> None:
    assert address_of("fe80::1%eth0") == ipaddress.ip_address("fe80::1")
    assert address_of("localhost") is None


def test_a_mapped_address_is_within_the_network_of_the_one_it_carries() -> None:
    networks = [ipaddress.ip_network("10.0.0.0/8")]
    assert is_within(ipaddress.ip_address("::ffff:10.1.1.1"), networks)
    assert not is_within(ipaddress.ip_address("11.0.0.1"), networks)
