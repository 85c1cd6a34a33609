"""Attempts whose rows another transaction decides or locks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rowcall.domain.errors import DataRefused
from rowcall.drivers.database import Connection
from rowcall.queue import Queue
from rowcall.store.jobs.settle import Completions, settle_completed
from rowcall.worker.attempt import Attempt, clear_started
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.loop.attempt_log import log_left_open
from rowcall.worker.loop.report import Report
from rowcall.worker.loop.settlements import ended_of, tallies_of

ASK_AGAIN_SECONDS = 0.05
LONGEST_UNDECIDED_SECONDS = 5.0


class CompletedAttempts:
    """Attempts that completed their jobs in the handlers' transactions, and attempts whose rows are locked.

    Only when such a transaction has ended is it known whether it was committed.
    """

    def __init__(self, queue: Queue, dispatcher: Dispatcher, connection: Connection, report: Report) -> None:
        self._queue = queue
        self._dispatcher = dispatcher
        self._connection = connection
        self._report = report
        self._new: list[Attempt] = []
        self._undecided: list[Attempt] = []
        self._left_open: list[Attempt] = []
        self._asked_at = 0.0

    def __iter__(self) -> Iterator[Attempt]:
        yield from self._new
        yield from self._undecided

    @property
    def any(self) -> bool:
        return bool(self._new or self._undecided)

    @property
    def awaited(self) -> int:
        """How many to wait for: not the ones whose handlers left the transaction open, perhaps for ever."""
        return len(self._new) + len(self._undecided) - len(self._left_open)

    def add(self, attempts: Iterable[Attempt]) -> None:
        self._new += attempts

    def drop_all(self) -> None:
        self._new, self._undecided, self._left_open = [], [], []

    def settle(self) -> bool:
        """Find out which of the transactions have ended. Return whether any has."""
        clock = self._queue.clock
        if not self._new and (not self._undecided or clock.timer() - self._asked_at < ASK_AGAIN_SECONDS):
            return False
        self._asked_at = clock.timer()
        attempts, now = list(self), clock.monotonic()
        try:
            decided = self._decided(attempts, now)
        except DataRefused:
            decided = self._decided_one_by_one(attempts, now)
        self._new, self._undecided = [], [one for one in attempts if one.ready.id in decided.undecided]
        over = [one for one in attempts if one.ready.id not in decided.undecided]
        clear_started(over)
        self._warn_of_open(now)
        committed = [one for one in over if one.ready.id in decided.committed]
        self._report.completed(committed)
        self._report.settled([one for one in over if one not in committed], decided.rolled_back)
        return bool(over)

    def _decided(self, attempts: list[Attempt], now: float) -> Completions:
        ended = [ended_of(attempt, now) for attempt in attempts]
        abandoned = self._dispatcher.abandoned
        plan = settle_completed(self._queue.dialect, ended, tallies_of(attempts), self._queue.now_ms(), abandoned)
        return self._connection.write(plan)

    def _decided_one_by_one(self, attempts: list[Attempt], now: float) -> Completions:
        """The database refuses the data of one of them: fail that one."""
        together = Completions(set(), set(), set())
        for attempt in attempts:
            try:
                one = self._decided([attempt], now)
            except DataRefused as error:
                attempt.fail_refused(error)
                one = self._decided([attempt], now)
            for all_of_them, found in zip(together, one, strict=True):
                all_of_them.update(found)
        return together

    def _warn_of_open(self, now: float) -> None:
        for attempt in self._undecided:
            if now - attempt.finished_at > LONGEST_UNDECIDED_SECONDS and attempt not in self._left_open:
                self._left_open.append(attempt)
                log_left_open(attempt)
        self._left_open = [attempt for attempt in self._left_open if attempt in self._undecided]
