"""Enqueue many jobs in one transaction of the queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, Unpack

from rowcall.declare.options import EnqueueOptions
from rowcall.domain.job import Job
from rowcall.drivers.transaction_block import Block
from rowcall.operations.enqueue import enqueue_by_name
from rowcall.queue import Queue

Self = TypeVar("Self", bound="Transaction")


class Transaction(Block):
    """A block whose jobs are all written at its end, or none of them: what `jobs.transaction()` returns.

        with jobs.transaction() as tx:
            charge.enqueue(order_id=1)
            with jobs.transaction():          # a savepoint
                send_email.enqueue("a@example.com", subject="Order confirmed")
            tx.enqueue("by_name", {"order_id": 1})

    Jobs that are enqueued inside the block, by the thread and the asyncio task that opened it, join it by themselves.
    Other threads and tasks join it with `connection=tx`.
    """

    def __init__(self, queue: Queue) -> None:
        super().__init__(queue.database, queue.open_transactions)
        self._queue = queue

    def enqueue(
        self, task: str, arguments: Mapping[str, object] | None = None, **options: Unpack[EnqueueOptions]
    ) -> Job:
        """`jobs.enqueue`, in this transaction, from any thread."""
        options["connection"] = self
        return self._queue.run(enqueue_by_name(self._queue, task, arguments, options))

    async def aenqueue(
        self, task: str, arguments: Mapping[str, object] | None = None, **options: Unpack[EnqueueOptions]
    ) -> Job:
        """`enqueue`, for async code."""
        options["connection"] = self
        return await self._queue.arun(enqueue_by_name(self._queue, task, arguments, options))

    def __enter__(self: Self) -> Self:
        self._queue.ensure_schema()
        return super().__enter__()

    async def __aenter__(self: Self) -> Self:
        await self._queue.aensure_schema()
        return await super().__aenter__()
