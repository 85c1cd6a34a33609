"""`drain(raise_errors=True)`: what handlers raise reaches the test."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import traceback
import weakref
from pathlib import Path

import pytest

from rowcall import Backoff, Cancel, Context, Fail, JobFailed, Retry, Rowcall, Snooze


class Refused(Exception):
    def __init__(self, order: int, reason: str) -> None:
        super().__init__(f"{order}: {reason}")
        self.order = order


def test_the_exception_itself_is_raised_once_all_jobs_are_settled(jobs: Rowcall) -> None:
    @jobs.task
    def refuse(order: int) -> None:
        raise Refused(order, "no stock")

    @jobs.task
    def fine() -> int:
        return 1

    refused, done = refuse.enqueue(7), fine.enqueue()
    with pytest.raises(Refused, match="7: no stock") as raised:
        jobs.drain(raise_errors=True)
    assert raised.value.order == 7
    assert traceback.extract_tb(raised.value.__traceback__)[-1].name == "refuse"
    assert (jobs.get(refused).status, jobs.get(done).status) == ("scheduled", "succeeded")
    assert jobs.drain(raise_errors=True).total == 0  # it is due later


def test_errors_of_several_jobs_come_as_a_group(jobs: Rowcall) -> None:
    @jobs.task(max_attempts=1)
    async def refuse(order: int) -> None:
        raise Refused(order, "no stock")

    refuse.enqueue_many([{"order": 1}, {"order": 2}])
    with pytest.raises(ExceptionGroup, match="2 jobs failed") as raised:
        asyncio.run(jobs.adrain(raise_errors=True))
    assert [error.order for error in raised.value.exceptions if isinstance(error, Refused)] == [1, 2]


def test_what_is_meant_to_happen_is_not_an_error(jobs: Rowcall) -> None:
    @jobs.task(retry=Backoff.constant(0))
    def second_time(ctx: Context) -> None:
        if ctx.job.attempt == 1:
            raise ValueError("not yet")

    @jobs.task
    def chosen(how: str) -> None:
        raise {"retry": Retry(60), "snooze": Snooze(60), "cancel": Cancel("why")}[how]

    second_time.enqueue()
    chosen.enqueue_many([{"how": how} for how in ("retry", "snooze", "cancel")])
    assert jobs.drain(raise_errors=True).succeeded == 1


def test_an_end_without_an_exception_is_a_failed_job(jobs: Rowcall) -> None:
    @jobs.task(max_attempts=1, timeout=0.01)
    async def slow() -> None:
        await asyncio.Event().wait()

    @jobs.task
    def refused() -> None:
        raise Fail("STOCK:NONE", "sold out")

    @jobs.task(max_attempts=1)
    def leaving() -> None:
        raise SystemExit(3)

    for task in (slow, leaving):
        job = task.enqueue()
        with pytest.raises(JobFailed) as raised:
            jobs.drain(raise_errors=True)
        assert raised.value.job_id == job.id
    refused.enqueue()
    with pytest.raises(Fail, match="sold out"):
        jobs.drain(raise_errors=True)


def test_no_variable_of_the_handler_is_kept(jobs: Rowcall, tmp_path: Path) -> None:
    kept: list[weakref.ref[sqlite3.Connection]] = []

    class Connection(sqlite3.Connection): ...

    @jobs.task
    def open_transaction() -> None:
        connection = sqlite3.connect(tmp_path / "other.db", factory=Connection)
        kept.append(weakref.ref(connection))
        try:
            connection.execute("begin immediate")
            raise ValueError("inner")
        except ValueError as error:
            raise RuntimeError("outer") from error

    open_transaction.enqueue()
    with pytest.raises(RuntimeError, match="outer") as raised:
        jobs.drain(raise_errors=True)
    gc.collect()  # a connection and its cache of statements refer to each other
    assert kept[0]() is None
    assert raised.value.__traceback__ is not None
