"""Children: jobs that a step of another job waits for. They are inserted in the transaction that writes the step."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import msgspec

from rowcall.domain.errors import InvalidOption, RowcallError
from rowcall.domain.job import Job
from rowcall.store.blobs.references import refer_to
from rowcall.store.dialect import Dialect
from rowcall.store.enqueue.related import write_related
from rowcall.store.flows.inserted import insert_each
from rowcall.store.new_job import Inserted, NewJob, RelatedJob
from rowcall.store.new_step import NewChild, StepWrite
from rowcall.store.queries.flows import CHAIN_STEPS, INSERT_CHILDREN, shared_fields
from rowcall.store.queries.jobs import BEGIN_BULK, END_BULK, MAKE_BULK_READY
from rowcall.store.queries.steps import AWAITED_BY, PARENT_OF
from rowcall.store.statement import Plan

LEAST_BULK = 16
MOST_AWAITED = 10_000
"""How many jobs are looked at before a call with `after=` counts as one without a cycle."""


def enqueue_children(dialect: Dialect, calls: Sequence[StepWrite]) -> Plan[list[int | Exception]]:
    """Insert the children of calls; return their ids, or why one of them is refused."""
    children = [(call, call.child) for call in calls if call.child is not None]
    kinds = {id(child.job): _job_of(call, child) for call, child in {id(one[1].job): one for one in children}.values()}
    simple = {number for number, job in kinds.items() if job.is_alone and job.ordered is None}
    alone = [(call, child) for call, child in children if id(child.job) in simple]
    ids: dict[int, int | Exception] = {}
    if alone:
        is_bulk = len(alone) >= LEAST_BULK and all(child.job.fair is None for _, child in alone)
        rows: list[Inserted] = []
        if is_bulk:
            yield from dialect.ask(BEGIN_BULK)
            if len(simple) == 1:
                places = [(call.job_id, call.position, child.payload) for call, child in alone]
                rows = yield from dialect.ask(INSERT_CHILDREN, [shared_fields(alone[0][1].job)], places)
        rows = rows or (yield from insert_each(dialect, [(_job_of(*one), one[1].payload) for one in alone]))
        if is_bulk:
            yield from dialect.ask(MAKE_BULK_READY)
            yield from dialect.ask(END_BULK)
        rows.sort(key=attrgetter("id"))
        yield from refer_to(dialect, [child.payload for _, child in alone], [row.id for row in rows])
        ids = {id(call): row.id for (call, _), row in zip(alone, rows, strict=True)}
    for call, child in children:
        if id(call) not in ids:
            ids[id(call)] = yield from _enqueue(dialect, _job_of(call, child), child.payload)
    return [ids[id(call)] for call in calls]


def _job_of(call: StepWrite, child: NewChild) -> NewJob:
    return msgspec.structs.replace(child.job, parent_id=call.job_id, parent_step=call.position)


def _enqueue(dialect: Dialect, job: NewJob, payload: str) -> Plan[int | Exception]:
    """Insert a job that depends on others, or return why it is refused: every check comes before the first write."""
    try:
        yield from _refuse_cycle(dialect, job)
        (row,) = yield from write_related(dialect, [RelatedJob(job=job, payload=payload)])
    except RowcallError as error:
        return error
    assert not isinstance(row, Job), "a duplicate is refused"
    return row.id


def _refuse_cycle(dialect: Dialect, job: NewJob) -> Plan[None]:
    """Raise `InvalidOption` if a child would wait for its parent, which waits for it."""
    assert job.parent_id is not None
    seen: set[int] = set()
    blockers = [awaited.blocker for awaited in job.after]
    new = {blocker.job_id for blocker in blockers}
    for blocker in blockers:
        if blocker.of_chain:
            new.update(step.id for step in (yield from dialect.ask(CHAIN_STEPS, blocker.job_id)))
    while new and job.parent_id not in new and len(seen) < MOST_AWAITED:
        seen |= new
        new = set((yield from dialect.ask(AWAITED_BY, sorted(new)))) - seen
    if job.parent_id in new:
        problem = f"leads back to job {job.parent_id}, which calls this job and waits for its end"
        raise InvalidOption("after", problem)
    ancestor: int | None = job.parent_id if job.ordered is not None else None
    while ancestor is not None:
        rows = yield from dialect.ask(PARENT_OF, ancestor)
        if rows and rows[0].ordered == job.ordered:
            problem = f"has the same value as job {ancestor}, which waits for this one and comes first in order"
            raise InvalidOption("ordered_by", problem)
        ancestor = rows[0].parent_id if rows else None
