"""Jobs that cannot be read fail in the transaction that would have claimed them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from rowcall.store.counts.tallies import Books
from rowcall.store.dialect import Dialect
from rowcall.store.jobs.queries import Ready
from rowcall.store.jobs.settle import Ended, settle
from rowcall.store.jobs.unreadable import Unread, Unreadable
from rowcall.store.statement import Plan

V = TypeVar("V")


def claim_to_fail(
    dialect: Dialect, worker: str, unread: Iterable[Unreadable], lease_ms: int | None, now_ms: int | None
) -> Plan[None]:
    """Claim jobs that cannot be read, and fail them."""
    found = list(unread)
    yield from dialect.mark_claimed(worker, [one.job.id for one in found], [], lease_ms, now_ms)
    yield from _fail(dialect, found, now_ms)


def made(dialect: Dialect, claimed: Iterable[Ready], make: Callable[[Ready], V], now_ms: int | None) -> Plan[list[V]]:
    """Make what is handed over of jobs that this transaction has claimed; a job of which it cannot be made fails."""
    unread = Unread()
    values = [value for job in claimed if (value := unread.read(job, "the row", make)) is not None]
    if unread.jobs:
        yield from _fail(dialect, list(unread.jobs.values()), now_ms)
    return values


def _fail(dialect: Dialect, unread: list[Unreadable], now_ms: int | None) -> Plan[None]:
    books = Books()
    for job, transition in unread:
        books.enter(job.queue, job.type, job.attempt, transition, None, None)
    ended = [Ended(job.id, job.lease, transition) for job, transition in unread]
    yield from settle(dialect, ended, lambda settled: books.tallies(), now_ms)
