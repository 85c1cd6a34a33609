"""Blobs in a table of the server, which all workers of a fleet can reach.

Each is put in a short transaction of our own before the row that refers to it, even where the row is written in a
transaction of the caller's: there it could wait for, or fail with, everybody who enqueues the same content.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from rowcall.queue import Queue
    from rowcall.store.postgres.dialect import PostgresDialect

PAGE = 1000


class BlobTable:
    def __init__(self, core: Queue) -> None:
        self._core = core
        self._dialect = cast("PostgresDialect", core.dialect)

    def put(self, digest: str, data: bytes) -> None:
        self._core.write(lambda: self._dialect.put_blob(digest, data, self._core.now_ms()))

    def get(self, digest: str) -> bytes:
        data = self._core.read(self._dialect.get_blob(digest))
        if data is None:
            raise KeyError(digest)
        return data

    def digests(self, older_than_seconds: float) -> Iterator[str]:
        last = ""
        while page := self._page(older_than_seconds, last):
            yield from page
            last = page[-1]

    def delete(self, digest: str, older_than_seconds: float) -> None:
        self._core.write(lambda: self._dialect.delete_blob(digest, older_than_seconds, self._core.now_ms()))

    def _page(self, older_than_seconds: float, after: str) -> list[str]:
        return self._core.read(self._dialect.old_blobs(older_than_seconds, after, PAGE, self._core.now_ms()))
