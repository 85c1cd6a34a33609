"""Wait for the end of a job: any process may end it, in any way, and any process may wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from rowcall import (
    Cancel,
    Context,
    InvalidOption,
    Job,
    JobCancelled,
    JobFailed,
    JobNotFound,
    Rowcall,
    StoreUnavailable,
)
from rowcall.app import queue_of
from rowcall.operations.results import end_waiter
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue, StartProgram
from tests.conformance.notes import Notes

LONG = 20.0


def claimed(jobs: Rowcall) -> Job:
    job = jobs.dequeue("hand")
    assert job is not None
    return job


def fail_for_good(jobs: Rowcall) -> None:
    jobs.fail(claimed(jobs), "UPSTREAM:DOWN", "no answer")


def expire(jobs: Rowcall) -> None:
    clock = queue_of(jobs).clock
    assert isinstance(clock, FakeClock)
    clock.advance(601)
    assert jobs.dequeue("hand") is None


def complete_in_a_block(jobs: Rowcall) -> None:
    """Complete the job as a handler does in a separate transaction."""

    @jobs.task(name="send")
    def send(ctx: Context) -> None:
        with jobs.transaction() as tx:
            ctx.complete({"sent": 1}, connection=tx)

    jobs.drain(concurrency=1)


ENDS: dict[str, tuple[Callable[[Rowcall], object], object]] = {
    "success": (lambda jobs: jobs.complete(claimed(jobs), {"sent": 1}), {"sent": 1}),
    "failure": (fail_for_good, JobFailed),
    "cancelled by hand": (lambda jobs: jobs.cancel(1, "not needed"), JobCancelled),
    "expired": (expire, JobCancelled),
    "deleted": (lambda jobs: jobs.delete(1), JobNotFound),
    "completed in a block": (complete_in_a_block, {"sent": 1}),
}


class TestResults:
    def test_the_result_of_one_that_has_ended(self, jobs: Rowcall) -> None:
        @jobs.task
        def double(number: int) -> int:
            return 2 * number

        @jobs.task(max_attempts=1)
        def fail() -> None:
            raise RuntimeError("broken")

        @jobs.task
        def cancel() -> None:
            raise Cancel("why not")

        succeeded, failed, cancelled = double.enqueue(4), fail.enqueue(), cancel.enqueue()
        large = double.enqueue(0)
        jobs.drain()
        assert jobs.result(succeeded) == jobs.result(succeeded.id, timeout=0) == 8
        assert jobs.result(large) == 0
        with pytest.raises(JobFailed, match="broken") as of_failed:
            jobs.result(failed)
        assert (of_failed.value.job_id, of_failed.value.error_code) == (failed.id, "INTERNAL:RuntimeError")
        with pytest.raises(JobCancelled, match="why not") as of_cancelled:
            jobs.result(cancelled, timeout=0)
        assert of_cancelled.value.reason == "why not"

    def test_large_results_are_fetched(self, jobs: Rowcall) -> None:
        @jobs.task
        def write(length: int) -> str:
            return "x" * length

        job = write.enqueue(2_000_000)
        jobs.drain()
        assert jobs.result(job) == "x" * 2_000_000
        assert asyncio.run(jobs.aresult(job)) == "x" * 2_000_000

    def test_without_time_it_looks_once(self, jobs: Rowcall) -> None:
        job = jobs.enqueue("send")
        with pytest.raises(TimeoutError, match=r"not ended within 0 s: it is pending"):
            jobs.result(job, timeout=0)
        with pytest.raises(TimeoutError):
            asyncio.run(jobs.aresult(job, timeout=0))
        with pytest.raises(TimeoutError, match=r"within 0.01 s"):
            jobs.result(job, timeout=0.01)
        with pytest.raises(TimeoutError):
            asyncio.run(jobs.aresult(job, timeout=0.01))

    def test_what_there_is_not(self, jobs: Rowcall) -> None:
        with pytest.raises(JobNotFound):
            jobs.result(7)
        with pytest.raises(JobNotFound):
            asyncio.run(jobs.aresult(7, timeout=0))
        with pytest.raises(JobNotFound):
            jobs.result(0)
        for wrong in ("7", True, None):
            with pytest.raises(InvalidOption):
                jobs.result(wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidOption):
            jobs.result(1, timeout=-1)

    @pytest.mark.parametrize("end", ENDS)
    def test_a_waiter_in_another_process_is_woken(
        self, jobs: Rowcall, clock: FakeClock, open_queue: OpenQueue, end: str
    ) -> None:
        job = jobs.enqueue("send", max_attempts=1, expires_in=600)
        elsewhere = open_queue(clock=clock)
        act, expected = ENDS[end]

        async def both() -> list[object]:
            waits = [elsewhere.aresult(one, timeout=LONG) for one in (job, job.id)]
            ended: list[object] = await asyncio.gather(*waits, return_exceptions=True)
            return ended

        with ThreadPoolExecutor(2) as others:
            waiting = others.submit(elsewhere.result, job, timeout=LONG)
            waiting_async = others.submit(asyncio.run, both())
            eventually(lambda: room_of(elsewhere, job.id) == 3, message="three who wait")
            act(jobs)
            if isinstance(expected, type):
                with pytest.raises(expected):
                    waiting.result(LONG)
                assert {type(error) for error in waiting_async.result(LONG)} == {expected}
            else:
                assert waiting.result(LONG) == expected
                assert waiting_async.result(LONG) == [expected, expected]

    def test_one_that_ends_because_of_another(self, jobs: Rowcall, open_queue: OpenQueue) -> None:
        first = jobs.enqueue("send", max_attempts=1)
        second = jobs.enqueue("send", after=[first])
        elsewhere = open_queue()
        with ThreadPoolExecutor(1) as others:
            waiting = others.submit(elsewhere.result, second, timeout=LONG)
            eventually(lambda: room_of(elsewhere, second.id) == 1, message="one who waits")
            fail_for_good(jobs)
            with pytest.raises(JobFailed, match="BLOCKER:FAILED"):
                waiting.result(LONG)

    def test_a_chain_has_the_result_of_its_last_step(self, jobs: Rowcall, open_queue: OpenQueue) -> None:
        @jobs.task
        def count_down(ctx: Context, number: int) -> int:
            if number:
                ctx.continue_with(count_down, number - 1)
            return number + 100

        @jobs.task(max_attempts=1)
        def fall() -> None:
            raise ValueError

        first, fixed = count_down.enqueue(2), jobs.start_chain([fall.bind(), count_down.bind(0)])
        elsewhere = open_queue()
        with ThreadPoolExecutor(2) as others:
            waiting = others.submit(elsewhere.result, fixed, timeout=LONG)
            eventually(lambda: room_of(elsewhere, fixed.id) == 1, message="one who waits")
            jobs.drain()
            with pytest.raises(JobFailed, match="BLOCKER:FAILED"):
                waiting.result(LONG)
        grown = jobs.chain(first.id)
        assert (grown.length, jobs.result(first), jobs.result(grown)) == (3, 102, 100)
        assert asyncio.run(elsewhere.aresult(grown, timeout=LONG)) == 100

    def test_attempts_that_do_not_end_the_job_end_no_wait(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = jobs.enqueue("send")
        with ThreadPoolExecutor(1) as others:
            waiting = others.submit(jobs.result, job, timeout=LONG)
            eventually(lambda: room_of(jobs, job.id) == 1, message="one who waits")
            jobs.fail(claimed(jobs), "UPSTREAM:DOWN")
            jobs.retry(jobs.cancel(job.id).id)
            clock.advance(600)
            jobs.complete(claimed(jobs), "at last")
            with_cancel = waiting.exception(LONG)
        # it may have been seen cancelled before it was sent again
        assert with_cancel is None or isinstance(with_cancel, JobCancelled)

    def test_a_thousand_at_once(self, open_queue: OpenQueue) -> None:
        jobs = open_queue()

        @jobs.task
        async def double(number: int) -> int:
            return 2 * number

        async def story() -> list[object]:
            written = await double.aenqueue_many([{"number": number} for number in range(1000)])
            async with jobs.worker(concurrency=50):
                return await asyncio.gather(*(jobs.aresult(job, timeout=60) for job in written))

        assert asyncio.run(story()) == [2 * number for number in range(1000)]
        assert sum(thread.name == "rowcall-results" for thread in threading.enumerate()) <= 1

    def test_many_threads_at_once(self, open_queue: OpenQueue) -> None:
        jobs = open_queue()

        @jobs.task
        def double(number: int) -> int:
            return 2 * number

        def ask(number: int) -> object:
            return jobs.result(double.enqueue(number), timeout=60)

        with jobs.worker(concurrency=4), ThreadPoolExecutor(16) as others:
            assert list(others.map(ask, range(64))) == [2 * number for number in range(64)]

    def test_a_wait_that_is_cancelled_leaves_nothing(self, jobs: Rowcall) -> None:
        job = jobs.enqueue("send")

        async def story() -> None:
            waiting = asyncio.create_task(jobs.aresult(job))
            while not room_of(jobs, job.id):
                await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

        asyncio.run(story())
        assert room_of(jobs, job.id) == 0
        jobs.complete(claimed(jobs), "unheard")
        assert jobs.result(job) == "unheard"

    def test_closing_the_queue_wakes_the_waiters(self, jobs: Rowcall) -> None:
        job = jobs.enqueue("send")
        with ThreadPoolExecutor(1) as others:
            waiting = others.submit(jobs.result, job)
            eventually(lambda: room_of(jobs, job.id) == 1, message="one who waits")
            jobs.close()
            with pytest.raises(StoreUnavailable, match="closed"):
                waiting.result(LONG)
        with pytest.raises(TimeoutError):
            jobs.result(job, timeout=0.01)

    def test_a_worker_in_another_process(
        self, open_queue: OpenQueue, start_program: StartProgram, notes: Notes
    ) -> None:
        jobs = open_queue()
        job = jobs.enqueue("lasting", {"seconds": 0.1})
        start_program("work")
        assert jobs.result(job, timeout=60) is None
        assert notes.read("ended")


def room_of(jobs: Rowcall, job_id: int) -> int:
    """How many wait for that job in this process."""
    return len(end_waiter(queue_of(jobs))._tickets.get(job_id, ()))
