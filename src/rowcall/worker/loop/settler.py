"""Keeps the attempts that ended until they are settled: in groups by the rounds, or one by one if a group fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from rowcall.context import logger
from rowcall.domain.errors import DataRefused, RowcallError
from rowcall.domain.outcome import Lost, Transition
from rowcall.drivers.database import Connection
from rowcall.observe.meter import Meter
from rowcall.queue import Queue
from rowcall.store.jobs.recover import release_unknown
from rowcall.store.jobs.settle import attempts_of, settle
from rowcall.worker.attempt import Attempt, clear_started
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.loop.attempt_log import log_dropped
from rowcall.worker.loop.report import Report
from rowcall.worker.loop.settlements import settlement_of, tallies_of
from rowcall.worker.loop.undecided_attempts import CompletedAttempts

MOST_SETTLED = 1000
NONE: Mapping[int, Transition] = MappingProxyType({})


class Settler:
    """Used by the loop's thread alone."""

    def __init__(
        self, queue: Queue, dispatcher: Dispatcher, connection: Connection, meter: Meter | None = None
    ) -> None:
        self._queue = queue
        self._dispatcher = dispatcher
        self._connection = connection
        self.report = Report(meter)
        self.completed = CompletedAttempts(queue, dispatcher, connection, self.report)
        self._unsettled: list[Attempt] = []
        self.late: list[tuple[int, int]] = []
        """Attempts that were abandoned, and whose handlers have ended: the next round frees their slots."""

    def collect(self) -> bool:
        """Take over what the lanes have ended. Return whether that was anything."""
        ended = self._dispatcher.take_ended()
        for attempt in ended:
            if attempt.completed:
                self.completed.add([attempt])
            elif isinstance(attempt.stopped_because, Lost):
                clear_started([attempt])
                log_dropped(attempt)
                self.late.append(attempt.fence)
            else:
                self._unsettled.append(attempt)
        self.late += self._dispatcher.take_late()
        return bool(ended)

    @property
    def any_unsettled(self) -> bool:
        return bool(self._unsettled)

    @property
    def awaited(self) -> int:
        """How many attempts still have to be settled."""
        return len(self._unsettled) + self.completed.awaited + len(self.late)

    @property
    def is_full(self) -> bool:
        return len(self._unsettled) >= MOST_SETTLED

    def group(self) -> list[Attempt]:
        """Return the attempts that the next round settles."""
        return self._unsettled[:MOST_SETTLED]

    def settled(
        self, attempts: list[Attempt], settled: set[int], cancelled: Mapping[int, Transition] = NONE, late: int = 0
    ) -> None:
        """A group was written. An attempt in `cancelled` became what that says; one not in `settled` was not ours."""
        if cancelled:
            for attempt in attempts:
                attempt.transition = cancelled.get(attempt.ready.id, attempt.transition)
        del self.late[:late]
        del self._unsettled[: len(attempts)]
        clear_started(attempts)
        self.report.settled(attempts, settled)

    def settle_one_by_one(self) -> None:
        """The database refuses the data of one of the group: settle the others, and fail that one."""
        while self._unsettled:
            attempt = self._unsettled[0]
            try:
                settled = self._settle([attempt])
            except DataRefused as error:
                attempt.fail_refused(error)
                settled = self._settle([attempt])
            self.settled([attempt], settled)

    def set_aside(self) -> None:
        """Another transaction locks some of the rows: settle each when its row is free, without delaying the others."""
        self.completed.add(self._unsettled)
        self._unsettled = []

    def make_sure(self, worker: str) -> None:
        """After the reply to a commit was lost: find out what it settled, and release what it claimed."""
        held = {attempt.fence for attempt in (*self._dispatcher.held(), *self._unsettled, *self.completed)}
        owned = self._connection.write(release_unknown(self._queue.dialect, worker, held, self._queue.now_ms()))
        done = [attempt for attempt in self._unsettled if attempt.fence not in owned]
        self._unsettled = [attempt for attempt in self._unsettled if attempt not in done]
        clear_started(done)
        self.late += [attempt.fence for attempt in done]  # if they were not settled by us, their slots are still taken
        self.report.settled(done, {attempt.ready.id for attempt in done})

    def release(self, attempts: Iterable[Attempt]) -> None:
        """Release jobs that were never started."""
        for attempt in attempts:
            attempt.release_unstarted()
            self._unsettled.append(attempt)

    def drop_all(self) -> None:
        """Write nothing more about the attempts that ended so far."""
        clear_started([*self._unsettled, *self.completed, *self._dispatcher.take_ended()])
        self.completed.drop_all()
        self._unsettled, self.late = [], []

    def try_to_settle_all(self) -> None:
        """Called before the loop ends with an error."""
        try:
            self._settle(self._unsettled)
        except RowcallError as error:
            logger.warning(
                "could not release %d jobs, other workers will recover them: %s", len(self._unsettled), error
            )

    def _settle(self, attempts: Sequence[Attempt]) -> set[int]:
        now = self._queue.clock.monotonic()
        ended = [settlement_of(attempt, now) for attempt in attempts]
        freed = attempts_of(ended, self._dispatcher.abandoned)
        plan = settle(self._queue.dialect, ended, tallies_of(attempts), self._queue.now_ms(), freed)
        return self._connection.write(plan)
