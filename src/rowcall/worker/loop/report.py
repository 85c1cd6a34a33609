"""Reports settled attempts: counts, metrics and the log."""

from __future__ import annotations

from collections import Counter
from operator import attrgetter

from rowcall.domain.lifecycle import Move
from rowcall.domain.outcome import SUCCESS
from rowcall.observe.meter import Meter
from rowcall.worker.attempt import Attempt
from rowcall.worker.loop.attempt_log import log_completed, log_dropped, log_settled

_MOVE_OF = attrgetter("transition.move")


class Report:
    def __init__(self, meter: Meter | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self._meter = meter

    def settled(self, attempts: list[Attempt], settled: set[int]) -> None:
        """Report a group; the attempts that are not in `settled` no longer belonged to this worker."""
        self.counts.update(map(_MOVE_OF, attempts))
        if self._meter is not None:
            self._meter.add(attempts, settled)
        all_settled = len(settled) == len(attempts)
        for attempt in attempts:
            if all_settled and attempt.transition is SUCCESS:
                continue
            if attempt.ready.id in settled:
                log_settled(attempt)
            else:
                self.counts[_MOVE_OF(attempt)] -= 1
                log_dropped(attempt)

    def completed(self, attempts: list[Attempt]) -> None:
        """Report attempts whose handlers completed their jobs, in transactions that were committed."""
        self.counts[Move.SUCCEED] += len(attempts)
        if self._meter is not None:
            self._meter.add_completed(attempts)
        for attempt in attempts:
            log_completed(attempt)
