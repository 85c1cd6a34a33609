"""Handlers that end in ways no handler should: the attempt is settled, the worker continues."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from rowcall import Rowcall


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db") as jobs:
        yield jobs


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def raise_it(error: BaseException) -> NoReturn:
    raise error


def deeper(level: int = 0) -> int:
    return deeper(level + 1)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("end", "code", "detail"),
    [
        (lambda: raise_it(BaseException("odd")), "INTERNAL:BaseException", "odd"),
        (lambda: sys.exit(3), "INTERNAL:SystemExit", "3"),
        (lambda: sys.exit(), "INTERNAL:SystemExit", "SystemExit"),
        (lambda: raise_it(KeyboardInterrupt()), "INTERNAL:KeyboardInterrupt", "KeyboardInterrupt"),
        (lambda: raise_it(GeneratorExit()), "INTERNAL:GeneratorExit", "GeneratorExit"),
        (lambda: raise_it(asyncio.CancelledError()), "INTERNAL:CancelledError", "CancelledError"),
        (lambda: raise_it(StopIteration(5)), "INTERNAL:", ""),
        (lambda: raise_it(MemoryError()), "RESOURCE:OUT_OF_MEMORY", "MemoryError"),
        (lambda: raise_it(Unprintable()), "INTERNAL:Unprintable", "str(error) raised"),
        (lambda: raise_it(ValueError("a\0b\ud800")), "INTERNAL:ValueError", "a\ufffdb?"),
        (lambda: raise_it(ValueError("x" * 1_000_000)), "INTERNAL:ValueError", "xxx"),
        (lambda: raise_it(ExceptionGroup("two", [ValueError(), KeyError()])), "INTERNAL:ExceptionGroup", "two"),
        (deeper, "INTERNAL:RecursionError", "recursion"),
    ],
)
def test_whatever_a_handler_raises_is_a_failed_attempt(
    jobs: Rowcall, end: Callable[[], object], code: str, detail: str, is_async: bool
) -> None:
    if is_async:

        @jobs.task(name="bad", max_attempts=2)
        async def bad_async() -> None:
            end()
    else:

        @jobs.task(name="bad", max_attempts=2)
        def bad_sync() -> None:
            end()

    @jobs.task
    def good() -> None: ...

    bad = jobs.enqueue("bad")
    neighbours = good.enqueue_many([{}] * 5)
    summary = jobs.drain()
    assert (summary.retried, summary.succeeded) == (1, 5)
    job = jobs.get(bad.id)
    assert (job.status, job.attempt) == ("scheduled", 1)
    assert (job.error_code or "").startswith(code)
    assert detail in (job.error_detail or "")
    (attempt,) = jobs.attempts(bad.id)
    assert attempt.traceback
    assert {jobs.get(neighbour.id).status for neighbour in neighbours} == {"succeeded"}


class Opaque:
    pass


def endless() -> list[object]:
    itself: list[object] = []
    itself.append(itself)
    return itself


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("result", "said"),
    [
        (Opaque(), "which is not JSON"),
        (float("nan"), "NaN or infinity"),
        ({"a": [float("inf")]}, "NaN or infinity"),
        ("\ud800", "surrogate"),
        (endless(), "nested too deeply"),
        ({(1, 2): 3}, "which is not JSON"),
        (lambda: None, "which is not JSON"),
    ],
    ids=["object", "nan", "infinity", "surrogate", "endless", "key", "function"],
)
def test_a_result_that_json_cannot_hold_fails_without_a_retry(
    jobs: Rowcall, result: object, said: str, is_async: bool
) -> None:
    if is_async:

        @jobs.task(name="bad", max_attempts=5)
        async def bad_async() -> object:
            return result
    else:

        @jobs.task(name="bad", max_attempts=5)
        def bad_sync() -> object:
            return result

    @jobs.task
    def good() -> dict[str, int]:
        return {"a": 1}

    bad, neighbour = jobs.enqueue("bad"), good.enqueue()
    summary = jobs.drain()
    assert (summary.failed, summary.succeeded) == (1, 1)
    job = jobs.get(bad.id)
    assert (job.status, job.attempt, job.error_code) == ("failed", 1, "INVALID_OUTPUT:NOT_JSON")
    assert (job.error_detail or "").startswith("the handler returned ")
    assert said in (job.error_detail or "")
    assert job.result is None
    assert jobs.get(neighbour.id).result == {"a": 1}


def test_a_nul_in_a_result_is_replaced_as_the_work_is_done(jobs: Rowcall) -> None:
    @jobs.task
    def read() -> list[object]:
        return ["a\0b", {"c\0": "\\u0000"}]

    job = read.enqueue()
    assert jobs.drain().succeeded == 1
    assert jobs.get(job.id).result == ["a\ufffdb", {"c\ufffd": "\\u0000"}]


def test_a_handler_that_forks_and_ends_the_child_harms_no_other_job(jobs: Rowcall) -> None:
    @jobs.task
    def forks() -> int:
        child = os.fork()
        if child == 0:
            os._exit(7)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    job = forks.enqueue()
    assert jobs.drain().succeeded == 1
    assert jobs.get(job.id).result == 7
    assert jobs.enqueue("after").id == job.id + 1


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_coroutine_that_was_not_awaited_is_said_to_be_one(jobs: Rowcall) -> None:
    async def fetch() -> int:
        return 1

    @jobs.task
    def forgetful() -> object:
        return fetch()

    @jobs.task
    async def forgetful_async() -> object:
        return {"page": fetch()}

    written = [forgetful.enqueue(), forgetful_async.enqueue()]
    jobs.drain()
    for job, returned in zip(written, ("a", "a dict in which 'page' is a"), strict=True):
        detail = f"the handler returned {returned} coroutine, which is not JSON; is an await missing?"
        assert jobs.get(job.id).error_detail == detail
