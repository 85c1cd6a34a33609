"""Enqueue jobs that depend on others: by a key, blockers, a chain or a whole graph."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rowcall.base.times import time_of, time_or_none
from rowcall.declare.limits import with_limits
from rowcall.declare.option_checks import key_problem
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Job, Status
from rowcall.domain.payload import payload_from_row, tags_from_row
from rowcall.operations import blobs
from rowcall.operations.caller import OnCallerConnection, connection_for, open_target, several_statements
from rowcall.operations.steps import EnsureSchema, Read, Write
from rowcall.queue import Operation, Queue
from rowcall.store.flows.enqueue import Beside, Order, Placed, lock_keys, look_beside, place_orders
from rowcall.store.new_job import Inserted, NewJob

_STATUSES = {status.value: status for status in Status}


def enqueue_related(queue: Queue, orders: Sequence[Order], connection: object) -> Operation[list[Job]]:
    """Write all of them in one transaction: the caller's, or one of the queue."""
    wanted, connection = [with_key(order) for order in orders], connection_for(queue, connection)
    if connection is None:
        yield from EnsureSchema()
        stored = yield from _stored(queue, wanted)
        return _jobs(wanted, (yield from Write(place_orders, queue.dialect, stored, queue.now_ms())))
    target, dialect = yield from open_target(queue, connection)
    if not (yield from OnCallerConnection(target, dialect.holds_together())):
        raise several_statements("a key, after= or a flow takes")
    stored = yield from _stored(queue, wanted)
    beside: Beside | None = None
    if any(order.job.unique for order in stored):
        seen = yield from OnCallerConnection(target, lock_keys(dialect, stored, queue.now_ms()))
        if seen is not None:
            beside = yield from Read(look_beside(queue.dialect, stored, seen, queue.now_ms()))
    plan = place_orders(dialect, stored, queue.now_ms(), beside)
    plan = blobs.on_caller_connection(dialect, [order.payload for order in stored], plan)
    return _jobs(wanted, (yield from OnCallerConnection(target, plan)))


def _stored(queue: Queue, orders: Sequence[Order]) -> Operation[list[Order]]:
    """Return the orders with references in place of large payloads."""
    stored = []
    for order in orders:
        payload = yield from blobs.store(queue, order.job.type, order.payload)
        stored.append(order if payload is order.payload else msgspec.structs.replace(order, payload=payload))
    return stored


def with_key(order: Order) -> Order:
    """Return the order with the key and the limits that follow from its arguments."""
    if order.job.limited_by is not None:
        order = msgspec.structs.replace(order, job=with_limits(order.job, order.payload))
    job = order.job
    if job.key_of is None:
        return order
    arguments = payload_from_row(order.payload)
    try:
        key = job.key_of(**arguments)
    except TypeError as error:
        given = ", ".join(arguments) or "none"
        raise InvalidOption(
            "key", f"the function of {job.type!r} fails with the arguments given ({given}): {error}"
        ) from error
    if problem := key_problem(key):
        raise InvalidOption("key", f"the function of {job.type!r} returned a key that {problem}")
    return msgspec.structs.replace(order, job=msgspec.structs.replace(job, key=key, key_of=None))


def _jobs(orders: Sequence[Order], placed: Sequence[Placed]) -> list[Job]:
    return [_job(order, one) for order, one in zip(orders, placed, strict=True)]


def _job(order: Order, placed: Placed) -> Job:
    if placed.existing is not None:
        return placed.existing
    assert placed.inserted is not None
    return written_job(order.job, payload_from_row(order.payload), placed.inserted)


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
        expires_at=time_or_none(inserted.expires_at_ms),
        timeout=job.timeout_seconds,
        retry=job.retry,
        key=job.key,
        tags=() if job.tags is None else tags_from_row(job.tags),
        chain_id=job.chain_id,
        chain_index=job.chain_index,
    )
