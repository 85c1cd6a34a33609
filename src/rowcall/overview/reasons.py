"""Why jobs wait: one sentence for each, and the facts behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property

import msgspec

from rowcall.base.text import decoded, duration
from rowcall.base.times import time_of, time_or_none
from rowcall.domain.job import (
    FINISHED,
    BlockedBy,
    Job,
    Paused,
    Reason,
    Status,
    Why,
    WorkerInfo,
    most_of_queue,
    paused_by,
    serves,
    what_is_paused,
)
from rowcall.domain.limits import HELD_BY_ORDER, HELD_PREFIX
from rowcall.domain.step import CHANGED_CODE, RecordedStep, StepKind, StepStatus
from rowcall.operations.arguments import checked_id
from rowcall.operations.effects import Read
from rowcall.overview.formats import ago, counted, to_the_second
from rowcall.overview.liveness import Liveness, liveness_of
from rowcall.queue import Operation, Queue
from rowcall.store.dialect import Dialect
from rowcall.store.jobs import inspect
from rowcall.store.limits.held_jobs import HeldJob, held_job
from rowcall.store.order.first_in_order import order_of
from rowcall.store.queries.claims import key_of, takes, task_of
from rowcall.store.queries.control import PAUSED
from rowcall.store.queries.counts import NOW
from rowcall.store.queries.jobs import AHEAD, TYPES_IN_TURN
from rowcall.store.queries.order import HEADS
from rowcall.store.queries.workers import KNOWN_TASKS, WORKERS
from rowcall.store.statement import Plan
from rowcall.store.steps.recorded import show as show_steps

MOST_AHEAD = 1000  # a higher number is not counted
MOST_STEPS = 100
_MOST_NAMED = 3
_parts = msgspec.json.Decoder(list[object])


def why(queue: Queue, job: Job | int) -> Operation[Why]:
    """Return why a job waits, as a sentence and as values; of a job that does not wait, whether it runs or ended.

    >>> jobs.why(job).sentence  # doctest: +SKIP
    'queue mail was paused by ann@web-1 5 min ago'
    """
    return (yield from why_in(queue, checked_id(job), UTC))


def why_in(queue: Queue, job_id: int, zone: tzinfo | None) -> Operation[Why]:
    """Return why a job waits, with times in a zone."""
    return (yield from Read(_why(queue, job_id, zone), snapshot=True))


def _why(queue: Queue, job_id: int, zone: tzinfo | None) -> Plan[Why]:
    job = yield from inspect.get(queue.dialect, job_id)
    return (yield from _explain(queue, [job], zone))[job_id]


def why_each(queue: Queue, jobs: Sequence[Job], zone: tzinfo | None = UTC) -> Operation[dict[int, Why]]:
    """Return why each of these jobs waits, by id: for a page of jobs."""
    return (yield from Read(_explain(queue, jobs, zone), snapshot=True))


def _explain(queue: Queue, jobs: Sequence[Job], zone: tzinfo | None) -> Plan[dict[int, Why]]:
    (at_ms,) = yield from queue.dialect.ask(NOW)
    dialect = queue.dialect.at(at_ms)
    workers = yield from dialect.ask(WORKERS)
    known_tasks = {one.worker: one.tasks for one in (yield from dialect.ask(KNOWN_TASKS))}
    paused = yield from dialect.ask(PAUSED)
    explainer = Explainer(
        dialect, time_of(at_ms), workers, known_tasks, paused, queue.config.unknown_task_seconds, zone
    )
    whys = {}
    for job in jobs:
        whys[job.id] = yield from explainer.explain(job)
    return whys


class Explainer:
    """What is around the jobs at one moment: the workers that are alive, and what is paused."""

    def __init__(
        self,
        dialect: Dialect,
        now: datetime,
        workers: Sequence[WorkerInfo],
        known_tasks: Mapping[str, Mapping[str, str] | None],
        paused: Sequence[Paused],
        unknown_task_seconds: float,
        zone: tzinfo | None = UTC,
    ) -> None:
        self._tasks = known_tasks
        self._zone = zone
        self._unknown_task_seconds = unknown_task_seconds
        self._dialect = dialect
        self._now = now
        self._workers = workers
        self._paused = paused
        self._startable: dict[str, list[str]] = {}

    @cached_property
    def _alive(self) -> list[WorkerInfo]:
        return [worker for worker in self._workers if liveness_of(worker, self._now) == Liveness.ALIVE]

    def explain(self, job: Job) -> Plan[Why]:
        if job.status in FINISHED:
            return self._finished(job)
        if job.status is Status.RUNNING:
            return self._running(job)
        if job.status is Status.BLOCKED:
            return self._blocked(job, (yield from inspect.blockers(self._dialect, job.id)))
        if job.status is Status.SCHEDULED and job.run_at > self._now:
            steps = []
            if job.error_code is None:
                steps = yield from show_steps(self._dialect, job.id, MOST_STEPS)
            waiting = [step for step in steps if step.status is StepStatus.WAITING]
            return self._suspended(job, waiting) if waiting else self._scheduled(job)
        if pause := paused_by(job.queue, job.type, self._paused):
            return self._pause(job, pause)
        held = yield from held_job(self._dialect, job.id)
        if held is not None and held.by is not None and held.by.startswith(HELD_BY_ORDER):
            return (yield from self._ordered(job, held.by))
        if held is not None and held.by is not None:
            return self._held(job, held, held.by)
        unfit = None if held is None else held.unfit
        key = key_of(job.type, unfit)
        if unfit is not None and not self._fitting(job.queue, key):
            return (yield from self._mismatch(job))
        if missing := self._missing_worker(job):
            return missing
        keys = yield from self._keys_to_start(job.queue)
        turn = job.id if held is None else held.turn
        place = (~job.priority, turn, job.id)
        rows = yield from self._dialect.ask(AHEAD, job.queue, keys, *place, MOST_AHEAD)
        return self._in_turn(job, key, dict(rows))

    def _finished(self, job: Job) -> Why:
        error = f": {job.error_code}" if job.error_code is not None else ""
        verb = "was cancelled" if job.status is Status.CANCELLED else job.status.value
        return _made(job, Reason.FINISHED, f"it {verb} {ago(job.finished_at, self._now)}{error}")

    def _running(self, job: Job) -> Why:
        began = job.started_at or job.claimed_at or job.run_at
        took = duration(max(0.0, (self._now - began).total_seconds()))
        if job.started_at is None:
            said = f"{job.worker} claimed it {took} ago, and starts it when a slot is free"
            return _made(job, Reason.BUFFERED, said, worker=job.worker)
        attempt = f"attempt {job.attempt} of {job.max_attempts}"
        return _made(job, Reason.RUNNING, f"{job.worker} has run {attempt} for {took}", worker=job.worker)

    def _blocked(self, job: Job, blockers: list[BlockedBy]) -> Why:
        left = [one for one in blockers if one.open]
        named = [f"{'chain' if one.is_chain else 'job'} {one.id} ({one.status or 'deleted'})" for one in left]
        more = f" and {len(named) - _MOST_NAMED:,} more" if len(named) > _MOST_NAMED else ""
        said = f"it waits for {', '.join(named[:_MOST_NAMED])}{more}" if named else "its blockers have ended"
        return _made(job, Reason.BLOCKED, said, blockers=left)

    def _scheduled(self, job: Job) -> Why:
        at = self._at(job.run_at)
        if job.error_code is None:
            return _made(job, Reason.SCHEDULED, f"it is due {at}", until=job.run_at)
        said = f"attempt {job.attempt} of {job.max_attempts} failed with {job.error_code}; the next one is due {at}"
        return _made(job, Reason.RETRY, said, until=job.run_at)

    def _suspended(self, job: Job, steps: list[RecordedStep]) -> Why:
        """Explain a job whose handler sleeps, waits for signals, or tries a step again."""
        children = [step for step in steps if step.kind is StepKind.CALL]
        if children:
            named = ", ".join(f"job {step.child_id} ({step.name})" for step in children[:_MOST_NAMED])
            more = f" and {len(children) - _MOST_NAMED:,} more" if len(children) > _MOST_NAMED else ""
            return _made(job, Reason.CHILD, f"it waits for {named}{more}")
        awaited = [step for step in steps if step.kind is StepKind.WAIT]
        until = min((step.due_at for step in steps if step.due_at is not None), default=None)
        if awaited:
            named = " and ".join(repr(name) for name in dict.fromkeys(step.name for step in awaited))
            sentence = f"it waits for signal {named}" + ("" if until is None else f", and continues {self._at(until)}")
            return _made(job, Reason.SIGNAL, sentence, until=until)
        failed = next((step for step in steps if step.kind is StepKind.STEP and step.due_at == until), None)
        if failed is None:
            return _made(job, Reason.SCHEDULED, f"its handler sleeps, and continues {self._at(until)}", until=until)
        sentence = f"step {failed.name!r} failed with {failed.error_code}; it is tried again {self._at(until)}"
        return _made(job, Reason.RETRY, sentence, until=until)

    def _pause(self, job: Job, pause: Paused) -> Why:
        by = f" by {pause.actor}" if pause.actor is not None else ""
        said = f"{what_is_paused(pause.kind, pause.name)} was paused{by} {ago(pause.at, self._now)}"
        return _made(job, Reason.PAUSED, said, paused=pause)

    def _held(self, job: Job, held: HeldJob, by: str) -> Why:
        if not by.startswith(HELD_PREFIX):
            return _made(job, Reason.HELD, f"it is held as {by!r} until a worker checks it")
        opens_at = time_or_none(held.opens_at_ms)
        sentence = limit_text(by.removeprefix(HELD_PREFIX), held, self._zone)
        if held.hold is not None:
            opens_at = time_of(held.hold.until_ms)
        elif opens_at is not None and held.breaker is None:
            sentence += f"; the next start is checked {self._at(opens_at)}"
        return _made(job, Reason.LIMIT, sentence, until=opens_at, limit=by.removeprefix(HELD_PREFIX))

    def _ordered(self, job: Job, by: str) -> Plan[Why]:
        value = order_of(by)
        (found,) = yield from self._dialect.ask(HEADS, [value])
        first = dict(found).get(value)
        if first is None or first == job.id:
            return _made(job, Reason.ORDER, "it is the next one in order, and is made ready soon")
        earlier = yield from inspect.get(self._dialect, first)
        sentence = f"job {first} comes first, in order of {_key_text(value)}: it "
        if earlier.status is Status.FAILED:
            sentence += f"failed with {earlier.error_code}; retry or delete it"
        else:
            sentence += f"is {earlier.status.value}"
            if earlier.status is Status.SCHEDULED:
                sentence += f" until {self._at(earlier.run_at).removeprefix('at ')}"
        return _made(job, Reason.ORDER, sentence, first=first)

    def _missing_worker(self, job: Job) -> Why | None:
        if not self._alive:
            registered = f" of {counted(len(self._workers), 'registered worker')}" if self._workers else ""
            return _made(job, Reason.NO_WORKER, f"no worker{registered} is alive")
        if not any(serves(worker.queues, job.queue) for worker in self._alive):
            return _made(job, Reason.NO_WORKER_FOR_QUEUE, f"no worker serves queue {job.queue}")
        if not self._fitting(job.queue, key_of(job.type, None)):
            fails = f"without one, the job fails after {duration(self._unknown_task_seconds)}"
            said = f"no worker of queue {job.queue} knows task {job.type}; {fails}"
            return _made(job, Reason.NO_WORKER_FOR_TASK, said)
        return None

    def _mismatch(self, job: Job) -> Plan[Why]:
        last = yield from inspect.attempts(self._dialect, job.id, 1)
        refused_at = max([job.run_at, *(one.finished_at for one in last if one.finished_at is not None)])
        until = refused_at + timedelta(seconds=self._unknown_task_seconds)
        refused = "recorded steps" if job.error_code == CHANGED_CODE else "arguments"
        said = f"no worker accepts its {refused}; without one, it fails {self._at(until)}"
        return _made(job, Reason.MISMATCH, said, until=until)

    def _fitting(self, queue: str, key: str) -> list[WorkerInfo]:
        """Return the workers that start jobs of this queue and key."""
        return [
            worker
            for worker in self._alive
            if serves(worker.queues, queue) and takes(self._tasks.get(worker.name, {}), key)
        ]

    def _keys_to_start(self, queue: str) -> Plan[list[str]]:
        """Return the keys of which the workers start jobs of this queue: a job of another one takes no turn."""
        if queue not in self._startable:
            self._startable[queue] = [
                key
                for key in (yield from self._dialect.ask(TYPES_IN_TURN, queue))
                if self._fitting(queue, key) and not paused_by(queue, task_of(key), self._paused)
            ]
        return self._startable[queue]

    def _in_turn(self, job: Job, key: str, ahead: Mapping[int, int]) -> Why:
        total = sum(ahead.values())
        if total:
            several = f": {', '.join(f'{jobs:,} with priority {rank}' for rank, jobs in ahead.items())}"
            many = f"{total:,} or more jobs" if total >= MOST_AHEAD else counted(total, "job")
            sentence = f"{many} of queue {job.queue} come{'s' if total == 1 else ''} first{several}"
            return _made(job, Reason.BEHIND, sentence, ahead=dict(ahead))
        workers = self._fitting(job.queue, key)
        busy, slots = sum(worker.running for worker in workers), sum(worker.concurrency for worker in workers)
        sentence = f"it is the next job of queue {job.queue}; its workers run {busy:,} of {slots:,}"
        shares = [most_of_queue(worker.queues, job.queue) for worker in workers]
        if limited := [share for share in shares if share is not None]:
            sentence += f", and at most {sum(limited):,} of this queue" if len(limited) == len(shares) else ""
        return _made(job, Reason.NEXT, sentence)

    def _at(self, at: datetime | None) -> str:
        return "at an unknown time" if at is None else f"at {to_the_second(at, self._zone)} ({ago(at, self._now)})"


def _made(job: Job, reason: Reason, sentence: str, **facts: object) -> Why:
    waits = job.status not in (*FINISHED, Status.RUNNING)
    error_code = job.error_code if waits else None
    return Why(job_id=job.id, status=job.status, reason=reason, sentence=sentence, error_code=error_code, **facts)  # type: ignore[arg-type]


def _key_text(key: str) -> str:
    """
    >>> _key_text('["post",42]')
    'post of 42'
    """
    name, *values = decoded(_parts, key, []) or [key]
    return f"{name}{''.join(f' of {msgspec.json.encode(value).decode()}' for value in values[-1:])}"


def limit_text(key: str, held: HeldJob, zone: tzinfo | None = UTC) -> str:
    """
    >>> from rowcall.domain.limits import Numbers
    >>> from rowcall.store.queries.limits import Hold
    >>> limit_text('["stripe",42]', HeldJob(numbers=Numbers(3), used=3))
    'limit stripe of 42 is full: 3 of 3 run'
    >>> limit_text('["api"]', HeldJob(numbers=Numbers(None, 100, 60_000)))
    'limit api allows 100 starts in 1 min'
    >>> limit_text('["api"]', HeldJob(hold=Hold('["api"]', 0, 30_000, 17, "429")))
    'limit api is held until 1970-01-01 00:00:30 UTC (429, by job 17)'
    """
    name, numbers, used = f"limit {_key_text(key)}", held.numbers, held.used
    if held.hold is not None:
        because = f"{held.hold.reason}, " if held.hold.reason else ""
        until = to_the_second(time_of(held.hold.until_ms), zone)
        return f"{name} is held until {until} ({because}by job {held.hold.job_id})"
    if held.breaker is not None:
        until = to_the_second(time_of(held.breaker.until_ms), zone)
        many = f"{held.breaker.failed} of {held.breaker.outcomes} attempts failed"
        return f"the breaker of {name} is open: {many}; one job tries from {until} on"
    if numbers.concurrency is not None and used >= numbers.concurrency:
        return f"{name} is full: {used:,} of {numbers.concurrency:,} run"
    if numbers.rate is not None and held.units is not None:
        allowed = f"{numbers.rate:,} units in {duration((numbers.per_ms or 0) / 1000)}"
        return f"{name} allows {allowed}, and this job needs {held.units:,}"
    if numbers.rate is not None:
        return f"{name} allows {counted(numbers.rate, 'start')} in {duration((numbers.per_ms or 0) / 1000)}"
    return f"{name} holds it"
