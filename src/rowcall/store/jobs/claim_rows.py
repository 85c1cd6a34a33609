"""Jobs that a worker claims together: one row for each run of their ids, instead of a write to each job.

Most jobs end within milliseconds, and are then written once, with the claim and the end together. A read of such a job
goes through a view that adds what the claim row says. A change of it first writes the claim into the job's own row
(`write_claims_of`). A job under a claim row is pending, has a lease of 0, and is not in the table of
ready jobs. Its lease becomes 1 when its claim is written, and 2 when it ends. It never returns to 0: so a worker that
finds 0 may settle it, and a worker whose claim was recovered by another one may not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter

from rowcall.store.dialect import Dialect
from rowcall.store.queries import jobs as queries
from rowcall.store.queries.jobs import Claimed, ClaimRow, Ready, Success
from rowcall.store.statement import Plan

WRITE_AFTER_MS = 50


def runs_of(ids: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each run of ids without a gap.

    >>> runs_of([3, 4, 5, 9, 7, 8])
    [(3, 5), (7, 9)]
    """
    ids = sorted(ids)
    if ids and ids[-1] - ids[0] == len(ids) - 1:
        return [(ids[0], ids[-1])]
    runs: list[tuple[int, int]] = []
    for number in ids:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return runs


def claim_together(
    dialect: Dialect, worker: str, started: Sequence[Ready], buffered: Sequence[Ready], now_ms: int | None
) -> Plan[None]:
    """Claim plain jobs by one row for each run of ids."""
    runs = [
        (*run, are_started)
        for jobs, are_started in ((started, 1), (buffered, 0))
        for run in runs_of([job.id for job in jobs])
    ]
    yield from dialect.claim_together(worker, [*started, *buffered], runs, now_ms)


def write_claims_of(dialect: Dialect, job_ids: Collection[int]) -> Plan[None]:
    """Before jobs are changed: write the claims that are only in claim rows."""
    if job_ids:
        yield from dialect.ask(queries.WRITE_CLAIMS_OF_JOBS, list(job_ids))


def write_free_claims_of(dialect: Dialect, job_ids: Collection[int]) -> Plan[None]:
    """`write_claims_of`, except of jobs that other transactions have locked. It waits for none of them."""
    if job_ids:
        yield from dialect.ask(queries.WRITE_FREE_CLAIMS_OF_JOBS, list(job_ids))


def write_claims_of_worker(dialect: Dialect, worker: str) -> Plan[None]:
    yield from dialect.ask(queries.WRITE_CLAIMS_OF_WORKER, worker)
    yield from dialect.ask(queries.DELETE_DONE_OF_WORKER, worker)


def write_claims_of_gone(dialect: Dialect) -> Plan[None]:
    """Write the claims of workers that are not registered."""
    yield from dialect.ask(queries.WRITE_CLAIMS_OF_GONE)
    yield from dialect.ask(queries.DELETE_DONE_OF_GONE)


def write_old(dialect: Dialect, claims: Sequence[ClaimRow]) -> Plan[bool]:
    """Write the claims of jobs that have run for a while, so that plain SQL sees them, too.

    Return whether some are left, because other transactions have locked their jobs.
    """
    ids = [claim.id for claim in claims if claim.is_old]
    if not ids:
        return False
    yield from dialect.ask(queries.WRITE_CLAIMS, ids)
    yield from dialect.ask(queries.DELETE_DONE_CLAIMS, ids)
    return bool((yield from dialect.ask(queries.CLAIMS_LEFT, ids)))


def settle_claimed(
    dialect: Dialect, worker: str, claims: Sequence[ClaimRow], settled: Sequence[Success], now_ms: int | None
) -> Plan[set[int]]:
    """Settle successes, sorted by id. Those under a claim are written for the first time."""
    live: set[int] = set()
    rest = settled
    for claimed_at_ms, members in _members(claims, settled):
        live |= yield from dialect.settle_successes(members, now_ms, Claimed(worker, claimed_at_ms))
    if live:
        rest = [part for row in settled for part in _without(row, live)]
    if rest:  # these were claimed one by one, or their claims were written meanwhile
        live |= yield from dialect.settle_successes(rest, now_ms)
    return live


def _members(claims: Sequence[ClaimRow], settled: Sequence[Success]) -> Iterator[tuple[int, list[Success]]]:
    """Yield the rows, or parts of them, that are under a claim, for each time of a claim."""
    starts = [row.id for row in settled]
    by_time: dict[int, list[Success]] = {}
    for claim in claims:
        found = settled[max(0, bisect_right(starts, claim.first_id) - 1) : bisect_right(starts, claim.last_id)]
        members = by_time.setdefault(claim.claimed_at_ms, [])
        for row in found:
            ids = range(max(row.id, claim.first_id), min(row.id + row.count, claim.last_id + 1))
            if ids and row.lease == 1 and not row.begins_chain:
                members.append(row.part(ids, lease=0))
    for claimed_at_ms, rows in by_time.items():
        if rows:
            yield claimed_at_ms, sorted(rows, key=attrgetter("id"))


def _without(row: Success, live: Collection[int]) -> list[Success]:
    """Return the row without the jobs in `live`."""
    return [
        row.part(range(first, last + 1), row.lease) for first, last in runs_of([i for i in row.ids if i not in live])
    ]


def delete_done(dialect: Dialect, claims: Sequence[ClaimRow], ended: Sequence[int]) -> Plan[None]:
    """Delete the claims whose last job has ended. `ended` are the jobs that ended just now, in order."""
    done, unsure = [], []
    for claim in claims:
        members = bisect_right(ended, claim.last_id) - bisect_left(ended, claim.first_id)
        if members == claim.last_id - claim.first_id + 1:
            done.append(claim.id)
        elif members:
            unsure.append(claim.id)
    if done:
        yield from dialect.ask(queries.DELETE_CLAIMS, done)
    if unsure:
        yield from dialect.ask(queries.DELETE_DONE_CLAIMS, unsure)
