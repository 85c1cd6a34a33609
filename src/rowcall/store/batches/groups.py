"""Batches as people make, seal and read them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from rowcall.domain.batches import BatchInfo, BatchPage
from rowcall.domain.errors import BatchNotFound, BatchNotOver, BatchSealed
from rowcall.store.batches.finishing import finish_locked
from rowcall.store.dialect import HIGHEST, Dialect
from rowcall.store.queries import batches as queries
from rowcall.store.queries.batches import StoredBatch
from rowcall.store.queries.flows import BEGIN_WRITING
from rowcall.store.statement import Plan

LONGEST_PAGE = 1000


def refuse_sealed(dialect: Dialect, batch_ids: Collection[int]) -> Plan[None]:
    """Refuse batches that do not exist or are sealed. The others are not sealed before this transaction ends."""
    sealed = dict((yield from dialect.ask(queries.SHARE_BATCHES, sorted(batch_ids)))) if batch_ids else {}
    for batch_id in sorted(batch_ids):
        if batch_id not in sealed:
            raise BatchNotFound(batch_id)
        if sealed[batch_id]:
            raise BatchSealed(batch_id)


def seal(dialect: Dialect, batch_id: int) -> Plan[bool]:
    """Add no more jobs; finish the batch if all have ended. Return whether it was open.

    It waits for transactions that have added jobs.
    """
    yield from dialect.ask(BEGIN_WRITING)
    if not (yield from dialect.ask(queries.LOCK_WHOLE_BATCH, batch_id)):
        raise BatchNotFound(batch_id)
    was_open = bool((yield from dialect.ask(queries.SEAL, batch_id)))
    yield from finish_locked(dialect, [batch_id])
    return was_open


def delete_batch(dialect: Dialect, batch_id: int) -> Plan[None]:
    """Delete a batch of which all jobs have ended. The jobs stay."""
    if not (yield from dialect.ask(queries.LOCK_WHOLE_BATCH, batch_id)):
        raise BatchNotFound(batch_id)
    if (yield from dialect.ask(queries.ANY_UNENDED, [batch_id])):
        raise BatchNotOver(batch_id)
    yield from dialect.ask(queries.DROP_BATCH, batch_id)


def read_batch(dialect: Dialect, batch_id: int) -> Plan[BatchInfo]:
    for stored in (yield from dialect.ask(queries.BATCHES, [batch_id])):
        (info,) = yield from _with_running(dialect, [stored])
        return info
    raise BatchNotFound(batch_id)


def batch_of(dialect: Dialect, job_id: int) -> Plan[BatchInfo | None]:
    for _, batch_id in (yield from dialect.ask(queries.BATCHES_OF, [job_id])):
        if batch_id is not None:
            return next((one.info for one in (yield from dialect.ask(queries.BATCHES, [batch_id]))), None)
    return None


def list_batches(dialect: Dialect, before_id: int | None, limit: int) -> Plan[BatchPage]:
    stored = yield from dialect.ask(queries.LIST_BATCHES, HIGHEST if before_id is None else before_id, limit + 1)
    shown = yield from _with_running(dialect, stored[:limit])
    return BatchPage(batches=shown, next_cursor=f"before-{shown[-1].id}" if len(stored) > limit else None)


def _with_running(dialect: Dialect, stored: Sequence[StoredBatch]) -> Plan[list[BatchInfo]]:
    unended = [one.info.id for one in stored if one.info.waiting]
    running = dict((yield from dialect.ask(queries.RUNNING_IN, unended))) if unended else {}
    infos = []
    for one in stored:
        count = min(running.get(one.info.id) or 0, one.info.waiting)
        infos.append(msgspec.structs.replace(one.info, running=count, waiting=one.info.waiting - count))
    return infos
