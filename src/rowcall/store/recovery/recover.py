"""Recover the jobs of lost workers. A recovery counts as an attempt, except of a job that had not started."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from rowcall.domain.outcome import AttemptBudget, Lost, Released, Transition, decide
from rowcall.store.counts.tallies import Tallies
from rowcall.store.dialect import Dialect
from rowcall.store.ends.after import Locked
from rowcall.store.ends.attempts import Ended, attempts_of, settle
from rowcall.store.limits.held_jobs import free_worker
from rowcall.store.new_job import OnEnd
from rowcall.store.queries import workers as queries
from rowcall.store.queries.claims import FREE_UNCLAIMED, Fence
from rowcall.store.queries.counts import Tally
from rowcall.store.queries.workers import Owned
from rowcall.store.statement import Plan

RECOVERED_AT_ONCE = 500


class RecoveredAttempt(NamedTuple):
    """An attempt that ended with its worker, and what became of the job."""

    job: Owned
    transition: Transition

    @property
    def started(self) -> bool:
        """Whether its handler had begun."""
        return self.transition.attempt_used


class Recovered(NamedTuple):
    """What was recovered, and whether that was all."""

    attempts: list[RecoveredAttempt]
    done: bool


def recover_worker(
    dialect: Dialect,
    worker: str,
    begun: Mapping[tuple[int, int], int] | None,
    *,
    heartbeats: int | None = None,
    on_end: OnEnd | None = None,
) -> Plan[Recovered]:
    """Recover jobs of a lost worker in batches, and remove the worker once it owns none.

    `begun` has the attempts (ids and leases) whose handlers had begun, and how many milliseconds ago, from its liveness
    file. None where there is no such file: then the rows say which jobs went into a free slot or ran for long.
    A worker that is only silent is spared if its heartbeat has changed since `heartbeats` was read.
    """
    if not (yield from dialect.ask(queries.LOCK_WORKER, worker, heartbeats)):
        return Recovered([], done=False)
    owned = yield from dialect.ask(queries.OWNED_BY, worker, RECOVERED_AT_ONCE)
    recovered = yield from _recover(dialect, owned, begun, on_end)
    # rows that its last transaction still locks, as the server has not noticed its death, are left for later
    done = bool((yield from dialect.ask(queries.REMOVE_IDLE_WORKER, worker)))
    if done:
        yield from free_worker(dialect, worker)
    return Recovered(recovered, done)


def release_unknown(dialect: Dialect, holders: Iterable[int], held: Collection[Fence]) -> Plan[set[Fence]]:
    """After a commit whose reply was lost: release what it claimed, and return all that the worker holds.

    `held` has the attempts that the worker knows about.
    """
    owned: dict[Fence, Owned] = {}
    for holder in sorted(holders):
        jobs = yield from dialect.ask(queries.OWNED_BY_HOLDER, holder)
        owned.update({Fence(job.id, job.lease, job.holder): job for job in jobs})
    unknown = [job for fence, job in owned.items() if not job.opened and fence not in held]  # opened: the target's now
    ended = [
        _ended(job, decide(AttemptBudget(job.attempt, job.max_attempts), Released(started=False))) for job in unknown
    ]
    yield from settle(dialect, ended, None, attempts_of(ended))  # they never began: there is nothing to count
    return set(owned)


def recover_orphans(dialect: Dialect, on_end: OnEnd | None = None) -> Plan[list[RecoveredAttempt]]:
    """Recover running jobs whose workers are not registered, and jobs that plain SQL left without a claim."""
    yield from dialect.change(FREE_UNCLAIMED, RECOVERED_AT_ONCE)
    owned = yield from dialect.ask(queries.ORPHANS, RECOVERED_AT_ONCE)
    return (yield from _recover(dialect, owned, None, on_end))


def recover_expired(dialect: Dialect, on_end: OnEnd | None = None) -> Plan[list[RecoveredAttempt]]:
    """Recover jobs claimed by hand whose lease has expired."""
    owned = yield from dialect.ask(queries.LEASE_EXPIRED, RECOVERED_AT_ONCE)
    return (yield from _recover(dialect, owned, None, on_end))


def _recover(
    dialect: Dialect, owned: Sequence[Owned], begun: Mapping[tuple[int, int], int] | None, on_end: OnEnd | None
) -> Plan[list[RecoveredAttempt]]:
    lost = []
    for job in owned:
        started = job.started if begun is None else (job.id, job.lease) in begun
        transition = decide(AttemptBudget(job.attempt, job.max_attempts), Lost(started, job.opened))
        if on_end is not None:
            transition = msgspec.structs.replace(transition, on_end=on_end(job.type, job.queue))
        lost.append((job, transition))
    ages_ms = begun or {}

    def make_tallies(settled: set[int]) -> list[Tally]:
        tallies = Tallies()
        for job, transition in lost:
            if job.id in settled:
                tallies.enter(job.queue, job.type, job.attempt, transition, None, None)
        return tallies.rows()

    ended = [_ended(job, transition, ages_ms.get((job.id, job.lease))) for job, transition in lost]
    written = yield from settle(dialect, ended, make_tallies, attempts_of(ended), locked=Locked.SKIP)
    return [RecoveredAttempt(job, transition) for job, transition in lost if job.id in written.live]


def _ended(job: Owned, transition: Transition, started_age_ms: int | None = None) -> Ended:
    return Ended(job.id, job.lease, job.holder, transition, started_age_ms)
