"""Jobs that run before `enqueue` returns."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import InvalidOption, Rowcall
from rowcall.app import queue_of
from rowcall.testing import TravelClock, clean_queue, inline
from rowcall.testing.inline import Inline
from tests.testing import queues
from tests.testing.queues import jobs, send_email, sent


@pytest.fixture
def clock() -> Iterator[TravelClock]:
    with clean_queue(jobs) as clock, inline(jobs):
        sent.clear()
        yield clock
    assert "run" not in vars(jobs._queue)


def test_enqueue_returns_the_job_as_it_ended(clock: TravelClock) -> None:
    job = send_email.enqueue("a")
    assert (job.status, job.result) == ("succeeded", "hi to a")

    async def more() -> str:
        return (await send_email.aenqueue("b")).status

    assert asyncio.run(more()) == "succeeded"
    many = send_email.enqueue_many([{"to": "c"}, {"to": "d"}])
    assert [job.result for job in many] == ["hi to c", "hi to d"]
    assert sent == ["a", "b", "c", "d"]


def test_what_a_handler_raises_enqueue_raises(clock: TravelClock) -> None:
    with pytest.raises(ConnectionError, match="attempt 1"):
        queues.flaky.enqueue(1)


def test_a_delay_waits_for_the_clock(clock: TravelClock) -> None:
    job = send_email.using(delay=60).enqueue("a")
    assert (job.status, sent) == ("scheduled", [])
    clock.advance("1 minute")
    assert sent == ["a"]


def test_a_transaction_runs_its_jobs_at_its_end(clock: TravelClock) -> None:
    with jobs.transaction():
        send_email.enqueue("a")
        assert sent == []
    assert sent == ["a"]
    block = jobs.transaction()
    block.__enter__()
    send_email.enqueue("b")
    block.__exit__(ZeroDivisionError, None, None)
    assert sent == ["a"]

    async def committed() -> None:
        async with jobs.transaction():
            await send_email.aenqueue("c")

    asyncio.run(committed())
    assert sent == ["a", "c"]


def test_a_handler_may_enqueue_and_unknown_tasks_wait(tmp_path: Path) -> None:
    other = Rowcall(tmp_path / "app.db")

    @other.task
    def countdown(number: int) -> None:
        if number:
            countdown.enqueue(number - 1)

    with clean_queue(other), inline(other):
        countdown.enqueue(3)
        assert other.stats().by_status["succeeded"] == 4
        assert other.enqueue("elsewhere").status == "pending"


def test_it_is_refused_outside_of_a_clean_queue() -> None:
    with pytest.raises(InvalidOption, match="inside clean_queue"), inline(jobs):
        pass


def test_blocks_nest() -> None:
    with Rowcall("sqlite:///:memory:") as jobs:

        @jobs.task
        def double(number: int) -> int:
            return number * 2

        outer, inner = (Inline(queue_of(jobs), jobs.drain, jobs.adrain) for _ in range(2))
        with outer.on():
            with inner.on():
                assert double.enqueue(1).result == 2
            assert double.enqueue(2).result == 4
        assert double.enqueue(3).status == "pending"
