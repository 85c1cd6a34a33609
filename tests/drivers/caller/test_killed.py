"""SIGKILL between a write on a caller's connection and its commit, or right after it."""

from __future__ import annotations

import pytest

from rowcall import Context, Rowcall
from tests.drivers.caller.callers.base import Caller
from tests.drivers.caller.callers.kinds import BY_NAME
from tests.drivers.caller.fork_server import ForkServer, Line
from tests.drivers.caller.handlers import codes_of, handler_of
from tests.drivers.caller.queue_site import Case, Site

pytestmark = pytest.mark.crash


def enqueue_and_wait(line: Line, kind: str, database: str, url: str, queue: str) -> None:
    """In a separate process, which is killed before its commit returns."""

    async def scenario() -> None:
        async with BY_NAME[kind].opened(database) as mine:
            await mine.begin()
            await mine.execute(f"insert into mine (id, note) values (1, '{queue}')")
            await mine.enqueue(site.send.using(connection=mine.connection, queue=queue), "a")
            (count,) = await mine.execute(f"select count(*) from rowcall_job where queue = '{queue}'")
            line.say(seen=count[0])
            line.wait_for_the_end()
            await mine.commit()

    with Rowcall(url) as jobs:
        site = Site(database, jobs)
        BY_NAME[kind].run(scenario())


def test_killed_before_the_commit(case: Case, fork_server: ForkServer) -> None:
    wishes = {"kind": case.kind.name, "database": case.site.database, "url": case.site.url, "queue": case.queue}
    with fork_server.child(f"{__name__}:enqueue_and_wait", **wishes) as child:
        assert child.ready() == {"seen": 1}
        child.kill()
    case.site.wait_for_writers()
    assert case.written == []
    assert case.notes == 0


def work_and_wait(line: Line, kind: str, database: str, url: str, queue: str, killed: str) -> None:
    """A worker in a separate process, whose handler waits to be killed before or after its commit."""
    with Rowcall(url) as jobs:
        case = Case(BY_NAME[kind], Site(database, jobs), Site(database, Rowcall(url)))
        case.queue = queue

        async def body(ctx: Context, mine: Caller) -> None:
            await mine.begin()
            await mine.execute(case.note)
            await mine.complete(ctx, "by the first")
            if killed == "after the commit":
                await mine.commit()
            line.say(completed=ctx.job.id)
            line.wait_for_the_end()

        handler_of(case, body)
        with jobs.worker(queues=[queue], lease=600):
            line.wait_for_the_end()


@pytest.mark.parametrize("killed", ["before the commit", "after the commit"])
def test_a_worker_killed_between_complete_and_the_end_of_its_handler(
    main_case: Case, fork_server: ForkServer, killed: str
) -> None:
    case, ran = main_case, []

    async def body(ctx: Context, mine: Caller) -> None:
        ran.append(ctx.job.attempt)
        await mine.begin()
        await mine.execute(case.note)
        await mine.complete(ctx, "by the second")
        await mine.commit()

    job = handler_of(case, body, max_attempts=2).enqueue()
    wishes = {"kind": case.kind.name, "database": case.site.database, "url": case.site.url, "queue": case.queue}
    with fork_server.child(f"{__name__}:work_and_wait", **wishes, killed=killed) as child:
        assert child.ready() == {"completed": job.id}
        child.kill()
    case.site.wait_for_writers()
    case.jobs.drain(queues=[case.queue])
    job = case.jobs.get(job.id)
    if killed == "before the commit":
        assert (job.status, job.result, job.attempt, ran) == ("succeeded", "by the second", 2, [2])
        assert codes_of(case, job) == ["WORKER:LOST", None]
    else:
        assert (job.status, job.result, job.attempt, ran) == ("succeeded", "by the first", 1, [])
    assert case.notes == 1
