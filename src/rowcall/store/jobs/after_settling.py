"""What follows from the end of attempts: jobs that waited for it, slots that came free under a limit."""

from __future__ import annotations

from collections.abc import Collection

from rowcall.store.dialect import Dialect
from rowcall.store.flows.blockers import resolve_ended
from rowcall.store.jobs.queries import InUse
from rowcall.store.limits.held_jobs import free
from rowcall.store.results.waiting import notify_waiters
from rowcall.store.statement import Plan


def follow(
    dialect: Dialect,
    settled: Collection[int],
    concerned: InUse,
    now_ms: int | None,
    freed: Collection[tuple[int, int | None]] | None = None,
) -> Plan[bool]:
    """Do what follows from the end of these jobs' attempts, and return whether that made any job ready.

    `freed` are the attempts (ids and leases) whose handlers have ended. None if that is not known, as somebody settled
    them by hand: then the slots of workers are not freed.
    """
    any_ready = False
    if settled and concerned.edges:
        any_ready |= yield from resolve_ended(dialect, settled, now_ms)
    if concerned.slots:
        any_ready |= yield from free(dialect, [(job_id, None) for job_id in settled] if freed is None else freed)
    if settled and concerned.waiters:  # of others, too, that came to their end by it
        yield from notify_waiters(dialect, None if concerned.edges else settled)
    return any_ready
