"""Enqueue jobs that depend on others: by a key, blockers, a chain or a whole graph."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rowcall.base.times import time_of
from rowcall.declare.limits import with_limits
from rowcall.declare.option_values import key_problem
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Job, Status
from rowcall.domain.payload import payload_from_row, tags_from_row
from rowcall.drivers.transaction_block import innermost_block
from rowcall.operations import blobs
from rowcall.operations.open_transaction import OnCallerConnection, open_target, several_statements
from rowcall.operations.steps import EnsureSchema, Read, Write
from rowcall.queue import Operation, Queue
from rowcall.store.flows.enqueue import Committed, Enqueued, RelatedJob, lock_keys, read_committed, write_related
from rowcall.store.new_job import Inserted, NewJob

_STATUSES = {status.value: status for status in Status}


def enqueue_related(queue: Queue, related: Sequence[RelatedJob], connection: object) -> Operation[list[Job]]:
    """Write all of them in one transaction: the caller's, or one of the queue."""
    wanted = [with_key(item) for item in related]
    connection = innermost_block(queue.database) if connection is None else connection
    if connection is None:
        yield from EnsureSchema()
        stored = yield from _stored(queue, wanted)
        return _jobs(wanted, (yield from Write(write_related, queue.dialect, stored, queue.now_ms())))
    target, dialect = yield from open_target(queue, connection)
    if not (yield from OnCallerConnection(target, dialect.holds_together())):
        raise several_statements("a key, after= or a flow takes")
    stored = yield from _stored(queue, wanted)
    committed: Committed | None = None
    if any(item.job.unique for item in stored):
        seen = yield from OnCallerConnection(target, lock_keys(dialect, stored, queue.now_ms()))
        if seen is not None:
            committed = yield from Read(read_committed(queue.dialect, stored, seen, queue.now_ms()))
    plan = write_related(dialect, stored, queue.now_ms(), committed)
    plan = blobs.on_caller_connection(dialect, [item.payload for item in stored], plan)
    return _jobs(wanted, (yield from OnCallerConnection(target, plan)))


def _stored(queue: Queue, related: Sequence[RelatedJob]) -> Operation[list[RelatedJob]]:
    """Return the jobs with references in place of large payloads."""
    stored = []
    for item in related:
        payload = yield from blobs.store(queue, item.job.type, item.payload)
        stored.append(item if payload is item.payload else msgspec.structs.replace(item, payload=payload))
    return stored


def with_key(item: RelatedJob) -> RelatedJob:
    """Return the job with the key and the limits that follow from its arguments."""
    if item.job.limited_by is not None:
        item = msgspec.structs.replace(item, job=with_limits(item.job, item.payload))
    job = item.job
    if job.key_of is None:
        return item
    arguments = payload_from_row(item.payload)
    try:
        key = job.key_of(**arguments)
    except TypeError as error:
        given = ", ".join(arguments) or "none"
        raise InvalidOption(
            "key", f"the function of {job.type!r} fails with the arguments given ({given}): {error}"
        ) from error
    if problem := key_problem(key):
        raise InvalidOption("key", f"the function of {job.type!r} returned a key that {problem}")
    return msgspec.structs.replace(item, job=msgspec.structs.replace(job, key=key, key_of=None))


def _jobs(related: Sequence[RelatedJob], enqueued: Sequence[Enqueued]) -> list[Job]:
    return [_job(item, one) for item, one in zip(related, enqueued, strict=True)]


def _job(item: RelatedJob, enqueued: Enqueued) -> Job:
    if enqueued.existing is not None:
        return enqueued.existing
    assert enqueued.inserted is not None
    return written_job(item.job, payload_from_row(item.payload), enqueued.inserted)


def written_job(job: NewJob, payload: dict[str, object], inserted: Inserted) -> Job:
    """Return a job as it has just been written."""
    run_at = time_of(inserted.run_at_ms)
    same = inserted.created_at_ms == inserted.run_at_ms
    return Job(
        id=inserted.id,
        type=job.type,
        queue=job.queue,
        payload=payload,
        status=_STATUSES[inserted.status],
        priority=job.priority,
        max_attempts=job.max_attempts,
        run_at=run_at,
        created_at=run_at if same else time_of(inserted.created_at_ms),
        expires_at=None if inserted.expires_at_ms is None else time_of(inserted.expires_at_ms),
        timeout=job.timeout_seconds,
        retry=job.retry,
        key=job.key,
        tags=() if job.tags is None else tags_from_row(job.tags),
        chain_id=job.chain_id,
        chain_index=job.chain_index,
    )
