"""The bare ceiling: the least a queue must do. One loop, no worker, no handlers, history kept."""

from __future__ import annotations

from typing import Protocol

from benchmarks.bare.postgres import BarePostgres
from benchmarks.bare.sqlite import BareSqlite
from benchmarks.database import is_postgres, path_of


class BareQueue(Protocol):
    def insert_singly(self, count: int) -> float:
        """Seconds for that many autocommitted inserts."""

    def insert_many(self, count: int) -> float:
        """Seconds for that many inserts, 1,000 in a transaction."""

    def close(self) -> None: ...


def new_bare_queue(url: str) -> BareQueue:
    """An empty one, next to whatever else is there."""
    if not is_postgres(url):
        return BareSqlite(path_of(url))
    queue = BarePostgres(url)
    queue.create()
    return queue
