"""Enqueues jobs that depend on others: with keys, after blockers, as chains and whole graphs. See also `keys`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

import msgspec

from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import FINISHED, Job
from rowcall.store.blobs.references import refer_to
from rowcall.store.dialect import Dialect
from rowcall.store.flows.blockers import gone, resolve
from rowcall.store.flows.keys import Committed, existing_jobs, reserve_keys, sees_all
from rowcall.store.jobs.inspect import get_all
from rowcall.store.new_job import Awaited, Inserted, NewJob, RelatedJob
from rowcall.store.queries import flows as queries
from rowcall.store.queries.flows import (
    Blocker,
    Edge,
    EndedEdge,
    Standing,
    UnsureEdge,
    inserted_fields,
)
from rowcall.store.statement import Plan

MOST_LINKS = 100  # of one job, to the traces of its blockers


def write_related(
    dialect: Dialect,
    related: Sequence[RelatedJob],
    now_ms: int | None,
    committed: Committed | None = None,
    *,
    whole: bool = False,
) -> Plan[list[Inserted | Job]]:
    """Write all jobs or none; return each new row, or the job that already has the key.

    Every check comes before the first write. `whole`: if the first job exists, so do the others; return that job alone.
    """
    if not related:
        return []
    yield from dialect.ask(queries.BEGIN_WRITING)
    standing = yield from standing_of(dialect, related)
    taken = yield from reserve_keys(dialect, related, committed, now_ms)
    if whole and 0 in taken:
        return [(yield from existing_jobs(dialect, {0: taken[0]}, {}))[0]]
    new = [position for position in range(len(related)) if position not in taken]
    inserted: dict[int, Inserted] = {}
    if new:
        rows = yield from insert_each(dialect, [(_job_of(related[p]), related[p].payload) for p in new], now_ms)
        inserted = dict(zip(new, rows, strict=True))
        yield from refer_to(dialect, [related[p].payload for p in new], [row.id for row in rows])
        yield from _mark_chains(dialect, related, inserted)
        inserted = yield from _wait(dialect, related, inserted, standing, now_ms)
    existing = yield from existing_jobs(dialect, taken, inserted)
    return [existing.get(position) or inserted[position] for position in range(len(related))]


# blockers


def _job_of(item: RelatedJob) -> NewJob:
    if item.job.after or item.after:
        return msgspec.structs.replace(item.job, blocked=True)
    return item.job


def standing_of(dialect: Dialect, related: Sequence[RelatedJob]) -> Plan[dict[Blocker, Standing]]:
    """Return how the blockers of these jobs stand, or raise `InvalidOption` if one does not exist."""
    given_after = [one for item in related for one in (*item.job.after, *item.after)]
    awaited = {one.blocker: one for one in given_after if not isinstance(one, int)}
    if not awaited:
        return {}
    (standing,) = yield from dialect.ask(queries.STANDING, [(one.job_id, int(one.of_chain)) for one in awaited])
    for blocker, given in awaited.items():
        found = standing.get(blocker)
        if found is None or not _is_same(given, found):
            what = "chain" if blocker.of_chain else "job"
            why = "it was deleted, or it is in another database"
            if found is None and not (yield from sees_all(dialect)):
                why = "it was deleted, is in another database, or was written after your transaction took its snapshot"
            raise InvalidOption("after", f"no such {what} {blocker.job_id}: {why}")
    return standing


def _is_same(given: Awaited, found: Standing) -> bool:
    """Return whether both are the same job: a job of another database may have the same id."""
    return given.type in (None, found.type) and given.created_at_ms in (None, found.created_at_ms)


def _wait(
    dialect: Dialect,
    related: Sequence[RelatedJob],
    inserted: dict[int, Inserted],
    standing: dict[Blocker, Standing],
    now_ms: int | None,
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
            unsure = int(blocker in standing and not dialect.one_writer)
            edges.append(Edge(blocker.job_id, int(blocker.of_chain), row.id, number, on_failure, unsure))
            if blocker in standing and standing[blocker].status in FINISHED:
                over.append((blocker.job_id, row.id))
    if not edges:
        return inserted
    yield from dialect.ask(queries.INSERT_EDGES, edges)
    for position, row in inserted.items():
        item = related[position]
        awaited = [one for one in (*item.job.after, *item.after) if not isinstance(one, int)]
        yield from _link_traces(dialect, row.id, item.job.trace_context, awaited, standing)
    if not over:
        return inserted
    (ended,) = yield from dialect.ask(queries.ENDS_OF, over)
    yield from resolve(dialect, ended, now_ms)
    written = yield from get_all(dialect, [row.id for row in inserted.values()])
    return {
        position: msgspec.structs.replace(row, status=str(written[row.id].status)) for position, row in inserted.items()
    }


def wait_for_others(dialect: Dialect, jobs: Sequence[tuple[int, NewJob]], now_ms: int | None) -> Plan[None]:
    """Write the edges of jobs that were just inserted as blocked. A blocker that is gone has failed."""
    edges: list[Edge] = []
    ended: list[EndedEdge] = []
    over: list[tuple[int, int]] = []
    awaited = {one.blocker for _, job in jobs for one in job.after}
    if not awaited:
        return
    (standing,) = yield from dialect.ask(queries.STANDING, [(one.job_id, int(one.of_chain)) for one in awaited])
    for job_id, job in jobs:
        for number, (blocker, *_) in enumerate(job.after):
            ends = (blocker.job_id, int(blocker.of_chain), job_id)
            if blocker.job_id < job_id:  # a higher id never existed, and the table refuses it
                edges.append(Edge(*ends, number, job.on_blocker_failure, int(not dialect.one_writer)))
            if blocker not in standing:
                ended.append(gone(UnsureEdge(*ends, job.on_blocker_failure)))
            elif standing[blocker].status in FINISHED:
                over.append((blocker.job_id, job_id))
    yield from dialect.ask(queries.INSERT_EDGES, edges)
    for job_id, job in jobs:
        yield from _link_traces(dialect, job_id, job.trace_context, job.after, standing)
    if over:
        ended += (yield from dialect.ask(queries.ENDS_OF, over))[0]
    yield from resolve(dialect, ended, now_ms)


def _link_traces(
    dialect: Dialect, job_id: int, own: str | None, after: Iterable[Awaited], standing: Mapping[Blocker, Standing]
) -> Plan[None]:
    """Add the traces of its blockers to a job that is traced: a line for each sender other than its own."""
    if own is None:
        return
    contexts = [standing[one.blocker].trace_context or "" for one in after if one.blocker in standing]
    senders = dict.fromkeys(words[0] for context in contexts if (words := context.split()) and words[0] not in own)
    if senders:
        yield from dialect.ask(queries.LINK_TRACES, job_id, "\n".join([own, *senders][: MOST_LINKS + 1]))


def _mark_chains(dialect: Dialect, related: Sequence[RelatedJob], inserted: dict[int, Inserted]) -> Plan[None]:
    steps = [
        (row.id, inserted[chain].id, related[position].chain_index)
        for position, row in inserted.items()
        if (chain := related[position].chain) is not None
    ]
    if steps:
        yield from dialect.ask(queries.MARK_CHAINS, steps)


def insert_each(dialect: Dialect, jobs: Sequence[tuple[NewJob, str]], now_ms: int | None) -> Plan[list[Inserted]]:
    """Insert jobs and their payloads; ids rise in the order given."""
    rows = yield from dialect.ask(queries.INSERT_EACH, now_ms, [inserted_fields(job, payload) for job, payload in jobs])
    return sorted(rows, key=attrgetter("id"))
