"""Finds problems of a queue in facts that the caller has read. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rowcall.base.text import duration
from rowcall.store.queries.counts import StoreHealth, Unfinished

LONG_WAIT_SECONDS = 10 * 60.0
LONG_TRANSACTION_SECONDS = 5 * 60.0
MANY_DEAD_ROWS = 200_000
OVERSIZED_WAL_BYTES = 128 * 1024**2
LITTLE_SPACE_BYTES = 512 * 1024**2
CLOCK_SECONDS = 1.0
MOST_NAMED = 5
OVERDUE_MS = 10_000


class Complaint(NamedTuple):
    """A problem. `kind` names its cause, so that it is logged once; `here` says that it concerns only this host."""

    kind: str
    what: str
    advice: str
    here: bool = False


class HostFacts(NamedTuple):
    """Facts about the machine and the file; None if not known."""

    wal_bytes: int | None = None
    free_bytes: int | None = None
    clock_ahead_seconds: float | None = None


def complaints(
    waiting: Sequence[Unfinished],
    served: Sequence[frozenset[str] | None],
    health: StoreHealth,
    host: HostFacts,
    at_ms: int,
) -> Iterator[Complaint]:
    """Yield the problems. `served` has the queues of each live worker, or None if it serves all."""
    due = [one for one in waiting if _is_due(one, at_ms)]
    yield from _unserved(due, served)
    yield from _long_waits(due, at_ms)
    yield from _store(health)
    yield from _host_problems(host)


def _unserved(due: Sequence[Unfinished], served: Sequence[frozenset[str] | None]) -> Iterator[Complaint]:
    if any(queues is None for queues in served):
        return
    known = frozenset().union(*(queues for queues in served if queues is not None))
    jobs: dict[str, int] = {}
    for one in due:
        if one.queue not in known:
            jobs[one.queue] = jobs.get(one.queue, 0) + one.jobs
    for queue, count in sorted(jobs.items())[:MOST_NAMED]:
        yield Complaint(
            f"unserved queue {queue}",
            f"no worker serves {queue} ({count:,} waiting)",
            "Start a worker for it, or correct the --queues of the running workers",
        )


def _long_waits(due: Sequence[Unfinished], at_ms: int) -> Iterator[Complaint]:
    waits: dict[str, float] = {}
    for one in due:
        assert one.oldest_ms is not None
        waits[one.queue] = max(waits.get(one.queue, 0.0), (at_ms - one.oldest_ms) / 1000)
    late = {queue: seconds for queue, seconds in waits.items() if seconds > LONG_WAIT_SECONDS}
    for queue, seconds in sorted(late.items(), key=lambda item: -item[1])[:MOST_NAMED]:
        yield Complaint(
            f"long wait {queue}",
            f"jobs of {queue} have been due for {duration(seconds)}",
            "Add workers or concurrency, or see whether the workers know these tasks (rowcall stats)",
        )


def _store(health: StoreHealth) -> Iterator[Complaint]:
    if health.dead_rows is not None and health.dead_rows >= MANY_DEAD_ROWS:
        yield Complaint(
            "dead rows",
            f"the job table has {health.dead_rows:,} dead rows",
            "Autovacuum is too slow or blocked: see rowcall doctor",
        )
    if health.oldest_transaction_seconds > LONG_TRANSACTION_SECONDS:
        yield Complaint(
            "horizon",
            f"a transaction has been open for {duration(health.oldest_transaction_seconds)}"
            f" (process {health.oldest_transaction_pid}): rows that died since then stay",
            "End it: rowcall doctor names it",
        )


def _host_problems(host: HostFacts) -> Iterator[Complaint]:
    if host.wal_bytes is not None and host.wal_bytes > OVERSIZED_WAL_BYTES:
        yield Complaint(
            "wal",
            f"the write-ahead log has {host.wal_bytes / 1024**2:,.0f} MB",
            "A read transaction stays open for too long: find it and end it",
            here=True,
        )
    if host.free_bytes is not None and host.free_bytes < LITTLE_SPACE_BYTES:
        yield Complaint(
            "disk",
            f"only {host.free_bytes / 1024**2:,.0f} MB of disk are free",
            "Free disk space before it runs out",
            here=True,
        )
    ahead = host.clock_ahead_seconds
    if ahead is not None and abs(ahead) > CLOCK_SECONDS:
        yield Complaint(
            "clock",
            f"the database's clock is {duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} this machine's",
            "Run NTP on both: jobs fall due by the database's clock",
            here=True,
        )


def _is_due(unfinished: Unfinished, at_ms: int) -> bool:
    """A scheduled job that is overdue counts, too: a worker would have staged it."""
    if unfinished.oldest_ms is None:
        return False
    return unfinished.status == "pending" or (
        unfinished.status == "scheduled" and unfinished.oldest_ms < at_ms - OVERDUE_MS
    )
