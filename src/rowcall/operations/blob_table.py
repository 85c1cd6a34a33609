"""Blobs in a table of the server, which all workers of a fleet can reach.

Each is put in a short transaction of our own before the row that refers to it, even where the row is written in a
transaction of the caller's: there it could wait for, or fail with, everybody who enqueues the same content.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rowcall.store.blobs.queries import DELETE_BLOB, GET_BLOB, OLD_BLOBS, PUT_BLOB, TOUCH_BLOB
from rowcall.store.statement import Plan

if TYPE_CHECKING:
    from rowcall.queue import Queue

PAGE = 1000


class BlobTable:
    def __init__(self, core: Queue) -> None:
        self._core = core

    def put(self, digest: str, data: bytes) -> None:
        self._core.write(lambda: self._put(digest, data))

    def get(self, digest: str) -> bytes:
        for data in self._core.read(self._core.dialect.ask(GET_BLOB, digest)):
            return data
        raise KeyError(digest)

    def digests(self, older_than_seconds: float) -> Iterator[str]:
        last = ""
        while page := self._page(older_than_seconds, last):
            yield from page
            last = page[-1]

    def delete(self, digest: str, older_than_seconds: float) -> None:
        self._core.write(lambda: self._core.dialect.ask(DELETE_BLOB, self._core.now_ms(), digest, older_than_seconds))

    def _page(self, older_than_seconds: float, after: str) -> list[str]:
        return self._core.read(self._core.dialect.ask(OLD_BLOBS, self._core.now_ms(), older_than_seconds, after, PAGE))

    def _put(self, digest: str, data: bytes) -> Plan[None]:
        """Write it once: a blob that exists is only touched, and not sent."""
        ask, now_ms = self._core.dialect.ask, self._core.now_ms()
        if not (yield from ask(TOUCH_BLOB, now_ms, digest)):
            yield from ask(PUT_BLOB, now_ms, digest, b64encode(data).decode())
