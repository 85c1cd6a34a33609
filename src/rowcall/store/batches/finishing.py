"""The end of a batch: counted and finished with the ends of its jobs, and what follows it enqueued exactly once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

import msgspec

from rowcall.base.times import time_of
from rowcall.domain.batches import BatchInfo, Callback
from rowcall.domain.job import FINISHED, Job
from rowcall.store.dialect import Dialect
from rowcall.store.flows.inserted import insert_each
from rowcall.store.new_job import NewJob
from rowcall.store.queries import batches as queries
from rowcall.store.queries.batches import BatchEnds, StoredBatch
from rowcall.store.queries.counts import NOW
from rowcall.store.statement import Plan

FOLDED_AT_ONCE, BATCHES_AT_ONCE = 500, 100
ARGUMENT = "batch"


def count_ended(dialect: Dialect, ended: Sequence[int]) -> Plan[set[int]]:
    """Count these jobs in their batches, as far as they have ended; return the batches."""
    ends = yield from dialect.ask(queries.ENDED_MEMBERS, ended)
    if ends:
        yield from dialect.ask(queries.TALLY_BATCHES, ends)
    return {one.batch_id for one in ends}


def finish_over(dialect: Dialect, batch_ids: Collection[int], *, wait: bool) -> Plan[bool]:
    """Finish the batches of which all jobs have ended, if they are sealed. Return whether that enqueued any job.

    Unless it may `wait`, batches that another transaction has locked are left for the next fold.
    """
    ids = sorted(batch_ids)
    if wait and ids:
        held = set((yield from dialect.ask(queries.HOLD_MEMBERS, ids)))
        ids = [batch_id for batch_id in ids if batch_id not in held]
    if not ids:
        return False
    locked = yield from dialect.ask(queries.LOCK_BATCHES if wait else queries.LOCK_FREE_BATCHES, ids)
    return (yield from finish_locked(dialect, locked)) if locked else False


def finish_locked(dialect: Dialect, batch_ids: Sequence[int]) -> Plan[bool]:
    """Do so for batches that this transaction has locked."""
    over = yield from dialect.ask(queries.OVER, batch_ids)
    any_enqueued = False
    for batch in over:
        (now_ms,) = yield from dialect.ask(NOW)
        info = msgspec.structs.replace(batch.info, status="finished", progress=1.0, finished_at=time_of(now_ms))
        due = _callbacks(batch)
        jobs = [_job_of(callback, info) for callback in due.values()]
        inserted = (yield from insert_each(dialect, jobs)) if jobs else []
        by_name = {name: row.id for name, row in zip(due, inserted, strict=True)}
        yield from dialect.ask(queries.FINISH, info.id, by_name.get("finish"), by_name.get("success"))
        any_enqueued |= bool(jobs)
    return any_enqueued


def _callbacks(batch: StoredBatch) -> dict[str, Callback]:
    """Return what is enqueued now. Each of them is enqueued once, however often the batch finishes."""
    info, due = batch.info, {}
    if batch.on_finish is not None and info.finish_job is None:
        due["finish"] = batch.on_finish
    if batch.on_success is not None and info.success_job is None and not (info.failed or info.cancelled):
        due["success"] = batch.on_success
    return due


def _job_of(callback: Callback, info: BatchInfo) -> tuple[NewJob, str]:
    job = NewJob(
        type=callback.type,
        queue=callback.queue,
        priority=callback.priority,
        max_attempts=callback.max_attempts,
        timeout_seconds=callback.timeout_seconds,
        retry=callback.retry,
        tags=None if callback.tags is None else msgspec.json.encode(callback.tags).decode(),
        on_end=None if callback.on_end is None else msgspec.json.encode(callback.on_end).decode(),
    )
    payload = callback.payload
    if payload is None:
        payload = msgspec.json.encode({ARGUMENT: msgspec.to_builtins(info)}).decode()
    return job, payload


def batches_left_by(deleted: Iterable[Job]) -> set[int]:
    """Return the batches that jobs have left because they were deleted before they ended. A trigger counts that."""
    return {job.batch_id for job in deleted if job.batch_id is not None and job.status not in FINISHED}


def reopen(dialect: Dialect, revived: Iterable[Job]) -> Plan[None]:
    """Take locked jobs that run again out of the counts of ended ones. Their batches have not finished any more."""
    counts = Counter((job.batch_id, job.status) for job in revived if job.batch_id is not None)
    if counts:
        yield from dialect.ask(
            queries.TALLY_BATCHES, [(batch, -jobs, status) for (batch, status), jobs in counts.items()]
        )
        batch_ids = sorted({batch_id for batch_id, _ in counts if batch_id is not None})
        yield from dialect.ask(queries.LOCK_BATCHES, batch_ids)
        yield from dialect.ask(queries.REOPEN, batch_ids)


def fold_batches(dialect: Dialect) -> Plan[int]:
    """Add tallies to the counts of their batches, and finish these if all jobs have ended; return how many tallies.

    So a batch finishes even if the transaction that ended its last job could not look: one of a caller, which may stay
    open for long, or one that did not wait for another.
    """
    tallied = yield from dialect.ask(queries.TALLIED, BATCHES_AT_ONCE)
    locked = (yield from dialect.ask(queries.LOCK_FREE_BATCHES, tallied)) if tallied else []
    if not locked:
        return 0
    removed = yield from dialect.ask(queries.REMOVE_BATCH_TALLIES, locked, FOLDED_AT_ONCE)
    for batch_id, counts in sorted(_sums(removed).items()):
        yield from dialect.ask(queries.ADD_COUNTS, batch_id, *(counts[status] for status in (None, *FINISHED)))
    yield from finish_locked(dialect, locked)
    return len(removed)


def _sums(tallies: Iterable[BatchEnds]) -> dict[int, Counter[str | None]]:
    sums: dict[int, Counter[str | None]] = defaultdict(Counter)
    for one in tallies:
        sums[one.batch_id][one.status] += one.jobs
    return sums
