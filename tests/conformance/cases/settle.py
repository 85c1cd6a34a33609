"""How the end of an attempt in a worker settles its job."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import NoReturn

import pytest

from rowcall import Backoff, Cancel, Fail, Job, Retry, Rowcall, Snooze, Status
from rowcall.testing.fake_clock import FakeClock


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def raise_it(error: BaseException) -> NoReturn:
    raise error


def deeper(level: int = 0) -> int:
    return deeper(level + 1)


def endless() -> list[object]:
    itself: list[object] = []
    itself.append(itself)
    return itself


async def fetch() -> None: ...


RAISED = [
    (lambda: raise_it(BaseException("odd")), "INTERNAL:BaseException", "odd"),
    (lambda: sys.exit(3), "INTERNAL:SystemExit", "3"),
    (lambda: sys.exit(), "INTERNAL:SystemExit", "SystemExit"),
    (lambda: raise_it(KeyboardInterrupt()), "INTERNAL:KeyboardInterrupt", "KeyboardInterrupt"),
    (lambda: raise_it(GeneratorExit()), "INTERNAL:GeneratorExit", "GeneratorExit"),
    (lambda: raise_it(asyncio.CancelledError()), "INTERNAL:CancelledError", "CancelledError"),
    (lambda: raise_it(StopIteration(5)), "INTERNAL:", ""),
    (lambda: raise_it(MemoryError()), "RESOURCE:OUT_OF_MEMORY", "MemoryError"),
    (lambda: raise_it(Unprintable()), "INTERNAL:Unprintable", "str(error) raised"),
    (lambda: raise_it(ValueError("a\0b\ud800")), "INTERNAL:ValueError", "a\ufffdb?"),  # some databases refuse it
    (lambda: raise_it(ValueError("x" * 1_000_000)), "INTERNAL:ValueError", "xxx"),
    (lambda: raise_it(ExceptionGroup("two", [ValueError(), KeyError()])), "INTERNAL:ExceptionGroup", "two"),
    (deeper, "INTERNAL:RecursionError", "recursion"),
]
NOT_JSON = [
    (object, "which is not JSON"),
    (lambda: float("nan"), "NaN or infinity"),
    (lambda: {"a": [float("inf")]}, "NaN or infinity"),
    (lambda: "\ud800", "surrogate"),
    (endless, "nested too deeply"),
    (lambda: {(1, 2): 3}, "which is not JSON"),
    (lambda: deeper, "which is not JSON"),
    (lambda: {"page": fetch()}, "a dict in which 'page' is a coroutine, which is not JSON; is an await missing?"),
]


class TestSettle:
    def test_a_value_returned_is_the_result(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task
        def add(one: int, other: int) -> dict[str, int]:
            return {"sum": one + other}

        job_id = add.enqueue(2, 3).id
        assert jobs.drain().succeeded == 1
        job = jobs.get(job_id)
        assert (job.status, job.result, job.attempt, job.error_code) == (Status.SUCCEEDED, {"sum": 5}, 1, None)
        assert job.finished_at is not None
        assert [attempt.status for attempt in jobs.attempts(job_id)] == ["succeeded"]

    def test_async_and_sync_handlers_end_the_same_way(self, jobs: Rowcall) -> None:
        @jobs.task
        async def double(number: int) -> int:
            return 2 * number

        @jobs.task
        async def break_down() -> None:
            raise ValueError("no")

        good, bad = double.enqueue(21).id, break_down.enqueue().id
        jobs.drain()
        assert jobs.get(good).result == 42
        assert (jobs.get(bad).status, jobs.get(bad).error_code) == (Status.SCHEDULED, "INTERNAL:ValueError")

    def test_by_default_retries_come_after_30_60_90_and_120_seconds_and_then_it_has_failed(
        self, jobs: Rowcall, clock: FakeClock
    ) -> None:
        @jobs.task
        def break_down() -> None:
            raise ValueError("not today")

        job_id = break_down.enqueue().id
        for attempt, pause in enumerate((30, 60, 90, 120), start=1):
            assert jobs.drain().retried == 1
            job = jobs.get(job_id)
            assert (job.status, job.attempt) == (Status.SCHEDULED, attempt)
            assert job.run_at == clock.now() + timedelta(seconds=pause)
            clock.advance(pause - 0.001)
            assert jobs.drain().total == 0
            clock.advance(0.001)
        assert jobs.drain().failed == 1
        job = jobs.get(job_id)
        assert (job.status, job.attempt, job.max_attempts) == (Status.FAILED, 5, 5)
        assert (job.error_code, job.error_detail) == ("INTERNAL:ValueError", "not today")
        assert [(one.attempt, one.status) for one in jobs.attempts(job_id)] == [(n, "failed") for n in range(1, 6)]

    def test_the_row_overrides_the_task_s_retry_policy(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task(retry=Backoff.constant(7))
        def break_down() -> None:
            raise ValueError

        by_task = break_down.enqueue().id
        by_row = break_down.using(retry=Backoff.exponential(4, jitter=False)).enqueue().id
        jobs.drain()
        assert jobs.get(by_task).run_at - clock.now() == timedelta(seconds=7)
        assert jobs.get(by_row).run_at - clock.now() == timedelta(seconds=4)
        clock.advance(10)
        jobs.drain()
        assert jobs.get(by_task).run_at - clock.now() == timedelta(seconds=7)
        assert jobs.get(by_row).run_at - clock.now() == timedelta(seconds=8)

    def test_retry_asks_for_its_own_pause_and_uses_up_an_attempt(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = self._raising(jobs, Retry(delay=5), max_attempts=2)
        assert jobs.drain().retried == 1
        job = jobs.get(job_id)
        assert (job.status, job.attempt) == (Status.SCHEDULED, 1)
        assert job.run_at == clock.now() + timedelta(seconds=5)
        clock.advance(5)
        assert jobs.drain().failed == 1
        assert jobs.get(job_id).attempt == 2

    def test_snooze_uses_up_no_attempt(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = self._raising(jobs, Snooze(delay=10), max_attempts=1)
        for _ in range(7):
            assert jobs.drain().snoozed == 1
            job = jobs.get(job_id)
            assert (job.status, job.attempt, job.max_attempts) == (Status.SCHEDULED, 0, 1)
            assert job.run_at == clock.now() + timedelta(seconds=10)
            clock.advance(10)
        assert [(one.attempt, one.status) for one in jobs.attempts(job_id)] == [(1, "snoozed")] * 7

    def test_fail_ends_it_at_once(self, jobs: Rowcall) -> None:
        job_id = self._raising(jobs, Fail("BILLING:CARD_EXPIRED", "card 12"), max_attempts=5)
        assert jobs.drain().failed == 1
        job = jobs.get(job_id)
        assert (job.status, job.attempt) == (Status.FAILED, 1)
        assert (job.error_code, job.error_detail) == ("BILLING:CARD_EXPIRED", "card 12")

    def test_cancel_ends_it_as_cancelled(self, jobs: Rowcall) -> None:
        job_id = self._raising(jobs, Cancel("the order is gone"), max_attempts=5)
        assert jobs.drain().cancelled == 1
        job = jobs.get(job_id)
        assert (job.status, job.attempt, job.error_detail) == (Status.CANCELLED, 1, "the order is gone")
        assert [one.status for one in jobs.attempts(job_id)] == ["cancelled"]

    @pytest.mark.parametrize(("end", "code", "detail"), RAISED)
    def test_whatever_a_handler_raises_is_a_failed_attempt(
        self, jobs: Rowcall, end: Callable[[], object], code: str, detail: str
    ) -> None:
        made = self._ending(jobs, end, max_attempts=2)
        summary = jobs.drain()
        assert (summary.retried, summary.succeeded) == (2, 5)
        for job in map(jobs.get, made):
            assert (job.status, job.attempt) == (Status.SCHEDULED, 1)
            assert (job.error_code or "").startswith(code)
            assert detail in (job.error_detail or "")
            (attempt,) = jobs.attempts(job.id)
            assert attempt.traceback
            assert "\0" not in attempt.traceback

    @pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
    @pytest.mark.parametrize(("result", "said"), NOT_JSON)
    def test_a_result_that_json_cannot_hold_fails_without_a_retry(
        self, jobs: Rowcall, result: Callable[[], object], said: str
    ) -> None:
        made = self._ending(jobs, result, max_attempts=5)
        summary = jobs.drain()
        assert (summary.failed, summary.succeeded) == (2, 5)
        for job in map(jobs.get, made):
            assert (job.status, job.attempt) == (Status.FAILED, 1)
            assert (job.error_code, job.result) == ("INVALID_OUTPUT:NOT_JSON", None)
            assert (job.error_detail or "").startswith("the handler returned ")
            assert said in (job.error_detail or "")

    def test_a_nul_in_a_result_is_replaced_as_the_work_is_done(self, jobs: Rowcall) -> None:
        made = self._ending(jobs, lambda: ["a\0b", {"c\0": "\\u0000"}], max_attempts=1)
        assert jobs.drain().succeeded == 7
        assert [jobs.get(job).result for job in made] == [["a\ufffdb", {"c\ufffd": "\\u0000"}]] * 2

    def test_a_large_traceback_and_detail_are_cut(self, jobs: Rowcall) -> None:
        job_id = self._raising(jobs, ValueError("x" * 1_000_000), max_attempts=1)
        jobs.drain()
        job = jobs.get(job_id)
        assert job.error_detail is not None
        assert len(job.error_detail) <= 500
        assert len(jobs.attempts(job_id)[0].traceback or "") <= 8 * 1024

    def test_a_group_is_settled_each_in_its_own_way(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task
        def end(number: int) -> int:
            match number % 5:
                case 0:
                    return number
                case 1:
                    raise ValueError(str(number))
                case 2:
                    raise Snooze(delay=number)
                case 3:
                    raise Fail("TEST:FAIL", str(number))
                case _:
                    raise Cancel(str(number))

        written = end.enqueue_many([{"number": number} for number in range(200)])
        summary = jobs.drain()
        assert (summary.succeeded, summary.retried, summary.snoozed, summary.failed, summary.cancelled) == (40,) * 5
        for number, job in enumerate(jobs.get(job.id) for job in written):
            self._check_own_way(number, job, clock)

    def _check_own_way(self, number: int, job: Job, clock: FakeClock) -> None:
        wanted = (Status.SUCCEEDED, Status.SCHEDULED, Status.SCHEDULED, Status.FAILED, Status.CANCELLED)
        assert job.status is wanted[number % 5]
        match number % 5:
            case 0:
                assert job.result == number
            case 2:
                assert job.run_at == clock.now() + timedelta(seconds=number)
            case _:
                assert job.error_detail == str(number)

    def _ending(self, jobs: Rowcall, end: Callable[[], object], *, max_attempts: int) -> list[int]:
        """Enqueue a job that ends so in a thread, one that does in a coroutine, and five others."""

        @jobs.task(max_attempts=max_attempts)
        def in_a_thread() -> object:
            return end()

        @jobs.task(max_attempts=max_attempts)
        async def in_a_coroutine() -> object:
            return end()

        @jobs.task
        def good() -> None: ...

        made = [in_a_thread.enqueue().id, in_a_coroutine.enqueue().id]
        good.enqueue_many([{}] * 5)
        return made

    def _raising(self, jobs: Rowcall, error: BaseException, *, max_attempts: int) -> int:
        @jobs.task
        def break_down() -> None:
            raise error

        return break_down.using(max_attempts=max_attempts).enqueue().id
