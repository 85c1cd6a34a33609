"""Jobs in order: of the jobs with one value, only the first that has not ended may run, and the others are held."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rowcall.domain.encryption import is_hidden
from rowcall.domain.errors import RowcallError
from rowcall.domain.fairness import OrderedBy
from rowcall.domain.limits import HELD_BY_ORDER, HELD_BY_OTHER_NAME
from rowcall.domain.payload import payload_from_row
from rowcall.store.dialect import Dialect
from rowcall.store.queries import order as queries
from rowcall.store.queries.claims import Ready
from rowcall.store.queries.ends import LOCK_FREE_JOBS
from rowcall.store.statement import Plan


def heads(dialect: Dialect, keys: Collection[str]) -> Plan[dict[str, int | None]]:
    """Return the first job of each key, as `held` spells it; None if another transaction is changing that job.

    The jobs that it returns do not end before this transaction has.
    """
    (first_jobs,) = yield from dialect.ask(queries.HEADS, [key.removeprefix(HELD_BY_ORDER) for key in keys])
    steady = {job_id for _, job_id in first_jobs}
    for locked in (yield from dialect.ask(queries.STEADY_HEADS, sorted(steady))):
        steady = set(locked)
    return {HELD_BY_ORDER + ordered: job_id if job_id in steady else None for ordered, job_id in first_jobs}


def make_ready(dialect: Dialect, counts: Mapping[str, int]) -> Plan[int]:
    """Make held jobs ready, and return how many: this many under each limit, or the first job of a value in order."""
    orders = [order_of(held) for held in counts if held.startswith(HELD_BY_ORDER)]
    changed = yield from ready_heads(dialect, orders)
    limits = {held: count for held, count in counts.items() if not held.startswith(HELD_BY_ORDER)} if orders else counts
    return changed + ((yield from dialect.unhold(limits)) if limits else 0)


def order_of(held: str) -> str:
    """Return the value whose first job holds a job in order."""
    return held.removeprefix(HELD_BY_OTHER_NAME).removeprefix(HELD_BY_ORDER)


def ready_heads(dialect: Dialect, orders: Sequence[str]) -> Plan[int]:
    """Make ready the first job of each value, if it is held by the order, and a job that waits for it under another
    name of the task. Return how many changed.
    """
    return (yield from dialect.change(queries.READY_HEADS, sorted(orders))) if orders else 0


def orders_of(dialect: Dialect, job_ids: Sequence[int]) -> Plan[list[str]]:
    """Return the values of these jobs."""
    return (yield from dialect.ask(queries.ORDERS_OF, job_ids)) if job_ids else []


def pass_order(dialect: Dialect, ended: Sequence[int]) -> Plan[None]:
    """Make the jobs ready that come after jobs which ended without a claim."""
    yield from ready_heads(dialect, (yield from orders_of(dialect, ended)))


def adopt(dialect: Dialect, ready: Sequence[Ready], declared: Mapping[str, OrderedBy]) -> Plan[set[str]]:
    """Set the value of ready jobs that were enqueued without the declaration of their task, as by plain SQL.

    Return the values of jobs that another transaction has locked: they are not set.
    """
    adopted: dict[int, tuple[int, str, int]] = {}
    for job in ready:
        order = declared.get(job.type) if job.ordered is None else None
        if order is None or is_hidden(job.payload):
            continue
        try:
            job.ordered = order.of(payload_from_row(job.payload))
        except (RowcallError, ValueError):  # it fails when it runs
            continue
        adopted[job.id] = job.id, job.ordered, int(order.blocks)
    if not adopted:
        return set()
    unlocked = yield from dialect.ask(LOCK_FREE_JOBS, sorted(adopted))
    yield from dialect.ask(queries.ADOPT, [adopted[job_id] for job_id in unlocked])
    return {adopted[job_id][1] for job_id in adopted.keys() - unlocked}
