"""What the loop knows about due jobs, from its last round or check, and how long it may wait."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from rowcall.base.clock import Clock, jittered
from rowcall.domain.fingerprint import task_of
from rowcall.drivers.database import Connection
from rowcall.queue import Queue
from rowcall.store.claims.round import Claim, wanted_types
from rowcall.store.queries.claims import FIND_WORK, PEEK, Work
from rowcall.wake.waiter import Waiter
from rowcall.worker.loop.claims import Claims
from rowcall.worker.loop.ownership import Ownership
from rowcall.worker.registrar import Registrar

LONGEST_WAIT_SECONDS = 5.0
FIRST_STUCK_SECONDS, LAST_STUCK_SECONDS = 0.05, 1.0
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.003, 0.05
UNSURE_SECONDS = 1.0


class KnownWork:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer = clock.timer
        self._work: Work | None = None
        self._checked_at = 0.0
        self._round_at = 0.0
        self._stuck_seconds = 0.0
        self._retry_seconds = 0.0
        self._retry_at = math.inf
        self._fruitless: set[tuple[str, str]] = set()
        self.maybe_any = True
        """Whether a round may find a job to claim."""
        self.is_checked = False
        """Whether there was a check since the last round."""

    def note_check(self, work: Work) -> None:
        self._work, self._checked_at = work, self._timer()

    def note_round(self, claim: Claim) -> None:
        self.is_checked = False
        self.note_check(claim.work)
        self._round_at = self._timer()
        self._stuck_seconds = _backed_off(self._stuck_seconds, FIRST_STUCK_SECONDS, LAST_STUCK_SECONDS, claim.stuck)
        # another claimer had the limit of some jobs: that is over in a moment
        self._retry_seconds = _backed_off(self._retry_seconds, FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS, claim.left)
        self._retry_at = self._timer() + jittered(self._clock, self._retry_seconds) if claim.left else math.inf

    def note_fruitless(self, ready: Iterable[tuple[str, str]]) -> None:
        """Remember ready jobs that could not be claimed, such as ones with an invalid name: do not retry soon."""
        self._fruitless = set(ready)

    def is_fruitless(self, queue: str, task: str) -> bool:
        return (queue, task) in self._fruitless

    @property
    def is_old(self) -> bool:
        return self._timer() - self._checked_at >= LONGEST_WAIT_SECONDS

    @property
    def waits_for_limit(self) -> bool:
        return self._retry_at != math.inf

    def seconds_to_due(self) -> float:
        """Return the time until something falls due by itself, by the database's clock, or has to be tried again."""
        retry_in = max(0.0, min(LONGEST_WAIT_SECONDS, self._retry_at - self._timer()))
        if self._work is None:
            return retry_in
        # an edge stays unsure for as long as another transaction locks its blocker
        unsure_in = (
            UNSURE_SECONDS - (self._timer() - self._round_at) if self._work.edges_unsure else LONGEST_WAIT_SECONDS
        )
        if self._work.next_at_ms is None:
            return min(retry_in, max(0.0, unsure_in))
        stuck_in = self._stuck_seconds - (self._timer() - self._checked_at)
        return min(retry_in, max(0.0, stuck_in, min(self._seconds_until(self._work.next_at_ms), unsure_in)))

    def seconds_to_schedule(self) -> float:
        """Return the time until a schedule or a rate limit needs a round."""
        at_ms = self._work.wake_at_ms if self._work is not None else None
        return LONGEST_WAIT_SECONDS if at_ms is None else min(LONGEST_WAIT_SECONDS, self._seconds_until(at_ms))

    def _seconds_until(self, at_ms: int) -> float:
        assert self._work is not None
        since = self._timer() - self._checked_at
        return max(0.0, (at_ms - self._work.now_ms) / 1000 - since, self._stuck_seconds - since)


def _backed_off(seconds: float, first: float, last: float, again: bool) -> float:
    return min(max(first, seconds * 2), last) if again else 0.0


@dataclass(eq=False)
class Checks:
    queue: Queue
    connection: Connection
    registrar: Registrar
    waiter: Waiter
    claims: Claims
    known: KnownWork
    ownership: Ownership

    def check_before_wait(self) -> None:
        """First mark this worker idle, then check once more, so that no commit falls in between."""
        self.waiter.mark_idle()
        self.check()
        self.known.is_checked = True

    def check(self) -> None:
        (work,) = self.connection.read(self.queue.dialect.ask(FIND_WORK, self.queue.now_ms(), self.registrar.name))
        self.known.note_check(work)
        if not work.registered:
            self.ownership.lost = True
        demand = self.claims.demand()
        wanted = wanted_types(demand, work)
        limits = demand.queues or {}
        self.known.maybe_any = any(
            limits.get(queue) != 0
            and not self.known.is_fruitless(queue, key)
            and (demand.room > 0 or demand.batch_room.get(task_of(key), 0) > 0)
            for queue in wanted
            for key in wanted[queue]
        )
        self.claims.unknown.note(work)

    def check_after_commit(self) -> None:
        """Check cheaply whether a commit of another connection, mostly the app, brought work."""
        (peek,) = self.connection.read(self.queue.dialect.ask(PEEK, self.queue.now_ms()))
        if peek.any_ready:
            self.check()
            self.waiter.note_wakeup(useful=self.known.maybe_any)
            return
        self.waiter.note_wakeup(useful=False)
        work = Work(
            peek.now_ms,
            peek.due_at_ms,
            peek.expires_at_ms,
            registered=True,
            ready={},
            wake_at_ms=peek.wake_at_ms,
            edges_unsure=peek.edges_unsure,
        )
        self.known.note_check(work)
        self.claims.unknown.note(work)
