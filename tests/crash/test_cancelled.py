"""Every public async method, cancelled wherever it waits: nothing half done, held or left running."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Batch, Context, Flow, Rowcall, Transaction
from rowcall.task import Enqueuer
from rowcall.worker.worker import Worker
from tests.connected import Connection, connected, database_with_tables
from tests.crash.cancelled_calls import CASES, READING, World
from tests.crash.cancelling import Blow, Moment, blows, cancelled_once, left_behind, run, suspensions

ELSEWHERE = {
    "Context.acomplete": "tests/drivers/caller/test_cancelled.py",
    "Transaction.arun": "reached by Transaction.aenqueue",
    "Context.abatch": "reads what ctx.batch reads, in a thread",
    "Worker.adrain": "reached by Rowcall.adrain",
}


def test_every_public_async_method_has_a_case() -> None:
    classes = (Rowcall, Enqueuer, Flow, Batch, Context, Transaction, Worker)
    methods = {
        f"{kind.__name__}.{name}"
        for kind in classes
        for name, member in inspect.getmembers(kind, inspect.iscoroutinefunction)
        if not name.startswith("_") or name in ("__aenter__", "__aexit__")
    }
    assert methods == {method for methods, _ in CASES.values() for method in methods} | set(ELSEWHERE)


# the harness at work


@pytest.fixture(scope="module")
def postgres_database(postgres_server_url: str) -> Iterator[tuple[str, Connection]]:
    with database_with_tables(postgres_server_url) as url, connected(url) as observer:
        yield url, observer


@pytest.fixture(params=["sqlite", "postgresql"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if request.param == "sqlite":
        made = World(f"sqlite:///{tmp_path}/app.db", None)
    else:
        made = World(*request.getfixturevalue("postgres_database"))
    made.jobs.migrate()
    yield made
    made.close()


@pytest.mark.parametrize("name", [name for name in CASES if name not in READING])
def test_a_cancelled_call_leaves_nothing_behind(world: World, name: str) -> None:
    run(functools.partial(cancel_everywhere, world, name))


def test_a_cancelled_call_that_only_reads_leaves_nothing_behind(world: World) -> None:
    for name in READING:
        run(functools.partial(cancel_everywhere, world, name))


async def cancel_everywhere(world: World, name: str) -> None:
    _, prepare = CASES[name]
    check: Callable[[], None]

    async def cancel(blow: Blow) -> bool:
        nonlocal check
        world.begin()
        made, check = prepare(world)
        world.was_cancelled = await cancelled_once(made, blow)
        return world.was_cancelled

    async for blow in blows(cancel):
        try:
            world.check_locks()
            check()
        except BaseException as error:
            error.add_note(f"{name}, {blow}")
            raise
    await world.check_pool()


@pytest.mark.parametrize("name", ["block", "block_that_continues", "claim", "drain", "worker"])
def test_a_call_whose_event_loop_is_closed_leaves_nothing_behind(world: World, name: str) -> None:
    """`asyncio.run` cancels all that still runs at its end."""
    _, prepare = CASES[name]
    for moment in Moment:
        for suspension in suspensions():
            world.begin()
            blow = Blow(suspension, moment, 1)
            made, check = prepare(world)
            world.was_cancelled = run(functools.partial(left_behind, made, blow))
            world.check_locks()
            check()
            if not world.was_cancelled:
                break
    run(world.check_pool)


def test_a_block_whose_coroutine_is_closed_is_undone(world: World) -> None:
    """As when an event loop ends, and its tasks are neither awaited nor cancelled."""
    with closing(asyncio.new_event_loop()) as loop:
        entered: asyncio.Future[None] = loop.create_future()

        async def in_a_block() -> None:
            async with world.jobs.transaction() as tx:
                await tx.aenqueue("send", {"to": "a"}, queue=world.queue)
                entered.set_result(None)
                await loop.create_future()

        block = in_a_block()
        task = loop.create_task(block)
        loop.run_until_complete(entered)
        block.close()
        world.check_locks()
        assert world.found == []
        task.cancel()
        loop.run_until_complete(asyncio.wait([task]))
        assert isinstance(task.exception(), RuntimeError)  # there was nothing left to cancel


def test_a_cancelled_drain_ends_however_much_there_is_to_do(world: World) -> None:
    """Its handlers finish what they do, and nothing more is claimed."""
    begun = threading.Event()

    @world.jobs.task(queue=world.queue)
    def again() -> None:
        again.enqueue()
        begun.set()

    again.enqueue()

    async def story() -> None:
        draining = asyncio.create_task(world.jobs.adrain(queues=[world.queue]))
        await asyncio.to_thread(begun.wait)
        draining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await draining

    run(story)
    world.check_worker()
    assert set(world.statuses) == {"succeeded", "pending"}
