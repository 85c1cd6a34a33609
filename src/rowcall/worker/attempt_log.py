"""Logs how attempts start and end, each in one line, with the job's fields on the record."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter

import msgspec

from rowcall.base.text import duration, one_line
from rowcall.base.times import time_of
from rowcall.context import logger
from rowcall.declare.outcomes import Outcomes, outcome_of
from rowcall.domain.encryption import Kind, token_of
from rowcall.domain.job import StackFrame, Summary
from rowcall.domain.lifecycle import Move
from rowcall.domain.outcome import CANCELLED_BY_HAND_CODE, SUCCESS, Transition
from rowcall.domain.payload import payload_from_row
from rowcall.domain.step import FOREVER_MS
from rowcall.observe.exceptions import exception_of
from rowcall.observe.meter import Meter
from rowcall.overview.formats import moment
from rowcall.worker.attempt import Attempt
from rowcall.worker.raised_errors import RaisedErrors

_MOVE_OF = attrgetter("transition.move")


ATTEMPT = "attempt %d of %d"


def log_started(attempt: Attempt) -> None:
    _log_attempt(attempt, logging.DEBUG, "started")


def log_settled(attempt: Attempt, *, everything: bool) -> None:
    """Log how an attempt ended: always if it failed or was cancelled."""
    transition = attempt.transition
    if transition is None:
        return
    match transition.move:
        case Move.RETRY:
            then = _next_time(transition)
            _log_attempt(attempt, logging.WARNING, "failed, the next one comes %s", then, transition=transition)
        case Move.FAIL if attempt.ready.attempt < attempt.ready.max_attempts:
            what = "attempt %d failed for good: its error is not retried"
            _log(attempt, logging.ERROR, what, attempt.ready.attempt, transition=transition)
        case Move.FAIL:
            _log_attempt(attempt, logging.ERROR, "failed for good", transition=transition)
        case Move.RELEASE if transition.hold_seconds is not None:
            waits = "it waits up to %s for a worker that its arguments fit"
            what = f"does not fit this worker's version of the task; {waits}"
            _warn(attempt, what, duration(transition.hold_seconds), transition=transition)
        case Move.CANCEL:
            by = "by hand" if transition.error_code == CANCELLED_BY_HAND_CODE else "by its handler"
            _log(attempt, logging.INFO, "was cancelled %s", by, transition=transition)
        case Move.RELEASE if (failure := attempt.failed_while_stopping) is not None:
            failed = msgspec.structs.replace(transition, error_code=failure.code, error_detail=failure.detail)
            _warn(attempt, "failed after it was asked to stop; released", transition=failed)
        case Move.SUCCEED if everything:
            log_succeeded(attempt)
        case Move.SNOOZE if everything:
            _log_attempt(attempt, logging.INFO, "snoozed, the next one comes %s", _next_time(transition))
        case Move.RELEASE if everything and attempt.started_at:
            _log_attempt(attempt, logging.INFO, "released")


def log_succeeded(attempt: Attempt) -> None:
    ran_ms = attempt.ran_ms
    _log_attempt(attempt, logging.INFO, "succeeded in %s", duration(None if ran_ms is None else ran_ms / 1000))


def log_completed(attempt: Attempt, *, everything: bool) -> None:
    """Log a handler that has completed its job itself, and perhaps failed after that."""
    if attempt.transition is not None and not attempt.ended_completed:
        _warn(attempt, "completed by its handler, which failed afterwards", transition=attempt.transition)
    elif everything:
        log_succeeded(attempt)


def log_ended_outside(attempt: Attempt) -> None:
    _warn(attempt, "its attempt was ended from outside; its handler is asked to stop")


def log_abandoned(attempt: Attempt) -> None:
    what = "its handler runs past its timeout, and keeps its slots in the worker and under limits until it ends"
    for member in attempt.members or (attempt,):
        _warn(member, what)


def log_blocking(attempt: Attempt, seconds: float, frames: Sequence[StackFrame]) -> None:
    """The frames are part of the message, so that every log has them."""
    what = "its handler blocks the event loop for more than %g s, and no other async handler can continue:\n%s"
    _warn(attempt, what, seconds, "\n".join(map(str, frames)))


def log_dropped(attempt: Attempt) -> None:
    _warn(attempt, "dropped the outcome of this attempt: the job was recovered or changed meanwhile")


def log_opened(attempt: Attempt) -> None:
    _log_attempt(attempt, logging.INFO, "accepted by the target, which is to call back")


def log_left_open(attempt: Attempt) -> None:
    what = "cannot settle yet: another transaction locks its row"
    if attempt.completed:
        what = "cannot settle yet: its handler returned and left open the transaction in which it completed the job"
    _warn(attempt, what)


def _next_time(transition: Transition) -> str:
    if transition.run_at_ms == FOREVER_MS:
        return "when it is signalled"
    if transition.run_at_ms is not None:
        return f"at {moment(time_of(transition.run_at_ms))}Z"
    return f"in {duration(transition.delay_seconds)}" if transition.delay_seconds else "at once"


def _log_attempt(
    attempt: Attempt, level: int, what: str, *values: object, transition: Transition | None = None
) -> None:
    numbers = attempt.ready.attempt, attempt.ready.max_attempts
    _log(attempt, level, f"{ATTEMPT} {what}", *numbers, *values, transition=transition)


def _warn(attempt: Attempt, what: str, *values: object, transition: Transition | None = None) -> None:
    _log(attempt, logging.WARNING, what, *values, transition=transition)


def _log(attempt: Attempt, level: int, what: str, *values: object, transition: Transition | None = None) -> None:
    """Log an event. `what` is the same text for every job: tools that group records of a log go by it."""
    if not logger.isEnabledFor(level):
        return
    extra, reason, raised = {**attempt.log_fields, "error_code": None}, "", None
    if (ran_ms := attempt.ran_ms) is not None and attempt.finished_at:
        extra["duration_ms"] = ran_ms
    if transition is not None and transition.error_code:
        extra["error_code"] = transition.error_code
        detail = f": {transition.error_detail}" if transition.error_detail else ""
        reason = one_line(f" ({transition.error_code}{detail})")
        if attempt.exception is not None and transition.move is not Move.CANCEL:
            error = exception_of(attempt.exception)
            raised = (type(error), error, error.__traceback__)
    named = attempt.ready.id, one_line(attempt.ready.type)
    logger.log(level, f"job %d (%s): {what}%s", *named, *values, reason, extra=extra, exc_info=raised)


class AttemptLog:
    """With `all_jobs`, attempts that did not fail are logged, too, if the logger's level allows."""

    def __init__(
        self,
        meter: Meter | None = None,
        outcomes: Outcomes | None = None,
        *,
        all_jobs: bool = True,
        errors: RaisedErrors | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._meter = meter
        self._outcomes = outcomes
        self._all_jobs = all_jobs
        self._errors = errors

    def settled(self, attempts: list[Attempt], settled: set[int]) -> None:
        """Report a group; the attempts that are not in `settled` no longer belonged to this worker."""
        self.counts.update(map(_MOVE_OF, attempts))
        if self._meter is not None:
            self._meter.add(attempts, settled)
        if self._errors is not None:
            self._errors.settled(attempts, settled)
        everything = self._logs_everything()
        silent = len(settled) == len(attempts) and not everything
        for attempt in attempts:
            if silent and attempt.transition is SUCCESS:
                continue
            if attempt.ready.id in settled:
                log_settled(attempt, everything=everything)
            else:
                self.counts[_MOVE_OF(attempt)] -= 1
                log_dropped(attempt)
        if self._outcomes is not None and self._outcomes.observers:
            self._observe(self._outcomes, [attempt for attempt in attempts if attempt.ready.id in settled])

    def completed(self, attempts: list[Attempt]) -> None:
        """Report attempts whose handlers completed their jobs, in transactions that were committed."""
        self.counts[Move.SUCCEED] += len(attempts)
        if self._meter is not None:
            self._meter.add_completed(attempts)
        everything = self._logs_everything()
        for attempt in attempts:
            log_completed(attempt, everything=everything)
        if self._outcomes is not None and self._outcomes.observers:
            self._observe(self._outcomes, attempts)

    def _observe(self, outcomes: Outcomes, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            ready, transition, completion = attempt.ready, attempt.transition, attempt.claim.completion
            if attempt.completed and (transition is None or attempt.ended_completed):
                transition = msgspec.structs.replace(SUCCESS, result=attempt.completed_result)
            if transition is not None and (attempt.started_at or transition.move is not Move.RELEASE):
                if completion is not None and transition.result is not None and token_of(transition.result):
                    result = completion.blobs.decrypted(transition.result, ready.type, Kind.RESULT)
                    transition = msgspec.structs.replace(transition, result=result)
                outcomes.call_observers(outcome_of(ready, transition, payload_from_row(ready.payload)))

    def _logs_everything(self) -> bool:
        return self._all_jobs and logger.isEnabledFor(logging.INFO)


def summary_of(counts: Mapping[str, int]) -> Summary:
    """Return how many attempts ended how, given their moves."""
    return Summary(
        succeeded=counts[Move.SUCCEED],
        failed=counts[Move.FAIL],
        retried=counts[Move.RETRY],
        snoozed=counts[Move.SNOOZE],
        cancelled=counts[Move.CANCEL],
        released=counts[Move.RELEASE],
    )
