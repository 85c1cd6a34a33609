"""Schedules tick: the jobs of a tick and the time of the next tick are written in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from rowcall.domain.checks import name_problem, queue_problem
from rowcall.domain.errors import ScheduleNotFound
from rowcall.domain.job import Job
from rowcall.domain.payload import value_from_row
from rowcall.domain.schedule import Due, check_timing, due_ticks, has_cron, next_tick
from rowcall.store.dialect import Dialect
from rowcall.store.enqueue.related import write_related
from rowcall.store.new_job import Inserted, NewJob, RelatedJob
from rowcall.store.queries import schedules as queries
from rowcall.store.queries.control import RECORD_EVENTS
from rowcall.store.queries.counts import NOW
from rowcall.store.queries.schedules import DeclaredSchedule, ScheduleRow
from rowcall.store.statement import Plan

Change = Callable[[DeclaredSchedule], DeclaredSchedule]

SCHEDULES_AT_ONCE = 100
TICKS_AT_ONCE = 200
_SMALLEST, _LARGEST = -(2**31), 2**31 - 1
_EARLIEST_MS, _SOME_TIME_MS, _LATEST_MS = 100_000_000_000, 1_700_000_000_000, 253_402_300_799_999


def tick(dialect: Dialect) -> Plan[bool]:
    """Enqueue the due ticks of every schedule; return whether any was due."""
    (now_ms,) = yield from dialect.ask(NOW)
    dialect = dialect.at(now_ms)
    rows = yield from dialect.ask(queries.DUE_SCHEDULES, SCHEDULES_AT_ONCE, int(has_cron()))
    left = TICKS_AT_ONCE
    for number, row in enumerate(rows):
        try:
            due = _due(row, now_ms, max(1, left // (len(rows) - number)))
        except Exception as error:  # plain SQL can write anything, and one odd row must not stop the others
            yield from dialect.ask(queries.STOP_SCHEDULE, row.name, f"{type(error).__name__}: {error}")
        else:
            left -= len(due.ticks)
            yield from _tick(dialect, row, due)
    return bool(rows)


def _due(row: ScheduleRow, now_ms: int, most: int) -> Due:
    """Return the due ticks of a schedule, or raise whatever its row makes impossible."""
    assert row.next_run_at_ms is not None
    check_timing(row.timing)
    job = job_of(row)
    due = due_ticks(row.timing, row.next_run_at_ms, now_ms, most)
    _check_times([*(at_ms + job.delay_ms for at_ms in due.ticks), due.following_ms])
    return due


def _tick(dialect: Dialect, row: ScheduleRow, due: Due) -> Plan[None]:
    job = job_of(row)
    last: tuple[int | None, int | None] = (None, None)
    for at_ms in due.ticks:
        ticking = msgspec.structs.replace(job, run_at_ms=at_ms + job.delay_ms, delay_ms=0)
        last = at_ms, (yield from _enqueue(dialect, row, ticking, "TICK", None)).job_id
    yield from dialect.ask(queries.MOVE_ON, row.name, due.following_ms, *last)


class Made(NamedTuple):
    """The job of a tick, or the job that already has its key."""

    job_id: int
    duplicate: bool = False


def _enqueue(dialect: Dialect, row: ScheduleRow, job: NewJob, event: str, actor: str | None) -> Plan[Made]:
    if job.is_alone:
        written: Sequence[Inserted | Job] = yield from dialect.insert(job, [row.payload])
    else:
        written = yield from write_related(dialect, [RelatedJob(job=job, payload=row.payload)])
    (enqueued,) = written
    duplicate = isinstance(enqueued, Job)
    if not duplicate or actor is not None:  # on the job of another, show only what a person did
        yield from dialect.ask(RECORD_EVENTS, [enqueued.id], event, actor, row.name)
    return Made(enqueued.id, duplicate)


def job_of(row: DeclaredSchedule) -> NewJob:
    """Return the job that the schedule enqueues; `ValueError` where no table could hold it."""
    options = msgspec.json.decode(row.options, type=dict[str, object])
    job = msgspec.convert({"queue": "default", **options, "type": row.task}, NewJob)
    problem = name_problem(job.type) or queue_problem(job.queue)
    if problem or not _SMALLEST <= job.priority <= _LARGEST or not 1 <= job.max_attempts <= _LARGEST:
        raise ValueError(problem or "priority and max_attempts are out of range")
    _check_times([job.expires_at_ms, _SOME_TIME_MS + job.delay_ms, _SOME_TIME_MS + (job.expires_in_ms or 0)])
    if job.timeout_seconds is not None and not 1e-6 <= job.timeout_seconds <= 1e10:
        raise ValueError(f"timeout_seconds is out of range: {job.timeout_seconds}")
    if job.after or job.blocked or job.chain_id is not None or job.chain_index is not None:
        raise ValueError("a job of a schedule cannot wait for others or be in a chain")
    if job.tags is not None:
        msgspec.json.decode(job.tags, type=list[str])
    texts = (job.retry, job.tags, job.trace_context, job.key, job.limits, job.target)
    if any("\0" in text for text in texts if text is not None):
        raise ValueError("a text holds a NUL character")
    if job.unique is not None and job.unique.on_duplicate == "raise":  # there is no caller to raise it to
        return msgspec.structs.replace(job, unique=msgspec.structs.replace(job.unique, on_duplicate="return"))
    return job


def _check_times(times: Iterable[int | None]) -> None:
    if not all(_EARLIEST_MS < at_ms <= _LATEST_MS for at_ms in times if at_ms is not None):
        raise ValueError("a time is out of range")


def schedules(dialect: Dialect) -> Plan[list[ScheduleRow]]:
    """Return all schedules, by name."""
    return dialect.ask(queries.SCHEDULES)


def put_all(
    dialect: Dialect,
    declared: Iterable[DeclaredSchedule],
    encrypted: Change = lambda entry: entry,
    decrypted: Change = lambda entry: entry,
) -> Plan[None]:
    """Write the schedules that are new or changed; in one order, so that two writers cannot deadlock.

    `encrypted` returns a schedule as it is written, and `decrypted` one as it was declared.
    """
    (now_ms,) = yield from dialect.ask(NOW)
    kept = {row.name: row for row in (yield from schedules(dialect))}
    for declaration in sorted(declared, key=lambda declaration: declaration.name):
        row = kept.get(declaration.name)
        if row is None or not row.declared or row.problem is not None or not are_equal(decrypted(row), declaration):
            yield from _put(dialect, encrypted(declaration), next_tick(declaration.timing, now_ms), declared=True)


def _put(dialect: Dialect, declaration: DeclaredSchedule, first_ms: int | None, *, declared: bool) -> Plan[None]:
    one, timing = declaration, declaration.timing
    given = (one.name, one.task, one.payload, one.options, timing.cron, timing.every_ms, timing.zone, timing.catch_up)
    yield from dialect.ask(queries.PUT_SCHEDULE, *given, int(declared), first_ms)


def are_equal(schedule: DeclaredSchedule, other: DeclaredSchedule) -> bool:
    """Return whether both say the same; a database may format their JSON differently."""
    return (
        (schedule.task, schedule.timing) == (other.task, other.timing)
        and value_from_row(schedule.payload) == value_from_row(other.payload)
        and value_from_row(schedule.options) == value_from_row(other.options)
    )


def put(dialect: Dialect, declaration: DeclaredSchedule) -> Plan[ScheduleRow]:
    (now_ms,) = yield from dialect.ask(NOW)
    yield from _put(dialect, declaration, next_tick(declaration.timing, now_ms), declared=False)
    return (yield from _locked(dialect, declaration.name))


def run_now(dialect: Dialect, name: str, actor: str) -> Plan[Made]:
    """Enqueue one job of the schedule, even if it is paused; its ticks do not change."""
    row = yield from _locked(dialect, name)
    (now_ms,) = yield from dialect.ask(NOW)
    job = msgspec.structs.replace(job_of(row), run_at_ms=now_ms, delay_ms=0)
    made = yield from _enqueue(dialect.at(now_ms), row, job, "RUN_NOW", actor)
    yield from dialect.ask(queries.MOVE_ON, name, row.next_run_at_ms, None, made.job_id)
    return made


def pause(dialect: Dialect, name: str, actor: str) -> Plan[ScheduleRow]:
    row = yield from _locked(dialect, name)
    if row.paused:
        return row
    yield from dialect.ask(queries.PAUSE_SCHEDULE, name, actor)
    return (yield from _locked(dialect, name))


def resume(dialect: Dialect, name: str, actor: str) -> Plan[ScheduleRow]:
    """Continue with the next tick from now on; ticks during the pause are not made up for."""
    row = yield from _locked(dialect, name)
    if not row.paused and row.problem is None:
        return row
    check_timing(row.timing)
    (now_ms,) = yield from dialect.ask(NOW)
    yield from dialect.ask(queries.RESUME_SCHEDULE, name, next_tick(row.timing, now_ms), actor)
    return (yield from _locked(dialect, name))


def remove(dialect: Dialect, name: str) -> Plan[None]:
    if not (yield from dialect.ask(queries.REMOVE_SCHEDULE, name)):
        raise ScheduleNotFound(name)


def _locked(dialect: Dialect, name: str) -> Plan[ScheduleRow]:
    for row in (yield from dialect.ask(queries.LOCK_SCHEDULE, name)):
        return row
    raise ScheduleNotFound(name)
