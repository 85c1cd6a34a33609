"""PostgreSQL: a server works on several statements at once, each costs a round trip, and deleted rows stay."""

from __future__ import annotations

from rowcall.base.clock import Clock
from rowcall.queue import Queue
from rowcall.store.claims.demand import Demand, RoundResult
from rowcall.store.queries.claims import NOTHING_KNOWN, Starts
from rowcall.wake.waiter_and_file_watch import WorkerWaiter
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.pace import MOST_LAST_AHEAD
from rowcall.worker.pacing.settle_thread import SettleThread

LEAST_CLAIMED = 100
"""A round that claimed as many has deleted as many: the next search would go through them."""
SLOW_SECONDS, LONGEST_SECONDS = 0.005, 5.0
"""A search that took so long is resumed, and for at most so long: jobs of a higher priority wait until then. Next to an
old snapshot, a search of 30 ms in each round halved the rate of a worker that claims fewer than 100 at a time."""
SHARE_OF_TIME = 0.05
"""Searches from the beginning take at most this share of the time."""


class PostgresPacing:
    most_last_ahead = MOST_LAST_AHEAD

    def __init__(self, queue: Queue, dispatcher: Dispatcher, waiter: WorkerWaiter) -> None:
        self._dispatcher = dispatcher
        self._resuming = Resuming(queue.clock)
        self.waiter = waiter
        self.settle_thread = SettleThread(queue)

    def starts_in_round(self, *, is_group: bool) -> bool:
        return False  # waiting for a server, the loop's thread does not need the interpreter

    def start_accepted(self) -> None:
        self._dispatcher.start_accepted()

    def start_claimed(self) -> None:
        self._dispatcher.start_accepted()

    def note_finished(self, last_seconds: float) -> None:
        pass

    def resume(self) -> Starts:
        return self._resuming.starts()

    def note_round(self, demand: Demand, result: RoundResult) -> None:
        self._resuming.note(demand, result)


class Resuming:
    """PostgreSQL goes through all rows that were deleted from a table since its last vacuum, and an old snapshot keeps
    the vacuum from removing them. So if a round claimed all it had room for, and these were many or its search was
    slow, the next one starts where it ended. Jobs that come before that, such as jobs of a higher priority, are
    found by the next round that starts at the beginning: as soon as such searches take less than a twentieth of the
    time, and at least every five seconds.
    """

    def __init__(self, clock: Clock) -> None:
        self._timer = clock.timer
        self._starts: Starts = NOTHING_KNOWN
        self._until = 0.0

    def starts(self) -> Starts:
        return self._starts if self._timer() < self._until else NOTHING_KNOWN

    def note(self, demand: Demand, result: RoundResult) -> None:
        """A round has ended."""
        if demand.room == 0:
            return
        claimed, seconds = result.taken, result.work.seconds
        # of many queues, the next round searches others
        worthwhile = (claimed >= LEAST_CLAIMED and result.knows_all) or demand.resume or seconds >= SLOW_SECONDS
        if claimed < demand.room or not worthwhile or result.joining or result.left:
            self._starts = NOTHING_KNOWN
            return
        self._starts = result.starts(demand.resume)
        if not demand.resume:
            self._until = self._timer() + min(LONGEST_SECONDS, seconds / SHARE_OF_TIME)
