"""Slots: those of handlers in threads that ran out of time stay taken while their threads live."""

from __future__ import annotations

import threading

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.testing import eventually
from rowcall.worker.lanes.dispatcher import Dispatcher
from tests.worker.support import Site, claimed, ended, outcomes


def test_a_freed_slot_is_used_though_its_queue_has_a_limit(jobs: Rowcall) -> None:
    let_go = threading.Event()

    @jobs.task(timeout=0.05, max_attempts=1, queue="mail")
    def slow() -> None:
        let_go.wait()

    @jobs.task(queue="mail")
    def other() -> None: ...

    job = slow.enqueue()
    with jobs.worker(concurrency=2, queues="mail=1", lease=600):
        assert ended(jobs, job).error_code == "TIMEOUT:HANDLER"
        waiting = other.enqueue()
        assert jobs.get(waiting.id).status == "pending"
        let_go.set()
        eventually(lambda: jobs.get(waiting.id).status == "succeeded", within=2.5)


def test_the_end_of_the_last_attempt_wakes_the_loop_however_much_it_gathers(jobs: Rowcall) -> None:
    @jobs.task
    async def nothing() -> None: ...

    nothing.enqueue()
    woken = threading.Event()
    dispatcher = Dispatcher(1, woken.set, queue_of(jobs).clock, None)
    dispatcher.quiet_above = -1
    dispatcher.accept(claimed(jobs, 1), [])
    dispatcher.start_accepted()
    assert woken.wait(30)
    dispatcher.close()


def test_a_portion_of_the_buffer_starts_and_the_rest_waits(jobs: Rowcall) -> None:
    @jobs.task
    async def nothing() -> None: ...

    nothing.enqueue_many([{}] * 6)
    woken = threading.Event()
    dispatcher = Dispatcher(2, woken.set, queue_of(jobs).clock, None)
    attempts = claimed(jobs, 6)
    dispatcher.accept(attempts[:2], attempts[2:])
    assert dispatcher.waits_to_start
    assert not any(one.started_at for one in attempts)
    dispatcher.start_accepted(portion=3)
    eventually(lambda: not dispatcher.used_slots)
    assert (dispatcher.busy, dispatcher.free_slots) == (True, 1)  # one waits in the buffer
    assert [bool(one.started_at) for one in attempts] == [True] * 5 + [False]
    assert dispatcher.waits_to_start
    assert woken.wait(30)
    dispatcher.start_accepted()
    eventually(lambda: not dispatcher.busy and not dispatcher.waits_to_start)
    assert len(dispatcher.pop_ended()) == 6
    dispatcher.close()


def test_once_it_stops_nothing_starts(jobs: Rowcall) -> None:
    @jobs.task
    async def last() -> None:
        dispatcher.stopping = True

    last.enqueue_many([{}] * 4)
    dispatcher = Dispatcher(1, lambda: None, queue_of(jobs).clock, None)
    attempts = claimed(jobs, 4)
    dispatcher.accept(attempts[:1], attempts[1:3])
    dispatcher.start_accepted()
    eventually(lambda: not dispatcher.used_slots)
    dispatcher.accept(attempts[3:], [])  # of a round that was under way
    dispatcher.start_accepted()
    assert [bool(one.started_at) for one in attempts] == [True, False, False, False]
    assert dispatcher.pop_unstarted() == attempts[1:]
    dispatcher.close()


def test_what_has_a_slot_and_was_not_started_is_released_as_the_buffer_is(jobs: Rowcall) -> None:
    @jobs.task
    async def nothing() -> None: ...

    nothing.enqueue_many([{}] * 3)
    dispatcher = Dispatcher(2, lambda: None, queue_of(jobs).clock, None, limited_queues=True)
    attempts = claimed(jobs, 3)
    dispatcher.accept(attempts[:2], attempts[2:])
    assert dispatcher.in_flight("default") == 3
    assert set(dispatcher.pop_unstarted()) == set(attempts)
    assert (dispatcher.busy, dispatcher.free_slots, dispatcher.in_flight("default")) == (False, 2, 0)
    dispatcher.start_accepted()
    assert not any(one.started_at for one in attempts)
    dispatcher.close()


def test_a_worker_of_which_every_slot_is_lost_gives_up(jobs: Rowcall, caplog: pytest.LogCaptureFixture) -> None:
    """Next to an app the worker cannot replace the process: it logs that and ends."""
    let_go = threading.Event()

    @jobs.task(timeout=0.05, max_attempts=1)
    def stuck() -> None:
        let_go.wait()

    stuck.enqueue_many([{}] * 2)
    waiting = jobs.enqueue("stuck", delay=600)
    worker = jobs.worker(concurrency=2)
    with worker:
        eventually(worker.ended.is_set)
        assert worker.exhausted
    let_go.set()
    assert jobs.stats().by_status["failed"] == 2
    assert jobs.get(waiting.id).status == "scheduled"
    assert any(record.levelname == "CRITICAL" for record in caplog.records)
    assert jobs.workers() == []


@pytest.mark.concurrency
def test_what_is_buffered_does_not_wait_behind_a_slow_job(site: Site, jobs: Rowcall) -> None:
    """A worker with a free slot runs it: a job buffered for 50 ms must not wait for minutes."""
    for number in range(400):
        jobs.enqueue("anote", {"text": str(number)}, priority=2)
    slow = jobs.enqueue("stubborn", {"name": "slow"}, priority=1)
    behind = [jobs.enqueue("anote", {"text": "behind"}) for _ in range(300)]
    with site.worker(concurrency=1):
        site.wait_for_line("start slow")
        with site.worker(concurrency=1):
            site.wait_for_line("note behind", times=300, within=10)
            assert jobs.get(slow.id).status == "running"
            site.open("slow")
            assert ended(jobs, slow).attempt == 1
            assert {(ended(jobs, job).attempt, len(outcomes(jobs, job))) for job in behind} == {(1, 1)}


@pytest.mark.crash
def test_a_worker_process_of_which_every_slot_is_lost_replaces_itself(site: Site, jobs: Rowcall) -> None:
    stuck = [jobs.enqueue("hang_for_ever", {"name": "x"}, timeout=0.1, max_attempts=1) for _ in range(2)]
    with site.worker(concurrency=2) as process:
        first = {worker.name for worker in jobs.workers()}
        for job in stuck:
            assert ended(jobs, job).error_code == "TIMEOUT:HANDLER"
        after = jobs.enqueue("note", {"text": "after"})
        assert ended(jobs, after).status == "succeeded"
        worker = jobs.get(after.id).worker
        assert worker is not None
        assert worker not in first
        assert f":{process.pid}:" in worker
        assert site.lines.count(f"start x {process.pid}") == 2
        eventually(lambda: len(jobs.workers()) == 1)


def test_a_drain_settles_what_ends_just_before_it_asks_whether_all_is_done(
    jobs: Rowcall, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = threading.Event()
    look_for_overdue = Dispatcher.give_up_overdue

    def and_meanwhile_it_ends(dispatcher: Dispatcher) -> None:
        look_for_overdue(dispatcher)
        if dispatcher.busy:
            let_go.set()
            eventually(lambda: not dispatcher.busy)

    monkeypatch.setattr(Dispatcher, "give_up_overdue", and_meanwhile_it_ends)

    @jobs.task
    def held() -> None:
        let_go.wait()

    job = held.enqueue()
    assert jobs.drain().succeeded == 1
    assert jobs.get(job.id).status == "succeeded"


def test_a_stop_settles_what_ends_just_while_it_asks(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    started, let_go, stopping = threading.Event(), threading.Event(), threading.Event()

    def nothing_has_and_then_it_ends(dispatcher: Dispatcher) -> bool:
        has_ended = bool(dispatcher._ended)
        if stopping.is_set() and dispatcher.busy:
            let_go.set()
            eventually(lambda: not dispatcher.busy)
        return has_ended

    monkeypatch.setattr(Dispatcher, "has_ended", property(nothing_has_and_then_it_ends))

    @jobs.task
    def held() -> None:
        started.set()
        let_go.wait()

    job = held.enqueue()
    with jobs.worker():
        assert started.wait(20)
        stopping.set()
    assert jobs.get(job.id).status == "succeeded"
