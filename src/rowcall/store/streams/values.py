"""Append values to streams, fenced by the claims of their attempts; read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowcall.domain.errors import JobNotFound
from rowcall.domain.stream import Position, StreamRow, StreamStart
from rowcall.store.dialect import Dialect
from rowcall.store.queries import streams as queries
from rowcall.store.queries.claims import Fence
from rowcall.store.queries.results import NOTIFY_READERS
from rowcall.store.queries.steps import CURRENT
from rowcall.store.queries.streams import StoredValue
from rowcall.store.results.readers import Look
from rowcall.store.statement import Plan

ROWS_AT_ONCE = 1000


def start(dialect: Dialect, job_id: int, lease: int) -> Plan[StreamStart]:
    """Return where the values of an attempt begin, by the lease of its claim."""
    (found,) = yield from dialect.ask(queries.STREAM_START, job_id, lease)
    return found


def append(dialect: Dialect, rows: Mapping[Fence, Sequence[StreamRow]]) -> Plan[set[Fence]]:
    """Write the values of running attempts. Return the attempts that are current: nothing is written about others."""
    live = set((yield from dialect.ask(CURRENT, sorted(rows))))
    yield from write(dialect, [row for fence in sorted(live) for row in rows[fence]])
    return live


def write(dialect: Dialect, rows: Sequence[StreamRow]) -> Plan[None]:
    """Write values of attempts whose claims this transaction has locked or deleted."""
    if rows:
        yield from dialect.ask(queries.APPEND, rows)
        yield from dialect.ask(NOTIFY_READERS, sorted({row.job_id for row in rows}))


class ValueReader:
    """Reads one stream of a job."""

    task = ""

    def __init__(self, after: Position, name: str) -> None:
        self.waits_for = after.job_id
        self._name = name
        self._read = after.number

    def start(self, dialect: Dialect, name: str) -> Plan[int]:
        jobs = yield from dialect.ask(queries.STREAMED_JOB, self.waits_for)
        if not jobs:
            raise JobNotFound(self.waits_for)
        self.task = jobs[0].type
        return 0

    def look(self, dialect: Dialect, name: str) -> Plan[Look[StoredValue]]:
        # the job first: after its end, nothing is appended
        jobs = yield from dialect.ask(queries.STREAMED_JOB, self.waits_for)
        rows = yield from dialect.ask(queries.STREAM_VALUES, self.waits_for, self._read, self._name, ROWS_AT_ONCE)
        if rows:
            self._read = rows[-1].number
        more = len(rows) == ROWS_AT_ONCE
        is_over = not jobs or bool(jobs[0].has_ended)
        return Look([row for row in rows if row.value is not None], more=more, gone=is_over and not more)
