"""A doctor's connection to a PostgreSQL server: it cannot write, and waits for no answer for long."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import psycopg

from rowcall.drivers.postgres.connection import is_pooled, tried
from rowcall.drivers.postgres.errors import cannot_connect
from rowcall.store.postgres.words import render
from rowcall.store.statement import Row

ANSWER_SECONDS = 10
LOCK_SECONDS = 2


class Look:
    def __init__(self, raw: psycopg.Connection[Row], prefix: str) -> None:
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
        """The answer to one of `server_sql`, in a transaction of its own: right behind a pooler too."""
        with self._raw.transaction():
            self._raw.execute(f"set local statement_timeout = '{ANSWER_SECONDS}s'")
            self._raw.execute(f"set local lock_timeout = '{LOCK_SECONDS}s'")
            return self._raw.execute(render(question, self._prefix), parameters).fetchall()

    def row(self, question: str, *parameters: object) -> tuple[Any, ...]:
        """The first row of an answer that always has one."""
        return self.rows(question, *parameters)[0]

    def at_once(self, question: str, *parameters: object) -> tuple[Any, float, float]:
        """The value, and this machine's clock right before and after the question."""
        asked_at = time.time()
        found = self._raw.execute(render(question, self._prefix), parameters).fetchone()
        answered_at = time.time()
        assert found is not None
        return found[0], asked_at, answered_at


@contextlib.contextmanager
def connected(url: str) -> Iterator[psycopg.Connection[Row]]:
    """`StoreUnavailable` says why there is no connection."""
    raw = tried(url)
    if not isinstance(raw, psycopg.Connection):
        raise cannot_connect(raw, url)
    raw.prepare_threshold = None  # a pooler may be in between
    try:
        yield raw
    finally:
        raw.close()
