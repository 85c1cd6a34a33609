"""Steps of many attempts share commits, and one that cannot be written does not fail the others."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest

from rowcall import Context, DataRefused, Rowcall
from rowcall.app import queue_of
from rowcall.domain.step import StepKind
from rowcall.store.new_step import StepWrite
from rowcall.store.steps import recorded
from rowcall.worker.steps import StepWriter


def test_steps_of_many_attempts_share_commits(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    record = recorded.record

    def counted(dialect: Any, writes: Sequence[StepWrite], enqueue: Any) -> Any:
        sizes.append(len(writes))
        return record(dialect, writes, enqueue)

    monkeypatch.setattr(recorded, "record", counted)
    barrier = asyncio.Barrier(20)

    @jobs.task
    async def handler(ctx: Context) -> None:
        await barrier.wait()
        for number in range(5):
            await ctx.step(f"{number}", asyncio.sleep, 0)

    handler.enqueue_many([{}] * 20)
    assert jobs.drain(concurrency=20).succeeded == 20
    assert sum(sizes) == 100
    assert len(sizes) < 60


def test_one_bad_step_of_a_group(jobs: Rowcall) -> None:
    @jobs.task
    def handler() -> None: ...

    handler.enqueue_many([{}] * 2)
    first, second = jobs.claim("by hand", limit=2)
    writer = StepWriter(queue_of(jobs))

    async def both() -> tuple[object, object]:
        good = StepWrite(first.id, first.lease, first.holder, 1, 1, StepKind.STEP, "good", finished=True)
        bad = StepWrite(second.id, second.lease, second.holder, 1, 2**60, StepKind.STEP, "bad", finished=True)
        return await asyncio.gather(writer.awrite("x", [bad]), writer.awrite("x", [good]), return_exceptions=True)

    refused, written = asyncio.run(both())
    assert isinstance(refused, DataRefused)
    assert not isinstance(written, BaseException)
    assert [step.name for step in jobs.steps(first)] == ["good"]
    assert jobs.steps(second) == []


def test_a_step_that_has_ended_is_written_before_its_task_is_cancelled(jobs: Rowcall) -> None:
    @jobs.task
    def handler() -> None: ...

    handler.enqueue()
    (job,) = jobs.claim("by hand")
    writer = StepWriter(queue_of(jobs))

    async def cancelled_while_another_one_commits() -> None:
        step = StepWrite(job.id, job.lease, job.holder, 1, 1, StepKind.STEP, "done", finished=True)
        with closing(sqlite3.connect(queue_of(jobs).config.path)) as other_one:
            other_one.execute("begin immediate")
            write = asyncio.create_task(writer.awrite("x", [step]))
            for _ in range(5):
                await asyncio.sleep(0)
                write.cancel()
            assert not write.done()
        with pytest.raises(asyncio.CancelledError):
            await write

    asyncio.run(cancelled_while_another_one_commits())
    assert [step.name for step in jobs.steps(job)] == ["done"]
