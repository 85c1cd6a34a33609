"""Logs how attempts start and end: each in one line with the job's fields, or many in one line a second for a task."""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

import msgspec

from rowcall.base.text import duration, one_line
from rowcall.base.times import time_of
from rowcall.context import logger
from rowcall.declare.follow_ups import FollowUps, outcome_of
from rowcall.domain.encryption import Kind, token_of
from rowcall.domain.job import StackFrame, Summary
from rowcall.domain.lifecycle import Move
from rowcall.domain.outcome import CANCELLED_BY_HAND_CODE, OUTCOMES, SUCCESS, Transition
from rowcall.domain.payload import MISMATCH_CODE, payload_from_row
from rowcall.domain.step import FOREVER_MS
from rowcall.observe.logs import group_handler
from rowcall.observe.meter import Meter
from rowcall.observe.shown_exceptions import exception_of
from rowcall.overview.formats import moment
from rowcall.worker.attempt import Attempt
from rowcall.worker.pace import LOG_SECONDS, MOST_LINES, MOST_SAMPLED, SHOWN_PERCENTILE
from rowcall.worker.raised_errors import RaisedErrors
from rowcall.worker.settings import LogJobs

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
            of_job = "arguments" if transition.error_code == MISMATCH_CODE else "recorded steps"
            what = f"does not fit this worker's version of the task; it waits for a worker that its {of_job} fit"
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
        ready, identity = attempt.ready, attempt.common.identity
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
            ready, transition, completion = attempt.ready, attempt.transition, attempt.common.completion
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


class LogPace:
    """Used by the loop's thread alone."""

    def __init__(self, log_jobs: LogJobs, timer: Callable[[], float]) -> None:
        self._log_jobs = log_jobs
        self._timer = timer
        self._second_began = -math.inf
        self._ended = 0
        self._summarizes = False
        self._tasks: defaultdict[str, TaskSummary] = defaultdict(TaskSummary)
        self._explained = False

    def logs_starts(self) -> bool:
        """Return whether each start has a line, too."""
        return self._log_jobs != "failures" and not self._summarizes and logger.isEnabledFor(logging.DEBUG)

    def admits(self, attempts: Sequence[Attempt], moves: Sequence[Move]) -> bool:
        """Return whether each of these ends has a line. If not, they are counted for the line of their task."""
        if self._log_jobs == "failures" or not logger.isEnabledFor(logging.INFO):
            return False
        if self._log_jobs == "all":
            return True
        self.turn()
        self._ended += len(attempts)
        if not self._summarizes and self._ended > MOST_LINES:
            self._summarizes, self._second_began, self._ended = True, self._timer(), len(attempts)
            self._explain()
        if self._summarizes and attempts:
            self._count(attempts, moves)
        return not self._summarizes

    def _explain(self) -> None:
        """Say once where the lines of jobs are."""
        if not self._explained:
            self._explained = True
            logger.info("above %d jobs a second: one line a second per task; see --log-jobs", MOST_LINES)

    def turn(self) -> None:
        """End the second, if it is over."""
        if self._timer() - self._second_began >= LOG_SECONDS:
            self.end_second()

    def end_second(self) -> None:
        """Log what ended without a line. If it was little, later attempts have lines again."""
        for task in sorted(self._tasks):
            self._tasks[task].log(task)
        self._tasks.clear()
        self._summarizes = self._summarizes and self._ended > MOST_LINES
        self._second_began, self._ended = self._timer(), 0

    @property
    def log_at(self) -> float:
        """When something has to be logged."""
        return self._second_began + LOG_SECONDS if self._tasks else math.inf

    def _count(self, attempts: Sequence[Attempt], moves: Sequence[Move]) -> None:
        names = [attempt.ready.type for attempt in attempts]
        if names.count(names[0]) == len(names):  # mostly, and a tenth of the cost
            self._tasks[names[0]].add(attempts, moves)
            return
        by_task = defaultdict(list)
        for name, attempt, move in zip(names, attempts, moves, strict=True):
            by_task[name].append((attempt, move))
        for name, ended in by_task.items():
            self._tasks[name].add([attempt for attempt, _ in ended], [move for _, move in ended])


class TaskSummary:
    """How the attempts of one task ended in a second, and how long some of them took: each n-th, from first to last."""

    def __init__(self) -> None:
        self._moves: Counter[Move] = Counter()
        self._took: list[float] = []
        self._every = 1
        self._worker = ""

    def add(self, attempts: Sequence[Attempt], moves: Sequence[Move]) -> None:
        skipped = -self._moves.total() % self._every
        self._took += [one.finished_at - one.started_at for one in attempts[skipped :: self._every] if one.started_at]
        self._moves.update(moves)
        while len(self._took) > MOST_SAMPLED:
            del self._took[1::2]
            self._every *= 2
        self._worker = attempts[0].common.identity.name

    def log(self, task: str) -> None:
        counts: Counter[str] = Counter()
        for move, count in self._moves.items():
            # as in the lines, an attempt that is retried has failed
            counts["failed" if move is Move.RETRY else OUTCOMES[move]] += count
        fields: dict[str, object] = {name: counts[name] for name in OUTCOMES.values() if counts[name]}
        text = ", ".join(f"{count:,} {name}" for name, count in fields.items())
        if self._took:
            seconds = sorted(self._took)[math.ceil(len(self._took) * SHOWN_PERCENTILE) - 1]
            fields["p95_ms"] = round(seconds * 1000, 3)
            text += f", p95 {_short(seconds)}"
        logger.info("%s: %s", one_line(task), text, extra={"job_type": task, "worker": self._worker, **fields})


def _short(seconds: float) -> str:
    """Return a duration with a digit more than others: most handlers that end so often take less than a millisecond.

    >>> [_short(seconds) for seconds in (0.000002, 0.00042, 0.0123, 1.25)]
    ['<0.1 ms', '0.4 ms', '12 ms', '1.2 s']
    """
    milliseconds = seconds * 1000
    if milliseconds < 0.05:
        return "<0.1 ms"
    return f"{milliseconds:.1f} ms" if milliseconds < 9.95 else duration(seconds)
