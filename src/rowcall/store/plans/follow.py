"""What follows from the end of attempts: jobs that waited for it, places that came free under a limit."""

from __future__ import annotations

from collections.abc import Collection

from rowcall.store.dialect import Concerned, Dialect
from rowcall.store.plans.flow import resolve_ended
from rowcall.store.plans.holding import free
from rowcall.store.statement import Plan


def follow(dialect: Dialect, settled: Collection[int], concerned: Concerned, now_ms: int | None) -> Plan[bool]:
    """Do what follows from these attempts having ended; gives whether that made any job ready."""
    any_ready = False
    if concerned.edges:
        any_ready |= yield from resolve_ended(dialect, settled, now_ms)
    if concerned.slots:
        any_ready |= yield from free(dialect, settled)
    if concerned.waiters:  # of others, too, that came to their end by it
        yield from dialect.tell_waiters(None if concerned.edges else settled)
    return any_ready
