"""Plans that register a worker, and remove it when it leaves."""

from __future__ import annotations

from collections.abc import Collection

from rowcall.store.counts.samples import note_code
from rowcall.store.dialect import Dialect
from rowcall.store.limits.held_jobs import free
from rowcall.store.queries import workers as queries
from rowcall.store.queries.limits import SLOTS_OF_WORKER
from rowcall.store.queries.workers import Registration
from rowcall.store.statement import Plan


def register(dialect: Dialect, worker: Registration) -> Plan[None]:
    """Register a worker: only a registered worker may claim."""
    one = worker
    given = (one.name, one.host, one.pid, one.queues, one.concurrency, one.version, one.lease_ms, one.lock_path)
    yield from dialect.ask(queries.REGISTER_WORKER, *given)
    if worker.served is not None:
        yield from dialect.ask(queries.SET_SERVED, worker.name, worker.served)
    if worker.tasks is not None:
        yield from dialect.ask(queries.SET_TASKS, worker.name, worker.tasks)
    if worker.code is not None:
        yield from note_code(dialect, worker.code)


def retire(dialect: Dialect, worker: str, running: Collection[tuple[int, int]] = ()) -> Plan[bool]:
    """Remove a worker that leaves, and free its slots; return whether it is removed.

    `running` has the attempts (ids and leases) whose handlers it abandoned and that still run. While one of them has
    a slot, the worker stays registered: it serves no queue, and each call is a heartbeat of it.
    """
    slots = yield from dialect.ask(SLOTS_OF_WORKER, worker)
    over = [slot for slot in slots if slot not in running]
    stays = len(over) < len(slots) and bool((yield from dialect.ask(queries.SERVE_NOTHING, worker)))
    if not stays:
        yield from dialect.ask(queries.REMOVE_WORKER, worker)
    yield from free(dialect, over if stays else slots)
    return not stays
