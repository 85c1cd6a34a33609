"""How long the loop may wait, by what its last round or check has found."""

from __future__ import annotations

from rowcall.store.claims.round import Claim
from rowcall.store.queries.claims import Work
from rowcall.worker.loop.known_work import (
    FIRST_RETRY_SECONDS,
    FIRST_STUCK_SECONDS,
    LAST_RETRY_SECONDS,
    LONGEST_WAIT_SECONDS,
    UNSURE_SECONDS,
    KnownWork,
)
from tests.worker.timers import StoppedClock

NOW_MS = 5_000_000


def work(*, due_in: float | None = None, wake_in: float | None = None, edges_unsure: bool = False) -> Work:
    due_at_ms = None if due_in is None else NOW_MS + round(due_in * 1000)
    wake_at_ms = None if wake_in is None else NOW_MS + round(wake_in * 1000)
    return Work(NOW_MS, due_at_ms, None, registered=True, ready={}, wake_at_ms=wake_at_ms, edges_unsure=edges_unsure)


def test_without_any_check_it_waits_for_the_longest_time() -> None:
    known = KnownWork(StoppedClock())
    assert known.maybe_any
    assert known.seconds_to_due() == known.seconds_to_schedule() == LONGEST_WAIT_SECONDS


def test_time_passes_towards_the_next_due_job() -> None:
    clock = StoppedClock()
    known = KnownWork(clock)
    known.note_check(work(due_in=2.0))
    assert known.seconds_to_due() == 2.0
    clock.at += 1.5
    assert known.seconds_to_due() == 0.5
    clock.at += 1.5
    assert known.seconds_to_due() == 0.0
    assert not known.is_old
    clock.at += LONGEST_WAIT_SECONDS
    assert known.is_old


def test_a_schedule_counts_even_without_room_for_jobs() -> None:
    known = KnownWork(StoppedClock())
    known.note_check(work(due_in=1.0, wake_in=3.0))
    assert (known.seconds_to_due(), known.seconds_to_schedule()) == (1.0, 3.0)
    known.note_check(work(wake_in=3600.0))
    assert known.seconds_to_schedule() == LONGEST_WAIT_SECONDS


def test_an_edge_that_is_unsure_is_swept_again_soon() -> None:
    known = KnownWork(StoppedClock())
    known.note_round(Claim(work(edges_unsure=True)))
    assert known.seconds_to_due() == UNSURE_SECONDS


def test_due_jobs_that_another_process_locks_are_tried_ever_less_often() -> None:
    known = KnownWork(StoppedClock())
    pauses = []
    for _ in range(3):
        known.note_round(Claim(work(due_in=0.0), stuck=True))
        pauses.append(known.seconds_to_due())
    assert pauses == [FIRST_STUCK_SECONDS, 2 * FIRST_STUCK_SECONDS, 4 * FIRST_STUCK_SECONDS]
    known.note_round(Claim(work(due_in=0.0)))
    assert known.seconds_to_due() == 0.0


def test_a_limit_that_another_worker_holds_is_tried_again_in_a_moment() -> None:
    clock = StoppedClock()
    known = KnownWork(clock)
    known.note_round(Claim(work(), left=True))
    assert known.waits_for_limit
    assert round(known.seconds_to_due(), 6) == FIRST_RETRY_SECONDS
    for _ in range(10):
        known.note_round(Claim(work(), left=True))
    assert round(known.seconds_to_due(), 6) == LAST_RETRY_SECONDS
    known.note_round(Claim(work()))
    assert not known.waits_for_limit


def test_what_could_not_be_claimed_is_remembered() -> None:
    known = KnownWork(StoppedClock())
    known.note_fruitless([("mail", "send")])
    assert known.is_fruitless("mail", "send")
    assert not known.is_fruitless("mail", "receive")
    known.note_fruitless(())
    assert not known.is_fruitless("mail", "send")
