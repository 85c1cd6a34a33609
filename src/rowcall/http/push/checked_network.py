"""Connections to checked addresses only.

A name is looked up once for each connection. The addresses that come back are checked, and the connection goes to one
of them: a second lookup could return another address. The URL keeps its name, for `Host`, SNI and the certificate.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from functools import cache

import httpcore

from rowcall.base.addresses import Address, address_of
from rowcall.base.clock import Clock
from rowcall.domain.errors import PushFailed
from rowcall.http.push.lookups import LOOKUP_SECONDS, lookups

ADDRESS_REFUSED_CODE = "PUSH:ADDRESS_REFUSED"
DNS_CODE = "PUSH:DNS"

Refusal = Callable[[Address], str | None]
"""Returns why nothing may be sent to an address, or None."""


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Opens connections to allowed addresses, and raises `PushFailed` for others."""

    def __init__(self, refusal: Refusal, clock: Clock) -> None:
        self._refusal = refusal
        self._clock = clock
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
        for address in await self._addresses(host.strip("[]")):
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure

    async def _addresses(self, host: str) -> list[str]:
        """Look the name up. One refused address refuses the name: it is not one of the internet alone."""
        try:
            is_address = address_of(host) is not None
            addresses = [host] if is_address else await lookups.addresses(host, self._clock)
        except TimeoutError:
            said = f"the lookup of {host} has not ended after {LOOKUP_SECONDS:g} s: the name servers do not answer"
            raise PushFailed(DNS_CODE, said) from None
        except (OSError, UnicodeError) as error:
            raise PushFailed(DNS_CODE, f"cannot find the address of {host}: {error}") from error
        for text in addresses:
            address = address_of(text)
            problem = f"{text} is not an IP address" if address is None else self._refusal(address)
            if problem is not None:
                raise PushFailed(ADDRESS_REFUSED_CODE, f"{host} leads to a refused address: {problem}", final=True)
        return addresses


@cache
def default_ssl_context() -> ssl.SSLContext:
    """Return the authorities of this machine. Reading them takes milliseconds, so it is done once."""
    return ssl.create_default_context()
