"""The lifespan of an app: entered before the first claim, left after the last job is settled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from rowcall import Context, LifespanFailed, Rowcall


class TestLifespans:
    def test_jobs_are_settled_when_a_sync_one_is_left(self, jobs: Rowcall) -> None:
        seen: list[str] = []

        @jobs.lifespan
        def resources() -> Iterator[dict[str, str]]:
            seen.extend(jobs.get(job).status for job in sent)
            yield {"name": "pool"}
            seen.extend(jobs.get(job).status for job in sent)

        @jobs.task
        def in_a_thread(ctx: Context[dict[str, str]]) -> str:
            return ctx.resources["name"]

        @jobs.task
        async def on_the_loop(ctx: Context[dict[str, str]]) -> str:
            return ctx.resources["name"]

        @jobs.task(batch=2, batch_wait=0.0)
        def in_a_batch(ctx: Context[dict[str, str]], items: list[int]) -> list[str]:
            return [ctx.resources["name"] for _ in items]

        sent = [in_a_thread.enqueue(), on_the_loop.enqueue(), in_a_batch.enqueue(1)]
        assert jobs.drain().succeeded == 3
        assert seen == ["pending", "pending", "pending", "succeeded", "succeeded", "succeeded"]
        assert [jobs.get(job).result for job in sent] == ["pool", "pool", "pool"]

    def test_an_async_one_is_entered_on_the_event_loop_of_the_handlers(self, jobs: Rowcall) -> None:
        loops: list[object] = []

        @jobs.lifespan
        async def resources() -> AsyncIterator[object]:
            async with asyncio.timeout(None):  # must be left in the task that entered it
                loops.append(asyncio.get_running_loop())
                yield loops[0]
            loops.append(asyncio.get_running_loop())

        @jobs.task
        async def compare(ctx: Context[object]) -> bool:
            return ctx.resources is asyncio.get_running_loop()

        job = compare.enqueue()
        jobs.drain()
        assert jobs.get(job).result is True
        assert len(loops) == 2
        assert loops[0] is loops[1]

    def test_one_that_fails_ends_the_worker_before_it_claims(self, jobs: Rowcall) -> None:
        @jobs.lifespan
        def resources() -> Iterator[None]:
            raise ConnectionRefusedError("no route to the cache")
            yield

        @jobs.task
        def never() -> None: ...

        job = never.enqueue()
        with pytest.raises(LifespanFailed, match="ConnectionRefusedError: no route to the cache"):
            jobs.drain()
        assert (jobs.get(job).status, jobs.get(job).attempt) == ("pending", 0)
        assert jobs.workers() == []
