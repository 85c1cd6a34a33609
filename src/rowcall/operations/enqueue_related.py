"""Jobs that are written with an eye on others: a key, blockers, a chain, a whole graph. All end in `place`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rowcall.base.times import time_of, time_or_none
from rowcall.declare.limits import with_limits
from rowcall.declare.option_checks import key_problem
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Job, Status
from rowcall.domain.payload import payload_from_row, tags_from_row
from rowcall.operations.blobs import on_loan
from rowcall.queue import Queue
from rowcall.store.dialect import Dialect
from rowcall.store.flows.enqueue import Beside, Order, Placed, lock_keys, look_beside, place_orders
from rowcall.store.new_job import Inserted, NewJob
from rowcall.store.statement import Plan

_STATUSES = {status.value: status for status in Status}


class Ordering(Queue):
    def place(self, orders: Sequence[Order], connection: object = None) -> list[Job]:
        """Write all of them in one transaction: the caller's, or one of our own."""
        wanted, connection = [with_key(order) for order in orders], self.destination(connection)
        if connection is None:
            self.ensure_schema()
            stored = [_stored(order, self.blobs.stored(order.job.type, order.payload)) for order in wanted]
            return _jobs(wanted, self.database.write(lambda: place_orders(self.dialect, stored, self.now_ms())))
        loan, dialect = self.lend(connection)
        if not loan.run(dialect.holds_together()):
            raise torn("a key, after= or a flow takes")
        stored = [_stored(order, self.blobs.stored(order.job.type, order.payload)) for order in wanted]
        beside: Beside | None = None
        if any(order.job.unique for order in stored):
            seen = loan.run(lock_keys(dialect, stored, self.now_ms()))
            if seen is not None:
                beside = self.database.read(look_beside(self.dialect, stored, seen, self.now_ms()))
        return _jobs(wanted, loan.run(self._lent_plan(dialect, stored, beside)))

    async def aplace(self, orders: Sequence[Order], connection: object = None) -> list[Job]:
        wanted, connection = [with_key(order) for order in orders], self.destination(connection)
        if connection is None:
            await self.aensure_schema()
            stored = [_stored(order, await self.blobs.astored(order.job.type, order.payload)) for order in wanted]
            placed = await self.database.awrite(lambda: place_orders(self.dialect, stored, self.now_ms()))
            return _jobs(wanted, placed)
        loan, dialect = await self.alend(connection)
        if not await loan.arun(dialect.holds_together()):
            raise torn("a key, after= or a flow takes")
        stored = [_stored(order, await self.blobs.astored(order.job.type, order.payload)) for order in wanted]
        beside: Beside | None = None
        if any(order.job.unique for order in stored):
            seen = await loan.arun(lock_keys(dialect, stored, self.now_ms()))
            if seen is not None:
                beside = await self.database.aread(look_beside(self.dialect, stored, seen, self.now_ms()))
        return _jobs(wanted, await loan.arun(self._lent_plan(dialect, stored, beside)))

    def _lent_plan(self, dialect: Dialect, orders: Sequence[Order], beside: Beside | None) -> Plan[list[Placed]]:
        plan = place_orders(dialect, orders, self.now_ms(), beside)
        return on_loan(dialect, [order.payload for order in orders], plan)


def torn(what: str) -> InvalidOption:
    return InvalidOption(
        "connection",
        f"has no transaction open, and commits each statement by itself: {what} several;"
        " begin a transaction first, or leave connection= out",
    )


def with_key(order: Order) -> Order:
    """The order with the key and the limits that its arguments make."""
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


def _stored(order: Order, payload: str) -> Order:
    return order if payload is order.payload else msgspec.structs.replace(order, payload=payload)


def _jobs(orders: Sequence[Order], placed: Sequence[Placed]) -> list[Job]:
    return [_job(order, one) for order, one in zip(orders, placed, strict=True)]


def _job(order: Order, placed: Placed) -> Job:
    if placed.existing is not None:
        return placed.existing
    assert placed.inserted is not None
    return written_job(order.job, payload_from_row(order.payload), placed.inserted)


def written_job(job: NewJob, payload: dict[str, object], inserted: Inserted) -> Job:
    """A job as it has just been written."""
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
