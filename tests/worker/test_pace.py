"""What the loop does next: knowledge in, step out."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rowcall.worker.pace import (
    AHEAD_SECONDS,
    ASK_AGAIN_SECONDS,
    CHECK,
    GATHER,
    LONGEST_WAIT_SECONDS,
    MOST_SETTLED,
    NEVER,
    ROUND,
    SHORTEST_WAIT_SECONDS,
    STALE_SECONDS,
    Check,
    Gather,
    Knowledge,
    RunRound,
    Settle,
    Step,
    Wait,
    is_idle,
    is_old,
    next_step,
)

NOW = 1000.0
BEFORE, SOON = NOW - 1.0, NOW + 1.0
TAKE, ASK = Settle(in_thread=True), Settle(in_thread=False)

NOTHING = Knowledge()  # no room, nothing known
IDLE = Knowledge(slots=1, is_checked=True)
FULL = Knowledge(unsettled=5, buffered=10, enough_buffered=4, gathering_since=NOW)
LARGE = Knowledge(unsettled=500, in_thread=500, is_large=True)


def wait(seconds: float = LONGEST_WAIT_SECONDS, *, for_jobs: bool = True) -> Wait:
    return Wait(seconds, 0, for_jobs)


STEPS: dict[str, tuple[Knowledge, Step]] = {
    # gather
    "the lanes have enough to do": (FULL, GATHER),
    "the buffer runs low": (replace(FULL, buffered=4), ROUND),
    "it has gathered for long enough": (replace(FULL, gathering_since=NOW - 2 * AHEAD_SECONDS), ROUND),
    "a group is full": (replace(FULL, unsettled=MOST_SETTLED), ROUND),
    "the worker stops, and settles at once": (replace(FULL, stopping=True), ROUND),
    "the next portion starts while this one is settled": (replace(FULL, starts_in_round=True), ROUND),
    "every slot is taken, and the next job needs one": (replace(FULL, slot_needed=True, buffered=0), GATHER),
    "a slot came free for the job that needs one": (replace(FULL, slot_needed=True, slots=1), ROUND),
    "nothing ended": (replace(FULL, unsettled=0), wait(STALE_SECONDS, for_jobs=False)),
    # settle
    "the thread has settled its group": (replace(LARGE, unsettled=0, is_large=False, thread_done=True), TAKE),
    "the next group waits for the thread": (LARGE, TAKE),
    "a few ended while the thread settles others": (replace(LARGE, is_large=False, unsettled=3), ROUND),
    "nothing to do but to wait for the thread": (replace(LARGE, is_large=False, unsettled=0), TAKE),
    "jobs may be claimed while the thread settles": (replace(IDLE, in_thread=500, maybe_any=True), ROUND),
    "an attempt has completed its job": (replace(IDLE, ask_at=NOW, unsettled=1), ASK),
    "a transaction was open when it was asked about": (
        replace(IDLE, ask_at=NOW + ASK_AGAIN_SECONDS),
        wait(NOW + ASK_AGAIN_SECONDS - NOW),
    ),
    # a round
    "an attempt ended": (replace(NOTHING, unsettled=1), ROUND),
    "an attempt ended while the worker stops": (replace(NOTHING, unsettled=1, stopping=True), ROUND),
    "an abandoned handler ended": (replace(NOTHING, late=1), ROUND),
    "there may be a job, and a slot": (replace(IDLE, maybe_any=True), ROUND),
    "there may be a job, and room in the buffer": (replace(NOTHING, maybe_any=True, buffer=1), ROUND),
    "there may be a job, and room in a batch": (replace(NOTHING, maybe_any=True, batch_room=1), ROUND),
    "there may be a job, but no room": (replace(NOTHING, maybe_any=True), wait(for_jobs=False)),
    "there may be a job, but the worker stops": (replace(IDLE, maybe_any=True, stopping=True), wait(for_jobs=False)),
    "a job is due": (replace(IDLE, due_at=NOW), ROUND),
    "a job is due, but there is no room": (replace(NOTHING, due_at=NOW), wait(for_jobs=False)),
    "what is due is locked by others": (replace(IDLE, due_at=BEFORE, stuck_until=SOON), wait(1.0)),
    "a limit can be tried again": (replace(IDLE, retry_at=NOW, due_at=BEFORE, stuck_until=SOON), ROUND),
    "an unsure edge is looked at again": (replace(IDLE, unsure_at=NOW), ROUND),
    "a slot is free for a job that needs one": (replace(IDLE, slot_needed=True), ROUND),
    "a job needs a slot, and there is room in a batch alone": (
        replace(IDLE, slots=0, batch_room=1, slot_needed=True),
        wait(),
    ),
    "a schedule is due without room for its job": (replace(NOTHING, schedule_at=NOW), ROUND),
    "a schedule is due, but the worker stops": (
        replace(NOTHING, schedule_at=NOW, stopping=True),
        wait(for_jobs=False),
    ),
    "a schedule that others lock": (
        replace(NOTHING, schedule_at=BEFORE, stuck_until=SOON),
        wait(1.0, for_jobs=False),
    ),
    # a check
    "there is room, and it was not checked": (replace(IDLE, is_checked=False), CHECK),
    "not checked, but the worker stops": (replace(IDLE, is_checked=False, stopping=True), wait(for_jobs=False)),
    "not checked, but there is no room": (NOTHING, wait(for_jobs=False)),
    # a wait
    "nothing is known to come": (IDLE, wait()),
    "a job falls due": (replace(IDLE, due_at=SOON), wait(1.0)),
    "a job falls due without room for it": (replace(NOTHING, due_at=SOON), wait(for_jobs=False)),
    "a schedule falls due without room": (replace(NOTHING, schedule_at=SOON), wait(1.0, for_jobs=False)),
    "a limit is tried again soon": (replace(IDLE, retry_at=SOON), wait(1.0)),
    "a deadline comes": (replace(IDLE, deadline_at=SOON), wait(1.0)),
    "a deadline has just passed": (replace(IDLE, deadline_at=BEFORE), wait(SHORTEST_WAIT_SECONDS)),
    "a line is to be logged": (replace(IDLE, log_at=SOON), wait(1.0)),
    "the buffer may become stale": (replace(NOTHING, buffered=1), wait(STALE_SECONDS, for_jobs=False)),
    "while it stops, only deadlines and questions count": (
        replace(IDLE, stopping=True, due_at=NOW, retry_at=NOW, deadline_at=SOON),
        wait(1.0, for_jobs=False),
    ),
}


@pytest.mark.parametrize("case", STEPS)
def test_the_next_step(case: str) -> None:
    known, step = STEPS[case]
    assert next_step(known, NOW) == step


def test_a_wait_has_the_generation_of_its_knowledge() -> None:
    step = next_step(replace(IDLE, generation=7), NOW)
    assert isinstance(step, Wait)
    assert step.generation == 7


@pytest.mark.parametrize(
    "known",
    [
        Knowledge(unsettled=1),
        Knowledge(late=1),
        Knowledge(undecided=1),
        Knowledge(in_thread=1),
        Knowledge(has_ended=True),
        Knowledge(busy=True),
        Knowledge(maybe_any=True),
        Knowledge(slot_needed=True),
        Knowledge(retry_at=SOON),
        Knowledge(due_at=NOW),
        Knowledge(unsure_at=NOW),
    ],
    ids=repr,
)
def test_a_drain_is_not_over_while_there_is_something_to_do(known: Knowledge) -> None:
    assert is_idle(replace(known), NOW) is False


def test_a_drain_is_over_whatever_comes_later() -> None:
    assert is_idle(IDLE, NOW)
    assert is_idle(replace(IDLE, due_at=SOON, schedule_at=SOON, deadline_at=SOON, unsure_at=SOON), NOW)


def test_what_was_not_checked_for_long_is_old() -> None:
    assert not is_old(NOW, NOW + LONGEST_WAIT_SECONDS / 2)
    assert is_old(NOW, NOW + LONGEST_WAIT_SECONDS)


# whatever it knows

TIMES = st.sampled_from([-NEVER, BEFORE, NOW, math.nextafter(NOW, NEVER), SOON, NEVER]) | st.floats(NOW - 9, NOW + 9)
COUNTS = st.sampled_from([0, 1, 5, 100, MOST_SETTLED])
KNOWLEDGE = st.builds(
    Knowledge,
    **{
        name: {"bool": st.booleans(), "int": COUNTS, "float": TIMES}[str(kind)]
        for name, kind in Knowledge.__annotations__.items()
    },
)


def has_something_to_settle(known: Knowledge) -> bool:
    return bool(known.unsettled or known.late)


@settings(max_examples=1000, deadline=None)
@given(KNOWLEDGE)
def test_it_acts_only_with_a_reason(known: Knowledge) -> None:
    match next_step(known, NOW):
        case Settle(in_thread=True):
            assert known.in_thread
        case Settle():
            assert known.ask_at <= NOW
        case RunRound():
            may_claim = known.maybe_any or known.next_at <= NOW or known.slot_needed
            is_schedule_due = known.schedule_at <= NOW and not known.stopping
            assert has_something_to_settle(known) or (known.has_room and may_claim) or is_schedule_due
        case Check():
            assert known.has_room
            assert not known.is_checked
        case Gather():
            assert known.unsettled
            assert not known.stopping
        case Wait() as waits:
            assert waits.for_jobs == known.has_room


@settings(max_examples=1000, deadline=None)
@given(KNOWLEDGE)
@example(replace(IDLE, due_at=math.nextafter(NOW, NEVER)))
@example(replace(IDLE, stopping=True, ask_at=math.nextafter(NOW, NEVER)))
@example(replace(IDLE, due_at=math.nextafter(NOW, NEVER), log_at=-NEVER))
def test_a_wait_ends_before_anything_is_due(known: Knowledge) -> None:
    match next_step(known, NOW):
        case Wait(seconds=seconds):
            assert 0 < seconds <= LONGEST_WAIT_SECONDS
            assert not has_something_to_settle(known)
            wakes_at = [known.ask_at, known.deadline_at, known.log_at]
            if known.has_room:
                assert not known.maybe_any
                assert known.next_at > NOW
                wakes_at.append(known.next_at)
            elif not known.stopping:
                assert known.next_schedule_at > NOW
                wakes_at.append(known.next_schedule_at)
            assert NOW + seconds <= max(min(wakes_at), NOW + SHORTEST_WAIT_SECONDS)
        case Gather():
            assert NOW - known.gathering_since < AHEAD_SECONDS


def done(known: Knowledge, step: Step) -> Knowledge:
    """Return what is known after a step that found nothing."""
    match step:
        case Settle(in_thread=True):
            return replace(known, in_thread=0, thread_done=False, maybe_any=True)
        case Settle():
            return replace(known, ask_at=NOW + ASK_AGAIN_SECONDS)
        case RunRound():
            return replace(
                known,
                unsettled=max(0, known.unsettled - MOST_SETTLED),
                late=0,
                is_large=False,
                gathering_since=NOW,
                maybe_any=False,
                is_checked=False,
                slot_needed=known.slot_needed and not known.slots,
                due_at=NEVER,
                schedule_at=NEVER,
                retry_at=NEVER,
                unsure_at=NEVER,
            )
        case Check():
            return replace(known, is_checked=True)
        case _:
            return known


@settings(max_examples=1000, deadline=None)
@given(KNOWLEDGE)
def test_it_comes_to_a_wait_and_never_takes_a_step_in_vain(known: Knowledge) -> None:
    steps: list[Step] = []
    while not isinstance(step := next_step(known, NOW), Wait | Gather):
        after = done(known, step)
        assert after != known, f"{step} changes nothing"
        known = after
        steps.append(step)
        assert len(steps) <= 6, steps
