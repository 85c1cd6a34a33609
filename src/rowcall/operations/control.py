"""Retry, cancel, reschedule and delete jobs, one or many. The timeline of a job says who did it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from rowcall.declare.options import DEFAULT_MAX_ATTEMPTS, ENQUEUE_OPTIONS, checked
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Job, Status
from rowcall.operations.arguments import checked_actor, checked_id, checked_reason
from rowcall.operations.job_filters import CancelFilter, RetryFilter, jobs_to_cancel, jobs_to_retry, refuse_filter
from rowcall.operations.steps import Read, Write
from rowcall.queue import Operation, Queue
from rowcall.store.control import actions
from rowcall.store.control.bulk_actions import Walk, Wanted, cancel_some, error_codes_like, retry_some
from rowcall.store.jobs import inspect
from rowcall.store.statement import Plan


def retry(queue: Queue, job: Job | int | None, actor: str | None, chosen: RetryFilter) -> Operation[Job | int]:
    who = checked_actor(actor)
    if job is not None:
        refuse_filter(chosen)
        return (yield from Write(_retry_one, queue, checked_id(job), who))
    wanted = yield from Read(_with_codes(queue, jobs_to_retry(chosen)))
    rate = chosen.get("rate")
    return (
        yield from _walk(
            lambda walk: retry_some(
                queue.dialect, wanted, walk, lambda task: _attempts_of(queue, task), rate, who, queue.now_ms()
            )
        )
    )


def cancel(
    queue: Queue, job: Job | int | None, reason: str | None, actor: str | None, chosen: CancelFilter
) -> Operation[Job | int]:
    why, who = checked_reason(reason, queue.failures), checked_actor(actor)
    if job is not None:
        refuse_filter(chosen)
        return (yield from Write(actions.cancel, queue.dialect, checked_id(job), why, who, queue.now_ms()))
    wanted = jobs_to_cancel(chosen)
    return (yield from _walk(lambda walk: cancel_some(queue.dialect, wanted, walk, why, who, queue.now_ms())))


def reschedule(
    queue: Queue, job: Job | int, run_at: datetime | None, delay: float | timedelta | None, actor: str | None
) -> Operation[Job]:
    if run_at is None and delay is None:
        raise InvalidOption("run_at", "is missing: pass run_at=… or delay=…")
    given = checked({"run_at": run_at, "delay": delay}, ENQUEUE_OPTIONS)
    times = given.run_at_ms, given.delay_ms or 0
    who = checked_actor(actor)
    return (yield from Write(actions.reschedule, queue.dialect, checked_id(job), *times, who, queue.now_ms()))


def set_priority(queue: Queue, job: Job | int, priority: int, actor: str | None) -> Operation[Job]:
    given = checked({"priority": priority}, ENQUEUE_OPTIONS).priority
    if given is None:
        raise InvalidOption("priority", "must be a whole number, got None")
    who = checked_actor(actor)
    return (yield from Write(actions.set_priority, queue.dialect, checked_id(job), given, who, queue.now_ms()))


def delete(queue: Queue, job: Job | int) -> Operation[None]:
    yield from Write(actions.delete, queue.dialect, checked_id(job))


def _walk(step: Callable[[Walk], Plan[Walk]]) -> Operation[int]:
    """Change all jobs that fit a filter, some in each transaction; return how many were changed."""
    walk = Walk()
    while not walk.over:
        walk = yield from Write(step, walk)
    return walk.changed


def _retry_one(queue: Queue, job_id: int, actor: str) -> Plan[Job]:
    job = yield from inspect.get(queue.dialect, job_id)
    more = _attempts_of(queue, job.type)
    return (yield from actions.retry(queue.dialect, job.id, more, actor, queue.now_ms()))


def _attempts_of(queue: Queue, task: str) -> int:
    declared = queue.tasks.get(task)
    return (declared.options.max_attempts if declared is not None else None) or DEFAULT_MAX_ATTEMPTS


def _with_codes(queue: Queue, wanted: Wanted) -> Plan[Wanted]:
    if wanted.error_code is None or wanted.statuses != (Status.FAILED,):
        return wanted
    codes = yield from error_codes_like(queue.dialect, wanted.error_code)
    return msgspec.structs.replace(wanted, error_codes=codes)
