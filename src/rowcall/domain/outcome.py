"""How an attempt ended, and `decide`, which makes one transition of it.

Nothing here reads a clock, a database or a source of chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from rowcall.domain.backoff import DEFAULT_BACKOFF, LONGEST_DELAY_SECONDS, Backoff, RetryPolicy
from rowcall.domain.error_codes import RETRY_REQUESTED_CODE
from rowcall.domain.errors import Cancel, Control, Fail, PushFailed, Retry, Snooze, Suspend
from rowcall.domain.job import Status
from rowcall.domain.lifecycle import Move, target
from rowcall.domain.limits import NOTHING_USED, Breaker, LimitNote, UsedUnits
from rowcall.domain.payload import MISMATCH_CODE
from rowcall.domain.step import FOREVER_MS


class AttemptBudget(msgspec.Struct, frozen=True):
    """What a decision needs of the job: `attempt` includes the attempt that is ending."""

    attempt: int
    max_attempts: int


class Succeeded(msgspec.Struct, frozen=True):
    result: str | None = None


class Raised(msgspec.Struct, frozen=True):
    """The handler raised an exception; `code` and `detail` are stored."""

    error: BaseException
    code: str
    detail: str
    traceback: str | None = None


class TimedOut(msgspec.Struct, frozen=True):
    seconds: float


class Unfit(msgspec.Struct, frozen=True):
    """Wrong arguments or a wrong result, which another attempt would not correct."""

    code: str
    detail: str
    traceback: str | None = None


class Mismatched(msgspec.Struct, frozen=True):
    """Arguments or recorded steps that do not match this worker's task, but may match another worker's."""

    detail: str
    fingerprint: str
    code: str = MISMATCH_CODE


class Reported(msgspec.Struct, frozen=True):
    """A failure that was reported with `jobs.fail(job, code, detail)`."""

    code: str
    detail: str


class Released(msgspec.Struct, frozen=True):
    """Released. `started` is False for a job that was only in a worker's buffer."""

    started: bool = True


class Lost(msgspec.Struct, frozen=True):
    """The worker died, or the lease expired. `opened`: the target that had accepted the job did not call back."""

    started: bool = True
    opened: bool = False


class CancelRequested(msgspec.Struct, frozen=True):
    """A cancel request came while the job was running."""

    reason: str | None = None


Outcome = Succeeded | Raised | TimedOut | Unfit | Mismatched | Reported | Released | Lost | CancelRequested


class Transition(msgspec.Struct, frozen=True):
    """A move, with everything that is written about it."""

    move: Move
    status: Status
    attempt_status: str
    delay_seconds: float = 0.0
    attempt_used: bool = True
    attempt_recorded: bool = False
    result: str | None = None
    error_code: str | None = None
    error_detail: str | None = None
    traceback: str | None = None
    run_at_ms: int | None = None
    """When the job runs again, instead of after a delay."""
    unfit: str | None = None
    """The fingerprint of the declaration, or of the code, that the job does not fit."""
    on_end: str | None = None
    """What follows the end of the job, if its row does not say."""
    awaits_signal: bool = False
    """Whether a signal lets the job run before that."""
    note: LimitNote | None = None
    """What the end of the attempt says to limits."""


COUNTED = {"succeeded": False, "failed": True}
"""Whether an attempt failed, by its status, as breakers count it. Others say nothing about what a limit protects."""

OUTCOMES = {
    Move.SUCCEED: "succeeded",
    Move.FAIL: "failed",
    Move.LOSE: "failed",
    Move.RECOVER: "lost",
    Move.RETRY: "retried",
    Move.SNOOZE: "snoozed",
    Move.RELEASE: "released",
    Move.CANCEL: "cancelled",
}
"""The names of outcomes, wherever attempts are counted."""

LOST_CODE = "WORKER:LOST"
NO_CALLBACK_CODE = "PUSH:NO_CALLBACK"
TIMEOUT_CODE = "TIMEOUT:HANDLER"
DEADLINE_CODE = "DEADLINE:PASSED"
EXPIRED_CODE = "EXPIRED:NOT_STARTED"
CANCELLED_BY_HANDLER_CODE = "CANCELLED:BY_HANDLER"
CANCELLED_BY_HAND_CODE = "CANCELLED:BY_HAND"
BLOCKER_FAILED_CODE = "BLOCKER:FAILED"
BLOCKER_CANCELLED_CODE = "BLOCKER:CANCELLED"
CHAIN_COMPLETED_CODE = "CHAIN:COMPLETED"


def _end(move: Move) -> tuple[Move, Status]:
    """Return a move and where it leads from running."""
    return move, target(Status.RUNNING, move)


SUCCESS = Transition(*_end(Move.SUCCEED), "succeeded")


def success_with(result: str | None) -> Transition:
    return SUCCESS if result is None else Transition(SUCCESS.move, SUCCESS.status, "succeeded", result=result)


def decide(
    budget: AttemptBudget, outcome: Outcome, policy: RetryPolicy = DEFAULT_BACKOFF, *, chance: float = 1.0
) -> Transition:
    """Return the transition of a running job whose attempt ended with this outcome.

    >>> decide(AttemptBudget(attempt=1, max_attempts=5), Reported("TIMEOUT:UPSTREAM_API", "30 s")).delay_seconds
    30.0
    """
    match outcome:
        case Succeeded(result=result):
            return success_with(result)
        case Raised(error=Suspend(run_at_ms=run_at_ms, waits=waits)):
            at_ms = FOREVER_MS if run_at_ms is None else run_at_ms
            return _snooze(0.0, at_ms, awaits_signal=waits)
        case Raised(error=Control() as control):
            return _obey(budget, control, outcome)
        case Raised(error=error, code=code, detail=detail, traceback=traceback):
            return _retry_or_fail(budget, policy, chance, error, code, detail, traceback)
        case TimedOut(seconds=seconds):
            detail = f"the handler ran longer than its timeout of {seconds:g} s"
            return decide(budget, Raised(TimeoutError(detail), TIMEOUT_CODE, detail), policy, chance=chance)
        case Reported(code=code, detail=detail):
            if isinstance(policy, Backoff):  # it is not an exception
                policy = msgspec.structs.replace(policy, give_up_on=())
            return _retry_or_fail(budget, policy, chance, RuntimeError(f"{code}: {detail}"), code, detail, None)
        case Unfit(code=code, detail=detail, traceback=traceback):
            return _fail(code, detail, traceback)
        case Mismatched(detail=detail, fingerprint=fingerprint, code=code):
            return Transition(
                *_end(Move.RELEASE),
                "released",
                attempt_used=False,
                attempt_recorded=True,
                error_code=code,
                error_detail=detail or None,
                unfit=fingerprint,
            )
        case Released(started=started):
            return Transition(*_end(Move.RELEASE), "released", attempt_used=False, attempt_recorded=started)
        case Lost(opened=True):
            return _lose(budget, NO_CALLBACK_CODE, "the target that had accepted the job did not call back in time")
        case Lost(started=False):
            return Transition(*_end(Move.RECOVER), "lost", attempt_used=False)
        case Lost():
            return _lose(
                budget, LOST_CODE, f"attempt {budget.attempt} of {budget.max_attempts} was lost with its worker"
            )
        case CancelRequested(reason=reason):
            return _cancel(CANCELLED_BY_HAND_CODE, reason)


def _obey(budget: AttemptBudget, control: Control, raised: Raised) -> Transition:
    match control:
        case Snooze(delay_seconds=delay, run_at_ms=run_at_ms, hold=hold):
            return _holding(_snooze(delay, run_at_ms), hold, delay, run_at_ms)
        case Retry(delay_seconds=delay, run_at_ms=run_at_ms, reason=reason):
            is_of_error = raised.code != RETRY_REQUESTED_CODE
            detail, traceback = (raised.detail, raised.traceback) if is_of_error else (str(control), None)
            policy = Backoff.constant(delay)
            transition = _retry_or_fail(budget, policy, 1.0, control, raised.code, reason or detail, traceback)
            transition = msgspec.structs.replace(transition, run_at_ms=run_at_ms)
            return _holding(transition, control.hold, delay, run_at_ms, reason or raised.code)
        case Fail(code=code, detail=detail):
            return _fail(code, detail, raised.traceback)
        case Cancel(reason=reason):
            return _cancel(CANCELLED_BY_HANDLER_CODE, reason)
        case _:
            return _fail(raised.code, raised.detail, raised.traceback)


def _holding(
    transition: Transition, hold: str | None, delay_seconds: float, run_at_ms: int | None, why: str = ""
) -> Transition:
    """Return the transition, which also holds that limit: the job may have no attempt left, and others have."""
    if hold is None:
        return transition
    note = LimitNote(hold, round(delay_seconds * 1000), run_at_ms, why)
    return msgspec.structs.replace(transition, note=note)


def noted(
    transition: Transition, breakers: Mapping[str, Breaker], used: Mapping[str, UsedUnits] = NOTHING_USED
) -> Transition:
    """Return the transition, with how the attempt ended, for these breakers, and with the units that it used."""
    failed = COUNTED.get(transition.attempt_status)
    if failed is None:
        breakers = {}
    if not breakers and not used:
        return transition
    note = msgspec.structs.replace(transition.note or LimitNote(), failed=bool(failed), breakers=breakers, used=used)
    return msgspec.structs.replace(transition, note=note)


def _snooze(delay_seconds: float, run_at_ms: int | None, *, awaits_signal: bool = False) -> Transition:
    return Transition(
        *_end(Move.SNOOZE),
        "snoozed",
        delay_seconds,
        attempt_used=False,
        attempt_recorded=True,
        run_at_ms=run_at_ms,
        awaits_signal=awaits_signal,
    )


def _retry_or_fail(
    budget: AttemptBudget,
    policy: RetryPolicy,
    chance: float,
    error: BaseException,
    code: str,
    detail: str,
    traceback: str | None,
) -> Transition:
    if budget.attempt >= budget.max_attempts:
        return _fail(code, detail, traceback)
    delay_seconds = delay_of(policy, budget.attempt, error, chance)
    if delay_seconds is None:
        return _fail(code, detail, traceback)
    return Transition(
        *_end(Move.RETRY),
        "failed",
        delay_seconds,
        attempt_recorded=True,
        error_code=code,
        error_detail=detail,
        traceback=traceback,
    )


def delay_of(policy: RetryPolicy, attempt: int, error: BaseException, chance: float) -> float | None:
    """Return the delay of a policy in seconds, at most a year, or None to give up.

    NaN counts as the default policy's delay. A target that says when to retry is not asked earlier.
    """
    if isinstance(error, PushFailed) and error.retry_after is not None:
        other = delay_of(policy, attempt, PushFailed(error.code, error.detail), chance)
        return None if other is None else min(max(error.retry_after, other), LONGEST_DELAY_SECONDS)
    if isinstance(policy, Backoff):
        return None if policy.gives_up_on(error) else policy.delay_seconds(attempt, chance=chance)
    answer = policy(attempt, error)
    if answer is None:
        return None
    seconds = answer.total_seconds() if isinstance(answer, timedelta) else float(answer)
    if seconds != seconds:
        return DEFAULT_BACKOFF.delay_seconds(attempt, chance=chance)
    return min(max(seconds, 0.0), LONGEST_DELAY_SECONDS)


def _fail(code: str, detail: str, traceback: str | None) -> Transition:
    return Transition(*_end(Move.FAIL), "failed", error_code=code, error_detail=detail or None, traceback=traceback)


def _cancel(code: str, reason: str | None) -> Transition:
    return Transition(*_end(Move.CANCEL), "cancelled", error_code=code, error_detail=reason or None)


def _lose(budget: AttemptBudget, code: str, detail: str) -> Transition:
    if budget.attempt >= budget.max_attempts:
        return Transition(*_end(Move.LOSE), "lost", error_code=code, error_detail=detail)
    return Transition(*_end(Move.RECOVER), "lost", attempt_recorded=True, error_code=code, error_detail=detail)
