"""The doctor's connection to a PostgreSQL server: it cannot write, and no query takes long."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg

from rowcall.base.clock import Clock
from rowcall.drivers.postgres.connection import is_pooled, tried
from rowcall.drivers.postgres.errors import cannot_connect
from rowcall.store.postgres.words import render
from rowcall.store.statement import Row

ANSWER_SECONDS = 10
LOCK_SECONDS = 2


class ServerConnection:
    def __init__(self, raw: psycopg.Connection[Row], prefix: str, clock: Clock) -> None:
        self._clock = clock
        self._raw = raw
        self._prefix = prefix
        self._raw.read_only = True

    @property
    def server_version(self) -> int:
        return self._raw.info.server_version

    @property
    def server_version_text(self) -> str:
        return self._raw.info.parameter_status("server_version") or "?"

    @property
    def user(self) -> str:
        return self._raw.info.user

    @property
    def is_pooled(self) -> bool:
        return is_pooled(self._raw)

    def rows(self, question: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Run a query of `server_sql` in its own transaction, which works behind a pooler too."""
        with self._raw.transaction():
            self._raw.execute(f"set local statement_timeout = '{ANSWER_SECONDS}s'")
            self._raw.execute(f"set local lock_timeout = '{LOCK_SECONDS}s'")
            return self._raw.execute(render(question, self._prefix), parameters).fetchall()

    def row(self, question: str, *parameters: object) -> tuple[Any, ...]:
        """Return the first row of a query that always has one."""
        return self.rows(question, *parameters)[0]

    def timed(self, question: str, *parameters: object) -> tuple[Any, float, float]:
        """Return the value, and this machine's time right before and after the query."""
        asked_at = self._clock.wall()
        found = self._raw.execute(render(question, self._prefix), parameters).fetchone()
        answered_at = self._clock.wall()
        assert found is not None
        return found[0], asked_at, answered_at


@contextlib.contextmanager
def connected(url: str) -> Iterator[psycopg.Connection[Row]]:
    """Connect, or raise `StoreUnavailable`."""
    raw = tried(url)
    if not isinstance(raw, psycopg.Connection):
        raise cannot_connect(raw, url)
    raw.prepare_threshold = None  # there may be a pooler
    try:
        yield raw
    finally:
        raw.close()
