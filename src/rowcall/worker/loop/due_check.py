"""Checks for due jobs by reads: the write lock is for workers that have something to write."""

from __future__ import annotations

from dataclasses import dataclass

from rowcall.drivers.database import Connection
from rowcall.queue import Queue
from rowcall.store.jobs.claim import wanted_types
from rowcall.store.jobs.queries import FIND_WORK, PEEK, Work
from rowcall.wake.waiter import Waiter
from rowcall.worker.loop.claims import Claims
from rowcall.worker.loop.known_work import KnownWork
from rowcall.worker.loop.ownership import Ownership
from rowcall.worker.registrar import Registrar


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
        self.known.maybe_any = self.claims.any_offer or any(
            limits.get(queue) != 0
            and not self.known.is_fruitless(queue, task)
            and (demand.room > 0 or demand.batch_room.get(task, 0) > 0)
            for queue in wanted
            for task in wanted[queue]
        )
        self.claims.unknown.note(work)

    def check_after_commit(self) -> None:
        """Another connection has committed something, most often the app for its own reasons: check that cheaply."""
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
            ready=[],
            wake_at_ms=peek.wake_at_ms,
            edges_unsure=peek.edges_unsure,
        )
        self.known.note_check(work)
        self.claims.unknown.note(work)
