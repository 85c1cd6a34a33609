"""What most findings need: the workers, the pauses and schedules, and the jobs that are due."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from rowcall.base.text import duration
from rowcall.base.times import time_of
from rowcall.domain.attention import Finding
from rowcall.domain.encryption import masked
from rowcall.domain.job import Paused, WorkerInfo, paused_by, serves
from rowcall.overview.attention.thresholds import THRESHOLDS
from rowcall.overview.formats import at_least
from rowcall.overview.liveness import Liveness, liveness_of
from rowcall.queue import Queue
from rowcall.store.dialect import Dialect
from rowcall.store.queries.attention import (
    FIRST_OVERDUE,
    FIRST_READY,
    LAST_ENDS,
    OVERDUE,
    QUEUES_BY_HAND,
    READY_BACKLOGS,
    Backlog,
)
from rowcall.store.queries.claims import EVERY_QUEUE, FIND_WORK, takes, task_of
from rowcall.store.queries.control import PAUSED
from rowcall.store.queries.counts import DETAILS, NOW
from rowcall.store.queries.schedules import SCHEDULES, ScheduleRow
from rowcall.store.queries.workers import KNOWN_TASKS, WORKERS
from rowcall.store.statement import Plan

MOST_COUNTED, FEWEST_COUNTED = 100_000, 100  # of all groups of due jobs together, of each
MOST_OVERDUE = 2_000
MOST_SAMPLES = 3
MOST_OF_CODE = 5
OVERDUE_MS = 10_000  # a worker stages due jobs at once
APP = "app:jobs"
"""The app in the commands of an advice. Commands replace it by the one that was named."""


class Situation(NamedTuple):
    """What is known at one moment. `ready` and `overdue` are jobs that are due; a worker has staged the ready ones.

    `last_ends` has when an attempt last ended, by queue and task.
    """

    queue: Queue
    dialect: Dialect
    at_ms: int
    workers: Sequence[WorkerInfo]
    alive: Sequence[WorkerInfo]
    known_tasks: Mapping[str, Mapping[str, str] | None]
    paused: Sequence[Paused]
    schedules: Sequence[ScheduleRow]
    ready: Sequence[Backlog]
    overdue: Sequence[Backlog]
    last_ends: Mapping[tuple[str, str], int]
    by_hand: frozenset[str | None]
    """Queues whose jobs are claimed by hand now."""
    most: int
    """Up to how many ready jobs of a queue and a key are counted."""

    @property
    def now(self) -> datetime:
        return time_of(self.at_ms)

    def before_ms(self, seconds: float) -> int:
        return self.at_ms - round(seconds * 1000)

    def servers(self, queue: str) -> list[WorkerInfo]:
        """Return the workers that serve a queue."""
        return [worker for worker in self.alive if serves(worker.queues, queue)]

    def fits(self, backlog: Backlog) -> bool:
        """Return whether a worker that is alive starts jobs of this queue and key."""
        return any(takes(self.known_tasks.get(one.name), backlog.key) for one in self.servers(backlog.queue))

    def due(self) -> list[Backlog]:
        """Return the due jobs that are not paused."""
        return [one for one in (*self.ready, *self.overdue) if self.pause_of(one) is None]

    def pause_of(self, backlog: Backlog) -> Paused | None:
        return paused_by(backlog.queue, task_of(backlog.key), self.paused)

    def last_end_ms(self, queue: str, task: str | None = None) -> int:
        """Return when an attempt at a job of the queue last ended, as far as that was a moment ago."""
        ends = (at for (of, kind), at in self.last_ends.items() if of == queue and task in (None, kind))
        return max(ends, default=0)

    def due_text(self, backlogs: Sequence[Backlog]) -> str:
        """Return how many jobs are due, and for how long the first of them has been."""
        jobs = jobs_in(backlogs)
        more = any(one.jobs >= self.most for one in backlogs) or jobs_in(self.overdue) >= MOST_OVERDUE
        waits = duration((self.at_ms - oldest_ms(backlogs, self.at_ms)) / 1000)
        if jobs == 1:
            return f"1 job has been due for {waits}"
        return f"{at_least(jobs, more)} jobs are due, the first for {waits}"

    def samples(self, backlogs: Iterable[Backlog]) -> Plan[list[int]]:
        """Return the ids of some of the jobs."""
        ids: list[int] = []
        for one in backlogs:
            if len(ids) < MOST_SAMPLES and one in self.ready:
                ids += yield from self.dialect.ask(FIRST_READY, one.queue, one.key, MOST_SAMPLES - len(ids))
        if not ids and self.overdue:
            ids = yield from self.dialect.ask(FIRST_OVERDUE, self.at_ms - OVERDUE_MS, MOST_SAMPLES)
        return ids

    def sample_error(self, jobs: Sequence[int]) -> Plan[str | None]:
        """Return the error detail of the first of some jobs, as a reader without the key sees it."""
        for _, (detail, _) in (yield from self.dialect.ask(DETAILS, list(jobs[:1]))):
            return None if detail is None else masked(detail)
        return None


Check = Callable[[Situation], Plan[list[Finding]]]


def read_situation(queue: Queue) -> Plan[Situation]:
    (at_ms,) = yield from queue.dialect.ask(NOW)
    dialect = queue.dialect.at(at_ms)
    workers = yield from dialect.ask(WORKERS)
    known = yield from dialect.ask(KNOWN_TASKS)
    (work,) = yield from dialect.ask(FIND_WORK, "", *EVERY_QUEUE)
    pairs = list(work.ready)
    most = max(FEWEST_COUNTED, MOST_COUNTED // max(1, len(pairs)))
    return Situation(
        queue=queue,
        dialect=dialect,
        at_ms=at_ms,
        workers=workers,
        alive=[worker for worker in workers if liveness_of(worker, time_of(at_ms)) == Liveness.ALIVE],
        known_tasks={one.worker: one.tasks for one in known},
        paused=(yield from dialect.ask(PAUSED)),
        schedules=[one for one in (yield from dialect.ask(SCHEDULES)) if not one.paused],
        ready=(yield from dialect.ask(READY_BACKLOGS, pairs, most)) if pairs else [],
        overdue=(yield from dialect.ask(OVERDUE, at_ms - OVERDUE_MS, MOST_OVERDUE)),
        last_ends={(one.queue, one.type): one.at_ms for one in (yield from dialect.ask(LAST_ENDS))},
        by_hand=frozenset((yield from dialect.ask(QUEUES_BY_HAND, at_ms))),
        most=most,
    )


def finding(
    code: str, message: str, advice: str, *, link: str = "", since_ms: int | None = None, **evidence: object
) -> Finding:
    """Return a finding with the severity of its code, and with the evidence that is known."""
    return Finding(
        code=code,
        severity=THRESHOLDS[code].severity,
        message=message,
        evidence={name: value for name, value in evidence.items() if value is not None},
        advice=advice,
        link=link,
        since=None if since_ms is None else time_of(since_ms),
    )


def first_of(findings: list[Finding]) -> list[Finding]:
    """Return the first findings of one code; if there are many more, one that says how many."""
    if len(findings) <= MOST_OF_CODE:
        return findings
    first, others = findings[:MOST_OF_CODE], findings[MOST_OF_CODE:]
    message = f"and {len(others):,} more of the kind {others[0].code}, such as: {others[0].message}"
    return [*first, finding(others[0].code, message, others[0].advice, link=others[0].link, more=len(others))]


def oldest_ms(backlogs: Sequence[Backlog], at_ms: int) -> int:
    return min((one.oldest_ms for one in backlogs if one.oldest_ms is not None), default=at_ms)


def jobs_in(backlogs: Iterable[Backlog]) -> int:
    return sum(one.jobs for one in backlogs)
