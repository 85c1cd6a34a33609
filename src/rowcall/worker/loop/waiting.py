"""How the loop waits: for more outcomes, for a free slot, or for jobs to claim."""

from __future__ import annotations

from dataclasses import dataclass

from rowcall.base.clock import Clock
from rowcall.drivers.database import Connection
from rowcall.drivers.sqlite.connection import SqliteConnection
from rowcall.queue import Queue
from rowcall.wake.sqlite_waiter import SqliteWaiter
from rowcall.wake.waiter import Waiter, Wakeup
from rowcall.wake.waker import Waker
from rowcall.worker.lanes.dispatcher import MOST_BUFFERED, Dispatcher
from rowcall.worker.log_pace import LogPace
from rowcall.worker.loop.capacity import AHEAD_SECONDS, STALE_SECONDS, Capacity
from rowcall.worker.loop.known_work import LONGEST_WAIT_SECONDS, Checks, KnownWork
from rowcall.worker.loop.settler import ASK_AGAIN_SECONDS, Settler
from rowcall.worker.registrar import Registrar


@dataclass(eq=False)
class Waiting:
    clock: Clock
    dispatcher: Dispatcher
    capacity: Capacity
    known: KnownWork
    settler: Settler
    checks: Checks
    waiter: Waiter
    waker: Waker
    pace: LogPace
    is_notified: bool = False
    """Whether the last wait ended by a notification."""
    _gathering_since: float = 0.0

    # for more outcomes: larger groups, fewer commits

    def start_gathering(self) -> None:
        self._gathering_since = self.clock.timer()

    def may_gather(self) -> bool:
        """Return whether what ended can wait for more, because the lanes have enough to do."""
        if not self.settler.any_unsettled or self.capacity.stopping:
            return False
        is_early = self.clock.timer() - self._gathering_since < AHEAD_SECONDS
        return self.capacity.enough_to_do and not self.settler.is_full and is_early

    def gather(self) -> None:
        self.dispatcher.quiet_above = -1 if self.capacity.slot_needed else self.capacity.enough_buffered
        self.waker.arm()
        if self.may_gather():
            self.waiter.pause(AHEAD_SECONDS)
        self.dispatcher.quiet_above = MOST_BUFFERED

    # for a free slot, or for jobs

    def wait(self) -> None:
        has_room = self.capacity.any
        seconds = self._seconds(has_room)
        self.waker.arm()
        if self.dispatcher.has_ended or (not has_room and self.capacity.any):
            return
        if not has_room:
            self.waiter.pause(self.waiter.full_pause_seconds(seconds))
            return
        match self.waiter.wait(seconds):
            case Wakeup.WOKEN if not self.dispatcher.has_ended:
                self.known.is_checked = False  # a slot came free without an outcome: check for a job for it
            case Wakeup.NOTIFIED:
                self.known.note_fruitless(())
                self.known.maybe_any = self.is_notified = True
            case Wakeup.CHANGED:
                self.known.note_fruitless(())
                self.checks.check_after_commit()
            case Wakeup.TIMEOUT:
                self.checks.check()  # something is due, or the clock was set
            case Wakeup.NOTHING if self.known.is_old:
                self.checks.check()

    def _seconds(self, has_room: bool) -> float:
        times = [LONGEST_WAIT_SECONDS]
        if not self.capacity.stopping:
            times = [self.known.seconds_to_due() if has_room else self.known.seconds_to_schedule()]
        times.append(self.pace.seconds_to_turn())
        if self.dispatcher.buffered:
            times.append(STALE_SECONDS)
        if self.settler.completed.any:
            times.append(ASK_AGAIN_SECONDS)
        if (deadline := self.dispatcher.seconds_to_deadline()) is not None:
            times.append(deadline)
        return min(times)


def waiter_for(queue: Queue, connection: Connection, waker: Waker, registrar: Registrar) -> Waiter:
    if isinstance(connection, SqliteConnection):
        return SqliteWaiter(connection, queue.database.path, waker, queue.clock)
    from rowcall.worker.loop.postgres_waiter import postgres_waiter

    return postgres_waiter(queue, connection, waker, registrar)
