"""Jobs that come by themselves: at the times of a cron line, or every so often."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TypeVar
from zoneinfo import ZoneInfo

import msgspec

from rowcall.base.times import time_or_none
from rowcall.context import logger
from rowcall.declare.options import ENQUEUE_OPTIONS, checked
from rowcall.domain.errors import InvalidArguments, InvalidOption
from rowcall.domain.job import Job, Schedule
from rowcall.domain.names import name_problem
from rowcall.domain.payload import payload_from_row
from rowcall.domain.schedule import DEFAULT_CATCH_UP, CatchUp, Timing, has_cron, timing_of
from rowcall.operations.control import actor_of
from rowcall.operations.enqueue import Enqueueing
from rowcall.operations.enqueue_related import with_key
from rowcall.queue import Queue
from rowcall.store.flows.enqueue import Order
from rowcall.store.jobs import inspect
from rowcall.store.new_job import NewJob
from rowcall.store.schedules import ticks as plans
from rowcall.store.schedules.queries import DeclaredSchedule, ScheduleRow
from rowcall.store.statement import Plan
from rowcall.task import BaseTask

AnyTask = BaseTask[..., object]
T = TypeVar("T", bound=AnyTask)


def publish_schedules(core: Queue) -> None:
    """Write what is declared here, as far as it is not there yet."""
    if core.declared_schedules:
        entries = list(core.declared_schedules.values())
        core.write(lambda: plans.put_all(core.dialect, entries, core.now_ms()))
    if not has_cron() and any(row.timing.cron is not None for row in core.read(plans.schedules(core.dialect))):
        logger.warning("there are cron lines, which this worker cannot read: pip install 'rowcall[cron]'")


class Schedules(Enqueueing):
    def schedule(
        self,
        cron: str | None = None,
        *,
        every: float | timedelta | None = None,
        tz: str | ZoneInfo | None = None,
        catch_up: CatchUp = DEFAULT_CATCH_UP,
        name: str | None = None,
        arguments: Mapping[str, object] | None = None,
        queue: str | None = None,
        priority: int | None = None,
    ) -> Callable[[T], T]:
        """Declare, above `@jobs.task`, when a task is enqueued by itself. Workers write it down when they start.

        @jobs.schedule("0 9 * * *", tz="America/New_York", catch_up="one")
        @jobs.task
        def daily_digest() -> None: ...

        `every` is a duration, instead of a line. What was missed while no worker ran follows `catch_up`: "skip" leaves
        it out, "one" makes one job of it, "all" makes all of them.
        """
        timing = timing_of(cron, every, tz, catch_up)

        def declare(task: T) -> T:
            if not isinstance(task, BaseTask):
                raise InvalidOption("schedule", f"goes above @jobs.task, and {task!r} is no task yet")
            entry = self._entry(task.name if name is None else name, task, arguments, queue, priority, timing)
            self.declared_schedules[entry.name] = entry
            return task

        return declare

    def add_schedule(
        self,
        name: str,
        task: str | AnyTask,
        arguments: Mapping[str, object] | None = None,
        *,
        cron: str | None = None,
        every: float | timedelta | None = None,
        tz: str | ZoneInfo | None = None,
        catch_up: CatchUp = DEFAULT_CATCH_UP,
        queue: str | None = None,
        priority: int | None = None,
    ) -> Schedule:
        """Write a schedule at once, or change the one of that name.

        >>> jobs.add_schedule("nightly", "clean_up", {"days": 30}, cron="0 3 * * *")  # doctest: +SKIP
        """
        entry = self._entry(name, task, arguments, queue, priority, timing_of(cron, every, tz, catch_up))
        return _shown(self.write(lambda: plans.put(self.dialect, entry, self.now_ms())))

    async def aadd_schedule(
        self,
        name: str,
        task: str | AnyTask,
        arguments: Mapping[str, object] | None = None,
        *,
        cron: str | None = None,
        every: float | timedelta | None = None,
        tz: str | ZoneInfo | None = None,
        catch_up: CatchUp = DEFAULT_CATCH_UP,
        queue: str | None = None,
        priority: int | None = None,
    ) -> Schedule:
        entry = self._entry(name, task, arguments, queue, priority, timing_of(cron, every, tz, catch_up))
        return _shown(await self.awrite(lambda: plans.put(self.dialect, entry, self.now_ms())))

    def schedules(self) -> list[Schedule]:
        """All schedules that are written down, by name."""
        return [_shown(row) for row in self.read(plans.schedules(self.dialect))]

    async def aschedules(self) -> list[Schedule]:
        return [_shown(row) for row in await self.aread(plans.schedules(self.dialect))]

    def remove_schedule(self, name: str) -> None:
        """Forget a schedule; jobs that it made stay. `ScheduleNotFound` if there is none."""
        self.write(lambda: plans.remove(self.dialect, _name(name)))

    async def aremove_schedule(self, name: str) -> None:
        await self.awrite(lambda: plans.remove(self.dialect, _name(name)))

    def run_schedule_now(self, name: str, *, actor: str | None = None) -> Job:
        """Enqueue one more job of a schedule, paused or not; its times stay as they are."""
        return self.write(lambda: self._run_now(name, actor))

    async def arun_schedule_now(self, name: str, *, actor: str | None = None) -> Job:
        return await self.awrite(lambda: self._run_now(name, actor))

    def pause_schedule(self, name: str, *, actor: str | None = None) -> Schedule:
        """Let a schedule make no jobs until it is resumed."""
        return _shown(self.write(lambda: plans.pause(self.dialect, _name(name), actor_of(actor), self.now_ms())))

    async def apause_schedule(self, name: str, *, actor: str | None = None) -> Schedule:
        return _shown(await self.awrite(lambda: plans.pause(self.dialect, _name(name), actor_of(actor), self.now_ms())))

    def resume_schedule(self, name: str, *, actor: str | None = None) -> Schedule:
        """Let a schedule go on, with its next tick from now: what fell into the pause is not caught up on."""
        return _shown(self.write(lambda: plans.resume(self.dialect, _name(name), actor_of(actor), self.now_ms())))

    async def aresume_schedule(self, name: str, *, actor: str | None = None) -> Schedule:
        return _shown(
            await self.awrite(lambda: plans.resume(self.dialect, _name(name), actor_of(actor), self.now_ms()))
        )

    def _run_now(self, name: str, actor: str | None) -> Plan[Job]:
        made = yield from plans.run_now(self.dialect, _name(name), actor_of(actor), self.now_ms())
        job = yield from inspect.get(self.dialect, made.job_id)
        return msgspec.structs.replace(job, duplicate=True) if made.duplicate else job

    def _entry(
        self,
        name: str,
        task: str | AnyTask,
        arguments: Mapping[str, object] | None,
        queue: str | None,
        priority: int | None,
        timing: Timing,
    ) -> DeclaredSchedule:
        """A schedule as it is written; refused ones say why."""
        kind = self._task_name(task)
        given = checked({"queue": queue, "priority": priority}, ENQUEUE_OPTIONS)
        try:
            job, payload = self._named(kind, arguments, given)
        except InvalidArguments as error:
            hint = "; a schedule has them in arguments={…}" if arguments is None else ""
            raise InvalidArguments(kind, f"{error.problem}{hint}") from error
        if len(payload) > self.blobs.inline_length:
            problem = f"{len(payload):,} characters are more than a schedule can hold ({self.blobs.inline_length:,})"
            raise InvalidArguments(kind, f"{problem}; keep the data elsewhere and pass where it is")
        job = with_key(Order(job=job, payload=payload)).job
        entry = DeclaredSchedule(name=_name(name), task=kind, payload=payload, options=_options(job), timing=timing)
        declared = self.declared_schedules.get(entry.name)
        if declared is not None and not plans.alike(declared, entry):
            raise InvalidOption("name", f"a schedule {name!r} is declared already, and differs; give one another name")
        return entry

    def _task_name(self, task: str | AnyTask) -> str:
        if not isinstance(task, BaseTask):
            return task
        if not task.is_of(self):
            raise InvalidOption("task", f"{task.name!r} is declared on another queue")
        return task.name


def _options(job: NewJob) -> str:
    """What a job of it is written with, as far as that is not what most jobs have."""
    plain = msgspec.structs.asdict(NewJob(type=job.type, queue=""))
    given = msgspec.structs.asdict(job)
    return msgspec.json.encode({option: given[option] for option in given if given[option] != plain[option]}).decode()


def _shown(row: ScheduleRow) -> Schedule:
    timing = row.timing
    return Schedule(
        name=row.name,
        task=row.task,
        arguments=payload_from_row(row.payload),
        cron=timing.cron,
        every=None if timing.every_ms is None else timedelta(milliseconds=timing.every_ms),
        tz=timing.zone,
        catch_up=timing.catch_up,
        paused=row.paused,
        paused_by=row.actor if row.paused else None,
        next_run_at=None if row.paused else time_or_none(row.next_run_at_ms),
        last_run_at=time_or_none(row.last_run_at_ms),
        last_job_id=row.last_job_id,
        problem=row.problem,
    )


def _name(name: object) -> str:
    if problem := name_problem(name):
        raise InvalidOption("name", problem)
    return str(name)
