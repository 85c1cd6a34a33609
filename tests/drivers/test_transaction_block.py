"""Blocks of `jobs.transaction()`, where a database's own ways show."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rowcall import InvalidOption, Rowcall, StoreUnavailable
from rowcall.app import queue_of
from rowcall.drivers import transaction_block
from rowcall.store.statement import Statement, as_is, execute
from tests.connected import connected
from tests.support import ForkedProcess

CUT = """
select pg_terminate_backend(pid) from pg_stat_activity
where state = 'idle in transaction' and datname = current_database()
"""

FORK_IN_A_BLOCK = """
import os, sys
from rowcall import InvalidOption, Rowcall, StoreUnavailable
jobs = Rowcall(sys.argv[1])
jobs.enqueue("before")
with jobs.transaction() as tx:
    jobs.enqueue("inside")
    child = os.fork()
    if child == 0:
        for call in (lambda: jobs.enqueue("joined in the child"), lambda: jobs.get(1)):
            try:
                call()
            except InvalidOption as error:
                print(error, flush=True)
        print(jobs.timeline(1)[0].event, flush=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(sorted(job.type for job in jobs.list().jobs), flush=True)
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db", busy_timeout=0.2) as jobs:
        jobs.migrate()
        yield jobs


@pytest.fixture
def on_server(postgres_url: str) -> Iterator[Rowcall]:
    with Rowcall(postgres_url) as jobs:
        jobs.migrate()
        yield jobs


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request: pytest.FixtureRequest) -> Rowcall:
    name = "jobs" if request.param == "sqlite" else "on_server"
    found: Rowcall = request.getfixturevalue(name)
    return found


def types(jobs: Rowcall) -> list[str]:
    return [job.type for job in reversed(jobs.list().jobs)]


def test_on_sqlite_other_writes_are_refused_at_once_rather_than_waiting_for_their_own_block(jobs: Rowcall) -> None:
    jobs.enqueue("claimed")
    job = jobs.claim("me")[0]
    writes: list[Callable[[], object]] = [
        lambda: jobs.pause("default"),
        lambda: jobs.heartbeat(job),
        lambda: jobs.claim("me"),
        jobs.drain,
        jobs.prune,
        jobs.vacuum,
        jobs.migrate,
    ]
    with jobs.transaction():
        jobs.enqueue("inside")
        for write in writes:
            with pytest.raises(InvalidOption, match="one writer"):
                write()

    async def story() -> None:
        async with jobs.transaction():
            await jobs.aenqueue("inside too")
            with pytest.raises(InvalidOption, match="one writer"):
                await jobs.arelease(job)

    asyncio.run(story())
    assert types(jobs) == ["claimed", "inside", "inside too"]
    jobs.release(job)


def test_on_a_server_other_writes_continue_next_to_it(on_server: Rowcall) -> None:
    with on_server.transaction():
        on_server.enqueue("inside")
        on_server.pause("default")
        assert [paused.name for paused in on_server.paused()] == ["default"]
    assert types(on_server) == ["inside"]


def test_a_cancelled_call_in_a_block_waits_for_no_lock_for_long(
    on_server: Rowcall, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def enqueue_next_to() -> None:
        async with on_server.transaction():
            await on_server.aenqueue("outside", key="same")

    async def story() -> None:
        async with on_server.transaction():
            await on_server.aenqueue("inside")
            await on_server.aenqueue("outside", key="same")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.create_task(enqueue_next_to()), 0.2)
            await on_server.aenqueue("after")

    monkeypatch.setattr(transaction_block, "LOCK_PATIENCE_SECONDS", 0.05)
    asyncio.run(story())
    assert sorted(job.type for job in on_server.list().jobs) == ["after", "inside", "outside"]


def test_what_comes_after_an_interrupted_plan_is_not_interrupted(on_server: Rowcall) -> None:
    begun = queue_of(on_server).database.begin()
    first, second = (execute(Statement("select 1", (), as_is)) for _ in range(2))
    begun.run(first)
    begun.interrupt(first)
    begun.run(second)
    begun.roll_back()


@pytest.mark.slow
def test_other_threads_wait_no_longer_than_busy_timeout_allows(jobs: Rowcall) -> None:
    with ThreadPoolExecutor(3) as others, jobs.transaction():
        jobs.enqueue("inside")
        futures = [others.submit(jobs.enqueue, "outside") for _ in range(3)]
        for future in futures:
            with pytest.raises(StoreUnavailable):
                future.result(30)
    assert types(jobs) == ["inside"]


def test_reading_is_possible_while_all_threads_that_write_wait(tmp_path: Path) -> None:
    async def story(jobs: Rowcall, waiting: list[int]) -> None:
        async with jobs.transaction():
            await jobs.aenqueue("inside")
            others = [asyncio.create_task(jobs.acancel(job_id)) for job_id in waiting]
            await asyncio.sleep(0)
            assert (await jobs.aget(waiting[0])).status == "pending"
        assert {job.status for job in await asyncio.gather(*others)} == {"cancelled"}

    with Rowcall(tmp_path / "app.db", busy_timeout=20) as jobs:
        asyncio.run(story(jobs, [jobs.enqueue("waiting").id for _ in range(8)]))
        assert types(jobs)[-1] == "inside"


def test_a_block_in_which_the_database_failed_is_undone_even_if_the_error_is_ignored(either: Rowcall) -> None:
    def broken() -> None:
        with pytest.raises(Exception, match="nothing_of_the_kind"):
            tx.run(execute(Statement("select * from nothing_of_the_kind", (), as_is)))

    refused = pytest.raises(StoreUnavailable, match="nothing of this block was written")
    with refused, either.transaction() as tx:
        either.enqueue("a")
        broken()
        with pytest.raises(InvalidOption, match="earlier call"):
            either.enqueue("b")
        with pytest.raises(InvalidOption, match="earlier call"), either.transaction():
            pass
    with either.transaction():
        either.enqueue("c")
        with pytest.raises(StoreUnavailable, match="nothing of this block"), either.transaction() as tx:
            broken()
        either.enqueue("d")
    assert types(either) == ["c", "d"]


@pytest.mark.parametrize("inside", [0, 1])
def test_a_lost_connection_is_reported_at_the_end_at_the_latest(
    on_server: Rowcall, postgres_url: str, inside: int
) -> None:
    with pytest.raises(StoreUnavailable), contextlib.ExitStack() as blocks:  # noqa: PT012
        for _ in range(1 + inside):
            blocks.enter_context(on_server.transaction())
        on_server.enqueue("lost")
        with connected(postgres_url) as connection:
            assert connection.execute(CUT).fetchall() == [(True,)]
    on_server.enqueue("after")
    assert types(on_server) == ["after"]


def test_a_block_that_cannot_begin_says_why(jobs: Rowcall, tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db", busy_timeout=0.1) as other, jobs.transaction():
        with pytest.raises(StoreUnavailable, match="lock"), other.transaction():
            pass
        jobs.enqueue("inside")
    assert types(jobs) == ["inside"]


@pytest.mark.slow
def test_a_block_belongs_to_the_process_that_opened_it(tmp_path: Path, postgres_url: str) -> None:
    for url in (f"sqlite:///{tmp_path / 'fork.db'}", postgres_url):
        with ForkedProcess("-W", "ignore::DeprecationWarning", "-c", FORK_IN_A_BLOCK, url) as process:
            assert process.wait() == 0, process.output
            said = process.output.splitlines()
        assert said == [
            "transaction belongs to the process that this one was forked from",
            "transaction belongs to the process that this one was forked from",
            "ENQUEUED",
            "['before', 'inside']",
        ]
