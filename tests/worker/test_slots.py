"""How many jobs the loop may claim."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from rowcall import Rowcall
from rowcall.store.claims.demand import Demand, RoundResult
from rowcall.store.queries.claims import Work
from rowcall.worker.attempt import Attempt
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.pace import MOST_BUFFERED, MOST_BYTES_AHEAD, STALE_SECONDS
from rowcall.worker.slots import Slots, Throughput
from tests.worker.support import claimed
from tests.worker.timers import StoppedClock

WORK = Work(0, None, None, registered=True, ready={})


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def dispatcher(clock: StoppedClock) -> Dispatcher:
    return Dispatcher(2, lambda: None, clock, None)


@pytest.fixture
def attempts(jobs: Rowcall) -> Iterator[list[Attempt]]:
    finish = threading.Event()

    @jobs.task
    def wait(number: int) -> None:
        finish.wait(30)

    wait.enqueue_many([{"number": number} for number in range(3)])
    yield claimed(jobs, 3)
    finish.set()


def run_quick_jobs(slots: Slots, clock: StoppedClock, attempt: Attempt) -> None:
    for _ in range(20):
        slots.note_round(Demand(worker="w", slots=2), RoundResult(WORK, started=[attempt.ready]))
        clock.at += 0.01
        slots.note_finished(10)


def test_at_first_there_is_room_for_the_slots_alone(dispatcher: Dispatcher, clock: StoppedClock) -> None:
    slots = Slots(dispatcher, clock, most_last_ahead=None)
    assert slots.free() == (2, 0)
    slots.stop_claiming()
    assert slots.free() == (0, 0)
    assert slots.stopping


def test_quick_jobs_open_the_buffer(dispatcher: Dispatcher, clock: StoppedClock, attempts: list[Attempt]) -> None:
    slots = Slots(dispatcher, clock, most_last_ahead=None)
    run_quick_jobs(slots, clock, attempts[0])
    free, buffer = slots.free()
    assert free == 2
    assert 25 <= buffer <= 50  # what a thousand jobs a second are in 50 ms


def test_a_job_that_needs_a_slot_keeps_others_from_the_buffer(
    dispatcher: Dispatcher, clock: StoppedClock, attempts: list[Attempt]
) -> None:
    slots = Slots(dispatcher, clock, most_last_ahead=None)
    dispatcher.accept(attempts[:2], [])
    dispatcher.start_accepted()
    slots.note_round(Demand(worker="w", slots=0, buffer=10), RoundResult(WORK, slot_needed=True))
    assert slots.free() == (0, 0)
    assert slots.slot_needed


def test_a_full_buffer_of_last_attempts_takes_no_more_jobs(
    dispatcher: Dispatcher, clock: StoppedClock, attempts: list[Attempt]
) -> None:
    """Where no file says what has begun, each of them may be charged for nothing."""
    slots = Slots(dispatcher, clock, most_last_ahead=1)
    assert Slots(dispatcher, clock, most_last_ahead=None).last_ahead is None
    run_quick_jobs(slots, clock, attempts[0])
    assert slots.last_ahead == 1
    assert slots.free()[1] > 0
    dispatcher.accept(attempts[:2], attempts[2:])  # attempts that are marked as started
    assert slots.last_ahead == 0
    assert slots.free() == (0, 0)
    assert dispatcher.pop_buffered() == attempts[2:]
    attempts[2].settled = True
    assert slots.last_ahead == 1


def test_there_are_no_more_lost_jobs_in_the_buffer_than_slots(
    dispatcher: Dispatcher, clock: StoppedClock, attempts: list[Attempt]
) -> None:
    slots = Slots(dispatcher, clock, most_last_ahead=None)
    run_quick_jobs(slots, clock, attempts[0])
    for attempt in attempts:
        attempt.ready.lost = 1
    assert slots.lost_ahead == 2
    assert slots.free()[1] > 2
    dispatcher.accept(attempts[:1], attempts[1:])
    assert slots.lost_ahead == 0
    assert slots.free()[1] == 0


def test_a_buffer_behind_slow_jobs_becomes_stale(
    dispatcher: Dispatcher, clock: StoppedClock, attempts: list[Attempt]
) -> None:
    slots = Slots(dispatcher, clock, most_last_ahead=None)
    run_quick_jobs(slots, clock, attempts[0])
    assert not slots.is_stale(any_ended=False)
    dispatcher.accept(attempts[:2], attempts[2:])
    dispatcher.start_accepted()
    clock.at += STALE_SECONDS / 2
    assert not slots.is_stale(any_ended=False)
    clock.at += STALE_SECONDS
    assert slots.is_stale(any_ended=False)
    assert slots.free() == (0, 0)  # or the next round would claim again what is released
    assert not slots.is_stale(any_ended=True)


def test_nothing_is_held_before_anything_is_known() -> None:
    assert Throughput().buffer_size == 0


def test_quick_jobs_fill_the_buffer_and_never_more() -> None:
    throughput = Throughput()
    for _ in range(50):
        throughput.observe(finished=10_000, busy_seconds=0.01)
    assert throughput.buffer_size == MOST_BUFFERED


def test_slow_jobs_are_not_held_ready() -> None:
    throughput = Throughput()
    for _ in range(50):
        throughput.observe(finished=1, busy_seconds=0.1)
    assert throughput.buffer_size == 0


def test_one_long_wait_empties_the_buffer() -> None:
    throughput = Throughput()
    for _ in range(50):
        throughput.observe(finished=1000, busy_seconds=0.01)
    throughput.observe(finished=1, busy_seconds=1.0)
    assert throughput.buffer_size == 0


def test_large_payloads_are_not_piled_up() -> None:
    throughput = Throughput()
    for _ in range(50):
        throughput.observe(finished=1000, busy_seconds=0.01)
        throughput.observe_payloads([MOST_BYTES_AHEAD // 4] * 10)
    assert throughput.buffer_size <= 4


def test_no_time_says_nothing() -> None:
    throughput = Throughput()
    throughput.observe(finished=10, busy_seconds=0.0)
    throughput.observe_payloads([])
    assert throughput.buffer_size == 0
