"""Schedules: jobs that are enqueued at the times of a cron line, or at a fixed interval."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Protocol, TypedDict, Unpack, runtime_checkable
from zoneinfo import ZoneInfo

import msgspec

from rowcall.base.times import time_or_none
from rowcall.context import logger
from rowcall.declare.option_table import ENQUEUE_OPTIONS, checked
from rowcall.domain import checks
from rowcall.domain.encryption import Kind
from rowcall.domain.errors import CannotDecrypt, InvalidArguments, InvalidOption, refuse_unknown
from rowcall.domain.job import Job, Schedule
from rowcall.domain.payload import payload_from_row
from rowcall.domain.schedule import DEFAULT_CATCH_UP, CatchUp, Timing, has_cron, timing_of
from rowcall.drivers.blobs import inline_length
from rowcall.operations.arguments import checked_actor
from rowcall.operations.effects import EnsureSchema, Read, Write
from rowcall.operations.enqueue import plain_call, through_middleware, with_key
from rowcall.queue import Operation, Queue
from rowcall.store.jobs import inspect
from rowcall.store.new_job import NewJob, RelatedJob
from rowcall.store.queries.schedules import DeclaredSchedule, ScheduleRow
from rowcall.store.schedules import ticks as plans
from rowcall.store.statement import Plan


class ScheduleOptions(TypedDict, total=False):
    """When a schedule enqueues jobs, and into which queue."""

    cron: str | None
    every: float | timedelta | None
    tz: str | ZoneInfo | None
    catch_up: CatchUp
    queue: str | None
    priority: int | None


@runtime_checkable
class Schedulable(Protocol):
    """A declared task."""

    @property
    def name(self) -> str: ...

    def is_of(self, queue: Queue) -> bool: ...


def publish_schedules(queue: Queue) -> None:
    """Write the schedules that are declared here, as far as they are not written yet."""
    if queue.declared.schedules:
        entries = list(queue.declared.schedules.values())
        queue.backend.ensure_schema()
        changes = partial(_encrypted, queue), partial(_decrypted, queue)
        queue.run(Write(plans.put_all, queue.dialect, entries, *changes))
    if not has_cron() and any(row.timing.cron is not None for row in queue.run(Read(plans.schedules(queue.dialect)))):
        logger.warning("there are cron schedules, which this worker cannot run: pip install 'rowcall[cron]'")


def add_schedule(
    queue: Queue,
    /,
    name: str,
    task: str | Schedulable,
    arguments: Mapping[str, object] | None = None,
    **options: Unpack[ScheduleOptions],
) -> Operation[Schedule]:
    """Write a schedule at once, or change the one with that name. The options are those of `jobs.schedule`.

    >>> jobs.add_schedule("nightly", "clean_up", {"days": 30}, cron="0 3 * * *")  # doctest: +SKIP
    """
    refuse_unknown(options, ScheduleOptions.__annotations__)
    catch_up = options.get("catch_up", DEFAULT_CATCH_UP)
    timing = timing_of(options.get("cron"), options.get("every"), options.get("tz"), catch_up)
    job_options = options.get("queue"), options.get("priority")
    entry = new_schedule(queue, name, name_of(queue, task), arguments, *job_options, timing, is_call=True)
    yield from EnsureSchema()
    return _schedule(queue, (yield from Write(plans.put, queue.dialect, _encrypted(queue, entry))))


def name_of(queue: Queue, task: str | Schedulable) -> str:
    if not isinstance(task, Schedulable):
        return task
    if not task.is_of(queue):
        raise InvalidOption("task", f"{task.name!r} is declared on another queue")
    return task.name


def _encrypted(queue: Queue, entry: DeclaredSchedule) -> DeclaredSchedule:
    """Return the schedule as it is written: its jobs get its payload as it is."""
    if queue.backend.cipher is None:
        return entry
    return msgspec.structs.replace(
        entry, payload=queue.backend.cipher.encrypted_json(entry.payload, entry.task, Kind.ARGUMENTS)
    )


def _decrypted(queue: Queue, entry: DeclaredSchedule) -> DeclaredSchedule:
    """Return the schedule as it was declared; one that cannot be decrypted as it is written."""
    with contextlib.suppress(CannotDecrypt):
        payload = queue.blobs.decrypted(entry.payload, entry.task, Kind.ARGUMENTS)
        return msgspec.structs.replace(entry, payload=payload)
    return entry


def list_schedules(queue: Queue, *, unwritten: bool = False) -> Operation[list[Schedule]]:
    """Return all schedules, by name; if `unwritten`, also those of this process that no worker has written yet.

    >>> [schedule.name for schedule in jobs.schedules() if schedule.declaration == "gone"]  # doctest: +SKIP
    ['nightly']
    """
    by_name = {row.name: _schedule(queue, row) for row in (yield from Read(plans.schedules(queue.dialect)))}
    if unwritten:
        by_name = {schedule.name: schedule for schedule in unwritten_schedules(queue)} | by_name
    return [by_name[name] for name in sorted(by_name)]


def unwritten_schedules(queue: Queue) -> list[Schedule]:
    """Return the declared schedules, as they are before a worker writes them."""
    queue.declared.finish()
    return [_described(entry, declaration="new") for _, entry in sorted(queue.declared.schedules.items())]


def remove_schedule(queue: Queue, name: str) -> Operation[None]:
    """Delete a schedule; its jobs stay. `ScheduleNotFound` if there is none with this name."""
    yield from Write(plans.remove, queue.dialect, checks.name("name", name))


def run_schedule_now(queue: Queue, name: str, *, actor: str | None = None) -> Operation[Job]:
    """Enqueue one more job of a schedule, paused or not; its times do not change."""
    return (yield from Write(_run_now, queue, checks.name("name", name), checked_actor(actor)))


def pause_schedule(queue: Queue, name: str, *, actor: str | None = None) -> Operation[Schedule]:
    """Let a schedule enqueue no jobs until it is resumed."""
    arguments = checks.name("name", name), checked_actor(actor)
    return _schedule(queue, (yield from Write(plans.pause, queue.dialect, *arguments)))


def resume_schedule(queue: Queue, name: str, *, actor: str | None = None) -> Operation[Schedule]:
    """Resume a schedule, with its next time from now: times that fell into the pause are not caught up on."""
    arguments = checks.name("name", name), checked_actor(actor)
    return _schedule(queue, (yield from Write(plans.resume, queue.dialect, *arguments)))


def _run_now(queue: Queue, name: str, actor: str) -> Plan[Job]:
    made = yield from plans.run_now(queue.dialect, name, actor)
    job = yield from inspect.get(queue.dialect, made.job_id)
    return msgspec.structs.replace(job, duplicate=True) if made.duplicate else job


def new_schedule(
    queue: Queue,
    name: str,
    task: str,
    arguments: Mapping[str, object] | None,
    job_queue: str | None,
    priority: int | None,
    timing: Timing,
    *,
    is_call: bool = False,
) -> DeclaredSchedule:
    """Return a schedule as it is written; a wrong one is refused, with the reason.

    `is_call`: the app adds it now, and enqueue middleware says what else belongs to its jobs. Declarations have no
    caller, and are made when modules are imported.
    """
    checked_options = checked({"queue": job_queue, "priority": priority}, ENQUEUE_OPTIONS)
    try:
        call = plain_call(queue, task, arguments, checked_options, final=queue.is_open)
        if is_call and queue.declared.enqueue_middleware:
            call = through_middleware(queue, task, call.payload, checked_options)
    except InvalidArguments as error:
        advice = "; pass the task's arguments with arguments={…}" if arguments is None else ""
        raise InvalidArguments(task, f"{error.problem}{advice}") from error
    longest = inline_length(queue.declared.options.blob_threshold, queue.declared.options.payload_limit)
    if len(call.payload) > longest:
        problem = f"{len(call.payload):,} characters are more than a schedule can hold ({longest:,})"
        raise InvalidArguments(task, f"{problem}; store the data elsewhere and pass a reference")
    options = _options(with_key(RelatedJob(job=call.job, payload=call.payload)).job)
    entry = DeclaredSchedule(
        name=checks.name("name", name), task=task, payload=call.payload, options=options, timing=timing
    )
    declared = queue.declared.schedules.get(entry.name)
    if declared is not None and not plans.are_equal(declared, entry):
        raise InvalidOption("name", f"a different schedule named {name!r} is already declared; use another name")
    return entry


def _options(job: NewJob) -> str:
    """Return the options of its jobs that differ from the defaults."""
    plain = msgspec.structs.asdict(NewJob(type=job.type, queue=""))
    given = msgspec.structs.asdict(job)
    return msgspec.json.encode({option: given[option] for option in given if given[option] != plain[option]}).decode()


def _schedule(queue: Queue, row: ScheduleRow) -> Schedule:
    declaration = None
    if row.declared:
        declaration = (
            "current" if row.name in queue.declared.schedules else "gone" if queue.declared.tasks else "unknown"
        )
    described = _described(
        row,
        paused=row.paused,
        paused_by=row.actor if row.paused else None,
        next_run_at=None if row.paused else time_or_none(row.next_run_at_ms),
        last_run_at=time_or_none(row.last_run_at_ms),
        last_job_id=row.last_job_id,
        problem=row.problem,
        declaration=declaration,
    )
    if queue.backend.cipher is None:
        return described
    return msgspec.structs.replace(
        described, arguments=queue.backend.cipher.opened_payload(described.arguments, row.task)
    )


def _described(entry: DeclaredSchedule, **known: Any) -> Schedule:
    timing = entry.timing
    return Schedule(
        name=entry.name,
        task=entry.task,
        arguments=payload_from_row(entry.payload),
        cron=timing.cron,
        every=None if timing.every_ms is None else timedelta(milliseconds=timing.every_ms),
        tz=timing.zone,
        catch_up=timing.catch_up,
        **known,
    )
