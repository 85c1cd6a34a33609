"""A call on a connection of the caller's, cancelled wherever it waits, by a caller who then commits: all of it is
written or nothing, and the transaction lives on.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable

import pytest

from rowcall import Context, Job, Rowcall
from rowcall.drivers.caller import connection
from rowcall.drivers.uncancellable import finish
from tests.crash.cancelling import WAYS, Blow, Counted, Moment, blows, cancelled_once, run, suspensions
from tests.drivers.caller.callers.base import Caller, Kind
from tests.drivers.caller.callers.kinds import BY_NAME
from tests.drivers.caller.queue_site import Case, Site

LARGE = 300_000
ASYNC = [
    BY_NAME[name]
    for name in (
        "aiosqlite",
        "aiosqlite-none",
        "psycopg-async",
        "psycopg-async-pipeline",
        "asyncpg",
        "asyncpg-pool",
        "sqlalchemy-aiosqlite-async-connection",
        "sqlalchemy-aiosqlite-async-scoped-session",
        "sqlalchemy-psycopg-async-session",
        "sqlalchemy-asyncpg-async-session",
        "sqlalchemy-asyncpg-async-connection",
        "aiomysql",
        "asyncmy-autocommit",
        "sqlalchemy-asyncmy-async-session",
    )
]


class Call:
    """One call, in its own queue."""

    def __init__(self, case: Case, mine: Caller) -> None:
        self.case = case
        self.mine = mine
        self.jobs = case.jobs
        self.send = case.send(mine)
        self.part = case.site.send.using(queue=case.queue)
        self.other = case.site.send.using(queue="others")


Make = Callable[[Call], tuple[Awaitable[object], int]]
"""Returns a call, and how many jobs it writes."""


def plain(call: Call) -> tuple[Awaitable[object], int]:
    return call.send.aenqueue("a"), 1


def large(call: Call) -> tuple[Awaitable[object], int]:
    return call.send.aenqueue("a" * LARGE), 1


def many(call: Call) -> tuple[Awaitable[object], int]:
    return call.send.aenqueue_many([{"to": "a"}, {"to": "b"}, {"to": "c" * LARGE}]), 3


def after(call: Call) -> tuple[Awaitable[object], int]:
    ended = call.other.enqueue("ended")
    call.jobs.cancel(ended.id)
    blockers: list[Job] = [call.other.enqueue("blocker"), ended]
    return call.case.send(call.mine, after=blockers, on_blocker_failure="run").aenqueue("a"), 1


def key(call: Call) -> tuple[Awaitable[object], int]:
    return call.case.send(call.mine, key=call.case.queue, tags=["a"]).aenqueue("a"), 1


def replacement(call: Call) -> tuple[Awaitable[object], int]:
    call.case.site.send.using(queue=call.case.queue, key=call.case.queue).enqueue("a")
    return call.case.send(call.mine, key=call.case.queue, on_duplicate="replace").aenqueue("b"), 1


def flow(call: Call) -> tuple[Awaitable[object], int]:
    made = call.jobs.flow(connection=call.mine.connection)
    root = made.add(call.part.bind("root"), after=call.other.enqueue("blocker"))
    made.add_chain([call.part.bind("first"), call.part.bind("last")], after=root)
    return made.aenqueue(), 3


def chain(call: Call) -> tuple[Awaitable[object], int]:
    steps = [call.part.bind("first"), call.part.bind("last")]
    return call.jobs.astart_chain(steps, connection=call.mine.connection), 2


def first(call: Call) -> tuple[Awaitable[object], int]:
    """`after`, with which the caller's transaction begins."""
    return after(call)


def check_whole(jobs: Rowcall, site: Site, queue: str, count: int) -> None:
    """All of them, with all that belongs to them, or none."""
    found = jobs.list(queue=queue).jobs
    assert len(found) in (0, count)
    for job in found:
        edges = site.execute(f"select 1 from rowcall_edge where job_id = {job.id}")
        assert (job.status == "blocked") == bool(edges), job
        if job.key is not None:
            events = [event.event for event in jobs.timeline(job.id)]
            assert (job.payload["to"] == "b") == ("REPLACED" in events)
        assert len(jobs.get(job.id).payload["to"]) in (1, 4, 5, LARGE)  # type: ignore[arg-type]
    if "chain" in queue:
        assert not found or {job.chain_id for job in found} == {min(job.id for job in found)}


SOME = [BY_NAME[name] for name in ("aiosqlite", "psycopg-async", "asyncpg", "sqlalchemy-asyncpg-async-session")]
CALLS = [
    *((kind, make) for kind in ASYNC for make in (after, first)),
    *((kind, make) for kind in SOME for make in (plain, large, many, key, replacement, flow, chain)),
]


@pytest.fixture(params=ASYNC, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def sites(request: pytest.FixtureRequest, kind: Kind) -> tuple[Site, Site]:
    return request.getfixturevalue(f"{kind.database}_sites")  # type: ignore[no-any-return]


async def written_next_to(case: Case, mine: Caller, call: Awaitable[object], blow: Blow, notes: int = 2) -> bool:
    """A transaction of the caller's, with a write before the call and one after it, which commits in any case."""
    if notes == 2:
        await mine.execute(case.note)
    was_cancelled = await cancelled_once(call, blow)
    await mine.execute(case.note)
    await mine.commit()
    return was_cancelled


@pytest.mark.parametrize(("kind", "make"), CALLS, ids=lambda one: getattr(one, "name", None) or one.__name__)
def test_a_cancelled_call_is_whole_and_the_transaction_lives_on(
    kind: Kind, sites: tuple[Site, Site], make: Make
) -> None:
    async def story() -> None:
        case, count = Case(kind, *sites), 0

        async def cancel(blow: Blow) -> bool:
            nonlocal case, count
            case = Case(kind, *sites)
            case.queue = f"{make.__name__}_{case.queue}"
            call, count = make(Call(case, mine))
            await mine.begin()
            return await written_next_to(case, mine, call, blow, notes=1 + (make is not first))

        async with kind.opened(case.site.database) as mine:
            async for blow in blows(cancel, WAYS[2:3] if make is first else WAYS[:1]):
                try:
                    assert case.notes == 1 + (make is not first)
                    check_whole(case.jobs, case.site, case.queue, count)
                except BaseException as error:
                    error.add_note(str(blow))
                    raise

    run(story)


def test_a_cancelled_completion_is_whole(kind: Kind, sites: tuple[Site, Site]) -> None:
    """Also with the job that it continues with; and the worker knows whether it has completed."""

    async def story() -> None:
        case, seen = Case(kind, *sites), list[str]()
        contexts: asyncio.Queue[Context] = asyncio.Queue()
        go_on = asyncio.Event()

        @case.jobs.task(name=case.queue, queue=case.queue, max_attempts=1)
        async def handled(ctx: Context) -> str:
            contexts.put_nowait(ctx)
            await go_on.wait()
            return "returned"

        async def cancel(blow: Blow) -> bool:
            job = await handled.aenqueue()
            ctx = await contexts.get()
            ctx.continue_with(case.site.send.using(queue=f"{case.queue}_next"), "next")
            await mine.begin()
            call = ctx.acomplete("completed", connection=mine.connection)
            was_cancelled = await written_next_to(case, mine, call, blow)
            status = case.jobs.get(job.id).status
            assert len(next_steps()) == (status == "succeeded")
            assert was_cancelled or status == "succeeded"
            go_on.set()
            ended = await case.jobs.aresult(job, timeout=20)
            assert ended == ("completed" if status == "succeeded" else "returned")
            for step in next_steps():
                case.jobs.delete_chain(step.chain_id or 0)
            go_on.clear()
            seen.append(status)
            return was_cancelled

        def next_steps() -> list[Job]:
            return case.jobs.list(queue=f"{case.queue}_next").jobs

        async with kind.opened(case.site.database) as mine, case.jobs.worker(queues=[case.queue]):
            async for _ in blows(cancel, WAYS[1:2]):
                pass
        assert case.notes == 2 * len(seen)
        assert set(seen) == {"succeeded", "running"}

    run(story)


def test_a_call_whose_event_loop_is_closed_is_whole(kind: Kind, sites: tuple[Site, Site]) -> None:
    """`asyncio.run` cancels all tasks at its end, and one of them commits nevertheless."""
    for suspension in suspensions():
        case = Case(kind, *sites)
        went_on = run(functools.partial(_left_behind, case, Blow(suspension, Moment.ENDED, 1)))
        check_whole(case.jobs, case.site, case.queue, 1)
        assert case.notes == 2
        if not went_on:
            break


async def _left_behind(case: Case, blow: Blow) -> bool:
    async def stubborn() -> None:
        async with case.kind.opened(case.site.database) as mine:
            call, _ = after(Call(case, mine))
            await mine.begin()
            await mine.execute(case.note)
            with contextlib.suppress(asyncio.CancelledError):
                await Counted(call, blow, reached.set)
            await finish(commit(mine))

    async def commit(mine: Caller) -> None:
        await mine.execute(case.note)
        await mine.commit()

    reached = asyncio.Event()
    tasks = [asyncio.create_task(stubborn()), asyncio.create_task(reached.wait())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    return not tasks[0].done()


_WAITS_FOR_A_LOCK = {
    "postgresql": "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    "mysql": "show global status where variable_name = 'innodb_row_lock_current_waits' and value > 0",
}


@pytest.mark.parametrize(
    "kind",
    [kind for kind in ASYNC if kind.database in _WAITS_FOR_A_LOCK and "pipeline" not in kind.name],
    ids=lambda kind: kind.name,
)
def test_a_cancelled_call_does_not_wait_for_a_lock_for_ever(
    kind: Kind, sites: tuple[Site, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction has failed then: nothing of it can be committed."""
    monkeypatch.setattr(connection, "LOCK_PATIENCE_SECONDS", 0.01)
    case = Case(kind, *sites)

    async def story() -> None:
        async with kind.opened(case.site.database) as mine:
            with case.jobs.transaction():
                case.site.send.using(queue=case.queue, key=case.queue).enqueue("holder")
                await mine.begin()
                await mine.execute(case.note)
                waiting = asyncio.create_task(case.send(mine, key=case.queue).aenqueue("a"))
                while not case.site.execute(_WAITS_FOR_A_LOCK[kind.database]):
                    await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            # the drivers of MariaDB close a connection whose statement was cancelled
            with pytest.raises(Exception, match=r"(?i)transaction|not connected|closed|cancelled"):
                await mine.execute(case.note)
            with contextlib.nullcontext() if kind.database == "postgresql" else contextlib.suppress(Exception):
                await mine.rollback()

    asyncio.run(story())
    assert case.sent_to == ["holder"]
    assert case.notes == 0
