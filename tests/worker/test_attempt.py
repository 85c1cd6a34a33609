"""How a handler may end, and what is written of it."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Literal, NoReturn

import pytest

from rowcall import Backoff, Cancel, Context, Fail, Job, Retry, Rowcall, Snooze
from tests.worker.support import Site

HUGE = 5_000_000


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Unusual(BaseException):
    pass


def end_with(error: BaseException) -> NoReturn:
    raise error


def run_both_ways(jobs: Rowcall, act: Callable[[], object]) -> list[Job]:
    """The same handler in a thread and on the event loop, each followed by a job that must not suffer from it."""

    @jobs.task(max_attempts=1)
    def in_thread() -> object:
        return act()

    @jobs.task(max_attempts=1)
    async def on_loop() -> object:
        await asyncio.sleep(0)
        return act()

    @jobs.task
    def after_thread() -> str:
        return "well"

    @jobs.task
    async def after_loop() -> str:
        return "well"

    made = [in_thread.enqueue(), on_loop.enqueue()]
    neighbours = [after_thread.enqueue(), after_loop.enqueue()]
    jobs.drain(concurrency=1)
    assert [jobs.get(job.id).result for job in neighbours] == ["well", "well"]
    return [jobs.get(job.id) for job in made]


@pytest.mark.parametrize(
    ("error", "code", "detail"),
    [
        (ValueError("no such thing"), "INTERNAL:ValueError", "no such thing"),
        (Unusual("unusual"), "INTERNAL:Unusual", "unusual"),
        (KeyboardInterrupt(), "INTERNAL:KeyboardInterrupt", "KeyboardInterrupt"),
        (GeneratorExit("stop"), "INTERNAL:GeneratorExit", "stop"),
        (asyncio.CancelledError("on its own"), "INTERNAL:CancelledError", "on its own"),
        (Unspeakable(), "INTERNAL:Unspeakable", "str(error) raised RuntimeError"),
        (ValueError("a\0b\ud800c"), "INTERNAL:ValueError", "a�b?c"),
    ],
)
def test_whatever_a_handler_raises_fails_its_attempt_only(
    jobs: Rowcall, error: BaseException, code: str, detail: str
) -> None:
    for job in run_both_ways(jobs, lambda: end_with(error)):
        assert (job.status, job.error_code, job.error_detail) == ("failed", code, detail)
        (attempt,) = jobs.attempts(job.id)
        assert attempt.traceback is not None
        assert "\0" not in attempt.traceback


def test_sys_exit_ends_the_attempt_and_not_the_worker(jobs: Rowcall) -> None:
    for job in run_both_ways(jobs, lambda: sys.exit(3)):
        assert (job.status, job.error_code, job.error_detail) == ("failed", "INTERNAL:SystemExit", "3")


def test_a_huge_error_is_cut(jobs: Rowcall) -> None:
    for job in run_both_ways(jobs, lambda: end_with(ValueError("begin" + "x" * HUGE + "end"))):
        assert job.error_detail is not None
        assert len(job.error_detail) == 500
        assert job.error_detail.startswith("begin")
        assert job.error_detail.endswith("end")


@pytest.mark.parametrize("result", [object(), {1, 2, object()}, float("nan"), {"deep": lambda: None}])
def test_a_result_that_json_cannot_hold_fails_without_a_retry(jobs: Rowcall, result: object) -> None:
    for job in run_both_ways(jobs, lambda: result):
        assert job.status == "failed"
        assert job.error_code == "INVALID_OUTPUT:NOT_JSON"
        assert job.error_detail is not None


def test_a_nul_in_a_result_is_replaced(jobs: Rowcall) -> None:
    for job in run_both_ways(jobs, lambda: ["a\0b"]):
        assert (job.status, job.result) == ("succeeded", ["a�b"])


def test_a_result_that_holds_itself_fails_without_a_retry(jobs: Rowcall) -> None:
    endless: list[object] = []
    endless.append(endless)
    for job in run_both_ways(jobs, lambda: endless):
        assert (job.status, job.error_code) == ("failed", "INVALID_OUTPUT:NOT_JSON")


def test_a_huge_result_is_kept_whole(jobs: Rowcall) -> None:
    for job in run_both_ways(jobs, lambda: {"text": "é" * HUGE}):
        assert job.status == "succeeded"
        assert job.result == {"text": "é" * HUGE}


def test_a_failed_attempt_is_retried_with_its_policy(jobs: Rowcall) -> None:
    @jobs.task(max_attempts=3, retry=Backoff.constant(0))
    def flaky(ctx: Context) -> int:
        if ctx.job.attempt < 3:
            raise ConnectionError("not yet")
        return ctx.job.attempt

    job = flaky.enqueue()
    summary = jobs.drain()
    assert (summary.retried, summary.succeeded) == (2, 1)
    assert [one.status for one in jobs.attempts(job.id)] == ["failed", "failed", "succeeded"]
    assert jobs.get(job.id).result == 3


def test_a_handler_says_how_it_ends(jobs: Rowcall) -> None:
    @jobs.task(max_attempts=2)
    async def says(how: str) -> None:
        raise {
            "retry": Retry(delay=60, reason="later"),
            "snooze": Snooze(delay=60),
            "fail": Fail("UPSTREAM:GONE", "410"),
            "cancel": Cancel("not needed"),
        }[how]

    made = {how: says.enqueue(how) for how in ("retry", "snooze", "fail", "cancel")}
    summary = jobs.drain()
    assert (summary.retried, summary.snoozed, summary.failed, summary.cancelled, summary.total) == (1, 1, 1, 1, 4)
    found = {how: jobs.get(job.id) for how, job in made.items()}
    assert {how: (job.status, job.attempt) for how, job in found.items()} == {
        "retry": ("scheduled", 1),
        "snooze": ("scheduled", 0),
        "fail": ("failed", 1),
        "cancel": ("cancelled", 1),
    }
    assert (found["fail"].error_code, found["fail"].error_detail) == ("UPSTREAM:GONE", "410")
    assert found["cancel"].error_detail == "not needed"


@pytest.mark.parametrize("payload", ["not json", "[1]", '{"number": "x"}', '{"number": 1, "more": 2}', "{}"])
def test_a_payload_that_does_not_fit_fails_at_once(site: Site, payload: str) -> None:
    """Where no other worker is waited for."""
    jobs, ran = Rowcall(site.database, mismatch_grace=0), list[int]()

    @jobs.task
    def counts(number: int) -> None:
        ran.append(number)

    fit = counts.enqueue(1)
    with closing(sqlite3.connect(site.database)) as connection, connection:
        connection.execute("insert into rowcall_job (type, payload) values ('counts', ?)", (payload,))
    summary = jobs.drain()
    assert (summary.failed, summary.succeeded) == (1, 1)
    (failed,) = jobs.list(status="failed").jobs
    assert failed.error_code is not None
    assert failed.error_code.startswith("INVALID_INPUT:")
    assert failed.attempt == 1
    assert jobs.get(fit.id).status == "succeeded"
    assert ran == [1]
    jobs.close()


def test_lines_logged_by_a_handler_carry_its_job(jobs: Rowcall, caplog: pytest.LogCaptureFixture) -> None:
    @jobs.task(queue="mail")
    def logs(ctx: Context) -> None:
        ctx.log.warning("half way %d", 1, extra={"more": "said"})

    job = logs.enqueue()
    with caplog.at_level(logging.WARNING, "rowcall"):
        jobs.drain()
    (record,) = [record for record in caplog.records if record.getMessage() == "half way 1"]
    fields = vars(record)
    assert {name: fields[name] for name in ("job_id", "job_type", "job_queue", "job_attempt", "more")} == {
        "job_id": job.id,
        "job_type": "logs",
        "job_queue": "mail",
        "job_attempt": 1,
        "more": "said",
    }


def test_a_handler_sees_its_job_as_it_was_claimed(jobs: Rowcall) -> None:
    seen: list[Job] = []

    @jobs.task
    def looks(ctx: Context, text: str) -> None:
        seen.append(ctx.job)

    job = looks.using(priority=3, tags=["a", "b"]).enqueue("x")
    jobs.drain()
    (found,) = seen
    assert (found.id, found.status, found.attempt, found.priority) == (job.id, "running", 1, 3)
    assert (found.payload, found.tags) == ({"text": "x"}, ("a", "b"))
    assert found.worker == jobs.get(job.id).worker


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_coroutine_as_a_result_says_what_may_be_missing(
    jobs: Rowcall, isolation: Literal["thread", "process"]
) -> None:
    job = jobs.task(isolation=isolation)(forgets_to_await).enqueue()
    jobs.drain()
    failed = jobs.get(job.id)
    assert (failed.status, failed.error_code) == ("failed", "INVALID_OUTPUT:NOT_JSON")
    assert failed.error_detail == "the handler returned a coroutine, which is not JSON; is an await missing?"


def forgets_to_await() -> object:
    async def inner() -> None: ...

    return inner()
