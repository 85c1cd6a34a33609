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
]
PUBLIC = ["93.184.215.14", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::"]


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
