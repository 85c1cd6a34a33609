"""Blobs in a table of the server, which all workers of a fleet can reach.

Each is written in its own short transaction before the row that refers to it, even where that row is written on the
caller's connection: there it could wait for, or fail with, any other transaction that enqueues the same content.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Protocol, TypeVar

from rowcall.drivers.database import Database
from rowcall.store.queries.blobs import DELETE_BLOB, GET_BLOB, OLD_BLOBS, PUT_BLOB, TOUCH_BLOB
from rowcall.store.statement import Plan, Query

R = TypeVar("R")

PAGE = 1000


class BlobQueries(Protocol):
    def ask(self, query: Query[R], *values: object) -> Plan[list[R]]: ...


class BlobTable:
    def __init__(self, database: Database, catalogue: BlobQueries) -> None:
        self._database = database
        self._ask = catalogue.ask

    def put(self, digest: str, data: bytes) -> None:
        self._database.write(lambda: self._put(digest, data))

    def get(self, digest: str) -> bytes:
        for data in self._database.read(self._ask(GET_BLOB, digest)):
            return data
        raise KeyError(digest)

    def digests(self, older_than_seconds: float) -> Iterator[str]:
        last = ""
        while page := self._database.read(self._ask(OLD_BLOBS, older_than_seconds, last, PAGE)):
            yield from page
            last = page[-1]

    def delete(self, digest: str, older_than_seconds: float) -> None:
        self._database.write(lambda: self._ask(DELETE_BLOB, digest, older_than_seconds))

    def _put(self, digest: str, data: bytes) -> Plan[None]:
        """Write it once: a blob that exists is only touched, and not sent."""
        if not (yield from self._ask(TOUCH_BLOB, digest)):
            yield from self._ask(PUT_BLOB, digest, b64encode(data).decode())
