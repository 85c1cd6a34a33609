"""Children: jobs that a step of another job waits for. They are inserted in the transaction that writes the step."""

from __future__ import annotations

from collections.abc import Sequence

from rowcall.domain.errors import RowcallError
from rowcall.domain.job import Job
from rowcall.store.blobs.references import refer_to
from rowcall.store.dialect import Dialect
from rowcall.store.enqueue.related import write_related
from rowcall.store.flows.inserted import insert_each
from rowcall.store.new_job import RelatedJob
from rowcall.store.new_step import NewChild, StepWrite
from rowcall.store.statement import Plan


def enqueue_children(dialect: Dialect, calls: Sequence[StepWrite]) -> Plan[list[int | Exception]]:
    """Insert the children of calls; return their ids, or why one of them is refused."""
    children = [call.child for call in calls if call.child is not None]
    alone = [child for child in children if child.job.is_alone]
    ids: dict[int, int | Exception] = {}
    if alone:
        rows = yield from insert_each(dialect, [(child.job, child.payload) for child in alone])
        yield from refer_to(dialect, [child.payload for child in alone], [row.id for row in rows])
        ids = {id(child): row.id for child, row in zip(alone, rows, strict=True)}
    for child in children:
        if not child.job.is_alone:
            ids[id(child)] = yield from _enqueue(dialect, child)
    return [ids[id(child)] for child in children]


def _enqueue(dialect: Dialect, child: NewChild) -> Plan[int | Exception]:
    """Insert a job that depends on others, or return why it is refused: every check comes before the first write."""
    try:
        (row,) = yield from write_related(dialect, [RelatedJob(job=child.job, payload=child.payload)])
    except RowcallError as error:
        return error
    assert not isinstance(row, Job), "a duplicate is refused"
    return row.id
