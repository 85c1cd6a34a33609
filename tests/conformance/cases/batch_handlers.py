"""Batch handlers: one call for many jobs, each of which ends on its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from rowcall import Cancel, Context, Fail, Job, Limit, Retry, Rowcall, Snooze
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.store.claims.demand import Demand
from rowcall.store.claims.round import claim_by_hand
from rowcall.testing.deadline import eventually
from tests.conformance.fixtures import OpenQueue
from tests.conformance.store import Store


class TestBatchHandlers:
    @pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
    def test_one_call_takes_many_jobs_in_one_slot(self, jobs: Rowcall, is_async: bool) -> None:
        calls: list[list[int]] = []

        def square(items: list[int]) -> list[int]:
            calls.append(items)
            return [item * item for item in items]

        async def asquare(items: list[int]) -> list[int]:
            await asyncio.sleep(0)
            return square(items)

        task = jobs.task(name="square", batch=10)(asquare if is_async else square)
        made = task.enqueue_many([{"item": number} for number in range(25)])
        assert jobs.drain(concurrency=1).succeeded == 25
        assert [len(items) for items in calls] == [10, 10, 5]
        assert [jobs.get(job.id).result for job in made] == [number * number for number in range(25)]
        assert {(attempt.status, attempt.attempt) for job in made for attempt in jobs.attempts(job.id)} == {
            ("succeeded", 1)
        }

    def test_each_item_ends_as_the_list_says(self, jobs: Rowcall) -> None:
        ends: dict[str, Callable[[], object]] = {
            "well": lambda: {"fine": True},
            "none": lambda: None,
            "retry": lambda: Retry(600, "later"),
            "snooze": lambda: Snooze(600),
            "fail": lambda: Fail("A:B", "for good"),
            "cancel": lambda: Cancel("not needed"),
            "error": lambda: KeyError("missing"),
            "no json": object,
        }

        @jobs.task(batch=20, max_attempts=2)
        def decide(items: list[str]) -> list[object]:
            return [ends[item]() for item in items]

        ids = {way: decide.enqueue(way).id for way in ends}
        jobs.drain()
        found = {way: jobs.get(job_id) for way, job_id in ids.items()}
        assert {way: (job.status, job.error_code) for way, job in found.items()} == {
            "well": ("succeeded", None),
            "none": ("succeeded", None),
            "retry": ("scheduled", "RETRY:REQUESTED"),
            "snooze": ("scheduled", None),
            "fail": ("failed", "A:B"),
            "cancel": ("cancelled", "CANCELLED:BY_HANDLER"),
            "error": ("scheduled", "INTERNAL:KeyError"),
            "no json": ("failed", "INVALID_OUTPUT:NOT_JSON"),
        }
        assert (found["well"].result, found["none"].result) == ({"fine": True}, None)
        assert found["snooze"].attempt == 0

    def test_what_it_raises_ends_all_of_them(self, jobs: Rowcall) -> None:
        @jobs.task(batch=3, max_attempts=1)
        def break_down(items: list[int]) -> None:
            raise TimeoutError("30 s")

        made = [break_down.enqueue(number) for number in range(3)]
        assert jobs.drain().failed == 3
        assert {jobs.get(job.id).error_code for job in made} == {"TIMEOUT:OPERATION"}

    @pytest.mark.parametrize(
        ("result", "said"), [([1], "1 results"), ([1, 2, 3], "3 results"), ("ab", "a str"), ({}, "a dict")]
    )
    def test_too_few_or_too_many_results_fail_all_of_them(self, jobs: Rowcall, result: object, said: str) -> None:
        @jobs.task(batch=2)
        def miscount(items: list[int]) -> object:
            return result

        made = [miscount.enqueue(number) for number in range(2)]
        assert jobs.drain().failed == 2
        for job in made:
            assert jobs.get(job.id).error_code == "INVALID_OUTPUT:BATCH_LENGTH"
            assert f"of a batch of 2 returned {said}" in (jobs.get(job.id).error_detail or "")

    def test_a_payload_that_does_not_fit_fails_alone(self, store: Store, open_queue: OpenQueue) -> None:
        jobs, seen = open_queue(mismatch_grace=0), list[list[int]]()

        @jobs.task(batch=3)
        def take(items: list[int]) -> None:
            seen.append(items)

        made = [take.enqueue(number) for number in range(3)]
        wrong = 'update rowcall_job set payload = \'{"item": "one"}\' where id = '
        store.execute(f"{wrong}{made[1].id}")
        summary = jobs.drain()
        assert (summary.succeeded, summary.failed) == (2, 1)
        assert jobs.get(made[1].id).error_code == "INVALID_INPUT:SCHEMA_MISMATCH"
        assert seen == [[0, 2]]

    def test_when_no_payload_fits_the_handler_is_not_called(self, store: Store, jobs: Rowcall) -> None:
        @jobs.task(batch=2)
        def take(items: list[int]) -> None:
            raise AssertionError("the handler was called")

        made = [take.enqueue(number) for number in range(2)]
        store.execute("update rowcall_job set payload = '5'")
        assert jobs.drain().failed == 2
        assert {jobs.get(job.id).error_code for job in made} == {"INVALID_INPUT:SCHEMA_MISMATCH"}

    def test_a_batch_that_is_not_full_starts_when_its_first_has_waited(self, open_queue: OpenQueue) -> None:
        jobs, calls = open_queue(), list[list[int]]()

        @jobs.task(batch=3, batch_wait=0.05)
        def take(items: list[int]) -> None:
            calls.append(items)

        made = [take.enqueue(number) for number in range(2)]
        with jobs.worker(concurrency=1):
            eventually(lambda: all(jobs.get(job.id).status == "succeeded" for job in made))
        assert calls == [[0, 1]]
        assert {attempt.worker is not None for job in made for attempt in jobs.attempts(job.id)} == {True}

    def test_those_that_come_later_fill_up_the_batch_that_waits(self, open_queue: OpenQueue) -> None:
        jobs, calls = open_queue(), list[list[int]]()

        @jobs.task(batch=3, batch_wait=600)
        def take(items: list[int]) -> None:
            calls.append(items)

        with jobs.worker(concurrency=1):
            for number in range(2):
                _wait_for(jobs, take.enqueue(number), "running")
            _wait_for(jobs, take.enqueue(2), "succeeded")
        assert calls == [[0, 1, 2]]

    def test_those_that_wait_are_released_and_have_used_no_attempt(self, open_queue: OpenQueue) -> None:
        jobs = open_queue()

        @jobs.task(batch=100, batch_wait=600)
        def take(items: list[int]) -> None: ...

        with jobs.worker(concurrency=1):
            made = [take.enqueue(number) for number in range(3)]
            eventually(lambda: all(jobs.get(job.id).status == "running" for job in made))
        assert {(jobs.get(job.id).status, jobs.get(job.id).attempt) for job in made} == {("pending", 0)}

    def test_other_tasks_continue_while_a_batch_waits_and_runs(self, open_queue: OpenQueue) -> None:
        jobs, let_go = open_queue(), threading.Event()

        @jobs.task(batch=2, batch_wait=600)
        def take(items: list[int]) -> None:
            let_go.wait()

        @jobs.task
        def plain() -> None: ...

        with jobs.worker(concurrency=2):
            waiting = take.enqueue(1)
            eventually(lambda: jobs.get(waiting.id).status == "running")
            for _ in range(2):
                other = plain.enqueue()
                _wait_for(jobs, other, "succeeded")
                take.enqueue(2)
            let_go.set()
            eventually(lambda: jobs.get(waiting.id).status == "succeeded")

    def test_a_limit_holds_for_the_jobs_of_a_batch(self, store: Store, jobs: Rowcall) -> None:
        calls: list[list[int]] = []

        @jobs.task(batch=10, limit=Limit("search", concurrency=3))
        def take(items: list[int]) -> None:
            calls.append(items)

        take.enqueue_many([{"item": number} for number in range(7)])
        assert jobs.drain(concurrency=2).succeeded == 7
        assert sorted(number for items in calls for number in items) == list(range(7))
        assert max(map(len, calls)) <= 3
        assert store.execute("select * from rowcall_slot") == []

    def test_a_limited_batch_job_without_a_free_slot_uses_no_limit(self, store: Store, jobs: Rowcall) -> None:
        @jobs.task(batch=10, limit=Limit("search", concurrency=3))
        def take(items: list[int]) -> None: ...

        take.enqueue(1)
        demand = Demand(
            worker="hand",
            slots=0,
            buffer=10,
            batches={"take": 10},
            limits=queue_of(jobs).declared.limits.declared,
            lease_ms=1000,
        )
        claim = queue_of(jobs).run(Write(lambda: claim_by_hand(queue_of(jobs).dialect, demand)))
        assert (claim.started, claim.buffered, claim.joining) == ([], [], [])
        assert store.execute("select * from rowcall_slot") == []

    def test_a_timeout_is_for_the_whole_call(self, open_queue: OpenQueue) -> None:
        jobs = open_queue()

        @jobs.task(batch=2, timeout=0.1, max_attempts=1)
        async def endless(items: list[int]) -> None:
            await asyncio.Event().wait()

        made = [endless.enqueue(number) for number in range(2)]
        assert jobs.drain().failed == 2
        assert {jobs.get(job.id).error_code for job in made} == {"TIMEOUT:HANDLER"}

    def test_the_context_lists_the_jobs_in_the_order_of_the_items(self, jobs: Rowcall) -> None:
        said: list[str] = []

        @jobs.task(batch=3)
        def take(ctx: Context, items: list[dict[str, int]]) -> list[int]:
            assert [job.payload for job in ctx.jobs] == items
            for refused in (lambda: ctx.job, lambda: ctx.complete(connection=None)):
                with pytest.raises(RuntimeError) as error:
                    refused()
                said.append(str(error.value))
            return [job.id for job in ctx.jobs]

        made = take.enqueue_many([{"number": number} for number in range(3)])
        assert jobs.drain().succeeded == 3
        assert [jobs.get(job.id).result for job in made] == [job.id for job in made]
        assert "a batch of 3 jobs: ctx.jobs lists them" in said[0]
        assert "return a list of results" in said[1]


def _wait_for(jobs: Rowcall, job: Job, *statuses: str) -> None:
    eventually(lambda: jobs.get(job.id).status in statuses)
