"""Connections to checked addresses only.

A name is looked up once for each connection. The addresses that come back are checked, and the connection goes to one
of them: a second lookup could return another address. The URL keeps its name, for `Host`, SNI and the certificate.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable
from functools import cache

import httpcore

from rowcall.base.addresses import Address, address_of
from rowcall.domain.errors import PushFailed

ADDRESS_REFUSED_CODE = "PUSH:ADDRESS_REFUSED"
DNS_CODE = "PUSH:DNS"

Refusal = Callable[[Address], str | None]
"""Returns why nothing may be sent to an address, or None."""


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Opens connections to allowed addresses, and raises `PushFailed` for others."""

    def __init__(self, refusal: Refusal) -> None:
        self._refusal = refusal
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception | None = None
        for address in await self._addresses(host, port):
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure

    async def _addresses(self, host: str, port: int) -> list[str]:
        """Look the name up. One refused address refuses the name: it is not one of the internet alone."""
        try:
            addresses = await look_up(host.strip("[]"), port)
        except (OSError, UnicodeError) as error:
            raise PushFailed(DNS_CODE, f"cannot find the address of {host}: {error}") from error
        for text in addresses:
            address = address_of(text)
            problem = f"{text} is not an IP address" if address is None else self._refusal(address)
            if problem is not None:
                raise PushFailed(ADDRESS_REFUSED_CODE, f"{host} leads to a refused address: {problem}", final=True)
        return addresses


async def look_up(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


@cache
def default_ssl_context() -> ssl.SSLContext:
    """Return the authorities of this machine. Reading them takes milliseconds, so it is done once."""
    return ssl.create_default_context()
