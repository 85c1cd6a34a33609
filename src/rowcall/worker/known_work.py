"""What the loop knows about jobs to claim, from its last round or check."""

from __future__ import annotations

from collections.abc import Iterable

from rowcall.base.clock import Clock, jittered
from rowcall.domain.fingerprint import task_of
from rowcall.store.claims.round import Claim, Demand, wanted_types
from rowcall.store.queries.claims import Work
from rowcall.worker.pace import (
    FIRST_RETRY_SECONDS,
    FIRST_STUCK_SECONDS,
    LAST_RETRY_SECONDS,
    LAST_STUCK_SECONDS,
    NEVER,
    UNSURE_SECONDS,
)


class KnownWork:
    """Used by the loop's thread alone. Times are those of the clock's `timer`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer = clock.timer
        self._work: Work | None = None
        self._stuck_seconds = 0.0
        self._retry_seconds = 0.0
        self._fruitless: set[tuple[str, str]] = set()
        self.checked_at = self.round_at = 0.0
        self.retry_at = NEVER
        self.maybe_any = True
        """Whether a round may find a job to claim."""
        self.is_checked = False
        """Whether there was a check since the last round."""
        self.is_notified = False
        """Whether a notification came since the last round."""

    # what was learned

    def note_round(self, demand: Demand, claim: Claim) -> None:
        self._note(claim.work)
        self.round_at = self.checked_at
        self.is_checked = self.is_notified = False
        self.maybe_any = claim.more
        self._stuck_seconds = _backed_off(self._stuck_seconds, FIRST_STUCK_SECONDS, LAST_STUCK_SECONDS, claim.stuck)
        # another claimer had the limit of some jobs: that is over in a moment
        self._retry_seconds = _backed_off(self._retry_seconds, FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS, claim.left)
        self.retry_at = self.checked_at + jittered(self._clock, self._retry_seconds) if claim.left else NEVER
        any_claimed = bool(claim.jobs or claim.unread)
        # ready jobs that could not be claimed, such as ones with an invalid name, are not tried again soon
        self._fruitless = set(claim.work.ready) if demand.wants_any and not any_claimed else set()

    def note_check(self, work: Work, demand: Demand) -> None:
        """`demand` is what there is room for."""
        self._note(work)
        self.maybe_any = any(self._may_claim(demand, queue, keys) for queue, keys in wanted_types(demand, work).items())

    def _may_claim(self, demand: Demand, queue: str, keys: Iterable[str]) -> bool:
        return (demand.queues or {}).get(queue) != 0 and any(
            (queue, key) not in self._fruitless and (demand.room > 0 or demand.batch_room.get(task_of(key), 0) > 0)
            for key in keys
        )

    def _note(self, work: Work) -> None:
        self._work, self.checked_at = work, self._timer()

    def note_before_wait(self) -> None:
        """The last check came after this worker has announced that it waits."""
        self.is_checked = True

    def note_woken(self) -> None:
        """A slot may have come free without an outcome: check for a job for it."""
        self.is_checked = False

    def note_more(self) -> None:
        """Jobs were settled without a round, or released: others may be ready."""
        self.maybe_any = True

    def note_notified(self) -> None:
        self.note_commit()
        self.maybe_any = self.is_notified = True

    def note_commit(self) -> None:
        """Another connection may have changed what could not be claimed."""
        self._fruitless = set()

    # when there is something to do, by the database's clock

    @property
    def due_at(self) -> float:
        return self._at(self._work.next_at_ms if self._work is not None else None)

    @property
    def schedule_at(self) -> float:
        return self._at(self._work.wake_at_ms if self._work is not None else None)

    @property
    def unsure_at(self) -> float:
        return self.round_at + UNSURE_SECONDS if self._work is not None and self._work.edges_unsure else NEVER

    @property
    def stuck_until(self) -> float:
        return self.checked_at + self._stuck_seconds if self.due_at < NEVER else -NEVER

    def _at(self, at_ms: int | None) -> float:
        if at_ms is None or self._work is None:
            return NEVER
        return self.checked_at + (at_ms - self._work.now_ms) / 1000


def _backed_off(seconds: float, first: float, last: float, again: bool) -> float:
    return min(max(first, seconds * 2), last) if again else 0.0
