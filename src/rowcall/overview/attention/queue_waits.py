"""Why the jobs of each queue wait: what `why` says of one job for each kind of reason."""

from __future__ import annotations

from collections import defaultdict

from rowcall.domain.job import Job, Reason, Why
from rowcall.domain.value import Value
from rowcall.drivers.patience import OVERVIEW, with_patience
from rowcall.operations.effects import Read
from rowcall.overview.attention.situation import OVERDUE_MS, Situation, jobs_in, oldest_ms, read_situation
from rowcall.overview.reasons import Explainer
from rowcall.queue import Operation, Queue
from rowcall.store.jobs import inspect
from rowcall.store.queries.attention import FIRST_HELD_OF_GROUP, FIRST_IN_TURN, OVERDUE_JOBS, Backlog
from rowcall.store.queries.counts import WAITING_PARTS
from rowcall.store.statement import Plan

MOST_REASONS = 3
"""Of one queue."""
MOST_KEYS, MOST_HELD_GROUPS, MOST_EXPLAINED, MOST_DUE = 100, 100, 200, 2_000
_MOST_URGENT_FIRST = (
    *(Reason.NO_WORKER, Reason.NO_WORKER_FOR_QUEUE, Reason.NO_WORKER_FOR_TASK, Reason.MISMATCH),
    *(Reason.PAUSED, Reason.LIMIT, Reason.ORDER, Reason.HELD, Reason.BEHIND, Reason.NEXT),
)
_PLACES = {reason: place for place, reason in enumerate(_MOST_URGENT_FIRST)}


class QueueWait(Value, frozen=True, kw_only=True):
    """Why jobs of a queue wait: what `jobs.why(job_id)` says of one of them, the first in turn with this reason.

    A queue whose jobs are claimed by hand now needs no worker, and says so.
    """

    reason: Reason
    sentence: str
    job_id: int

    def __str__(self) -> str:
        return self.sentence


@with_patience(OVERVIEW)
def queue_waits(queue: Queue) -> Operation[dict[str, list[QueueWait]]]:
    """Return why due jobs wait, by queue: at most 3 reasons of each, most urgent first.

    A queue whose jobs are not due, or that has none, is left out. It reads groups of jobs, not all jobs.
    """
    return (yield from Read(_queue_waits(queue), snapshot=True))


def _queue_waits(queue: Queue) -> Plan[dict[str, list[QueueWait]]]:
    situation = yield from read_situation(queue)
    ids = yield from _first_jobs(situation)
    jobs = yield from inspect.get_all(situation.dialect, ids[:MOST_EXPLAINED])
    explainer = Explainer(
        situation.dialect,
        situation.now,
        situation.workers,
        situation.known_tasks,
        situation.paused,
        queue.config.unknown_task_seconds,
    )
    by_queue: dict[str, dict[str, QueueWait]] = defaultdict(dict)
    for job_id in ids:
        if (job := jobs.get(job_id)) is not None:
            why = yield from explainer.explain(job)
            by_queue[job.queue].setdefault(why.sentence, _of_queue(situation, job, why))
    return {
        named: sorted(waits.values(), key=lambda one: _PLACES.get(one.reason, 0))[:MOST_REASONS]
        for named, waits in sorted(by_queue.items())
    }


def _of_queue(situation: Situation, job: Job, why: Why) -> QueueWait:
    """Return what `why` says, with the job's id for the word 'it'."""
    reason, sentence = why.reason, why.sentence
    if reason in (Reason.NO_WORKER, Reason.NO_WORKER_FOR_QUEUE) and job.queue in situation.by_hand:
        reason, sentence = Reason.NEXT, f"jobs of queue {job.queue} are claimed by hand"
    elif sentence.startswith("it "):
        sentence = f"job {job.id}{sentence[2:]}"
    return QueueWait(reason=reason, sentence=sentence, job_id=job.id)


def _first_jobs(situation: Situation) -> Plan[list[int]]:
    """Return the ids of one job for each kind of reason, of each queue."""
    dialect = situation.dialect
    groups: dict[tuple[str, object], list[Backlog]] = defaultdict(list)
    for one in situation.ready:
        groups[one.queue, _kind_of(situation, one)].append(one)
    ids: list[int] = []
    for (named, _), backlogs in sorted(groups.items(), key=lambda item: oldest_ms(item[1], situation.at_ms)):
        keys = [one.key for one in sorted(backlogs, key=lambda one: -jobs_in([one]))[:MOST_KEYS]]
        ids += yield from dialect.ask(FIRST_IN_TURN, named, keys)
    if situation.overdue:
        overdue = yield from dialect.ask(OVERDUE_JOBS, situation.at_ms - OVERDUE_MS, MOST_DUE)
        kinds = {(named, _kind_of(situation, Backlog(named, task, 1, None))): first for named, task, first in overdue}
        ids += [first for kind, first in kinds.items() if kind not in groups]
    held, group = next(part for part in WAITING_PARTS if "held" in part.part.name), ("", "")
    for _ in range(MOST_HELD_GROUPS):
        following = yield from dialect.ask(held.next_group, *group)
        if not following:
            break
        group = following[0]
        ids += yield from dialect.ask(FIRST_HELD_OF_GROUP, *group)
    return ids


def _kind_of(situation: Situation, backlog: Backlog) -> object:
    """Return what jobs of a queue have in common that wait for the same reason."""
    if (pause := situation.pause_of(backlog)) is not None:
        return (pause.kind, pause.name)
    if not situation.servers(backlog.queue):
        return "unserved"
    return "next" if situation.fits(backlog) else backlog.key
