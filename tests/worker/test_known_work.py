"""What the loop knows after a round or a check: whether there may be jobs, and when something falls due."""

from __future__ import annotations

from rowcall.store.claims.round import Claim, Demand
from rowcall.store.queries.claims import START, Work
from rowcall.worker.known_work import KnownWork
from rowcall.worker.pace import FIRST_RETRY_SECONDS, FIRST_STUCK_SECONDS, LAST_RETRY_SECONDS, NEVER, UNSURE_SECONDS
from tests.worker.timers import StoppedClock

NOW_MS = 5_000_000
DEMAND = Demand(worker="w", slots=1, types={"send": None, "receive": None})


def work(
    *,
    due_in: float | None = None,
    wake_in: float | None = None,
    edges_unsure: bool = False,
    ready: tuple[tuple[str, str], ...] = (),
) -> Work:
    due_at_ms = None if due_in is None else NOW_MS + round(due_in * 1000)
    wake_at_ms = None if wake_in is None else NOW_MS + round(wake_in * 1000)
    places = dict.fromkeys(ready, START)
    return Work(
        NOW_MS, due_at_ms, None, registered=True, ready=places, wake_at_ms=wake_at_ms, edges_unsure=edges_unsure
    )


def test_at_first_there_may_be_jobs_and_nothing_is_known_to_be_due() -> None:
    known = KnownWork(StoppedClock())
    assert known.maybe_any
    assert known.due_at == known.schedule_at == known.unsure_at == known.retry_at == NEVER


def test_times_of_the_database_become_times_of_the_clock() -> None:
    clock = StoppedClock()
    known = KnownWork(clock)
    clock.at += 7.0
    known.note_check(work(due_in=2.0, wake_in=3.0), DEMAND)
    assert known.due_at - clock.at == 2.0
    assert known.schedule_at - clock.at == 3.0
    assert known.checked_at == clock.at
    known.note_check(work(wake_in=3.0), DEMAND)
    assert known.due_at == known.schedule_at  # a schedule that is due is something that is due


def test_an_edge_that_is_unsure_is_swept_again_soon_after_the_round() -> None:
    clock = StoppedClock()
    known = KnownWork(clock)
    known.note_round(DEMAND, Claim(work(edges_unsure=True)))
    swept_at = clock.at
    clock.at += 0.5
    known.note_check(work(edges_unsure=True), DEMAND)
    assert known.unsure_at == swept_at + UNSURE_SECONDS


def test_due_jobs_that_another_process_locks_are_tried_ever_less_often() -> None:
    clock = StoppedClock()
    known = KnownWork(clock)
    pauses = []
    for _ in range(3):
        known.note_round(DEMAND, Claim(work(due_in=0.0), stuck=True))
        pauses.append(round(known.stuck_until - clock.at, 6))
    assert pauses == [FIRST_STUCK_SECONDS, 2 * FIRST_STUCK_SECONDS, 4 * FIRST_STUCK_SECONDS]
    known.note_round(DEMAND, Claim(work(due_in=0.0)))
    assert known.stuck_until == clock.at


def test_nothing_is_stuck_if_nothing_is_due() -> None:
    known = KnownWork(StoppedClock())
    known.note_round(DEMAND, Claim(work(edges_unsure=True), stuck=True))
    assert known.stuck_until == -NEVER


def test_a_limit_that_another_worker_holds_is_tried_again_in_a_moment() -> None:
    clock = StoppedClock()
    known = KnownWork(clock)
    known.note_round(DEMAND, Claim(work(), left=True))
    assert round(known.retry_at - clock.at, 6) == FIRST_RETRY_SECONDS
    for _ in range(10):
        known.note_round(DEMAND, Claim(work(), left=True))
    assert round(known.retry_at - clock.at, 6) == LAST_RETRY_SECONDS
    known.note_round(DEMAND, Claim(work()))
    assert known.retry_at == NEVER


def test_a_check_tells_whether_there_is_a_job_and_room_for_it() -> None:
    known = KnownWork(StoppedClock())
    ready = work(ready=(("mail", "send"),))
    for demand, expected in (
        (DEMAND, True),
        (Demand(worker="w", slots=0, types={"send": None}), False),
        (Demand(worker="w", slots=0, types={"send": None}, batch_room={"send": 1}), True),
        (Demand(worker="w", slots=1, types={"receive": None}), False),
        (Demand(worker="w", slots=1, types={"send": None}, queues={"mail": 0}), False),
    ):
        known.note_check(ready, demand)
        assert known.maybe_any == expected


def test_what_could_not_be_claimed_is_remembered_until_something_changes() -> None:
    known = KnownWork(StoppedClock())
    ready = work(ready=(("mail", "send"),))
    known.note_round(DEMAND, Claim(ready))
    known.note_check(ready, DEMAND)
    assert not known.maybe_any
    known.note_check(work(ready=(("mail", "receive"),)), DEMAND)
    assert known.maybe_any
    known.note_commit()
    known.note_check(ready, DEMAND)
    assert known.maybe_any


def test_a_round_without_room_says_nothing_about_jobs() -> None:
    known = KnownWork(StoppedClock())
    ready = work(ready=(("mail", "send"),))
    known.note_round(Demand(worker="w", slots=0), Claim(ready))
    known.note_check(ready, DEMAND)
    assert known.maybe_any


def test_a_notification_and_a_check_count_until_the_next_round() -> None:
    known = KnownWork(StoppedClock())
    known.note_round(DEMAND, Claim(work()))
    assert (known.maybe_any, known.is_notified, known.is_checked) == (False, False, False)
    known.note_notified()
    known.note_before_wait()
    assert (known.maybe_any, known.is_notified, known.is_checked) == (True, True, True)
    known.note_woken()
    assert not known.is_checked
    known.note_round(DEMAND, Claim(work()))
    assert (known.maybe_any, known.is_notified) == (False, False)
