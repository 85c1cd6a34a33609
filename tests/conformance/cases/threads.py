"""Several threads of one process at once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import pytest

from rowcall import Job, LeaseLost, Rowcall, Status
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue
from tests.conformance.worker_parts import StoreWorker, watcher

THREADS = 8


def at_once(call: Callable[[int], None], threads: int = THREADS) -> None:
    """Run the call in several threads that begin together; the first error is raised here."""
    barrier = threading.Barrier(threads)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        barrier.wait()
        try:
            call(number)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.concurrency
class TestThreads:
    @pytest.mark.parametrize("shared", [True, False], ids=["one_queue_object", "one_each"])
    def test_two_claimers_never_get_the_same_job(self, open_queue: OpenQueue, shared: bool) -> None:
        jobs = open_queue()
        queues = [jobs if shared else open_queue() for _ in range(THREADS)]
        ids = [jobs.enqueue("send", queue=f"queue{number % 2}").id for number in range(240)]
        claimed: list[Job] = []

        def claim_all(number: int) -> None:
            while found := queues[number].claim(f"hand-{number}", limit=number % 3 + 1):
                claimed.extend(found)

        at_once(claim_all)
        assert sorted(job.id for job in claimed) == ids
        for job in claimed:
            stored = jobs.get(job.id)
            assert (stored.worker, stored.lease, stored.attempt) == (job.worker, job.lease, 1)

    def test_of_many_settlers_one_wins(self, jobs: Rowcall) -> None:
        for _ in range(20):
            jobs.enqueue("send")
        claimed = jobs.claim("hand", limit=20)
        won: Counter[int] = Counter()

        def complete_all(number: int) -> None:
            for job in claimed:
                try:
                    jobs.complete(job, number)
                except LeaseLost:
                    continue
                won[job.id] += 1

        at_once(complete_all)
        assert won == Counter(job.id for job in claimed)
        assert jobs.stats().by_status["succeeded"] == 20

    def test_enqueues_from_many_threads_are_all_there(self, open_queue: OpenQueue) -> None:
        jobs = open_queue()
        given: list[Job] = []

        def enqueue_some(number: int) -> None:
            given.extend(jobs.enqueue("send", {"thread": number, "turn": turn}) for turn in range(25))

        at_once(enqueue_some)
        stored = {job.id: job for job in jobs.list(limit=1000).jobs}
        assert stored == {job.id: job for job in given}
        assert len(stored) == 25 * THREADS

    def test_workers_next_to_producers_run_each_job_once(self, open_queue: OpenQueue) -> None:
        producer, *consumers = [open_queue() for _ in range(3)]
        ran: list[int] = []
        for jobs in consumers:

            @jobs.task
            def note(number: int) -> None:
                ran.append(number)

        ids: list[int] = []

        def enqueue_some(number: int) -> None:
            ids.extend(producer.enqueue("note", {"number": number * 100 + turn}).id for turn in range(25))

        with consumers[0].worker(concurrency=4), consumers[1].worker(concurrency=4):
            at_once(enqueue_some, threads=4)
            _until_finished(producer, 100)
        assert sorted(ran) == sorted(number * 100 + turn for number in range(4) for turn in range(25))
        assert {producer.get(job_id).attempt for job_id in ids} == {1}

    def test_many_that_recover_at_once_do_no_harm(self, open_queue: OpenQueue, clock: FakeClock) -> None:
        queues = [open_queue(clock=clock) for _ in range(4)]
        jobs = queues[0]
        ids = [jobs.enqueue("send", max_attempts=2).id for _ in range(60)]
        StoreWorker(jobs, "victim").claim(slots=30)
        jobs.claim("hand", limit=30, lease=15)
        watchers = [watcher(queue) for queue in queues]
        for one in watchers:
            one.check()
        clock.advance(15)
        recovered: list[int] = []
        at_once(lambda number: recovered.append(watchers[number].check()), threads=4)
        assert sum(recovered) == 60
        assert {jobs.get(job_id).status for job_id in ids} == {Status.PENDING}
        assert {(one.attempt, one.status) for job_id in ids for one in jobs.attempts(job_id)} == {(1, "lost")}
        assert sum(len(jobs.attempts(job_id)) for job_id in ids) == 60


def _until_finished(jobs: Rowcall, count: int) -> None:
    eventually(lambda: jobs.stats().by_status["succeeded"] == count, message=f"{count} jobs succeeded")
