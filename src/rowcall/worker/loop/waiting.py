"""How the loop waits: for more outcomes, for a free slot, or for jobs to claim."""

from __future__ import annotations

from rowcall.base.clock import Clock
from rowcall.wake.waiter import Waiter, Wakeup
from rowcall.wake.waker import Waker
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.loop.buffer_size import AHEAD_SECONDS, MOST_BUFFERED
from rowcall.worker.loop.checks import Checks
from rowcall.worker.loop.completed import ASK_AGAIN_SECONDS
from rowcall.worker.loop.known_work import LONGEST_WAIT_SECONDS, KnownWork
from rowcall.worker.loop.room import STALE_SECONDS, Room
from rowcall.worker.loop.settler import Settler
from rowcall.worker.upkeep.mismatches import Mismatches


class Waiting:
    def __init__(
        self,
        clock: Clock,
        dispatcher: Dispatcher,
        room: Room,
        known: KnownWork,
        settler: Settler,
        checks: Checks,
        waiter: Waiter,
        waker: Waker,
        mismatches: Mismatches,
    ) -> None:
        self._timer = clock.timer
        self._dispatcher = dispatcher
        self._room = room
        self._known = known
        self._settler = settler
        self._checks = checks
        self._waiter = waiter
        self._waker = waker
        self._mismatches = mismatches
        self._gathering_since = 0.0
        self.is_notified = False
        """Whether the last wait ended by a notification."""

    # for more outcomes: larger groups, fewer commits

    def start_gathering(self) -> None:
        self._gathering_since = self._timer()

    def may_gather(self) -> bool:
        """Return whether what ended can wait for more, because the lanes have enough to do."""
        if not self._settler.any_unsettled or self._room.stopping:
            return False
        is_early = self._timer() - self._gathering_since < AHEAD_SECONDS
        return self._room.enough_to_do and not self._settler.is_full and is_early

    def gather(self) -> None:
        self._dispatcher.quiet_above = -1 if self._room.slot_wanted else self._room.enough_buffered
        self._waker.arm()
        if self.may_gather():
            self._waiter.pause(AHEAD_SECONDS)
        self._dispatcher.quiet_above = MOST_BUFFERED

    # for a free slot, or for jobs

    def wait(self) -> None:
        has_room = self._room.any
        seconds = self._seconds(has_room)
        self._waker.arm()
        if self._dispatcher.has_ended or (not has_room and self._room.any):
            return
        if not has_room:
            self._waiter.pause(self._waiter.full_pause_seconds(seconds))
            return
        match self._waiter.wait(seconds):
            case Wakeup.WOKEN if not self._dispatcher.has_ended:
                self._known.is_checked = False  # a slot came free without an outcome: check for a job for it
            case Wakeup.NOTIFIED:
                self._known.note_fruitless(())
                self._known.maybe_any = self.is_notified = True
                self._mismatches.expected = True
            case Wakeup.CHANGED:
                self._known.note_fruitless(())
                self._checks.check_after_commit()
            case Wakeup.TIMEOUT:
                self._checks.check()  # something is due, or the clock was set
            case Wakeup.NOTHING if self._known.is_old:
                self._checks.check()

    def _seconds(self, has_room: bool) -> float:
        times = [LONGEST_WAIT_SECONDS]
        if not self._room.stopping:
            times = [self._known.seconds_to_due() if has_room else self._known.seconds_to_schedule()]
        if self._dispatcher.buffered:
            times.append(STALE_SECONDS)
        if self._settler.completed.any:
            times.append(ASK_AGAIN_SECONDS)
        if (deadline := self._dispatcher.seconds_to_deadline()) is not None:
            times.append(deadline)
        return min(times)
