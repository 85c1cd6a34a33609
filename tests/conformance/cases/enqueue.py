"""Enqueue jobs."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta

import pytest

from rowcall import Backoff, InvalidArguments, InvalidOption, Rowcall, Status, UnknownEvent
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue


class TestEnqueue:
    def test_rows_with_options_of_their_own(self, jobs: Rowcall) -> None:
        @jobs.task
        def greet(name: str) -> None: ...

        @jobs.task
        def other() -> None: ...

        bob, cem = greet.using(priority=9, key="b").bind("Bob"), greet.using(delay=60).bind("Cem")
        made = greet.using(tags=["all"]).enqueue_many([{"name": "Ann"}, bob, cem])
        assert [job.payload["name"] for job in made] == ["Ann", "Bob", "Cem"]
        assert [(job.priority, job.tags, str(job.status)) for job in made] == [
            (0, ("all",), "pending"),
            (9, (), "pending"),
            (0, (), "scheduled"),
        ]
        assert [jobs.get(job) for job in made] == made
        with pytest.raises(InvalidOption, match="rows must be calls of 'greet'"):
            greet.enqueue_many([{"name": "Dan"}, other.bind()])
        assert greet.enqueue_many([greet.using(key="b").bind("Eve")])[0].duplicate
        assert len(jobs.list().jobs) == 3

    def test_an_event_enqueues_each_task_that_runs_on_it(self, jobs: Rowcall) -> None:
        @jobs.task(on="order.paid")
        def receipt(order_id: int) -> None: ...

        @jobs.task(on=["order.refunded", "order.paid"], queue="stock", aliases=["book"])
        def stock(order_id: int, note: str = "") -> None: ...

        @jobs.task
        def other(order_id: int) -> None: ...

        published = jobs.publish("order.paid", {"order_id": 7}, priority=3, key="order-7", tags=["shop"])
        assert [(job.type, job.queue, job.priority, job.key, job.tags) for job in published] == [
            ("receipt", "default", 3, "order-7", ("shop",)),
            ("stock", "stock", 3, "order-7", ("shop",)),
        ]
        assert [jobs.get(job) for job in published] == published
        refunded = asyncio.run(jobs.apublish("order.refunded", {"order_id": 8}, delay=60))
        assert [job.type for job in refunded] == ["stock"]
        again = jobs.publish("order.paid", {"order_id": 7}, key="order-7")
        assert [(job.id, job.duplicate) for job in again] == [(job.id, True) for job in published]
        with contextlib.suppress(ZeroDivisionError), jobs.transaction() as block:
            jobs.publish("order.paid", {"order_id": 9}, connection=block)
            _ = 1 / 0
        assert len(jobs.list().jobs) == 3

    def test_an_event_that_one_task_refuses_writes_nothing(self, jobs: Rowcall) -> None:
        @jobs.task(on="order.paid")
        def receipt(order_id: int) -> None: ...

        @jobs.task(on="order.paid")
        def stock(order_id: int, note: str) -> None: ...

        with pytest.raises(InvalidArguments, match="stock: missing argument 'note'"):
            jobs.publish("order.paid", {"order_id": 7})
        with pytest.raises(UnknownEvent, match=r"unknown event 'order.payed' \(did you mean 'order.paid'\?\)"):
            jobs.publish("order.payed", {"order_id": 7})
        assert jobs.list().jobs == []

    def test_what_is_returned_is_what_is_stored(self, jobs: Rowcall) -> None:
        given = jobs.enqueue(
            "send",
            {"to": "a@example.com", "text": "grüß dich ✓", "parts": [1, 2.5, None, True, {"deep": "yes"}]},
            queue="mail",
            priority=-7,
            delay=60,
            max_attempts=3,
            retry=Backoff.constant(5),
            timeout=1.5,
            tags=["blue", "red"],
            expires_in=600,
        )
        assert jobs.get(given.id) == given

    def test_a_plain_job_is_pending_and_due_now(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = jobs.enqueue("send")
        assert (job.status, job.queue, job.priority, job.attempt, job.max_attempts, job.payload) == (
            Status.PENDING,
            "default",
            0,
            0,
            5,
            {},
        )
        assert job.run_at == job.created_at == clock.now()
        assert jobs.get(job.id) == job

    def test_times_are_kept_to_the_millisecond(self, jobs: Rowcall, clock: FakeClock) -> None:
        clock.advance(0.123)
        job = jobs.enqueue("send", delay=0.456)
        assert job.run_at - job.created_at == timedelta(milliseconds=456)
        assert job.created_at.microsecond == 123_000

    def test_ids_go_up(self, jobs: Rowcall) -> None:
        ids = [jobs.enqueue("send").id for _ in range(5)]
        assert ids == sorted(set(ids))

    def test_an_id_is_never_given_again(self, jobs: Rowcall) -> None:
        last = jobs.enqueue("send").id
        jobs.delete(last)
        assert jobs.enqueue("send").id > last

    def test_many_are_written_in_the_order_given(self, jobs: Rowcall) -> None:
        @jobs.task(queue="mail", priority=3)
        def send(number: int) -> None: ...

        written = send.using(tags=["bulk"]).enqueue_many([{"number": number} for number in range(500)])
        assert [job.payload["number"] for job in written] == list(range(500))
        assert [job.id for job in written] == sorted(job.id for job in written)
        stored = jobs.list(tag="bulk", limit=1000).jobs
        assert stored == written[::-1]

    def test_many_of_none_is_none(self, jobs: Rowcall) -> None:
        @jobs.task
        def send(number: int) -> None: ...

        assert send.enqueue_many([]) == []
        assert jobs.list().jobs == []

    async def _all_async(self, jobs: Rowcall) -> list[int]:
        written = await asyncio.gather(*(jobs.aenqueue("send", {"number": number}) for number in range(50)))
        return [job.id for job in written]

    def test_async_enqueues_share_commits_and_lose_nothing(self, jobs: Rowcall) -> None:
        ids = asyncio.run(self._all_async(jobs))
        assert len(set(ids)) == 50
        stored = {job.id: job.payload["number"] for job in jobs.list(limit=100).jobs}
        assert [stored[job_id] for job_id in ids] == list(range(50))

    def test_a_run_at_in_the_past_is_due_now(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = jobs.enqueue("send", run_at=clock.now() - timedelta(days=1))
        assert job.status is Status.PENDING
        assert job.run_at == clock.now() - timedelta(days=1)

    @pytest.mark.parametrize("delay", [timedelta(days=365_000_000), 3.2e13])
    def test_a_delay_of_a_million_years_is_refused(self, jobs: Rowcall, delay: float | timedelta) -> None:
        with pytest.raises(InvalidOption, match="delay"):
            jobs.enqueue("send", delay=delay)
        assert jobs.list().jobs == []

    def test_the_longest_waits_are_kept_and_not_claimed(self, jobs: Rowcall, clock: FakeClock) -> None:
        end_of_time = datetime(9999, 12, 31, tzinfo=UTC)
        last = jobs.enqueue("send", run_at=end_of_time, priority=1000)
        long = jobs.enqueue("send", delay=9.9e9, priority=1000)
        clock.advance(timedelta(days=365 * 100))
        assert jobs.claim("hand", limit=10) == []
        assert jobs.get(last.id).run_at == end_of_time
        assert jobs.get(long.id).status is Status.SCHEDULED

    def test_the_databases_own_clock_rules_without_another(self, open_queue: OpenQueue) -> None:
        before = datetime.now(UTC) - timedelta(seconds=2)
        job = open_queue().enqueue("send", delay=60)
        after = datetime.now(UTC) + timedelta(seconds=2)
        assert before < job.created_at < after
        assert job.run_at - job.created_at == timedelta(seconds=60)
