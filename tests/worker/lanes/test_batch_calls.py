"""Batches inside a worker: stopping some of their jobs, and who takes the slots."""

from __future__ import annotations

import threading

import pytest

from rowcall import InvalidOption, Rowcall
from rowcall.app import queue_of
from rowcall.base.clock import SystemClock
from rowcall.domain.outcome import CancelRequested, Released
from rowcall.operations.effects import Write
from rowcall.store.claims.demand import Demand
from rowcall.store.claims.round import claim_by_hand
from rowcall.testing import eventually
from rowcall.worker.attempt import Attempt
from rowcall.worker.lanes.batch_calls import BatchCall
from rowcall.worker.lanes.dispatcher import Dispatcher
from tests.worker.support import Site, claimed


@pytest.fixture
def dispatcher(jobs: Rowcall) -> Dispatcher:
    return Dispatcher(1, lambda: None, queue_of(jobs).clock, None, tasks=queue_of(jobs).declared.tasks)


def ended_of(dispatcher: Dispatcher, count: int) -> list[Attempt]:
    ended: list[Attempt] = []

    def all_ended() -> bool:
        dispatcher.give_up_overdue()
        ended.extend(dispatcher.pop_ended())
        return len(ended) == count

    eventually(all_ended)
    return sorted(ended, key=lambda attempt: attempt.ready.id)


def test_a_batch_takes_one_slot_from_its_first_job_on(jobs: Rowcall, dispatcher: Dispatcher) -> None:
    @jobs.task(batch=3, batch_wait=600)
    def take(items: list[int]) -> None: ...

    take.enqueue_many([{"item": number} for number in range(3)])
    first, second, third = claimed(jobs, 3)
    dispatcher.accept([first], [], [second])
    dispatcher.start_accepted()
    assert (dispatcher.free_slots, dispatcher.batch_room(), dispatcher.busy) == (0, {"take": 1}, True)
    assert {attempt.ready.id for attempt in dispatcher.running()} == {first.ready.id, second.ready.id}
    assert 0 < dispatcher.deadline_at - SystemClock().timer() <= 600
    dispatcher.accept([], [], [third])
    dispatcher.start_accepted()
    assert [attempt.transition is not None for attempt in ended_of(dispatcher, 3)] == [True] * 3
    assert (dispatcher.free_slots, dispatcher.batch_room()) == (1, {})


def test_one_that_is_cancelled_while_the_batch_gathers_leaves_it_at_once(jobs: Rowcall, dispatcher: Dispatcher) -> None:
    seen: list[list[int]] = []

    @jobs.task(batch=2, batch_wait=600)
    def take(items: list[int]) -> None:
        seen.append(items)

    take.enqueue_many([{"item": number} for number in range(3)])
    first, second, third = claimed(jobs, 3)
    dispatcher.accept([first], [])
    dispatcher.start_accepted()
    dispatcher.cancel(first, CancelRequested("not needed"))
    assert dispatcher.pop_ended() == [first]
    assert first.transition is not None
    assert first.transition.move == "cancel"
    assert (dispatcher.free_slots, dispatcher.batch_room(), dispatcher.busy) == (1, {}, False)
    dispatcher.accept([second], [], [third])
    dispatcher.start_accepted()
    assert [attempt.transition.move for attempt in ended_of(dispatcher, 2) if attempt.transition is not None] == [
        "succeed"
    ] * 2
    assert seen == [[1, 2]]


def test_a_slot_that_a_cancelled_batch_leaves_is_taken_by_what_is_buffered(
    jobs: Rowcall, dispatcher: Dispatcher
) -> None:
    @jobs.task(batch=2, batch_wait=600)
    def take(items: list[int]) -> None: ...

    @jobs.task
    def plain() -> None: ...

    take.enqueue(1)
    plain.enqueue()
    of_batch, buffered = claimed(jobs, 2)
    dispatcher.accept([of_batch], [buffered])
    dispatcher.start_accepted()
    assert dispatcher.buffered == 1
    dispatcher.cancel(of_batch, CancelRequested("not needed"))
    assert ended_of(dispatcher, 2) == [of_batch, buffered]


def test_a_running_batch_is_asked_to_stop_when_all_of_its_jobs_are_cancelled(
    jobs: Rowcall, dispatcher: Dispatcher
) -> None:
    let_go, began = threading.Event(), threading.Event()

    @jobs.task(batch=2)
    def take(items: list[int]) -> None:
        began.set()
        let_go.wait()

    take.enqueue_many([{"item": number} for number in range(2)])
    first, second = claimed(jobs, 2)
    dispatcher.accept([first], [], [second])
    dispatcher.start_accepted()
    began.wait()
    batch = first.batch
    assert isinstance(batch, BatchCall)
    dispatcher.cancel(first, Released())
    assert not batch.cancelled
    dispatcher.cancel(second, Released())
    assert batch.cancelled
    let_go.set()
    ended_of(dispatcher, 2)


def test_an_open_batch_is_released_as_a_whole(jobs: Rowcall, dispatcher: Dispatcher) -> None:
    @jobs.task(batch=3, batch_wait=600)
    def take(items: list[int]) -> None: ...

    take.enqueue_many([{"item": number} for number in range(2)])
    first, second = claimed(jobs, 2)
    dispatcher.accept([first], [], [second])
    dispatcher.start_accepted()
    assert dispatcher.pop_buffered() == []
    assert dispatcher.pop_unstarted() == [first, second]
    assert (dispatcher.free_slots, dispatcher.busy, dispatcher.held()) == (1, False, [])


def test_a_claim_fills_the_batches_of_all_free_slots_and_buffers_none(jobs: Rowcall) -> None:
    @jobs.task(batch=10)
    def take(items: list[int]) -> None: ...

    take.enqueue_many([{"item": number} for number in range(25)])
    demand = Demand(worker="w", slots=2, buffer=50, batches={"take": 10})
    claim = queue_of(jobs).run(Write(lambda: claim_by_hand(queue_of(jobs).dialect, demand)))
    assert (len(claim.started), len(claim.joining), claim.buffered) == (2, 18, [])
    assert jobs.stats().by_status["running"] == 20
    assert {jobs.get(ready.id).started_at for ready in claim.joining} == {None}  # lost now, they have used no attempt
    again = Demand(worker="w", slots=0, batches={"take": 10}, batch_room={"take": 3})
    claim = queue_of(jobs).run(Write(lambda: claim_by_hand(queue_of(jobs).dialect, again)))
    assert (len(claim.started), len(claim.joining), claim.buffered) == (0, 3, [])


def test_a_large_result_of_one_item_goes_elsewhere_and_comes_back(jobs: Rowcall) -> None:
    @jobs.task(batch=3)
    def echo(items: list[str]) -> list[str]:
        return items

    texts = ["x" * 300_000, "y", "z" * 300_000]
    made = [echo.enqueue(text) for text in texts]
    jobs.drain()
    assert [jobs.get(job.id).result for job in made] == texts


def test_a_limit_of_a_queue_counts_a_batch_once(site: Site, jobs: Rowcall) -> None:
    calls: list[int] = []

    @jobs.task(batch=10)
    def take(items: list[int]) -> None:
        calls.append(len(items))

    take.enqueue_many([{"item": number} for number in range(20)])
    assert jobs.drain(concurrency=4, queues="default=1").succeeded == 20
    assert calls == [10, 10]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch": 0}, "batch must be a whole number from 1 to 1000, got 0"),
        ({"batch": True}, "batch must be a whole number"),
        ({"batch": 5, "batch_wait": -1}, "batch_wait must be a duration"),
        ({"batch": 5, "batch_wait": 86_401}, "batch_wait must be at most one day"),
        ({"batch_wait": 1}, "batch_wait needs batch="),
        ({"batch": 5, "isolation": "process"}, "batch cannot be combined with isolation='process'"),
    ],
)
def test_options_that_make_no_sense_are_refused(jobs: Rowcall, options: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        jobs.task(**options)  # type: ignore[call-overload]
    assert str(refused.value).startswith(said)
