"""Every method that touches the database has an async twin that does the same."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from rowcall import LeaseLost, Rowcall, Status, WrongState
from rowcall.testing.fake_clock import FakeClock

WITH_TWIN = [
    "adrain",
    "aenqueue",
    "aclaim",
    "adequeue",
    "acomplete",
    "afail",
    "aheartbeat",
    "arelease",
    "aget",
    "alist",
    "aattempts",
    "atimeline",
    "aworkers",
    "astats",
    "aresult",
    "aretry",
    "acancel",
    "adelete",
    "areschedule",
    "aset_priority",
    "apause",
    "aresume",
    "apaused",
    "amigrate",
    "aadd_schedule",
    "aschedules",
    "aremove_schedule",
    "arun_schedule_now",
    "apause_schedule",
    "aresume_schedule",
]


class TestAsyncTwins:
    @pytest.mark.parametrize("name", WITH_TWIN)
    def test_it_takes_what_the_other_takes(self, name: str) -> None:
        twin, other = getattr(Rowcall, name), getattr(Rowcall, name.removeprefix("a"))
        assert inspect.iscoroutinefunction(twin)
        assert inspect.signature(twin) == inspect.signature(other)

    def test_claiming_and_settling(self, jobs: Rowcall, clock: FakeClock) -> None:
        async def story() -> None:
            await jobs.amigrate()
            first = await jobs.aenqueue("send", {"to": "a"}, tags=["x"])
            assert await jobs.aget(first.id) == first
            claimed = await jobs.adequeue("hand")
            assert claimed is not None
            await jobs.aheartbeat(claimed)
            await jobs.arelease(claimed)
            (again,) = await jobs.aclaim("hand", limit=5)
            await jobs.afail(again, "TEST:CODE")
            assert (await jobs.aget(first.id)).status is Status.SCHEDULED
            clock.advance(30)
            (last,) = await jobs.aclaim("hand")
            await jobs.acomplete(last, {"ok": True})
            assert (await jobs.aget(first.id)).result == {"ok": True}
            with pytest.raises(LeaseLost):
                await jobs.acomplete(last)
            assert [one.status for one in await jobs.aattempts(first.id)] == ["released", "failed", "succeeded"]
            assert (await jobs.atimeline(first.id))[-1].event == "SUCCEEDED"

        asyncio.run(story())

    def test_looking_and_steering(self, jobs: Rowcall) -> None:
        async def story() -> None:
            job = await jobs.aenqueue("send", delay=60)
            with pytest.raises(WrongState):
                await jobs.aretry(job.id)
            assert (await jobs.acancel(job.id)).status is Status.CANCELLED
            assert (await jobs.aretry(job.id)).status is Status.PENDING
            assert (await jobs.astats()).by_status["pending"] == 1
            assert [one.id for one in (await jobs.alist(status="pending")).jobs] == [job.id]
            assert (await jobs.areschedule(job.id, delay=60)).status is Status.SCHEDULED
            assert (await jobs.aset_priority(job.id, 5)).priority == 5
            paused = await jobs.apause("mail")
            assert await jobs.apaused() == [paused]
            assert await jobs.aresume("mail")
            assert await jobs.acancel(status="scheduled") == 1
            assert await jobs.aretry(status="cancelled", rate=1) == 1
            assert await jobs.aworkers() == []
            await jobs.adelete(job.id)
            assert (await jobs.alist()).jobs == []

        asyncio.run(story())

    def test_tasks_and_drain(self, jobs: Rowcall) -> None:
        @jobs.task
        async def double(number: int) -> int:
            return 2 * number

        async def story() -> None:
            one = await double.aenqueue(4)
            many = await double.aenqueue_many([{"number": number} for number in range(3)])
            assert (await jobs.adrain()).succeeded == 4
            results = [(await jobs.aget(job.id)).result for job in (one, *many)]
            assert results == [8, 0, 2, 4]

        asyncio.run(story())
