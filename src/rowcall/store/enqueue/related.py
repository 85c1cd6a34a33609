"""Enqueues jobs that depend on others: with keys, after blockers, as chains and whole graphs. See also `keys`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rowcall.domain.job import FINISHED, Job
from rowcall.store.batches.groups import refuse_sealed
from rowcall.store.blobs.references import refer_to
from rowcall.store.dialect import Dialect
from rowcall.store.ends.after import resolve
from rowcall.store.enqueue.keys import Committed, existing_jobs, reserve_keys
from rowcall.store.flows.inserted import insert_each, link_traces, standing_of
from rowcall.store.jobs.inspect import get_all
from rowcall.store.new_job import Inserted, NewJob, RelatedJob
from rowcall.store.queries import flows as queries
from rowcall.store.queries.flows import (
    Blocker,
    Edge,
    Standing,
)
from rowcall.store.statement import Plan


def write_related(
    dialect: Dialect, related: Sequence[RelatedJob], committed: Committed | None = None, *, whole: bool = False
) -> Plan[list[Inserted | Job]]:
    """Write all jobs or none; return each new row, or the job that already has the key.

    Every check comes before the first write. `whole`: if the first job exists, so do the others; return that job alone.
    """
    if not related:
        return []
    yield from dialect.ask(queries.BEGIN_WRITING)
    yield from refuse_sealed(dialect, {item.job.batch_id for item in related if item.job.batch_id is not None})
    standing = yield from standing_of(dialect, related)
    taken = yield from reserve_keys(dialect, related, committed)
    if whole and 0 in taken:
        return [(yield from existing_jobs(dialect, {0: taken[0]}, {}))[0]]
    new = [position for position in range(len(related)) if position not in taken]
    inserted: dict[int, Inserted] = {}
    if new:
        rows = yield from insert_each(dialect, [(_job_of(related[p]), related[p].payload) for p in new])
        inserted = dict(zip(new, rows, strict=True))
        yield from refer_to(dialect, [related[p].payload for p in new], [row.id for row in rows])
        yield from _mark_chains(dialect, related, inserted)
        inserted = yield from _wait(dialect, related, inserted, standing)
    existing = yield from existing_jobs(dialect, taken, inserted)
    return [existing.get(position) or inserted[position] for position in range(len(related))]


# blockers


def _job_of(item: RelatedJob) -> NewJob:
    if item.job.after or item.after:
        return msgspec.structs.replace(item.job, blocked=True)
    return item.job


def _wait(
    dialect: Dialect,
    related: Sequence[RelatedJob],
    inserted: dict[int, Inserted],
    standing: dict[Blocker, Standing],
) -> Plan[dict[int, Inserted]]:
    """Write the edges, and resolve those whose blockers have already ended."""
    edges: list[Edge] = []
    over: list[tuple[int, int]] = []
    for position, row in inserted.items():
        item = related[position]
        on_failure = item.job.on_blocker_failure
        after = (*item.job.after, *item.after)
        blockers = [Blocker(inserted[one].id) if isinstance(one, int) else one.blocker for one in after]
        for number, blocker in enumerate(dict.fromkeys(blockers)):
            ends = blocker.job_id, int(blocker.of_chain), row.id
            edges.append(Edge(*ends, number, on_failure, unsure=int(blocker in standing)))
            if blocker in standing and standing[blocker].status in FINISHED:
                over.append((blocker.job_id, row.id))
    if not edges:
        return inserted
    yield from dialect.ask(queries.INSERT_EDGES, edges)
    for position, row in inserted.items():
        item = related[position]
        awaited = [one for one in (*item.job.after, *item.after) if not isinstance(one, int)]
        yield from link_traces(dialect, row.id, item.job.trace_context, awaited, standing)
    if not over:
        return inserted
    (ended,) = yield from dialect.ask(queries.ENDS_OF, over)
    yield from resolve(dialect, ended)
    written = yield from get_all(dialect, [row.id for row in inserted.values()])
    return {
        position: msgspec.structs.replace(row, status=str(written[row.id].status)) for position, row in inserted.items()
    }


def _mark_chains(dialect: Dialect, related: Sequence[RelatedJob], inserted: dict[int, Inserted]) -> Plan[None]:
    steps = [
        (row.id, inserted[chain].id, related[position].chain_index)
        for position, row in inserted.items()
        if (chain := related[position].chain) is not None
    ]
    if steps:
        yield from dialect.ask(queries.MARK_CHAINS, steps)
