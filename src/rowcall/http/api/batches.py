"""Batches: their counts, and what people do to them."""

from __future__ import annotations

from rowcall.domain.batches import BatchInfo, BatchPage
from rowcall.domain.value import Value
from rowcall.http.api.jobs import LONGEST_PAGE
from rowcall.http.endpoint import Call, EndpointInput
from rowcall.http.problems import Problem
from rowcall.operations import batches


class BatchesQuery(EndpointInput, frozen=True, kw_only=True):
    """A page of batches."""

    limit: int = 50
    cursor: str | None = None


class BatchAnswer(Value, frozen=True, kw_only=True):
    """A batch with its counts."""

    batch: BatchInfo


class BatchChanged(Value, frozen=True, kw_only=True):
    """The batch after the change, and how many jobs changed."""

    batch: BatchInfo
    changed: int


class CancelBatchInput(EndpointInput, frozen=True, kw_only=True):
    reason: str | None = None


async def list_batches(call: Call, query: BatchesQuery) -> BatchPage:
    """List batches with their counts, newest first."""
    if not 1 <= query.limit <= LONGEST_PAGE:
        raise Problem(422, "Invalid value", f"limit must be from 1 to {LONGEST_PAGE}, got {query.limit}")
    page = await call.read(batches.list_batches(call.queue, limit=query.limit, cursor=query.cursor))
    return BatchPage(batches=call.all_scrubbed(page.batches), next_cursor=page.next_cursor)


async def get_batch(call: Call, id: int) -> BatchAnswer:
    """Return a batch with its counts."""
    return BatchAnswer(batch=call.scrubbed(await call.read(batches.read_batch(call.queue, id))))


async def seal_batch(call: Call, id: int) -> BatchChanged:
    """Add no more jobs to a batch. It finishes when all of its jobs have ended."""
    await call.change(batches.seal_batch(call.queue, id))
    return await _changed(call, id, 0)


async def cancel_batch(call: Call, id: int, body: CancelBatchInput) -> BatchChanged:
    """Cancel all jobs of a batch that have not ended."""
    count = await call.change(batches.cancel_batch(call.queue, id, body.reason, actor=call.actor))
    return await _changed(call, id, count)


async def retry_batch(call: Call, id: int) -> BatchChanged:
    """Run the failed jobs of a batch again."""
    return await _changed(call, id, await call.change(batches.retry_batch(call.queue, id, actor=call.actor)))


async def _changed(call: Call, batch_id: int, count: int) -> BatchChanged:
    return BatchChanged(batch=(await get_batch(call, batch_id)).batch, changed=count)
