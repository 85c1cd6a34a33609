"""What handlers have logged."""

from __future__ import annotations

from collections.abc import Sequence

from rowcall.domain.encryption import TOKEN, Kind, masked
from rowcall.domain.job import Job
from rowcall.domain.job_log import LogLine, lines_of
from rowcall.operations.effects import Read
from rowcall.operations.inspect import get_row
from rowcall.queue import Operation, Queue
from rowcall.store.queries.streams import LOG_OF, StoredLines


def log(queue: Queue, job: Job | int) -> Operation[list[LogLine]]:
    """Return what the handler of a job has written with `ctx.log`: the newest lines of each attempt, oldest first.

        for line in jobs.log(job):
            print(line.at, line.level, line.message)

    The lines of a running attempt are some seconds old. `Rowcall(job_log=…)` says how much is kept.
    """
    row = yield from get_row(queue, job)
    return opened_lines(queue, row, (yield from Read(queue.dialect.ask(LOG_OF, row.id))))


def opened_lines(queue: Queue, row: Job, rows: Sequence[StoredLines]) -> list[LogLine]:
    """Return what the attempts of a job have logged, decrypted if there is the key."""
    lines: list[LogLine] = []
    for attempt, text in rows:
        opened = queue.blobs.opened_text(text, row.type, Kind.LOG)
        if TOKEN.fullmatch(opened):
            lines.append(LogLine(at=row.created_at, level="", message=masked(opened), attempt=attempt))
        else:
            lines += lines_of(opened, attempt)
    return lines
