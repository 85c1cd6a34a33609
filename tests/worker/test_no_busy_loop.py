"""What cannot be claimed costs no busy loop."""

from __future__ import annotations

import threading

import pytest

from rowcall import Rowcall
from rowcall.testing import eventually
from tests.worker.support import all_ended, ended, some_heartbeats
from tests.worker.test_loop import Transactions


def test_an_unknown_task_costs_no_busy_loop(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    @jobs.task
    def known() -> None: ...

    for _ in range(20):
        jobs.enqueue("stranger")
    done = known.enqueue()
    transactions = Transactions(monkeypatch)
    with jobs.worker(lease=0.5):
        ended(jobs, done)
        rounds = len(transactions.rounds)
        assert rounds > 0
        some_heartbeats(jobs, 10)
        assert len(transactions.rounds) - rounds <= 1


@pytest.mark.parametrize("paused", [{"queue": "mail"}, {"task": "known"}], ids=str)
def test_what_is_paused_costs_no_busy_loop(
    jobs: Rowcall, monkeypatch: pytest.MonkeyPatch, paused: dict[str, str]
) -> None:
    """Neither on its own, nor when others commit next to it."""

    @jobs.task(queue="mail")
    def known() -> None: ...

    jobs.pause(**paused)
    known.enqueue_many([{}] * 20)
    transactions = Transactions(monkeypatch)
    with jobs.worker(lease=0.5):
        some_heartbeats(jobs, 3)
        rounds = len(transactions.rounds)
        some_heartbeats(jobs, 10)  # each is a commit that the loop looks at
        assert len(transactions.rounds) - rounds <= 1
        assert jobs.stats().by_status["pending"] == 20
        jobs.resume(**paused)
        eventually(lambda: jobs.stats().by_status["succeeded"] == 20)


@pytest.mark.parametrize("max_attempts", [1, 5])
def test_jobs_that_were_buffered_behind_a_slow_one_are_released_once(
    jobs: Rowcall, monkeypatch: pytest.MonkeyPatch, max_attempts: int
) -> None:
    go = threading.Event()

    @jobs.task
    async def quick() -> None: ...

    @jobs.task(max_attempts=max_attempts)
    def slow() -> None:
        go.wait()

    quick.using(priority=10).enqueue_many([{}] * 2000)
    slow.enqueue_many([{}] * 3)
    transactions = Transactions(monkeypatch)
    with jobs.worker(concurrency=1, lease=0.5):
        eventually(lambda: jobs.stats().by_status["succeeded"] == 2000)
        eventually(lambda: jobs.stats().by_status["pending"] == 2)
        rounds = len(transactions.rounds)
        assert rounds > 0
        some_heartbeats(jobs, 10)
        assert len(transactions.rounds) - rounds <= 1
        assert jobs.stats().by_status["pending"] == 2
        go.set()
        all_ended(jobs)


def test_a_job_that_needs_a_slot_behind_an_open_batch_costs_no_busy_loop(
    jobs: Rowcall, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    @jobs.task
    async def quick() -> None: ...

    @jobs.task(batch=2, batch_wait=600)
    def pair(items: list[str]) -> None:
        ran.extend(items)

    @jobs.task(max_attempts=1)
    def last() -> None:
        ran.append("last")

    quick.using(priority=10).enqueue_many([{}] * 1000)
    pair.using(priority=5).enqueue("one")
    last.enqueue()
    transactions = Transactions(monkeypatch)
    with jobs.worker(concurrency=1, lease=0.5):
        eventually(lambda: jobs.stats().by_status["succeeded"] == 1000)
        some_heartbeats(jobs, 3)
        rounds = len(transactions.rounds)
        some_heartbeats(jobs, 10)
        assert len(transactions.rounds) - rounds <= 1
        assert ran == []
        pair.enqueue("two")
        all_ended(jobs)
    assert ran == ["one", "two", "last"]
