"""Requests that are written once, however often and from however many processes they come."""

from __future__ import annotations

import threading

import pytest

from rowcall import InvalidOption, Job, Rowcall
from rowcall.app import queue_of
from rowcall.declare.option_table import Options
from rowcall.operations.enqueue import bind_by_name, enqueue_once
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue
from tests.conformance.store import Store

WINDOW_SECONDS = 60


def requested(jobs: Rowcall, digest: str = "a", number: int = 2) -> list[Job]:
    queue = queue_of(jobs)
    calls = [bind_by_name(queue, "send", {"to": digest}, Options()) for _ in range(number)]
    return queue.run(enqueue_once(queue, calls, "order-7", digest, WINDOW_SECONDS * 1000))


class TestRequests:
    def test_a_repeated_request_returns_the_jobs_of_the_first(self, jobs: Rowcall) -> None:
        first, again = requested(jobs), requested(jobs)
        assert [job.id for job in first] == [job.id for job in again]
        assert [job.duplicate for job in first + again] == [False, False, True, True]

    def test_another_request_of_the_same_name_writes_nothing(self, jobs: Rowcall) -> None:
        requested(jobs)
        with pytest.raises(InvalidOption, match="was used with another request"):
            requested(jobs, "b")
        assert jobs.stats().total == 2

    def test_jobs_that_were_deleted_are_not_written_again(self, jobs: Rowcall) -> None:
        first, second = requested(jobs)
        jobs.delete(first)
        assert [job.id for job in requested(jobs)] == [second.id]
        assert jobs.stats().total == 1

    def test_a_name_is_free_again_when_its_time_is_over(self, jobs: Rowcall, clock: FakeClock, store: Store) -> None:
        first = requested(jobs)
        clock.advance(WINDOW_SECONDS)
        second = requested(jobs, "b")
        assert {job.id for job in second}.isdisjoint(job.id for job in first)
        assert [job.id for job in requested(jobs, "b")] == [job.id for job in second]
        jobs.prune()
        assert store.execute("select count(*) from rowcall_note") == [(1,)]
        clock.advance(WINDOW_SECONDS)
        jobs.prune()
        assert store.execute("select count(*) from rowcall_note") == [(0,)]

    @pytest.mark.concurrency
    def test_requests_at_once(self, open_queue: OpenQueue) -> None:
        """Each thread has its own connections, as a process has."""
        queues = [open_queue() for _ in range(4)]
        found: list[list[int]] = []
        together = threading.Barrier(len(queues))

        def ask(jobs: Rowcall) -> None:
            together.wait()
            found.append([job.id for job in requested(jobs)])

        threads = [threading.Thread(target=ask, args=(jobs,)) for jobs in queues]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [found[0]] * len(queues)
        assert queues[0].stats().total == 2
