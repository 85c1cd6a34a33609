"""The order in which jobs start: within a queue by priority, then by id, whatever may or may not be buffered."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable

import pytest

from rowcall import Job, Limit, Rowcall
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.store.claims.demand import Demand
from rowcall.store.claims.round import claim_by_hand
from rowcall.testing.deadline import eventually
from tests.conformance.fixtures import OpenQueue
from tests.conformance.store import Store
from tests.conformance.worker_parts import StoreWorker


class TestClaimOrder:
    def test_a_worker_of_some_queues_searches_no_others(self, jobs: Rowcall) -> None:
        """Twice as many of its queues at a time as before, until it has all that it has room for."""
        own = [f"own-{number:02}" for number in range(50)]
        for number in range(30):
            jobs.enqueue("send", queue=f"foreign-{number}")
            jobs.enqueue("send", queue=f"zoo-{number}")
        made = [
            jobs.enqueue(task, queue=own[at]).id for at, task in ((5, "send"), (20, "fly"), (20, "send"), (49, "fly"))
        ]
        worker = StoreWorker(jobs, "web-1")
        result = worker.claim(slots=9, queues=own)
        assert [job.id for job in result.started] == made
        assert result.knows_all
        assert list(result.work.ready) == [(own[5], "send"), (own[20], "fly"), (own[20], "send"), (own[49], "fly")]
        assert worker.claim(slots=9, queues=own).jobs == []
        assert worker.claim(slots=9, queues=[]).jobs == []
        assert len(worker.claim(slots=99).started) == 60

    @pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
    def test_urgent_jobs_with_one_attempt_run_first(self, open_queue: OpenQueue, is_async: bool) -> None:
        jobs, order = open_queue(), list[str]()

        def note(name: str) -> None:
            order.append(name)

        async def anote(name: str) -> None:
            order.append(name)

        task = jobs.task(name="note")(anote if is_async else note)
        task.enqueue_many([{"name": "later"}] * 300)
        task.using(priority=100, max_attempts=1).enqueue_many([{"name": "urgent"}] * 6)
        assert jobs.drain(concurrency=1).succeeded == 306
        assert order == ["urgent"] * 6 + ["later"] * 300

    def test_an_urgent_job_is_overtaken_by_what_was_claimed_and_no_more(self, open_queue: OpenQueue) -> None:
        jobs, started, pause = open_queue(), list[str](), threading.Event()

        @jobs.task
        def wait(name: str) -> None:
            started.append(name)
            pause.wait(0.01)

        wait.enqueue_many([{"name": "later"}] * 3000)
        with jobs.worker(concurrency=4):
            eventually(lambda: len(started) > 100)
            wait.using(priority=1000, max_attempts=1).enqueue("urgent")
            before = len(started)
            eventually(lambda: "urgent" in started)
        # four slots and 50 ms of buffer, of the claim before and of one that was under way
        assert started.index("urgent") - before < 100

    @pytest.mark.parametrize("kind", ["last_attempt", "batch", "rate"])
    def test_a_queue_with_a_job_that_cannot_be_buffered_gets_its_turn(self, open_queue: OpenQueue, kind: str) -> None:
        jobs, ran = open_queue(), {"plain": 0, "special": 0}

        @jobs.task(queue="b")
        def plain() -> None:
            ran["plain"] += 1
            if ran["special"] < 5 and ran["plain"] < 20_000:  # never an empty queue next to the other one
                plain.enqueue()

        @jobs.task(queue="a", max_attempts=1)
        def last_attempt() -> None:
            ran["special"] += 1

        @jobs.task(queue="a", batch=2, batch_wait=0)
        def batch(items: list[int]) -> None:
            ran["special"] += len(items)

        @jobs.task(queue="a", limit=Limit("rate", rate=1000, per=1))
        def rate() -> None:
            ran["special"] += 1

        plain.enqueue_many([{}] * 500)
        for _ in range(5):
            jobs.enqueue(kind, {"item": 1} if kind == "batch" else {})
        jobs.drain(concurrency=1)
        assert ran["special"] == 5
        assert ran["plain"] < 20_000

    def test_a_job_that_is_held_by_its_limit_is_passed(self, open_queue: OpenQueue) -> None:
        jobs, order = open_queue(), list[str]()

        @jobs.task
        def note(name: str) -> None:
            order.append(name)

        @jobs.task(limit=Limit("one", concurrency=1), max_attempts=1, priority=10)
        def limited() -> None:
            order.append("limited")

        by_hand = limited.enqueue()
        assert [job.id for job in jobs.claim("hand")] == [by_hand.id]
        held = limited.enqueue()
        note.enqueue_many([{"name": "later"}] * 50)
        assert jobs.drain(concurrency=1).succeeded == 50
        assert order == ["later"] * 50
        assert jobs.get(held.id).status == "pending"

    def test_a_queue_with_its_own_limit_keeps_its_order(self, open_queue: OpenQueue) -> None:
        jobs, order = open_queue(), list[str]()

        @jobs.task(queue="mail")
        def note(name: str) -> None:
            order.append(name)

        note.enqueue_many([{"name": "later"}] * 100)
        note.using(priority=1, max_attempts=1).enqueue_many([{"name": "urgent"}] * 20)
        with jobs.worker(concurrency=4, queues="mail=1,other"):
            eventually(lambda: len(order) == 120)
        assert order == ["urgent"] * 20 + ["later"] * 100

    def test_few_jobs_that_a_kill_would_charge_wait_in_the_buffer(self, jobs: Rowcall) -> None:
        made = [jobs.enqueue("send", max_attempts=most).id for most in (5, 5, 1, 5, 1, 1, 5)]
        queue = queue_of(jobs)

        def claim(slots: int) -> tuple[list[int], list[int], set[int]]:
            demand = Demand(worker="w", slots=slots, buffer=10, last_ahead=2, lease_ms=60_000)
            claim = queue.run(Write(lambda: claim_by_hand(queue.dialect, demand)))
            return ids(claim.started), ids(claim.buffered), claim.marked

        if queue.dialect.one_writer:  # a file says what has begun
            assert claim(slots=1) == (made[:1], made[1:], set())
            return
        assert claim(slots=1) == (made[:1], made[1:5], {made[2], made[4]})
        started = [jobs.get(job_id).started_at is not None for job_id in made]
        assert started == [True, False, True, False, True, False, False]
        assert claim(slots=0) == ([], made[5:], {made[5]})

    def test_a_claim_by_hand_takes_what_cannot_be_buffered_in_order(self, jobs: Rowcall) -> None:
        plain = [jobs.enqueue("send").id for _ in range(3)]
        last = [jobs.enqueue("send", max_attempts=1, priority=1).id for _ in range(3)]
        assert [job.id for job in jobs.claim("hand", limit=4)] == [*last, plain[0]]
        assert [job.id for job in jobs.claim("hand", limit=4)] == plain[1:]

    def test_a_job_of_a_batch_task_ends_the_buffer(self, jobs: Rowcall) -> None:
        @jobs.task(batch=10)
        def take(items: list[int]) -> None: ...

        first = jobs.enqueue("send").id
        of_batch = take.enqueue(1).id
        behind = [jobs.enqueue("send").id for _ in range(3)]

        def claim(slots: int, buffer: int) -> tuple[list[int], list[int], bool]:
            demand = Demand(worker="w", slots=slots, buffer=buffer, batches={"take": 10}, lease_ms=60_000)
            claim = queue_of(jobs).run(Write(lambda: claim_by_hand(queue_of(jobs).dialect, demand)))
            return ids(claim.started), ids(claim.buffered), claim.slot_needed

        assert claim(slots=0, buffer=10) == ([], [first], True)
        assert claim(slots=1, buffer=10) == ([of_batch], behind, False)

    @pytest.mark.parametrize("seed", range(6))
    def test_random_mixes_start_in_order(self, store: Store, open_queue: OpenQueue, seed: int) -> None:
        jobs, chance, calls = open_queue(), random.Random(seed), list[list[int]]()

        @jobs.task
        def plain(number: int) -> None:
            calls.append([number])

        @jobs.task
        async def on_loop(number: int) -> None:
            calls.append([number])

        @jobs.task(limit=Limit("rate", rate=1000, per=1))
        def rated(number: int) -> None:
            calls.append([number])

        @jobs.task(batch=4, batch_wait=0)
        def batched(items: list[int]) -> None:
            calls.append(items)

        @jobs.task(limit=Limit("one", concurrency=1))
        def limited(number: int) -> None:
            calls.append([number])

        made: dict[int, Job] = {}
        few = chance.random() < 0.5  # mostly plain jobs fill the buffer, a mixture ends it often
        for number in range(120):
            special = chance.choice([on_loop, rated, batched, limited])
            task = plain if few and chance.random() < 0.8 else special
            queue, priority, most = chance.choice("ab"), chance.randrange(4), chance.choice([1, 2, 5, 5, 5])
            made[number] = task.using(queue=queue, priority=priority, max_attempts=most).enqueue(number)
            if chance.random() < 0.1:
                store.execute(f"update rowcall_job set lost = 1 where id = {made[number].id}")
        assert jobs.drain(concurrency=1).succeeded == 120
        waiting = dict(made)
        for call in calls:
            first, *riders = (waiting.pop(number) for number in call)
            assert {rider.type for rider in riders} <= {"batched"}
            # one that waits for its limit may be passed by all others
            behind = [job for job in waiting.values() if job.queue == first.queue and job.type != "limited"]
            assert all((-first.priority, first.id) < (-job.priority, job.id) for job in behind)
        assert not waiting


def ids(jobs: Iterable[object]) -> list[int]:
    return [job.id for job in jobs]  # type: ignore[attr-defined]
