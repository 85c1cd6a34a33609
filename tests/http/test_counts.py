from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from rowcall import Rowcall, StoreUnavailable
from rowcall.app import queue_of
from rowcall.domain.job import Counts
from rowcall.http import shared_counts
from rowcall.http.shared_counts import OLDEST_SECONDS, SharedAnswer, SharedCounts, StillCounting
from rowcall.operations.effects import Blocking, EnsureSchema
from rowcall.queue import Operation, Queue
from rowcall.testing import FakeClock
from tests.http.client import client_of

T = TypeVar("T")


class Question:
    """Its answer is how often it was asked. It takes `took` seconds, and can be held up."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.asked, self.took = 0, 0.01
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._was_asked = threading.Event()

    def ask(self) -> Operation[int]:
        self.asked += 1
        number = self.asked
        self._was_asked.set()
        yield from Blocking(lambda: self.may_answer.wait(20))
        self.clock.advance(self.took)
        return number

    def hold_up(self) -> None:
        self.may_answer.clear()
        self._was_asked.clear()

    async def begun(self) -> None:
        """Wait until it is asked again."""
        assert await asyncio.to_thread(self._was_asked.wait, 20)


class PatientClock(FakeClock):
    """A wait for an answer ends with it, or at once while the question is held up: no test depends on real time."""

    question: Question

    async def within(self, awaitable: Awaitable[T], seconds: float | None) -> T:
        if self.question.may_answer.is_set():
            return await awaitable
        raise TimeoutError


@pytest.fixture
def clock() -> PatientClock:
    return PatientClock()


@pytest.fixture
def question(clock: PatientClock) -> Question:
    clock.question = Question(clock)
    return clock.question


@pytest.fixture
def shared(clock: PatientClock, question: Question, tmp_path: Path) -> Iterator[SharedAnswer[int]]:
    with Rowcall(tmp_path / "app.db", clock=clock) as jobs:
        yield SharedAnswer(queue_of(jobs), question.ask)


def test_only_slow_answers_are_reused(shared: SharedAnswer[int], question: Question, clock: FakeClock) -> None:
    async def use() -> None:
        assert [await shared.read(0), await shared.read(0)] == [1, 2]
        question.took = 0.06
        assert [await shared.read(0), await shared.read(0)] == [3, 3]
        clock.advance(1.1)
        assert await shared.read(0) == 3
        clock.advance(0.2)
        assert await shared.read(0) == 4

    asyncio.run(use())


def test_readers_get_the_last_answer_while_a_slow_question_is_asked_again(
    shared: SharedAnswer[int], question: Question, clock: FakeClock
) -> None:
    async def use() -> None:
        question.took = 0.3
        assert await shared.read(0) == 1
        clock.advance(30)
        question.hold_up()
        assert [await shared.read(0), await shared.read(0)] == [1, 1]
        await question.begun()
        assert question.asked == 2  # once, for both
        clock.advance(OLDEST_SECONDS)
        with pytest.raises(StillCounting):
            await shared.read(0)
        question.may_answer.set()
        assert await shared.read(20) == 2

    asyncio.run(use())


def test_the_longer_it_takes_to_count_the_longer_counts_are_used(
    shared: SharedAnswer[int], question: Question, clock: FakeClock
) -> None:
    async def use() -> None:
        question.took = 30
        assert await shared.read(0) == 1
        clock.advance(149)
        assert [await shared.read(0), question.asked] == [1, 1]
        question.hold_up()
        clock.advance(150)
        assert await shared.read(0) == 1
        await question.begun()
        assert await shared.read(0) == 1
        clock.advance(60)
        with pytest.raises(StillCounting):
            await shared.read(0)
        question.may_answer.set()

    asyncio.run(use())


def test_the_first_reader_waits_or_gets_an_error(shared: SharedAnswer[int], question: Question) -> None:
    async def use() -> None:
        question.took = 0.3
        question.hold_up()
        with pytest.raises(StillCounting):
            await shared.read(0)
        question.may_answer.set()
        assert await shared.read(20) == 1

    asyncio.run(use())


def test_after_a_change_no_answer_from_before_is_new(
    shared: SharedAnswer[int], question: Question, clock: FakeClock
) -> None:
    async def use() -> None:
        question.took = 0.3
        assert await shared.read(0) == 1
        clock.advance(30)
        question.hold_up()
        assert await shared.read(0) == 1
        await question.begun()  # the second is asked
        shared.forget()
        assert await shared.read(0) == 1
        question.may_answer.set()
        assert await shared.ask() == 3
        assert [await shared.read(0), question.asked] == [3, 3]

    asyncio.run(use())


def test_one_is_asked_at_a_time_and_quick_ones_after_their_reader(
    shared: SharedAnswer[int], question: Question
) -> None:
    async def use() -> None:
        question.hold_up()
        first = shared.ask()
        await question.begun()
        with pytest.raises(StillCounting):
            await shared.read(0)
        second, third = shared.ask(), shared.ask()
        assert [question.asked, second is third] == [1, True]
        question.may_answer.set()
        assert [await first, await second] == [1, 2]

    asyncio.run(use())


def test_readers_of_another_event_loop_ask_again(shared: SharedAnswer[int], question: Question) -> None:
    question.hold_up()

    async def give_up() -> None:
        with pytest.raises(StillCounting):
            await shared.read(0)
        await question.begun()
        question.may_answer.set()  # the event loop ends when its threads have ended

    asyncio.run(give_up())
    assert asyncio.run(shared.read(20)) == 2


def test_what_takes_long_to_count_is_counted_in_parts(filled: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(queue: Queue) -> Operation[Counts]:
        yield from EnsureSchema()
        raise StoreUnavailable("the read took too long, and was stopped")

    expected = filled.stats().by_status, filled.retries().by_attempts
    monkeypatch.setattr(shared_counts, "count_jobs", stopped)
    monkeypatch.setattr(shared_counts, "retries", stopped)
    with client_of(filled) as client:
        found = client.get("/api/stats").json()["by_status"], client.get("/api/retries").json()["by_attempts"]
        assert found == (expected[0], {str(attempts): jobs for attempts, jobs in expected[1].items()})


def test_an_outage_is_an_error(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "missing" / "app.db") as jobs:
        found = SharedCounts(queue_of(jobs))

        async def use() -> None:
            found.start()
            with pytest.raises(StoreUnavailable):
                await found.attempts.read(20)

        asyncio.run(use())


def test_slow_answers_are_kept_up_to_date_until_the_queue_is_closed(
    jobs: Rowcall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_counts, "SLOW_SECONDS", 0.0)
    found, again, moments = SharedCounts(queue_of(jobs)), asyncio.Event(), list[int]()
    ask = found.jobs._ask

    def noted() -> Operation[Counts]:
        counted = yield from ask()
        moments.append(counted.at_ms)
        if len(moments) == 3:
            again.set()
        return counted

    monkeypatch.setattr(found.jobs, "_ask", noted)

    async def use() -> None:
        await found.jobs.read(20)
        await asyncio.wait_for(again.wait(), 20)
        jobs.close()
        keeping = found.jobs._keeping
        assert keeping is not None
        await asyncio.wait_for(keeping, 20)

    asyncio.run(use())
