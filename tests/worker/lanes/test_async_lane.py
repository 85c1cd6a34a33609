"""Async handlers that run out of time, and what one job may see of another."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from rowcall import Backoff, Context, Rowcall, current
from rowcall.app import queue_of
from rowcall.domain.outcome import Released
from rowcall.operations.effects import Write
from rowcall.store.claims.demand import Demand
from rowcall.store.claims.round import claim_by_hand
from rowcall.testing import eventually
from rowcall.worker.attempt import Attempt, CommonFacts
from rowcall.worker.completion import Completion
from rowcall.worker.lanes import async_lane
from rowcall.worker.lanes.async_lane import AsyncLane
from rowcall.worker.lanes.batch_calls import Call
from rowcall.worker.pace import ATTEMPTS_BETWEEN_YIELDS
from rowcall.worker.registrar import Identity
from tests.worker.support import ended


def test_an_async_handler_past_its_timeout_is_ended_and_retried(jobs: Rowcall) -> None:
    seen: list[str] = []

    @jobs.task(timeout=0.05, max_attempts=2, retry=Backoff.constant(0))
    async def endless(ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(f"attempt {ctx.job.attempt}, cancelled: {ctx.cancelled}")
            raise

    job = endless.enqueue()
    with jobs.worker(concurrency=1):
        failed = ended(jobs, job)
    assert (failed.status, failed.attempt, failed.error_code) == ("failed", 2, "TIMEOUT:HANDLER")
    assert failed.error_detail is not None
    assert "0.05 s" in failed.error_detail
    assert seen == ["attempt 1, cancelled: True", "attempt 2, cancelled: True"]
    assert [(one.status, one.error_code) for one in jobs.attempts(job.id)] == [("failed", "TIMEOUT:HANDLER")] * 2


def test_an_async_handler_in_time_is_left_alone(jobs: Rowcall) -> None:
    @jobs.task(timeout=30)
    async def quick() -> str:
        await asyncio.sleep(0)
        return "in time"

    job = quick.enqueue()
    jobs.drain()
    assert jobs.get(job.id).result == "in time"


def test_the_timeout_of_the_row_goes_before_that_of_the_task(jobs: Rowcall) -> None:
    @jobs.task(timeout=30, max_attempts=1)
    async def endless() -> None:
        await asyncio.Event().wait()

    job = endless.using(timeout=0.02).enqueue()
    jobs.drain()
    assert jobs.get(job.id).error_code == "TIMEOUT:HANDLER"


def test_a_handler_that_turns_its_timeout_into_a_result_has_timed_out_anyway(jobs: Rowcall) -> None:
    @jobs.task(timeout=0.02, max_attempts=1)
    async def swallows() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "as if nothing had been"
        return "never"

    @jobs.task(timeout=0.02, max_attempts=1)
    async def hides_it() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("something else") from None

    ids = [swallows.enqueue().id, hides_it.enqueue().id]
    jobs.drain()
    for job_id in ids:
        failed = jobs.get(job_id)
        assert (failed.status, failed.error_code, failed.result) == ("failed", "TIMEOUT:HANDLER", None)


def test_a_handler_that_swallows_every_cancellation_is_settled_without_it(
    jobs: Rowcall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_lane, "CANCEL_AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(async_lane, "CANCEL_PATIENCE_SECONDS", 0.06)
    let_go = threading.Event()
    swallowed: list[int] = []

    @jobs.task(timeout=0.02, max_attempts=1)
    async def immortal() -> None:
        while not let_go.is_set():
            try:
                await asyncio.sleep(0.005)
            except asyncio.CancelledError:
                swallowed.append(1)

    @jobs.task
    async def behind() -> None: ...

    job = immortal.enqueue()
    with jobs.worker(concurrency=2) as worker:
        assert ended(jobs, job).error_code == "TIMEOUT:HANDLER"
        assert len(swallowed) >= 2
        assert ended(jobs, behind.enqueue()).status == "succeeded"
        assert not worker.exhausted
        let_go.set()


def test_context_variables_do_not_leak_from_one_job_to_the_next(jobs: Rowcall) -> None:
    """Jobs out of the buffer begin where the one before them ended; they must not begin with what it left behind."""
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
    found: set[str] = set()

    @jobs.task
    async def on_loop(name: str) -> None:
        found.add(tenant.get())
        tenant.set(name)

    @jobs.task
    def in_thread(name: str) -> None:
        found.add(tenant.get())
        tenant.set(name)

    on_loop.enqueue_many([{"name": f"async {number}"} for number in range(300)])
    in_thread.enqueue_many([{"name": f"thread {number}"} for number in range(300)])
    assert jobs.drain(concurrency=2).succeeded == 600
    assert found == {"nobody"}


def test_current_is_the_job_that_runs_here(jobs: Rowcall) -> None:
    @jobs.task
    async def on_loop() -> int:
        await asyncio.sleep(0)
        return current().job.id

    @jobs.task
    def in_thread() -> int:
        return current().job.id

    ids = [job.id for task in (on_loop, in_thread) for job in task.enqueue_many([{}] * 200)]
    jobs.drain(concurrency=4)
    assert [jobs.get(job_id).result for job_id in ids] == ids
    with pytest.raises(RuntimeError, match="outside a handler"):
        current()


def test_an_attempt_that_is_cancelled_before_its_first_step_still_ends(jobs: Rowcall) -> None:
    """Start and stop can both be waiting when the event loop comes round."""
    ran: list[str] = []
    finished: list[Call] = []

    @jobs.task
    async def handler() -> None:
        ran.append("handler")

    handler.enqueue()
    attempt = claimed_attempt(jobs)

    async def start_and_cancel() -> None:
        lane = AsyncLane(asyncio.get_running_loop(), finished.append, lambda call: None)
        lane.start(attempt)
        attempt.stop(Released())
        lane.cancel(attempt)
        for _ in range(10):
            await asyncio.sleep(0)

    asyncio.run(start_and_cancel())
    assert finished == [attempt]
    assert attempt.transition is not None
    assert attempt.transition.attempt_status == "released"
    assert ran == []


def claimed_attempt(jobs: Rowcall) -> Attempt:
    claim = queue_of(jobs).run(
        Write(lambda: claim_by_hand(queue_of(jobs).dialect, Demand(worker="by hand", slots=1, lease_ms=1000)))
    )
    (ready,) = claim.started
    return Attempt(
        ready,
        queue_of(jobs).declared.tasks[ready.type],
        CommonFacts(Identity("by hand", None), claim.work.now_ms, queue_of(jobs).clock, Completion(queue_of(jobs))),
        buffered=False,
    )


@pytest.mark.parametrize("is_soon", [True, False])
def test_a_handler_that_cancels_its_own_task_stops_no_other_job(jobs: Rowcall, is_soon: bool) -> None:
    """Also where this takes effect only while the lane lets the event loop run."""

    @jobs.task
    async def leave_a_cancel(number: int) -> None:
        if (number + 1) % ATTEMPTS_BETWEEN_YIELDS == 0:
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel) if is_soon else task.cancel()

    leave_a_cancel.enqueue_many([{"number": number} for number in range(200)])
    with jobs.worker(concurrency=1):
        eventually(lambda: jobs.stats().by_status["succeeded"] == 200)
