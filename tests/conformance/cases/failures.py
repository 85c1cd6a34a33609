"""What is stored of a failure: its code, a bounded traceback, and no secret, whichever way it came."""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rowcall import Cancel, Context, Fail, InvalidArguments, Job, Retry, Rowcall
from rowcall.app import queue_of
from tests.conformance.store import Store, all_rows

SECRET = "sk_live_" + "0123456789" * 3
HIDDEN = "(hidden)"


class Declined(Exception):
    """An error of the user's."""


class DeclinedByBank(Declined):
    """One below it."""


class TestFailures:
    def test_a_result_that_does_not_fit_the_annotation(self, jobs: Rowcall) -> None:
        results: list[int] = ["7", 7, None, [7]]  # type: ignore[list-item]

        @jobs.task
        def number() -> int:
            return results.pop(0)

        @jobs.task
        async def names() -> dict[str, list[Path]]:
            return {"a": [Path("b"), 3]}  # type: ignore[list-item]

        @jobs.task
        def nothing() -> None:
            return 5  # type: ignore[return-value]

        @jobs.task
        def anything():  # type: ignore[no-untyped-def]
            return 5

        made = [number.enqueue() for _ in range(4)] + [names.enqueue(), nothing.enqueue(), anything.enqueue()]
        jobs.drain(concurrency=1)
        wrong = "INVALID_OUTPUT:WRONG_TYPE"
        found = [jobs.get(job) for job in made]
        assert [job.error_code for job in found] == [wrong, None, None, wrong, wrong, None, None]
        assert [job.attempt for job in found] == [1] * 7
        assert [job.result for job in found[-2:]] == [5, 5]  # `-> None` is no annotation
        assert found[0].error_detail == (
            "the handler returned a value that does not fit its annotation: Expected `int`, got `str`"
        )

    def test_a_completion_that_does_not_fit_the_annotation(self, jobs: Rowcall) -> None:
        results: list[object] = ["7", object(), 7]

        @jobs.task
        def number(ctx: Context) -> int:
            with jobs.transaction() as tx:
                ctx.complete(results.pop(0), connection=tx)
            return 0

        @jobs.task
        def careful(ctx: Context) -> int:
            with pytest.raises(InvalidArguments), jobs.transaction() as tx:
                ctx.complete("7", connection=tx)
            return 8

        made = [number.enqueue() for _ in range(3)] + [careful.enqueue()]
        jobs.drain(concurrency=1)
        found = [jobs.get(job) for job in made]
        wrong = "INVALID_OUTPUT:WRONG_TYPE"
        assert [job.error_code for job in found] == [wrong, "INVALID_OUTPUT:NOT_JSON", None, None]
        assert [(job.attempt, job.result) for job in found] == [(1, None), (1, None), (1, 7), (1, 8)]
        assert found[0].error_detail == (
            "number: the result is a value that does not fit its annotation: Expected `int`, got `str`"
        )

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (TimeoutError("30 s"), "TIMEOUT:OPERATION"),
            (OSError(errno.ENOSPC, "full"), "RESOURCE:DISK_FULL"),
            (AssertionError(), "INTERNAL:ASSERTION_FAILED"),
            (DeclinedByBank(), "PAYMENT:DECLINED"),
            (Fail("A:B"), "A:B"),
        ],
        ids=lambda value: value if isinstance(value, str) else type(value).__name__,
    )
    def test_a_worker_and_a_caller_give_the_same_code(self, jobs: Rowcall, error: BaseException, code: str) -> None:
        jobs.error_code(Declined, "PAYMENT:DECLINED")

        @jobs.task
        def break_down() -> None:
            raise error

        by_worker = break_down.enqueue().id
        jobs.drain()
        by_hand = _claimed(jobs)
        jobs.fail(by_hand, error)
        assert [jobs.get(job_id).error_code for job_id in (by_worker, by_hand.id)] == [code, code]

    def test_a_code_that_is_none_ends_the_job_and_says_why(self, jobs: Rowcall) -> None:
        @jobs.task
        def break_down() -> None:
            raise Fail("no such code")

        job_id = break_down.enqueue().id
        assert jobs.drain().failed == 1
        job = jobs.get(job_id)
        assert job.error_code == "INTERNAL:InvalidCode"
        assert "must look like" in (job.error_detail or "")

    @pytest.mark.parametrize(("limit", "longest"), [(200, 200), (0, 0), (None, 0)])
    def test_a_traceback_is_as_long_as_was_asked_for(self, store: Store, limit: int | None, longest: int) -> None:
        with Rowcall(store.url, traceback_limit=limit) as jobs:

            @jobs.task(max_attempts=1)
            def break_down() -> None:
                raise ValueError("x" * 1000 + "end")

            by_worker, by_hand = break_down.enqueue().id, 0
            jobs.drain()
            claimed = _claimed(jobs)
            by_hand = claimed.id
            jobs.fail(claimed, ValueError("x" * 1000 + "end"))
            kept = [jobs.attempts(job_id)[0].traceback for job_id in (by_worker, by_hand)]
        if not longest:
            assert kept == [None, None]
        else:
            assert [len(traceback or "") for traceback in kept] == [longest, longest]
            assert all((traceback or "").endswith("end\n") for traceback in kept)


class TestSecrets:
    @pytest.fixture
    def scrubbing(self, store: Store) -> Iterator[Rowcall]:
        with Rowcall(store.url, scrub=lambda text: re.sub(r"sk_live_\d{30}", HIDDEN, text)) as jobs:
            yield jobs

    def test_no_secret_of_a_worker_s_failure_is_stored_or_logged(
        self, store: Store, scrubbing: Rowcall, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG, logger="rowcall")
        ways = _declare_ways_to_fail(scrubbing)
        for way in ways:
            scrubbing.enqueue(way)
        store.execute(f"insert into rowcall_job (type, payload) values ('picky', '{{\"number\": \"{SECRET}\"}}')")
        scrubbing.drain()
        _forget_payloads(store)
        rows = repr(all_rows(store))
        assert SECRET[:12] not in rows
        assert SECRET[:12] not in caplog.text
        for way in ways:
            (job,) = scrubbing.list(type=way).jobs
            assert HIDDEN in (job.error_detail or ""), way
            assert HIDDEN in caplog.text

    def test_no_secret_of_a_failure_by_hand_is_stored(self, store: Store, scrubbing: Rowcall) -> None:
        for error in (ValueError(f"asked with {SECRET}"), Fail("A:B", SECRET), Cancel(SECRET), Retry(1, SECRET)):
            job = _claimed(scrubbing)
            scrubbing.fail(job, error)
            assert HIDDEN in (scrubbing.get(job.id).error_detail or "")
        job = _claimed(scrubbing)
        scrubbing.fail(job, "A:B", f"asked with {SECRET}")
        assert scrubbing.get(job.id).error_detail == f"asked with {HIDDEN}"
        cancelled = scrubbing.enqueue("by hand")
        assert scrubbing.cancel(cancelled.id, f"leaked {SECRET}").error_detail == f"leaked {HIDDEN}"
        assert SECRET[:12] not in repr(all_rows(store))

    @pytest.mark.parametrize("make", [ValueError, lambda text: Fail("A:B", text), Cancel, lambda text: Retry(1, text)])
    def test_a_secret_where_a_text_is_cut_leaves_no_half(
        self, store: Store, scrubbing: Rowcall, make: Callable[[str], BaseException]
    ) -> None:
        job = _claimed(scrubbing)
        scrubbing.fail(job, make("x" * 230 + SECRET + "y" * 600))
        assert "sk_live" not in repr(all_rows(store))
        assert len(scrubbing.get(job.id).error_detail or "") == 500

    @pytest.mark.parametrize("wrong", [lambda text: 1 / 0, lambda text: None], ids=["raises", "returns no text"])
    def test_a_scrubber_that_fails_lets_nothing_through(
        self, store: Store, wrong: Callable[[str], str], caplog: pytest.LogCaptureFixture
    ) -> None:
        with Rowcall(store.url, scrub=wrong) as jobs:

            @jobs.task(max_attempts=1)
            def break_down() -> None:
                raise ValueError(SECRET)

            ids = [break_down.enqueue().id for _ in range(3)]
            assert jobs.drain().failed == 3
            for job_id in ids:
                assert jobs.get(job_id).error_detail == "<scrubbing failed>"
                assert jobs.attempts(job_id)[0].traceback == "<scrubbing failed>"
        assert SECRET not in repr(all_rows(store))
        assert SECRET not in caplog.text
        assert caplog.text.count("scrub failed, texts are replaced") == 1


def _declare_ways_to_fail(jobs: Rowcall) -> list[str]:
    """Tasks that fail in every way there is, with a secret in what they say."""

    def broken_policy(attempt: int, error: BaseException) -> float:
        raise LookupError(f"policy with {SECRET}")

    def rude_policy(attempt: int, error: BaseException) -> float:
        raise SystemExit(f"policy with {SECRET}")

    @jobs.task
    def plain() -> None:
        raise ValueError(f"asked with {SECRET}")

    @jobs.task
    async def on_the_loop() -> None:
        raise ValueError(f"asked with {SECRET}")

    @jobs.task(retry=broken_policy)
    def policy_breaks() -> None:
        raise ValueError(f"asked with {SECRET}")

    @jobs.task(retry=rude_policy)
    def policy_breaks_rudely() -> None:
        raise ValueError(f"asked with {SECRET}")

    @jobs.task
    def gives_up() -> None:
        raise Fail("A:B", f"asked with {SECRET}")

    @jobs.task
    def asks_again() -> None:
        raise Retry(5, f"asked with {SECRET}")

    @jobs.task
    def cancels() -> None:
        raise Cancel(f"asked with {SECRET}")

    @jobs.task
    def returns_what_is_no_json() -> object:
        return type(SECRET, (), {})()

    @jobs.task
    def picky(number: int) -> None: ...

    return sorted(set(queue_of(jobs).declared.tasks) - {"picky"})


def _forget_payloads(store: Store) -> None:
    store.execute("update rowcall_job set payload = '{}'")


def _claimed(jobs: Rowcall) -> Job:
    jobs.enqueue("by hand")
    job = jobs.dequeue("hand", queues=["default"])
    assert job is not None
    return job
