"""A job among its parents and children: the jobs that `ctx.call` has enqueued, as a tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rowcall.domain.job import Job
from rowcall.operations.effects import Read
from rowcall.queue import Operation, Queue
from rowcall.store.dialect import Dialect
from rowcall.store.jobs.inspect import get_all
from rowcall.store.queries.steps import CHILDREN_OF, CalledJob
from rowcall.store.statement import Plan

MOST_LEVELS, MOST_CHILDREN = 6, 100


class Relative(NamedTuple):
    """A line of the tree. `status` is `deleted` for a child that is gone."""

    depth: int
    job_id: int
    type: str
    status: str
    here: bool = False


def tasks_of(queue: Queue, job_ids: Sequence[int]) -> Operation[dict[int, str]]:
    """Return the task of each job that exists, by id."""
    jobs = (yield from Read(get_all(queue.dialect, job_ids))) if job_ids else {}
    return {job.id: job.type for job in jobs.values()}


def family(queue: Queue, job_id: int) -> Operation[list[Relative]]:
    """Return the parents of a job, the job, and at most 100 children and theirs. Nothing if it is alone."""
    return (yield from Read(_family(queue.dialect, job_id), snapshot=True))


def _family(dialect: Dialect, job_id: int) -> Plan[list[Relative]]:
    line = yield from _line(dialect, job_id)
    children: dict[int, list[CalledJob]] = defaultdict(list)
    jobs: dict[int, Job] = {}
    level, left = [job_id], MOST_CHILDREN
    for _ in range(MOST_LEVELS):
        below = (yield from dialect.ask(CHILDREN_OF, level, left)) if level and left else []
        for child in below:
            children[child.parent_id].append(child)
        level, left = [child.child_id for child in below], left - len(below)
        jobs |= (yield from get_all(dialect, level)) if level else {}
    if len(line) == 1 and not children:
        return []
    above = [Relative(depth, job.id, job.type, job.status, job.id == job_id) for depth, job in enumerate(line)]
    return [*above, *_below(job_id, len(line), children, jobs)]


def _line(dialect: Dialect, job_id: int) -> Plan[list[Job]]:
    """Return the job and its parents, the first of them first."""
    line: list[Job] = []
    next_id: int | None = job_id
    while next_id is not None and len(line) <= MOST_LEVELS:
        job = (yield from get_all(dialect, [next_id])).get(next_id)
        next_id = None if job is None else job.parent_id
        line = line if job is None else [job, *line]
    return line


def _below(
    job_id: int, depth: int, children: Mapping[int, Sequence[CalledJob]], jobs: Mapping[int, Job]
) -> Iterator[Relative]:
    for child in children.get(job_id, ()):
        job = jobs.get(child.child_id)
        yield Relative(depth, child.child_id, child.name, "deleted" if job is None else job.status)
        yield from _below(child.child_id, depth + 1, children, jobs)
