"""Writes what handlers log: with the end of the attempt, and before that every few seconds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from operator import attrgetter
from typing import Protocol, TypeVar

from rowcall.context import logger, running
from rowcall.domain.job_log import AttemptLines, LogRow
from rowcall.operations.effects import Write
from rowcall.queue import Queue
from rowcall.store.dialect import Dialect
from rowcall.store.statement import Plan
from rowcall.store.streams import lines
from rowcall.worker.pace import JOB_LOG_SECONDS
from rowcall.worker.streams import Streaming, write_last

T = TypeVar("T")


class Logging(Streaming, Protocol):
    """The attempt of a handler that may append values and log."""

    lines: AttemptLines | None

    def log_row(self) -> LogRow | None: ...


class JobLogWriter:
    """Writes the lines of attempts that run."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._written_at = queue.clock.timer()

    def write(self, attempts: Iterable[Logging]) -> None:
        timer = self._queue.clock.timer
        if timer() - self._written_at < JOB_LOG_SECONDS:
            return
        self._written_at = timer()
        told = [one for one in attempts if one.lines is not None and one.lines.is_new]
        rows = {one.ready.fence: row for one in told if (row := one.log_row()) is not None}
        if rows:
            self._queue.run(Write(lines.write_running, self._queue.dialect, rows))


def with_output(
    dialect: Dialect, attempts: Iterable[Logging], plan: Plan[T], live: Callable[[T], Collection[int]]
) -> Plan[T]:
    """Run a plan that settles attempts; write what they have appended and logged in the same transaction.

    The claims are gone by then: a writer that has not committed that finds that its attempt is lost.
    """
    result = yield from plan
    telling = [one for one in attempts if one.lines is not None or one.streamed is not None]
    if telling:
        ids = live(result)
        by_id = {one.ready.id: one for one in telling}
        if len(by_id) < len(telling):  # one was declared lost and claimed again: its last attempt counts
            by_id = {one.ready.id: one for one in sorted(telling, key=_lease)}
        settled = [one for job_id, one in by_id.items() if job_id in ids]
        yield from write_last(dialect, [one.streamed for one in settled if one.streamed is not None])
        yield from lines.write_logs(dialect, [row for one in settled if (row := one.log_row()) is not None])
    return result


_lease = attrgetter("ready.lease")


class KeepEverything(logging.Handler):
    """Keeps what reaches the root logger while a handler runs."""

    def emit(self, record: logging.LogRecord) -> None:
        attempt = running.get(None)
        if attempt is None or record.name == logger.name:  # what `ctx.log` writes is kept already
            return
        lines = attempt.log_lines
        if lines is not None and record.levelno >= lines.lowest:
            lines.add(record.levelno, self.format(record))
