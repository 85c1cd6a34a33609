"""`jobs.bind(session)`: jobs join the transaction of a session."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlmodel
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from rowcall import InvalidOption, Job, Rowcall
from rowcall.task import Task
from rowcall.testing import clean_queue
from tests.integrations.alchemy import ASYNC, alchemy


@pytest.fixture
def jobs(url: str) -> Iterator[Rowcall]:
    with Rowcall(url) as jobs:
        jobs.migrate()
        yield jobs


@pytest.fixture
def double(jobs: Rowcall) -> Task[[int], int]:
    @jobs.task
    def double(number: int) -> int:
        return 2 * number

    return double


def ids(jobs: Rowcall) -> set[int]:
    return {job.id for job in jobs.list()}


@pytest.mark.parametrize("kind", [Session, sqlmodel.Session])
def test_all_ways_to_enqueue_join_the_session(
    url: str, jobs: Rowcall, double: Task[[int], int], kind: type[Session]
) -> None:
    engine = create_engine(alchemy(url))
    for commits in (True, False):
        with kind(engine) as session:
            bound = jobs.bind(session)
            written = [bound(double).enqueue(1), bound(double.using(priority=3)).enqueue(2), bound.enqueue("by name")]
            with bound:
                written += [double.enqueue(3), *double.enqueue_many([{"number": 4}])]
                written += [jobs.enqueue("by name"), *jobs.start_chain([double.bind(5)]).steps]
                assert jobs.cancel(written[0]).status == "cancelled"
                jobs.delete(written.pop())
                assert ids(jobs) == {job.id for job in written}
            assert written[1].priority == 3
            assert ids(jobs) == set()  # no other connection sees them yet
            session.commit() if commits else session.rollback()
        assert ids(jobs) == ({job.id for job in written} if commits else set())
        jobs.clear()
    engine.dispose()


def test_a_worker_starts_when_the_session_commits(url: str, jobs: Rowcall, double: Task[[int], int]) -> None:
    engine = create_engine(alchemy(url))
    with jobs.worker(), Session(engine) as session:
        job = jobs.bind(session)(double).enqueue(21)
        session.commit()
        assert jobs.result(job, timeout=20) == 42
    engine.dispose()


def test_async_sessions(url: str, jobs: Rowcall, double: Task[[int], int]) -> None:
    async def enqueue() -> list[Job]:
        engine = create_async_engine(alchemy(url, ASYNC))
        async with AsyncSession(engine) as session:
            await session.execute(text("select 1"))
            async with jobs.bind(session) as bound:
                written = [await double.aenqueue(1)]
                other = asyncio.create_task(jobs.alist())  # another task, which reads what is committed
                assert (await other).jobs == []
            written += [await bound(double).aenqueue(2), await bound.aenqueue("by name")]
            await session.commit()
        await engine.dispose()
        return written

    assert {job.id for job in asyncio.run(enqueue())} == ids(jobs)


def test_other_threads_and_later_calls_do_not_join(tmp_path: Path) -> None:
    engine = create_engine("postgresql+psycopg://nowhere/at_all")
    with Rowcall("postgresql://nowhere/at_all", busy_timeout=0.1) as jobs, Session(engine) as session:
        with jobs.bind(session) as bound:
            found: list[object] = []
            thread = threading.Thread(target=lambda: found.append(joined(jobs)))
            thread.start()
            thread.join()
            assert (found, joined(jobs)) == ([None], session)
        assert joined(jobs) is None
        with pytest.raises(InvalidOption, match="was used already"), bound:
            pass


def joined(jobs: Rowcall) -> object:
    from rowcall.app import queue_of
    from rowcall.drivers.transaction_block import innermost_connection

    return innermost_connection(queue_of(jobs).database)


def test_wrong_calls_are_refused_before_anything_is_written(url: str, jobs: Rowcall, double: Task[[int], int]) -> None:
    engine = create_engine(alchemy(url))
    with pytest.raises(InvalidOption, match="only makes connections"):
        jobs.bind(engine)
    with Session(engine) as session:
        with pytest.raises(InvalidOption, match="must be a task"):
            jobs.bind(session)("double")  # type: ignore[arg-type]
        with clean_queue(jobs), pytest.raises(InvalidOption, match="this queue is in"):
            jobs.bind(session)(double).enqueue(1)
        with Rowcall(url) as other, pytest.raises(InvalidOption, match="'double' is declared on another queue"):
            other.bind(session)(double)
    assert ids(jobs) == set()
    engine.dispose()
