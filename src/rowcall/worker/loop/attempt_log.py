"""Logs the attempts that did not simply succeed, with the job's fields on the record."""

from __future__ import annotations

import logging
from collections import Counter
from operator import attrgetter

import msgspec

from rowcall.base.text import one_line
from rowcall.context import logger
from rowcall.domain.lifecycle import Move
from rowcall.domain.outcome import CANCELLED_BY_HAND_CODE, SUCCESS, Transition
from rowcall.observe.meter import Meter
from rowcall.worker.attempt import Attempt

_MOVE_OF = attrgetter("transition.move")


def log_settled(attempt: Attempt) -> None:
    """Log an attempt that failed or was cancelled."""
    transition, ready = attempt.transition, attempt.ready
    if transition is None:
        return
    number = f"attempt {ready.attempt} of {ready.max_attempts}"
    match transition.move:
        case Move.RETRY:
            _warn(attempt, f"{number} failed, the next one comes in {transition.delay_seconds:g} s", transition)
        case Move.FAIL:
            _log(attempt, logging.ERROR, f"failed for good at {number}", transition)
        case Move.RELEASE if transition.hold_seconds is not None:
            waits = f"it waits up to {transition.hold_seconds:g} s for a worker that its arguments fit"
            _warn(attempt, f"does not fit this worker's version of the task; {waits}", transition)
        case Move.CANCEL:
            by = "by hand" if transition.error_code == CANCELLED_BY_HAND_CODE else "by its handler"
            _log(attempt, logging.INFO, f"was cancelled {by}", transition)
        case Move.RELEASE if (failure := attempt.failed_while_stopping) is not None:
            failed = msgspec.structs.replace(transition, error_code=failure.code, error_detail=failure.detail)
            _warn(attempt, "failed after it was asked to stop; released", failed)


def log_completed(attempt: Attempt) -> None:
    """Log a handler that failed after it had completed its job."""
    if attempt.transition is not None and not attempt.ended_completed:
        _warn(attempt, "completed by its handler, which failed afterwards", attempt.transition)


def log_ended_outside(attempt: Attempt) -> None:
    _warn(attempt, "its attempt was ended from outside; its handler is asked to stop")


def log_abandoned(attempt: Attempt) -> None:
    what = "its handler runs past its timeout, and keeps its slots in the worker and under limits until it ends"
    for member in attempt.members or (attempt,):
        _warn(member, what)


def log_dropped(attempt: Attempt) -> None:
    _warn(attempt, "dropped the outcome of this attempt: the job was recovered or changed meanwhile")


def log_left_open(attempt: Attempt) -> None:
    what = "cannot settle yet: another transaction locks its row"
    if attempt.completed:
        what = "cannot settle yet: its handler returned and left open the transaction in which it completed the job"
    _warn(attempt, what)


def _warn(attempt: Attempt, what: str, transition: Transition | None = None) -> None:
    _log(attempt, logging.WARNING, what, transition)


def _log(attempt: Attempt, level: int, what: str, transition: Transition | None) -> None:
    reason, code = "", None
    if transition is not None and transition.error_code:
        code = transition.error_code
        detail = f": {transition.error_detail}" if transition.error_detail else ""
        reason = one_line(f" ({code}{detail})")
    extra = {**attempt.log_fields, "error_code": code}
    logger.log(level, "job %d (%s): %s%s", attempt.ready.id, one_line(attempt.ready.type), what, reason, extra=extra)


class AttemptLog:
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
