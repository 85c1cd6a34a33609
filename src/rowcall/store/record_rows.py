"""Rows to the values of `rowcall.store.records`, alike for every database."""

from __future__ import annotations

from typing import cast

import msgspec

from rowcall.base.histogram import from_json
from rowcall.base.times import milliseconds_of
from rowcall.domain.job import Status
from rowcall.store.records import (
    Arrived,
    Chores,
    Doomed,
    ErrorEnds,
    Folded,
    Group,
    Past,
    Running,
    StoreHealth,
    Tally,
    Total,
    Waiting,
)
from rowcall.store.rows import job_from_row, milliseconds, text
from rowcall.store.statement import Row


def number(row: Row) -> int:
    return cast("int", row[0])


def total(row: Row) -> Total:
    status, queue, kind, error_code, attempt, jobs = row
    return Total(str(status), str(queue), str(kind), str(error_code), cast("int", attempt), int(cast("int", jobs)))


def waiting(row: Row) -> Waiting:
    return Waiting(*cast("tuple[str, str, str, int, int | None]", row))


def attempts(row: Row) -> tuple[str, int, int]:
    kind, attempt, jobs = cast("tuple[str, int, int]", row)
    return kind, attempt, int(jobs)


def arrived(row: Row) -> Arrived:
    return Arrived(*cast("tuple[str, str, int, int, int | None]", row))


def past(row: Row) -> Past:
    at, span, queue, kind, outcome, jobs, waits, runs = cast(
        "tuple[int, int, str, str, str, int, str | None, str | None]", row
    )
    return Past(at, span, queue, kind, outcome, int(jobs), from_json(waits), from_json(runs))


def numbered_past(row: Row) -> tuple[int, Past]:
    return cast("int", row[0]), past(row[1:])


def folded(row: Row) -> Folded:
    tally_id, at, queue, kind, outcome, status, error_code, attempt, jobs, waits, runs = cast(
        "tuple[int, int, str, str, str | None, str | None, str, int, int, str | None, str | None]", row
    )
    tally = Tally(
        queue=queue,
        type=kind,
        outcome=outcome,
        status=status,
        error_code=error_code,
        attempt=attempt,
        jobs=jobs,
        waits=from_json(waits),
        runs=from_json(runs),
    )
    return Folded(tally_id, at, tally)


def group(row: Row) -> Group:
    status, queue, kind = cast("tuple[str, str, str]", row)
    return Group(Status(status), queue, kind)


def doomed(row: Row) -> Doomed:
    jobs, oldest_ms = row
    return Doomed(cast("int", jobs), milliseconds(oldest_ms))


def error_ends(row: Row) -> ErrorEnds:
    code, first_ms, last_ms, sample = row
    return ErrorEnds(str(code), milliseconds(first_ms), milliseconds(last_ms), text(sample))


def running(row: Row) -> Running:
    *fields, host, beat_at, last_sign = row
    job = job_from_row(tuple(fields))
    last_sign_ms = milliseconds(last_sign)
    return Running(
        job,
        cast("str | None", host),
        cast("int | None", beat_at),
        milliseconds_of(job.created_at) if last_sign_ms is None else last_sign_ms,
    )


def setting(row: Row) -> tuple[str, str]:
    name, value = row
    return str(name), str(value)


def health(row: Row) -> StoreHealth:
    return StoreHealth(*cast("tuple[int, float, int]", row))


def chores(row: Row) -> Chores:
    at_ms, any_tally, settings = cast("tuple[int, int, str]", row)
    return Chores(at_ms, bool(any_tally), msgspec.json.decode(settings, type=dict[str, str]))
