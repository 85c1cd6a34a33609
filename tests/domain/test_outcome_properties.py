"""What holds of every decision, whatever the outcome, the policy and the chance."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rowcall.domain.backoff import LONGEST_DELAY_SECONDS, Backoff, RetryPolicy
from rowcall.domain.errors import Cancel, Fail, Retry, Snooze
from rowcall.domain.job import FINISHED, Status
from rowcall.domain.lifecycle import Move, target
from rowcall.domain.outcome import (
    AttemptBudget,
    CancelRequested,
    Lost,
    Outcome,
    Raised,
    Released,
    Reported,
    Succeeded,
    TimedOut,
    Unfit,
    decide,
)

seconds = st.floats(0, 1e9)
errors: st.SearchStrategy[BaseException] = st.one_of(
    st.sampled_from([ValueError("no"), KeyError("no"), SystemExit(1), KeyboardInterrupt()]),
    st.builds(Retry, seconds),
    st.builds(Snooze, seconds),
    st.builds(Fail, st.from_regex(r"[A-Z]{1,9}:[A-Z_]{1,9}", fullmatch=True), st.text()),
    st.builds(Cancel, st.text()),
)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Succeeded, st.none() | st.text()),
    st.builds(Raised, errors, st.text(), st.text(), st.none() | st.text()),
    st.builds(TimedOut, seconds),
    st.builds(Unfit, st.text(), st.text()),
    st.builds(Reported, st.text(), st.text()),
    st.builds(Released, st.booleans()),
    st.builds(Lost, st.booleans()),
    st.builds(CancelRequested, st.none() | st.text()),
)
names = st.sampled_from([(), (ValueError,), ("KeyError",), (Exception,)])
policies: st.SearchStrategy[RetryPolicy] = st.one_of(
    st.builds(Backoff.constant, seconds, give_up_on=names),
    st.builds(Backoff.linear, seconds, cap=st.none() | seconds, give_up_on=names),
    st.builds(Backoff.exponential, seconds, cap=st.none() | seconds, jitter=st.booleans(), give_up_on=names),
    st.floats().map(lambda answer: lambda attempt, error: answer),
)
chances = st.floats(0, 1)
limits = st.integers(1, 50)


@st.composite
def tries(draw: st.DrawFn) -> AttemptBudget:
    max_attempts = draw(limits)
    return AttemptBudget(draw(st.integers(1, max_attempts)), max_attempts)


@given(tries(), outcomes, policies, chances)
def test_every_decision_is_a_rule_of_the_table(
    tried: AttemptBudget, outcome: Outcome, policy: RetryPolicy, chance: float
) -> None:
    transition = decide(tried, outcome, policy, chance=chance)
    assert target(Status.RUNNING, transition.move) is transition.status


@given(tries(), outcomes, policies, chances)
def test_a_delay_is_never_negative_nor_without_end(
    tried: AttemptBudget, outcome: Outcome, policy: RetryPolicy, chance: float
) -> None:
    transition = decide(tried, outcome, policy, chance=chance)
    assert 0 <= transition.delay_seconds <= max(LONGEST_DELAY_SECONDS, 1e9)
    assert transition.delay_seconds == 0 or transition.status is Status.SCHEDULED


@given(tries(), outcomes, policies, chances)
def test_what_continues_is_recorded_and_what_ends_stays_in_the_row(
    tried: AttemptBudget, outcome: Outcome, policy: RetryPolicy, chance: float
) -> None:
    transition = decide(tried, outcome, policy, chance=chance)
    if transition.status in FINISHED:
        assert transition.attempt_used
        assert not transition.attempt_recorded
    elif transition.attempt_used:
        assert transition.attempt_recorded


@given(tries(), outcomes, policies, chances)
def test_only_a_success_has_a_result_and_every_failure_has_a_code(
    tried: AttemptBudget, outcome: Outcome, policy: RetryPolicy, chance: float
) -> None:
    transition = decide(tried, outcome, policy, chance=chance)
    assert transition.result is None or transition.move is Move.SUCCEED
    if transition.move in (Move.FAIL, Move.RETRY, Move.LOSE):
        assert transition.error_code is not None


@given(limits, st.lists(outcomes, max_size=80), policies, chances)
def test_no_life_has_more_attempts_than_allowed(
    max_attempts: int, life: list[Outcome], policy: RetryPolicy, chance: float
) -> None:
    attempt, status = 0, Status.PENDING
    for outcome in life:
        if status in FINISHED:
            break
        attempt += 1  # the claim
        assert attempt <= max_attempts
        transition = decide(AttemptBudget(attempt, max_attempts), outcome, policy, chance=chance)
        attempt -= not transition.attempt_used
        status = transition.status
    assert attempt <= max_attempts


@given(limits, policies, chances)
def test_a_job_that_always_fails_ends_as_failed(max_attempts: int, policy: RetryPolicy, chance: float) -> None:
    ends = [
        decide(AttemptBudget(attempt, max_attempts), Reported("A:B", "no"), policy, chance=chance).status
        for attempt in range(1, max_attempts + 1)
    ]
    assert ends == [Status.SCHEDULED] * (max_attempts - 1) + [Status.FAILED]


@given(limits)
def test_a_job_that_kills_its_worker_ends_as_failed(max_attempts: int) -> None:
    ends = [decide(AttemptBudget(attempt, max_attempts), Lost()).status for attempt in range(1, max_attempts + 1)]
    assert ends == [Status.PENDING] * (max_attempts - 1) + [Status.FAILED]
