"""SIGKILL between a write on a lent connection and its commit, or right after it."""

from __future__ import annotations

import pytest

from rowcall import Context, Rowcall
from tests.drivers.caller.callers.base import Caller
from tests.drivers.caller.callers.kinds import BY_NAME
from tests.drivers.caller.desk import Desk, Lending
from tests.drivers.caller.handling import codes_of, handler_of
from tests.drivers.caller.nursery import Line, Nursery

pytestmark = pytest.mark.crash


def enqueue_and_wait(line: Line, kind: str, place: str, url: str, queue: str) -> None:
    """In a process of its own, which does not live to see its commit."""

    async def scenario() -> None:
        async with BY_NAME[kind].opened(place) as mine:
            await mine.begin()
            await mine.execute(f"insert into mine (id, note) values (1, '{queue}')")
            await mine.enqueue(desk.send.using(connection=mine.lent, queue=queue), "a")
            (count,) = await mine.execute(f"select count(*) from rowcall_job where queue = '{queue}'")
            line.say(seen=count[0])
            line.wait_for_the_end()
            await mine.commit()

    with Rowcall(url) as jobs:
        desk = Desk(place, jobs)
        BY_NAME[kind].run(scenario())


def test_killed_before_the_commit(lending: Lending, nursery: Nursery) -> None:
    wishes = {"kind": lending.kind.name, "place": lending.desk.place, "url": lending.desk.url, "queue": lending.queue}
    with nursery.child(f"{__name__}:enqueue_and_wait", **wishes) as child:
        assert child.ready() == {"seen": 1}
        child.kill()
    lending.desk.wait_for_writers()
    assert lending.written == []
    assert lending.notes == 0


def work_and_wait(line: Line, kind: str, place: str, url: str, queue: str, killed: str) -> None:
    """A worker in a process of its own, whose handler waits to be killed before or after its commit."""
    with Rowcall(url) as jobs:
        lending = Lending(BY_NAME[kind], Desk(place, jobs), Desk(place, Rowcall(url)))
        lending.queue = queue

        async def body(ctx: Context, mine: Caller) -> None:
            await mine.begin()
            await mine.execute(lending.note)
            await mine.complete(ctx, "by the first")
            if killed == "after the commit":
                await mine.commit()
            line.say(completed=ctx.job.id)
            line.wait_for_the_end()

        handler_of(lending, body)
        with jobs.worker(queues=[queue], lease=600):
            line.wait_for_the_end()


@pytest.mark.parametrize("killed", ["before the commit", "after the commit"])
def test_a_worker_killed_between_complete_and_the_end_of_its_handler(
    main_lending: Lending, nursery: Nursery, killed: str
) -> None:
    lending, ran = main_lending, []

    async def body(ctx: Context, mine: Caller) -> None:
        ran.append(ctx.job.attempt)
        await mine.begin()
        await mine.execute(lending.note)
        await mine.complete(ctx, "by the second")
        await mine.commit()

    job = handler_of(lending, body, max_attempts=2).enqueue()
    wishes = {"kind": lending.kind.name, "place": lending.desk.place, "url": lending.desk.url, "queue": lending.queue}
    with nursery.child(f"{__name__}:work_and_wait", **wishes, killed=killed) as child:
        assert child.ready() == {"completed": job.id}
        child.kill()
    lending.desk.wait_for_writers()
    lending.jobs.drain(queues=[lending.queue])
    job = lending.jobs.get(job.id)
    if killed == "before the commit":
        assert (job.status, job.result, job.attempt, ran) == ("succeeded", "by the second", 2, [2])
        assert codes_of(lending, job) == ["WORKER:LOST", None]
    else:
        assert (job.status, job.result, job.attempt, ran) == ("succeeded", "by the first", 1, [])
    assert lending.notes == 1
