"""Dependencies whose making fails, and what remains of an attempt."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated

import pytest

from rowcall import INJECTED, Depends, JobFailed, Rowcall

seen: list[str] = []


class Large: ...


held: list[weakref.ref[Large]] = []


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    seen.clear()
    with Rowcall(tmp_path / "app.db") as jobs:
        yield jobs


def first() -> Iterator[str]:
    try:
        yield "first"
    except OSError:
        seen.append("first caught it")


async def afirst() -> AsyncIterator[str]:
    try:
        yield "first"
    except OSError:
        seen.append("first caught it")


def broken() -> Iterator[str]:
    raise OSError("no connection")
    yield "never"


def large() -> Iterator[Large]:
    yield Large()


def test_one_that_cannot_be_made_fails_the_attempt_and_closes_the_others(jobs: Rowcall) -> None:
    @jobs.task(max_attempts=1)
    def in_a_thread(one: Annotated[str, Depends(first)], other: Annotated[str, Depends(broken)]) -> None:
        seen.append("called")

    @jobs.task(max_attempts=1)
    async def on_the_loop(one: Annotated[str, Depends(afirst)], other: Annotated[str, Depends(broken)]) -> None:
        seen.append("called")

    sent = [jobs.enqueue("in_a_thread"), jobs.enqueue("on_the_loop")]
    jobs.drain(concurrency=1)
    assert [jobs.get(job).error_detail for job in sent] == ["no connection", "no connection"]
    assert seen == ["first caught it", "first caught it"]


def test_a_failed_attempt_leaves_no_reference_cycle(jobs: Rowcall) -> None:
    """A cycle would keep sessions open until the next garbage collection."""

    @jobs.task(max_attempts=1)
    def fails(one: Annotated[Large, Depends(large)] = INJECTED) -> None:
        held.append(weakref.ref(one))
        raise ValueError("bad")

    @jobs.task(max_attempts=1)
    async def fails_async(one: Annotated[Large, Depends(large)] = INJECTED) -> None:
        held.append(weakref.ref(one))
        raise ValueError("bad")

    fails.enqueue()
    fails_async.enqueue()
    gc.disable()
    try:
        jobs.drain(concurrency=1)
        assert [one() for one in held] == [None, None]
    finally:
        gc.enable()


def test_a_dependency_of_the_worker_that_is_declared_too_late(jobs: Rowcall) -> None:
    with jobs.worker():

        @jobs.task(max_attempts=1)
        def late(one: Annotated[list[str], Depends(list, scope="worker")] = INJECTED) -> None: ...

        job = late.enqueue()
        with pytest.raises(JobFailed, match="it was declared after the worker had started"):
            jobs.result(job, timeout=20)
