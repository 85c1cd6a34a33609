"""Logs how attempts start and end, each in one line, with the job's fields on the record."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

import msgspec

from rowcall.base.text import duration, one_line
from rowcall.base.times import time_of
from rowcall.context import logger
from rowcall.declare.follow_ups import FollowUps, outcome_of
from rowcall.domain.encryption import Kind, token_of
from rowcall.domain.job import StackFrame, Summary
from rowcall.domain.lifecycle import Move
from rowcall.domain.outcome import CANCELLED_BY_HAND_CODE, SUCCESS, Transition
from rowcall.domain.payload import payload_from_row
from rowcall.domain.step import FOREVER_MS
from rowcall.observe.exceptions import exception_of
from rowcall.observe.logs import group_handler
from rowcall.observe.meter import Meter
from rowcall.overview.formats import moment
from rowcall.worker.attempt import Attempt
from rowcall.worker.log_pace import LogPace
from rowcall.worker.raised_errors import RaisedErrors

MESSAGE = "job %d (%s): {}%s"
ATTEMPT = "attempt %d of %d"
SUCCEEDED = f"{ATTEMPT} succeeded in %s"
ANY_ID = 2**53 - 1  # replaces the id of a job in a formatted line, in which no other number is as long
_MOVE_OF = attrgetter("transition.move")


def log_started(attempt: Attempt) -> None:
    _log_attempt(attempt, logging.DEBUG, "started")


def log_settled(attempt: Attempt, *, everything: bool) -> None:
    """Log how an attempt ended that did not succeed: always if it failed or was cancelled."""
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
        case Move.RELEASE if transition.unfit is not None:
            what = "does not fit this worker's version of the task; it waits for a worker that its arguments fit"
            _warn(attempt, what, transition=transition)
        case Move.CANCEL:
            by = "by hand" if transition.error_code == CANCELLED_BY_HAND_CODE else "by its handler"
            _log(attempt, logging.INFO, "was cancelled %s", by, transition=transition)
        case Move.RELEASE if (failure := attempt.failed_while_stopping) is not None:
            failed = msgspec.structs.replace(transition, error_code=failure.code, error_detail=failure.detail)
            _warn(attempt, "failed after it was asked to stop; released", transition=failed)
        case Move.SNOOZE if everything:
            _log_attempt(attempt, logging.INFO, "snoozed, the next one comes %s", _next_time(transition))
        case Move.RELEASE if everything:
            _log_attempt(attempt, logging.INFO, "released")


def log_succeeded(attempts: Sequence[Attempt]) -> None:
    """Log attempts that succeeded: all by one write, if only the handler of `rowcall work` gets the lines."""
    handler = group_handler(logger)
    if handler is not None:
        handler.write_lines(_lines(handler, attempts))
        return
    for attempt in attempts:
        _log(attempt, logging.INFO, SUCCEEDED, *_success_values(attempt))


def _success_values(attempt: Attempt) -> tuple[object, ...]:
    ran_ms = attempt.ran_ms
    return attempt.ready.attempt, attempt.ready.max_attempts, duration(None if ran_ms is None else ran_ms / 1000)


def _lines(handler: logging.Handler, attempts: Iterable[Attempt]) -> Iterator[str]:
    """Return the lines of attempts that succeeded. To format each record would cost more than to run a short job.

    So of all attempts whose lines differ in the job's id alone, one is formatted, and the others get their id.
    """
    formatted: dict[tuple[object, ...], list[str]] = {}
    for attempt in attempts:
        ready, identity = attempt.ready, attempt.claim.identity
        same = ready.type, ready.queue, ready.attempt, ready.max_attempts, attempt.ran_ms, identity.name, attempt.trace
        parts = formatted.get(same)
        if parts is None:
            fields = {**_fields(attempt), "job_id": ANY_ID}
            values = ANY_ID, one_line(ready.type), *_success_values(attempt), ""
            text = MESSAGE.format(SUCCEEDED)
            record = logger.makeRecord(logger.name, logging.INFO, __file__, 0, text, values, None, extra=fields)
            parts = formatted[same] = handler.format(record).split(str(ANY_ID))
        yield str(ready.id).join(parts)


def log_completed(attempt: Attempt) -> None:
    """Log a handler that has completed its job itself, and failed after that."""
    _warn(attempt, "completed by its handler, which failed afterwards", transition=attempt.transition)


def log_ended_outside(attempt: Attempt) -> None:
    _warn(attempt, "its attempt was ended from outside; its handler is asked to stop")


def log_abandoned(attempts: Iterable[Attempt]) -> None:
    what = "its handler runs past its timeout, and keeps its slots in the worker and under limits until it ends"
    for attempt in attempts:
        _warn(attempt, what)


def log_blocking(attempt: Attempt, seconds: float, frames: Sequence[StackFrame]) -> None:
    """The frames are part of the message, so that every log has them."""
    what = "its handler blocks the event loop for more than %g s, and no other async handler can continue:\n%s"
    _warn(attempt, what, seconds, "\n".join(map(str, frames)))


def log_dropped(attempt: Attempt) -> None:
    _warn(attempt, "dropped the outcome of this attempt: the job was recovered or changed before it ended")


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
    extra, reason, raised = _fields(attempt), "", None
    if transition is not None and transition.error_code:
        extra["error_code"] = transition.error_code
        detail = f": {transition.error_detail}" if transition.error_detail else ""
        reason = one_line(f" ({transition.error_code}{detail})")
        if attempt.exception is not None and transition.move is not Move.CANCEL:
            error = exception_of(attempt.exception)
            raised = (type(error), error, error.__traceback__)
    named = attempt.ready.id, one_line(attempt.ready.type)
    logger.log(level, MESSAGE.format(what), *named, *values, reason, extra=extra, exc_info=raised)


def _fields(attempt: Attempt) -> dict[str, object]:
    fields = {**attempt.log_fields, "error_code": None}
    if (ran_ms := attempt.ran_ms) is not None and attempt.finished_at:
        fields["duration_ms"] = ran_ms
    return fields


class AttemptLog:
    def __init__(
        self,
        pace: LogPace,
        meter: Meter | None = None,
        follow_ups: FollowUps | None = None,
        errors: RaisedErrors | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._pace = pace
        self._meter = meter
        self._follow_ups = follow_ups
        self._errors = errors

    def settled(self, attempts: list[Attempt], settled: set[int]) -> None:
        """Report a group; the attempts that are not in `settled` no longer belonged to this worker."""
        if self._meter is not None:
            self._meter.add(attempts, settled)
        if self._errors is not None:
            self._errors.settled(attempts, settled)
        if len(settled) < len(attempts):
            for attempt in attempts:
                if attempt.ready.id not in settled:
                    log_dropped(attempt)
            attempts = [attempt for attempt in attempts if attempt.ready.id in settled]
        moves: list[Move] = [*map(_MOVE_OF, attempts)]
        self.counts.update(moves)
        if Move.RELEASE in moves:  # leave out attempts that were only buffered
            attempts = [attempt for attempt in attempts if attempt.started_at or _MOVE_OF(attempt) is not Move.RELEASE]
            moves = [*map(_MOVE_OF, attempts)]
        each = self._pace.admits(attempts, moves)
        if each:
            log_succeeded([one for one, move in zip(attempts, moves, strict=True) if move is Move.SUCCEED])
        if moves.count(Move.SUCCEED) < len(moves):
            for attempt in attempts:
                log_settled(attempt, everything=each)
        if self._follow_ups is not None and self._follow_ups.observers:
            self._observe(self._follow_ups, attempts)

    def completed(self, attempts: list[Attempt]) -> None:
        """Report attempts whose handlers completed their jobs, in transactions that were committed."""
        self.counts[Move.SUCCEED] += len(attempts)
        if self._meter is not None:
            self._meter.add_completed(attempts)
        failed = [one for one in attempts if one.transition is not None and not one.ended_completed]
        if self._pace.admits(attempts, [Move.SUCCEED] * len(attempts)):
            log_succeeded([attempt for attempt in attempts if attempt not in failed])
        for attempt in failed:
            log_completed(attempt)
        if self._follow_ups is not None and self._follow_ups.observers:
            self._observe(self._follow_ups, attempts)

    def _observe(self, follow_ups: FollowUps, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            ready, transition, completion = attempt.ready, attempt.transition, attempt.claim.completion
            if attempt.completed and (transition is None or attempt.ended_completed):
                transition = msgspec.structs.replace(SUCCESS, result=attempt.completed_result)
            if transition is not None:
                if completion is not None and transition.result is not None and token_of(transition.result):
                    result = completion.blobs.decrypted(transition.result, ready.type, Kind.RESULT)
                    transition = msgspec.structs.replace(transition, result=result)
                follow_ups.call_observers(outcome_of(ready, transition, payload_from_row(ready.payload)))


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
