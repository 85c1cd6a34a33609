"""Enqueues of many threads and tasks share commits on PostgreSQL, as they do on SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager

import pytest

from rowcall import Job, Rowcall, RowcallError, StoreUnavailable
from rowcall.domain.errors import DataRefused
from rowcall.store.jobs.enqueue import Member
from rowcall.store.new_job import NewJob
from tests.connected import Connection, connected
from tests.drivers.postgres.support import MANY, database_of_queue
from tests.support import eventually

pytestmark = pytest.mark.concurrency


def commits(mine: Connection) -> int:
    """How many transactions wrote the jobs that are there."""
    return len(mine.execute("select distinct xmin::text from rowcall_job").fetchall())


@contextmanager
def writers_held_up(url: str) -> Iterator[None]:
    with connected(url, autocommit=False) as other:
        other.execute("lock table rowcall_job in share mode")
        yield
        other.rollback()


def test_enqueues_of_many_threads_share_commits(jobs: Rowcall, url: str, mine: Connection, threads: Executor) -> None:
    jobs.enqueue("first")
    with writers_held_up(url):
        futures = [threads.submit(jobs.enqueue, "task", {"number": number}) for number in range(MANY)]
        eventually(lambda: len(database_of_queue(jobs).shared._waiting) >= MANY // 2)
    written = [future.result(20) for future in futures]
    assert len({job.id for job in written}) == MANY
    assert [jobs.get(job.id).payload for job in written] == [{"number": number} for number in range(MANY)]
    assert 1 < commits(mine) <= 1 + MANY // 2


def test_aenqueues_of_many_tasks_share_commits(jobs: Rowcall, mine: Connection) -> None:
    async def enqueue_all() -> list[Job]:
        return await asyncio.gather(*(jobs.aenqueue("task", {"number": number}) for number in range(MANY)))

    written = asyncio.run(enqueue_all())
    assert [job.payload for job in written] == [{"number": number} for number in range(MANY)]
    assert jobs.stats().total == MANY
    assert 1 <= commits(mine) <= MANY // 10


def test_different_members_share_a_commit_too(jobs: Rowcall, url: str, mine: Connection, threads: Executor) -> None:
    @jobs.task(queue="mail", tags=["a"])
    def send(to: str) -> None: ...

    @jobs.task(delay=3600)
    def later(number: int) -> None: ...

    jobs.enqueue("first")
    with writers_held_up(url):
        mail = [threads.submit(send.enqueue, str(number)) for number in range(20)]
        late = [threads.submit(later.enqueue, number) for number in range(20)]
        named = [threads.submit(jobs.enqueue, "named", {"number": number}, priority=number) for number in range(20)]
        eventually(lambda: len(database_of_queue(jobs).shared._waiting) >= 40)
    futures: list[Future[Job]] = [*mail, *late, *named]
    written = [future.result(20) for future in futures]
    assert [jobs.get(job.id) for job in written] == written
    assert commits(mine) < 25


def test_a_row_that_the_table_refuses_fails_alone(jobs: Rowcall, url: str, threads: Executor) -> None:
    def write(number: int) -> int:
        queue = "q" * 201 if number % 10 == 0 else "default"
        return database_of_queue(jobs).shared.submit(Member(NewJob(type="task", queue=queue), "{}")).id

    with writers_held_up(url):
        futures = [threads.submit(write, number) for number in range(MANY)]
        eventually(lambda: len(database_of_queue(jobs).shared._waiting) >= MANY // 2)
    wait(futures, 20)
    for number, future in enumerate(futures):
        if number % 10 == 0:
            with pytest.raises(DataRefused, match="refuses the values"):
                future.result()
        else:
            assert jobs.get(future.result()).type == "task"
    assert jobs.stats().total == MANY - MANY // 10


@pytest.mark.parametrize(
    ("state", "error"),
    [("P0001", RowcallError), ("insufficient_privilege", StoreUnavailable), ("54000", StoreUnavailable)],
)
def test_a_row_that_a_rule_of_the_server_refuses_fails_alone(
    jobs: Rowcall, mine: Connection, state: str, error: type[Exception]
) -> None:
    mine.execute(f"""
        create function refuse() returns trigger language plpgsql as
          $$ begin raise exception 'not this one' using errcode = '{state}'; end $$;
        create trigger refuse before insert on rowcall_job for each row when (new.queue = 'bad')
          execute function refuse()""")

    async def enqueue_all() -> list[Job | BaseException]:
        calls = (jobs.aenqueue("task", queue="bad" if number == 5 else "good") for number in range(20))
        return await asyncio.gather(*calls, return_exceptions=True)

    try:
        outcomes = asyncio.run(enqueue_all())
    finally:
        mine.execute("drop function refuse cascade")
    assert [number for number, outcome in enumerate(outcomes) if not isinstance(outcome, Job)] == [5]
    assert (type(outcomes[5]), "not this one" in str(outcomes[5])) == (error, True)
    assert jobs.stats().total == 19


def test_a_shared_commit_that_is_cut_before_its_end_fails_no_one(
    jobs: Rowcall, url: str, mine: Connection, threads: Executor
) -> None:
    jobs.enqueue("first")
    with writers_held_up(url):
        alone = threads.submit(jobs.enqueue, "task")
        eventually(lambda: who_waits(mine) == 1)
        futures = [threads.submit(jobs.enqueue, "task") for _ in range(MANY - 1)]
        eventually(lambda: len(database_of_queue(jobs).shared._waiting) == MANY - 1)
        assert cut_who_waits(mine) == 1
        eventually(lambda: who_waits(mine) == 1)  # all the others, in one transaction
        assert cut_who_waits(mine) == 1
    assert isinstance(alone.exception(20), StoreUnavailable)  # one statement: it may have been committed
    assert len({future.result(20).id for future in futures}) == MANY - 1
    assert jobs.stats().total == MANY


def who_waits(mine: Connection) -> int:
    waiting = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    return len(mine.execute(waiting).fetchall())


def cut_who_waits(mine: Connection) -> int:
    cut = """
    select pg_terminate_backend(pid, 20000) from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'
    """
    return len(mine.execute(cut).fetchall())


def test_a_cancelled_aenqueue_harms_no_other(jobs: Rowcall, url: str) -> None:
    async def enqueue_some() -> list[Job | BaseException]:
        with writers_held_up(url):
            tasks = [asyncio.ensure_future(jobs.aenqueue("task", {"number": number})) for number in range(20)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    jobs.enqueue("first")
    outcomes = asyncio.run(enqueue_some())
    assert [type(outcome) for outcome in outcomes[::2]] == [asyncio.CancelledError] * 10
    for number, outcome in enumerate(outcomes):
        if isinstance(outcome, Job):
            assert jobs.get(outcome.id).payload == {"number": number}
    assert sum(isinstance(outcome, Job) for outcome in outcomes) == 10
    assert 11 <= jobs.stats().total <= 21  # a cancelled one may still have been written


def test_threads_and_tasks_share_one_queue(jobs: Rowcall, threads: Executor) -> None:
    async def enqueue_all() -> list[Job]:
        return await asyncio.gather(*(jobs.aenqueue("async") for _ in range(50)))

    sync = [threads.submit(jobs.enqueue, "sync") for _ in range(50)]
    written = asyncio.run(enqueue_all()) + [future.result(20) for future in sync]
    assert len({job.id for job in written}) == 100
    assert jobs.stats().total == 100
