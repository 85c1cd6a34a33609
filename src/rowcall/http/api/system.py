"""What is not about one job: queues, tasks, schedules, workers, pruning."""

from __future__ import annotations

from datetime import datetime

from rowcall.domain.job import EVERY_QUEUE, Job, Pace, Paused, Pruned, Schedule, WorkerInfo, paused_by
from rowcall.domain.value import Value
from rowcall.http.api.questions import WindowQuery
from rowcall.http.endpoint import Call, EndpointInput
from rowcall.operations import inspect, pauses, retention, schedules
from rowcall.overview.attention.queue_waits import QueueWait
from rowcall.overview.counts import by_activity
from rowcall.overview.liveness import Liveness, liveness_of, time_now


class QueueState(Value, frozen=True, kw_only=True):
    """A queue: its jobs by state, how long the oldest one waits in seconds, its recent rates, and its pause.

    `waits` says why its due jobs wait, most urgent first.
    """

    name: str
    by_status: dict[str, int]
    oldest_waiting: float | None
    pace: Pace
    paused: Paused | None
    waits: list[QueueWait]


class Queues(Value, frozen=True, kw_only=True):
    """All queues that have jobs or are paused. `paused` is the pause of every queue, if there is one.

    `counted_at` is when the jobs were counted.
    """

    queues: list[QueueState]
    paused: Paused | None
    counted_at: datetime | None


async def list_queues(call: Call, query: WindowQuery) -> Queues:
    """List the queues, with their depths and rates."""
    totals = await call.stats(query.window)
    waits = await call.waits()
    names = {*totals.by_queue, *(pause.name for pause in totals.paused if pause.kind == "queue")} - {EVERY_QUEUE}
    every = next((pause for pause in totals.paused if (pause.kind, pause.name) == ("queue", EVERY_QUEUE)), None)
    none = dict.fromkeys(totals.by_status, 0)
    queues = [
        QueueState(
            name=name,
            by_status=totals.by_queue.get(name, none),
            oldest_waiting=totals.oldest_waiting_by_queue.get(name),
            pace=totals.pace_by_queue.get(name, Pace()),
            paused=paused_by(name, "", [pause for pause in totals.paused if pause.name == name]),
            waits=waits.get(name, []),
        )
        for name in sorted(names)
    ]
    return Queues(queues=queues, paused=every, counted_at=totals.counted_at)


class TaskState(Value, frozen=True, kw_only=True):
    """A task: its jobs by state, its recent rates, and its pause."""

    name: str
    by_status: dict[str, int]
    pace: Pace
    paused: Paused | None


class TaskStates(Value, frozen=True, kw_only=True):
    """All tasks that have jobs or are paused, busiest first. `counted_at` is when the jobs were counted."""

    tasks: list[TaskState]
    counted_at: datetime | None


async def list_tasks(call: Call, query: WindowQuery) -> TaskStates:
    """List the tasks of jobs, with their counts and rates."""
    totals = await call.stats(query.window)
    paused = {pause.name: pause for pause in totals.paused if pause.kind == "task"}
    none = dict.fromkeys(totals.by_status, 0)
    paces = {name: totals.pace_by_type.get(name, Pace()) for name in {*totals.by_type, *totals.pace_by_type, *paused}}
    tasks = [
        TaskState(name=name, by_status=totals.by_type.get(name, none), pace=paces[name], paused=paused.get(name))
        for name in by_activity(paces)
    ]
    return TaskStates(tasks=tasks, counted_at=totals.counted_at)


class Resumed(Value, frozen=True, kw_only=True):
    """Whether it was paused before."""

    was_paused: bool


async def pause_queue(call: Call, name: str) -> Paused:
    """Start no more jobs of a queue; `*` is every queue."""
    return await call.change(pauses.pause(call.queue, name, actor=call.actor))


async def resume_queue(call: Call, name: str) -> Resumed:
    """Resume a queue; `*` ends the pause of every queue."""
    return Resumed(was_paused=await call.change(pauses.resume(call.queue, name, actor=call.actor)))


async def pause_task(call: Call, name: str) -> Paused:
    """Start no more jobs of a task."""
    return await call.change(pauses.pause(call.queue, task=name, actor=call.actor))


async def resume_task(call: Call, name: str) -> Resumed:
    """Resume a task."""
    return Resumed(was_paused=await call.change(pauses.resume(call.queue, task=name, actor=call.actor)))


class Schedules(Value, frozen=True, kw_only=True):
    """All schedules, by name."""

    schedules: list[Schedule]


class ScheduleAnswer(Value, frozen=True, kw_only=True):
    """The schedule after the change."""

    schedule: Schedule


class ScheduledJob(Value, frozen=True, kw_only=True):
    """The job that was enqueued."""

    job: Job


async def list_schedules(call: Call) -> Schedules:
    """List the schedules."""
    return Schedules(schedules=call.all_scrubbed(await call.read(schedules.list_schedules(call.queue, unwritten=True))))


async def run_schedule(call: Call, name: str) -> ScheduledJob:
    """Enqueue one more job of a schedule."""
    job = await call.change(schedules.run_schedule_now(call.queue, name, actor=call.actor))
    return ScheduledJob(job=call.scrubbed(job))


async def pause_schedule(call: Call, name: str) -> ScheduleAnswer:
    """Let a schedule enqueue no jobs until it is resumed."""
    schedule = await call.change(schedules.pause_schedule(call.queue, name, actor=call.actor))
    return ScheduleAnswer(schedule=call.scrubbed(schedule))


async def resume_schedule(call: Call, name: str) -> ScheduleAnswer:
    """Resume a schedule, with its next time from now."""
    schedule = await call.change(schedules.resume_schedule(call.queue, name, actor=call.actor))
    return ScheduleAnswer(schedule=call.scrubbed(schedule))


class WorkerState(Value, frozen=True, kw_only=True):
    """A worker, and whether it is alive."""

    worker: WorkerInfo
    state: Liveness


class Workers(Value, frozen=True, kw_only=True):
    """The registered workers."""

    workers: list[WorkerState]


async def list_workers(call: Call) -> Workers:
    """List the worker processes that are registered now."""
    found = await call.read(inspect.workers(call.queue))
    now = await call.read(time_now(call.queue))
    return Workers(workers=[WorkerState(worker=worker, state=liveness_of(worker, now)) for worker in found])


class Pruning(EndpointInput, frozen=True, kw_only=True):
    """With `dry_run`, jobs are only counted."""

    dry_run: bool = False


async def prune(call: Call, body: Pruning) -> Pruned:
    """Delete finished jobs whose retention has passed."""
    return await call.change(retention.prune(call.queue, dry_run=body.dry_run))
