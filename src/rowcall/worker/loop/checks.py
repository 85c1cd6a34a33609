"""Checks for due jobs by reads: the write lock is for workers that have something to write."""

from __future__ import annotations

from rowcall.drivers.database import Connection
from rowcall.queue import Queue
from rowcall.store.dialect import Look
from rowcall.store.jobs.claim import wanted_types
from rowcall.wake.waiter import Waiter
from rowcall.worker.loop.claims import Claims
from rowcall.worker.loop.known_work import KnownWork
from rowcall.worker.loop.ownership import Ownership
from rowcall.worker.registrar import Registrar


class Checks:
    def __init__(
        self,
        core: Queue,
        connection: Connection,
        registrar: Registrar,
        waiter: Waiter,
        claims: Claims,
        known: KnownWork,
        ownership: Ownership,
    ) -> None:
        self._core = core
        self._connection = connection
        self._registrar = registrar
        self._waiter = waiter
        self._claims = claims
        self._known = known
        self._ownership = ownership

    def check_before_wait(self) -> None:
        """First mark this worker idle, then check once more, so that no commit falls in between."""
        self._waiter.mark_idle()
        self.check()
        self._known.is_checked = True

    def check(self) -> None:
        look = self._connection.read(self._core.dialect.look(self._registrar.name, self._core.now_ms()))
        self._known.note_check(look)
        if not look.registered:
            self._ownership.lost = True
        appetite = self._claims.appetite()
        wanted = wanted_types(appetite, look)
        limits = appetite.queues or {}
        self._known.maybe_any = self._claims.any_offer or any(
            limits.get(queue) != 0
            and not self._known.is_fruitless(queue, task)
            and (appetite.room > 0 or appetite.rides.get(task, 0) > 0)
            for queue in wanted
            for task in wanted[queue]
        )
        self._claims.warn_of_unknown(look)

    def check_after_commit(self) -> None:
        """Another connection has committed something, most often the app for its own reasons: check that cheaply."""
        glance = self._connection.read(self._core.dialect.glance(self._core.now_ms()))
        if glance.any_ready:
            self.check()
            self._waiter.note_wakeup(useful=self._known.maybe_any)
            return
        self._waiter.note_wakeup(useful=False)
        self._known.note_check(
            Look(
                glance.now_ms,
                glance.due_at_ms,
                glance.expires_at_ms,
                registered=True,
                ready=[],
                wake_at_ms=glance.wake_at_ms,
                edges_unsure=glance.edges_unsure,
            )
        )
