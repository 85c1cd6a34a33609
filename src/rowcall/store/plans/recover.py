"""Jobs whose owner is gone. A recovery counts as an attempt, but for jobs that had not been started."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rowcall.lifecycle import Lost, Tries, decide
from rowcall.store.dialect import Dialect, Owned
from rowcall.store.plans.settle import Ended, settle
from rowcall.store.statement import Plan

RECOVERED_AT_ONCE = 500


def recover_worker(
    dialect: Dialect, worker: str, started: Collection[tuple[int, int]], now_ms: int | None
) -> Plan[int]:
    """Give back what a lost worker owned, some at a time, and strike it off once it owns nothing.

    `started` holds (id, lease) of jobs known to have left its buffer, from the file it kept beside its lock.
    """
    owned = yield from dialect.owned_by(worker, RECOVERED_AT_ONCE)
    if len(owned) < RECOVERED_AT_ONCE:
        yield from dialect.retire(worker)
    return (yield from _recover(dialect, owned, started, now_ms))


def recover_orphans(dialect: Dialect, now_ms: int | None) -> Plan[int]:
    """Running jobs of workers that are not registered at all."""
    owned = yield from dialect.orphans(RECOVERED_AT_ONCE)
    return (yield from _recover(dialect, owned, (), now_ms))


def recover_expired(dialect: Dialect, now_ms: int | None) -> Plan[int]:
    """Jobs claimed by hand whose lease ran out."""
    owned = yield from dialect.lease_expired(RECOVERED_AT_ONCE, now_ms)
    return (yield from _recover(dialect, owned, (), now_ms))


def _recover(
    dialect: Dialect, owned: Sequence[Owned], started: Collection[tuple[int, int]], now_ms: int | None
) -> Plan[int]:
    ended = [
        Ended(
            job.id,
            job.lease,
            decide(Tries(job.attempt, job.max_attempts), Lost(started=job.started or (job.id, job.lease) in started)),
        )
        for job in owned
    ]
    return len((yield from settle(dialect, ended, now_ms)))
