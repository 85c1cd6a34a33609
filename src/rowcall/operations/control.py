"""Retry, cancel, reschedule and delete jobs, one or many; pause queues and tasks. The timeline says who did it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TypedDict

import msgspec

from rowcall.base.text import CODE_LENGTH, one_line
from rowcall.context import logger
from rowcall.declare.limits import with_limits
from rowcall.declare.option_table import (
    ENQUEUE_OPTIONS,
    EditOptions,
    Options,
    attempts_of,
    checked,
    checked_edit,
)
from rowcall.domain import checks
from rowcall.domain.backoff import Backoff, backoff_to_text
from rowcall.domain.errors import InvalidOption, refuse_unknown
from rowcall.domain.job import EVERY_QUEUE, FINISHED, WAITING, Job, Paused, Status, what_is_paused
from rowcall.operations import blobs
from rowcall.operations.arguments import checked_actor, checked_id, checked_reason
from rowcall.operations.enqueue import bind_by_name
from rowcall.operations.inspect import get_row
from rowcall.operations.steps import Read, Write, read, write
from rowcall.queue import Operation, Queue
from rowcall.store.control import actions
from rowcall.store.control.bulk_actions import Walk, Wanted, cancel_some, error_codes_like, retry_some
from rowcall.store.control.queries import PAUSE, PAUSED, RESUME
from rowcall.store.dialect import Dialect
from rowcall.store.jobs import inspect
from rowcall.store.statement import Plan

HIGHEST_RATE = 1000.0
LOWEST_RATE = 1 / 3600
KEY_LENGTH = 512
_EDITED_AS_GIVEN = (
    *("queue", "priority", "max_attempts", "timeout_seconds"),
    *("run_at_ms", "delay_ms", "expires_at_ms", "expires_in_ms"),
)


class JobFilter(TypedDict, total=False):
    status: str | None
    queue: str | None
    type: str | None
    tag: str | None
    limit: int | None


class CancelFilter(JobFilter, total=False):
    """The jobs to cancel. A `key` needs a `type`; `limit` is the highest number of jobs."""

    key: str | None


class RetryFilter(JobFilter, total=False):
    """The jobs to retry, and how many of them become due per second (`rate`)."""

    error_code: str | None
    rate: float | None


def retry(
    queue: Queue, job: Job | int | None, actor: str | None, connection: object, chosen: RetryFilter
) -> Operation[Job | int]:
    who = checked_actor(actor)
    if job is not None:
        _refuse_filter(chosen)
        return (yield from write(queue, connection, _retry_one, queue, checked_id(job), who))
    wanted = yield from read(queue, connection, _with_codes, _jobs_to_retry(chosen))
    rate = chosen.get("rate")
    return (
        yield from _walk(
            queue,
            connection,
            lambda dialect, walk: retry_some(
                dialect, wanted, walk, lambda task: _attempts_of(queue, task), rate, who, queue.now_ms()
            ),
        )
    )


def cancel(
    queue: Queue,
    job: Job | int | None,
    reason: str | None,
    actor: str | None,
    connection: object,
    chosen: CancelFilter,
) -> Operation[Job | int]:
    why, who = checked_reason(reason, queue.failures), checked_actor(actor)
    if job is not None:
        _refuse_filter(chosen)
        return (yield from write(queue, connection, actions.cancel, checked_id(job), why, who, queue.now_ms()))
    wanted = _jobs_to_cancel(chosen)
    return (
        yield from _walk(
            queue,
            connection,
            lambda dialect, walk: cancel_some(dialect, wanted, walk, why, who, queue.now_ms()),
        )
    )


def reschedule(
    queue: Queue,
    job: Job | int,
    run_at: datetime | None,
    delay: float | timedelta | None,
    actor: str | None,
    connection: object,
) -> Operation[Job]:
    if run_at is None and delay is None:
        raise InvalidOption("run_at", "is missing: pass run_at=… or delay=…")
    given = checked({"run_at": run_at, "delay": delay}, ENQUEUE_OPTIONS)
    times = given.run_at_ms, given.delay_ms or 0
    who = checked_actor(actor)
    return (yield from write(queue, connection, actions.reschedule, checked_id(job), *times, who, queue.now_ms()))


def edit(
    queue: Queue,
    job: Job | int,
    arguments: Mapping[str, object] | None,
    actor: str | None,
    connection: object,
    options: EditOptions,
) -> Operation[Job]:
    given, who = checked_edit(options), checked_actor(actor)
    names = [name for name, value in options.items() if value is not None]
    if arguments is None and not names:
        raise InvalidOption("edit", "needs something to change: pass arguments or options")
    payload = limits = None
    if arguments is not None:
        found = yield from get_row(queue, job, connection)
        call = bind_by_name(queue, found.type, arguments, Options())
        payload, limits = call.payload, with_limits(call.job, call.payload).limits
        payload = yield from blobs.store(queue, found.type, payload)
        names.insert(0, "payload")
    edited = actions.Edited(
        names=tuple(names),
        payload=payload,
        limits=limits,
        retry=backoff_to_text(given.retry) if isinstance(given.retry, Backoff) else None,
        tags=None if given.tags is None else tuple(dict.fromkeys(given.tags)),
        **{name: getattr(given, name) for name in _EDITED_AS_GIVEN},
    )
    make_plan = blobs.safe_on(connection, actions.edit, payload)
    return (yield from write(queue, connection, make_plan, checked_id(job), edited, who, queue.now_ms()))


def set_priority(queue: Queue, job: Job | int, priority: int, actor: str | None, connection: object) -> Operation[Job]:
    given = checked({"priority": priority}, ENQUEUE_OPTIONS).priority
    if given is None:
        raise InvalidOption("priority", "must be a whole number, got None")
    who = checked_actor(actor)
    return (yield from write(queue, connection, actions.set_priority, checked_id(job), given, who, queue.now_ms()))


def delete(queue: Queue, job: Job | int, connection: object) -> Operation[None]:
    yield from write(queue, connection, actions.delete, checked_id(job))


def _walk(queue: Queue, connection: object, step: Callable[[Dialect, Walk], Plan[Walk]]) -> Operation[int]:
    """Change all jobs that fit a filter, some in each transaction, or all in the caller's; return how many."""
    walk = Walk()
    while not walk.over:
        walk = yield from write(queue, connection, step, walk)
    return walk.changed


def _retry_one(dialect: Dialect, queue: Queue, job_id: int, actor: str) -> Plan[Job]:
    job = yield from inspect.get(dialect, job_id)
    more = _attempts_of(queue, job.type)
    return (yield from actions.retry(dialect, job.id, more, actor, queue.now_ms()))


def _attempts_of(queue: Queue, task: str) -> int:
    declared = queue.tasks.get(task)
    given = declared.options if declared is not None else Options()
    return given.max_attempts or attempts_of(queue.options.defaults, given.queue or queue.options.default_queue)


def _with_codes(dialect: Dialect, wanted: Wanted) -> Plan[Wanted]:
    if wanted.error_code is None or wanted.statuses != (Status.FAILED,):
        return wanted
    codes = yield from error_codes_like(dialect, wanted.error_code)
    return msgspec.structs.replace(wanted, error_codes=codes)


def pause(queue: Queue, queue_name: str | None, task: str | None, actor: str | None) -> Operation[Paused]:
    kind, name = _checked_pause(queue_name, task)
    (paused,) = yield from Write(queue.dialect.ask, PAUSE, queue.now_ms(), kind, name, checked_actor(actor))
    logger.info("paused %s, by %s", one_line(what_is_paused(kind, name)), one_line(str(paused.actor)))
    return paused


def resume(queue: Queue, queue_name: str | None, task: str | None, actor: str | None) -> Operation[bool]:
    kind, name = _checked_pause(queue_name, task)
    who = checked_actor(actor)
    was_paused = bool((yield from Write(queue.dialect.ask, RESUME, kind, name)))
    if was_paused:
        logger.info("resumed %s, by %s", one_line(what_is_paused(kind, name)), one_line(who))
    return was_paused


def paused(queue: Queue) -> Operation[list[Paused]]:
    return (yield from Read(queue.dialect.ask(PAUSED)))


def _checked_pause(queue: object, task: object) -> tuple[str, str]:
    """Return the kind and the name of what is to be paused or resumed."""
    if queue is not None and task is not None:
        raise InvalidOption("task", f"cannot be combined with the queue {queue!r}; pause or resume one at a time")
    if queue is None and task is None:
        raise InvalidOption("queue", "must be the name of a queue; for a task, pass task=… instead")
    kind, name = ("queue", queue) if queue is not None else ("task", task)
    if task == EVERY_QUEUE:
        raise InvalidOption("task", f"{task!r} is not a task; to pause or resume everything, name the queue {task!r}")
    return kind, checks.name(kind, name)


def _jobs_to_cancel(given: Mapping[str, object]) -> Wanted:
    _check("cancel", given, {*CancelFilter.__annotations__, *JobFilter.__annotations__})
    key = given.get("key")
    if key is not None and given.get("type") is None:
        raise InvalidOption("key", "belongs to a task: pass type=… with it")
    if key is not None and (not isinstance(key, str) or not 1 <= len(key) <= KEY_LENGTH):
        raise InvalidOption("key", f"must be a text of 1 to {KEY_LENGTH} characters, got {key!r}")
    return _wanted(given, (*WAITING, Status.RUNNING), None)


def _jobs_to_retry(given: Mapping[str, object]) -> Wanted:
    _check("retry", given, {*RetryFilter.__annotations__, *JobFilter.__annotations__})
    code = given.get("error_code")
    if code is not None and (not isinstance(code, str) or not 1 <= len(code) <= CODE_LENGTH + 1):
        raise InvalidOption("error_code", f"must look like TIMEOUT:HANDLER or TIMEOUT:*, got {code!r}")
    rate = given.get("rate")
    if rate is not None and not _is_rate(rate):
        raise InvalidOption("rate", f"must be a number of jobs per second, up to {HIGHEST_RATE:g}, got {rate!r}")
    return _wanted(given, FINISHED, Status.FAILED)


def _refuse_filter(given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value is not None:
            raise InvalidOption(option, "is a filter, and cannot be combined with a job")


def _check(verb: str, given: Mapping[str, object], allowed: set[str]) -> None:
    refuse_unknown(given, allowed, "filter")
    for option in ("queue", "type", "tag"):
        name = given.get(option)
        if name is not None:
            checks.name(option, name)
    limit = given.get("limit")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InvalidOption("limit", f"must be a whole number above 0, got {limit!r}")
    if all(value is None for option, value in given.items() if option not in ("limit", "rate")):
        raise InvalidOption(verb, "this matches every job; add a filter such as status=… or queue=…")


def _wanted(given: Mapping[str, object], possible: tuple[Status, ...], usual: Status | None) -> Wanted:
    status = given.get("status") or usual
    if status is not None and status not in possible:
        raise InvalidOption("status", f"must be one of {', '.join(possible)}, got {status!r}")
    chosen = {name: given.get(name) for name in ("queue", "type", "tag", "key", "error_code", "limit")}
    return Wanted(statuses=possible if status is None else (Status(str(status)),), **chosen)  # type: ignore[arg-type]


def _is_rate(rate: object) -> bool:
    return isinstance(rate, int | float) and not isinstance(rate, bool) and LOWEST_RATE <= rate <= HIGHEST_RATE
