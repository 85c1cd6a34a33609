from __future__ import annotations

import msgspec
import pytest

from rowcall.domain.backoff import Backoff
from rowcall.domain.errors import Cancel, Control, Fail, Retry, Snooze
from rowcall.domain.job import Status
from rowcall.domain.lifecycle import Move
from rowcall.domain.outcome import (
    SUCCESS,
    AttemptBudget,
    CancelRequested,
    Lost,
    Mismatched,
    Outcome,
    Raised,
    Released,
    Reported,
    Succeeded,
    TimedOut,
    Transition,
    Unfit,
    decide,
)

SECOND_OF_FIVE = AttemptBudget(attempt=2, max_attempts=5)
LAST_OF_FIVE = AttemptBudget(attempt=5, max_attempts=5)
ERROR = ValueError("no")
RAISED = Raised(ERROR, "INTERNAL:ValueError", "no", "Traceback …")


class Unheard(Control):
    """A control of somebody's own."""


def raised(control: Control) -> Raised:
    code = "RETRY:REQUESTED" if isinstance(control, Retry) else "INTERNAL:Control"
    return Raised(control, code, str(control), "Traceback …")


SUCCEEDED = Transition(Move.SUCCEED, Status.SUCCEEDED, "succeeded", result='{"a":1}')
FAILED = Transition(
    Move.FAIL,
    Status.FAILED,
    "failed",
    error_code="INTERNAL:ValueError",
    error_detail="no",
    traceback="Traceback …",
)
RETRIED = Transition(
    Move.RETRY,
    Status.SCHEDULED,
    "failed",
    60.0,
    attempt_recorded=True,
    error_code="INTERNAL:ValueError",
    error_detail="no",
    traceback="Traceback …",
)
SNOOZED = Transition(Move.SNOOZE, Status.SCHEDULED, "snoozed", 7.0, attempt_used=False, attempt_recorded=True)
CANCELLED = Transition(
    Move.CANCEL, Status.CANCELLED, "cancelled", error_code="CANCELLED:BY_HANDLER", error_detail="why"
)
CANCELLED_BY_HAND = Transition(
    Move.CANCEL, Status.CANCELLED, "cancelled", error_code="CANCELLED:BY_HAND", error_detail="enough"
)
RELEASED = Transition(Move.RELEASE, Status.PENDING, "released", attempt_used=False, attempt_recorded=True)
REFUSED = Transition(
    Move.RELEASE,
    Status.PENDING,
    "released",
    attempt_used=False,
    attempt_recorded=True,
    error_code="INVALID_INPUT:SCHEMA_MISMATCH",
    error_detail="no argument `loud`",
    unfit="0123abcd",
)
ONLY_BUFFERED = Transition(Move.RELEASE, Status.PENDING, "released", attempt_used=False)
LOST = "attempt {} of 5 was lost with its worker"
LATE = "the handler ran longer than its timeout of 3 s"


def failed_with(code: str, detail: str | None, traceback: str | None = None) -> Transition:
    return Transition(Move.FAIL, Status.FAILED, "failed", error_code=code, error_detail=detail, traceback=traceback)


def retried_with(delay: float, code: str, detail: str) -> Transition:
    return Transition(
        Move.RETRY, Status.SCHEDULED, "failed", delay, attempt_recorded=True, error_code=code, error_detail=detail
    )


@pytest.mark.parametrize(
    ("outcome", "on_the_second_attempt", "on_the_last_attempt"),
    [
        (Succeeded(), SUCCESS, SUCCESS),
        (Succeeded('{"a":1}'), SUCCEEDED, SUCCEEDED),
        (RAISED, RETRIED, FAILED),
        (TimedOut(3), retried_with(60.0, "TIMEOUT:HANDLER", LATE), failed_with("TIMEOUT:HANDLER", LATE)),
        (Reported("A:B", "why"), retried_with(60.0, "A:B", "why"), failed_with("A:B", "why")),
        (Unfit("INVALID_INPUT:X", "why", "T"), *[failed_with("INVALID_INPUT:X", "why", "T")] * 2),
        (
            raised(Retry(delay=7)),
            retried_with(7.0, "RETRY:REQUESTED", "retry in 7 s"),
            failed_with("RETRY:REQUESTED", "retry in 7 s"),
        ),
        (
            raised(Retry(delay=7, reason="busy")),
            retried_with(7.0, "RETRY:REQUESTED", "busy"),
            failed_with("RETRY:REQUESTED", "busy"),
        ),
        (
            Raised(Retry(delay=7), "A:B", "why", "T"),  # from an error
            msgspec.structs.replace(retried_with(7.0, "A:B", "why"), traceback="T"),
            failed_with("A:B", "why", "T"),
        ),
        (raised(Snooze(delay=7)), SNOOZED, SNOOZED),
        (raised(Fail("A:B", "why")), *[failed_with("A:B", "why", "Traceback …")] * 2),
        (raised(Fail("A:B")), *[failed_with("A:B", None, "Traceback …")] * 2),
        (raised(Cancel("why")), CANCELLED, CANCELLED),
        (raised(Unheard("hm")), *[failed_with("INTERNAL:Control", "hm", "Traceback …")] * 2),
        (Released(), RELEASED, RELEASED),
        (Mismatched("no argument `loud`", "0123abcd"), REFUSED, REFUSED),
        (Released(started=False), ONLY_BUFFERED, ONLY_BUFFERED),
        (CancelRequested("enough"), *[CANCELLED_BY_HAND] * 2),
        (
            Lost(),
            Transition(
                Move.RECOVER,
                Status.PENDING,
                "lost",
                attempt_recorded=True,
                error_code="WORKER:LOST",
                error_detail=LOST.format(2),
            ),
            Transition(Move.LOSE, Status.FAILED, "lost", error_code="WORKER:LOST", error_detail=LOST.format(5)),
        ),
        (Lost(started=False), *[Transition(Move.RECOVER, Status.PENDING, "lost", attempt_used=False)] * 2),
    ],
)
def test_every_outcome_has_its_transition(
    outcome: Outcome, on_the_second_attempt: Transition, on_the_last_attempt: Transition
) -> None:
    assert decide(SECOND_OF_FIVE, outcome) == on_the_second_attempt
    assert decide(LAST_OF_FIVE, outcome) == on_the_last_attempt


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), GeneratorExit(), MemoryError()])
def test_whatever_was_raised_is_a_failed_attempt(error: BaseException) -> None:
    assert decide(SECOND_OF_FIVE, Raised(error, "c", "d")).move is Move.RETRY


def test_what_is_not_worth_retrying_fails_at_once() -> None:
    policy = Backoff.linear(30, give_up_on=ValueError)
    assert decide(SECOND_OF_FIVE, RAISED, policy) == FAILED
    assert decide(SECOND_OF_FIVE, Raised(KeyError(), "c", "d"), policy).move is Move.RETRY


def test_a_policy_that_retries_only_some_errors_gives_up_on_whatever_else_ends_an_attempt() -> None:
    policy = Backoff.linear(30, only_on=(ConnectionError, TimeoutError))
    assert decide(SECOND_OF_FIVE, RAISED, policy) == FAILED
    assert decide(SECOND_OF_FIVE, Reported("c", "d"), policy).move is Move.FAIL
    assert decide(SECOND_OF_FIVE, TimedOut(5), policy).move is Move.RETRY
    assert decide(SECOND_OF_FIVE, Raised(ConnectionResetError(), "c", "d"), policy).move is Move.RETRY
    assert decide(SECOND_OF_FIVE, Raised(Retry(delay=1), "c", "d"), policy).move is Move.RETRY
    assert decide(SECOND_OF_FIVE, Lost(), policy).move is Move.RECOVER


def test_a_callable_that_returns_none_gives_up() -> None:
    assert decide(SECOND_OF_FIVE, RAISED, lambda attempt, error: None) == FAILED


def test_a_callable_is_asked_with_the_attempt_and_the_error() -> None:
    asked = []

    def policy(attempt: int, error: BaseException) -> float:
        asked.append((attempt, error))
        return 12.5

    assert decide(SECOND_OF_FIVE, RAISED, policy).delay_seconds == 12.5
    assert asked == [(2, ERROR)]


def test_a_callable_is_not_asked_once_no_attempt_is_left() -> None:
    def never(attempt: int, error: BaseException) -> float:
        raise AssertionError

    assert decide(LAST_OF_FIVE, RAISED, never) == FAILED


@pytest.mark.parametrize(
    ("answer", "delay"), [(-5.0, 0.0), (float("nan"), 60.0), (float("inf"), 366 * 86400.0), (1e300, 366 * 86400.0)]
)
def test_an_odd_answer_of_a_callable_is_kept_within_reason(answer: float, delay: float) -> None:
    assert decide(SECOND_OF_FIVE, RAISED, lambda attempt, error: answer).delay_seconds == delay
