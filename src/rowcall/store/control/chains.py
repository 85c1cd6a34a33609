"""Chains as a whole: read, completed or cancelled by a person, deleted."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rowcall.domain.errors import ChainNotFound, StillNeeded, WrongState
from rowcall.domain.job import FINISHED, WAITING, Chain, ChainPage, Job, Status
from rowcall.store.batches.finishing import batches_left_by, finish_over
from rowcall.store.control.single_actions import cancel_locked, complete_locked, kept_by_family
from rowcall.store.dialect import Dialect
from rowcall.store.ends.waiting import skip_steps
from rowcall.store.jobs.inspect import find
from rowcall.store.order.first_in_order import orders_of, ready_heads
from rowcall.store.queries import flows as queries
from rowcall.store.queries.flows import ChainFilter, Touched
from rowcall.store.queries.jobs import DELETE
from rowcall.store.results.readers import notify_waiters
from rowcall.store.statement import Plan


def get(dialect: Dialect, chain_id: int) -> Plan[Chain]:
    chain = yield from _chain(dialect, chain_id)
    steps = yield from dialect.ask(queries.CHAIN_STEPS, chain_id)
    return msgspec.structs.replace(chain, steps=tuple(steps))


def _chain(dialect: Dialect, chain_id: int) -> Plan[Chain]:
    for chain in (yield from dialect.ask(queries.CHAIN, chain_id)):
        return chain
    raise ChainNotFound(chain_id)


def awaited(dialect: Dialect, chain_id: int) -> Plan[Job]:
    """Return the last step of a chain that has ended; until then the step that the chain waits for."""
    chain = yield from _chain(dialect, chain_id)
    if chain.status in FINISHED:
        return (yield from dialect.ask(queries.CHAIN_STEPS, chain_id))[-1]
    current = yield from find(dialect, chain.current)
    if current is None:
        raise ChainNotFound(chain_id)
    return current


def list_chains(dialect: Dialect, chain_filter: ChainFilter) -> Plan[ChainPage]:
    before = queries.HIGHEST_ID if chain_filter.before_id is None else chain_filter.before_id
    chains = yield from dialect.ask(
        queries.LIST_CHAINS, before, chain_filter.type, chain_filter.status, chain_filter.limit + 1
    )
    shown = chains[: chain_filter.limit]
    more = len(chains) > chain_filter.limit
    return ChainPage(chains=shown, next_cursor=f"before-{shown[-1].id}" if more else None)


def complete(
    dialect: Dialect, chain_id: int, result: str | None, actor: str, check: Callable[[str], object]
) -> Plan[Chain]:
    """Complete the last step with the result, and cancel the other unfinished steps; their attempts lose the lease.

    `check` raises if the result does not fit the task of the last step.
    """
    steps = yield from _locked_steps(dialect, chain_id)
    open_steps = [job for job in steps if job.status not in FINISHED]
    if not open_steps or open_steps[-1] is not steps[-1]:
        raise WrongState(chain_id, str(steps[-1].status), "complete the chain of", [*map(str, WAITING), "running"])
    *skipped, last = open_steps
    check(last.type)
    yield from complete_locked(dialect, last, result, actor, "the chain was completed by hand")
    if skipped:  # after the last step, which their end would break
        yield from skip_steps(dialect, skipped)
    return (yield from get(dialect, chain_id))


def cancel(dialect: Dialect, chain_id: int, reason: str | None, actor: str) -> Plan[Chain]:
    """Cancel the waiting steps, and request the cancellation of a running one."""
    steps = yield from _locked_steps(dialect, chain_id)
    open_steps = [job for job in steps if job.status not in FINISHED]
    if not open_steps:
        raise WrongState(chain_id, str(steps[-1].status), "cancel the chain of", [*map(str, WAITING), "running"])
    yield from cancel_locked(dialect, open_steps, reason, actor)
    return (yield from get(dialect, chain_id))


def delete(dialect: Dialect, chain_id: int, *, cascade: bool) -> Plan[int]:
    steps = yield from _locked_steps(dialect, chain_id)
    doomed = {job.id: job for job in steps}
    waiting = yield from _outside(dialect, doomed)
    if waiting and not cascade:
        raise StillNeeded(chain_id, sorted(job.id for job in waiting))
    while waiting:
        for job in waiting:
            locked = yield from find(dialect, job.id, lock=True)
            if locked is not None:
                doomed[locked.id] = locked
        waiting = yield from _outside(dialect, doomed)
    for step in doomed.values():
        if step.status is Status.RUNNING:
            allowed = [*map(str, WAITING), *map(str, FINISHED)]
            raise WrongState(step.id, str(step.status), "delete the chain of", allowed)
    for obstacle in (yield from kept_by_family(dialect, doomed.values())).values():
        raise obstacle
    orders = yield from orders_of(dialect, list(doomed))
    for job_id in sorted(doomed, reverse=True):
        yield from dialect.ask(DELETE, [job_id])
    yield from ready_heads(dialect, orders)
    yield from notify_waiters(dialect, list(doomed))
    yield from finish_over(dialect, batches_left_by(doomed.values()), wait=False)
    return len(doomed)


def _outside(dialect: Dialect, inside: dict[int, Job]) -> Plan[list[Touched]]:
    found = yield from dialect.ask(queries.DEPENDANTS, sorted(inside))
    return [job for job in found if job.id not in inside]


def _locked_steps(dialect: Dialect, chain_id: int) -> Plan[list[Job]]:
    steps = []
    for step in (yield from dialect.ask(queries.CHAIN_STEPS, chain_id)):
        locked = yield from find(dialect, step.id, lock=True)
        if locked is not None:
            steps.append(locked)
    if not steps:
        raise ChainNotFound(chain_id)
    return steps
