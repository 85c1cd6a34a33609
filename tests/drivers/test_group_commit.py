from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pytest

from rowcall import Job, Rowcall, RowcallError, StoreUnavailable
from rowcall.app import queue_of
from rowcall.domain.errors import Conflict, DataRefused
from rowcall.drivers.group_commit import MOST_MEMBERS, GroupCommit, NothingWritten, OutcomeUnknown
from rowcall.drivers.sqlite.database import SqliteDatabase
from rowcall.store.jobs.enqueue import Member
from rowcall.store.new_job import NewJob
from tests.drivers.sqlite.wal import commits_in
from tests.support import eventually

MANY = 100


class Groups:
    """A commit that can be held up, and remembers which members it was given together."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.begun = threading.Event()
        self.groups: list[list[int]] = []

    def write(self, members: list[int]) -> list[int | Exception]:
        self.groups.append(members)
        self.begun.set()
        assert self.open.wait(20)
        return [2 * member if member >= 0 else ValueError(member) for member in members]


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(MANY) as executor:
        yield executor


@pytest.fixture
def groups() -> Groups:
    return Groups()


@pytest.fixture
def shared(groups: Groups, threads: Executor) -> GroupCommit[int, int]:
    return GroupCommit(threading.Lock(), groups.write, lambda: threads, 5)


def submit_behind_a_slow_commit(
    shared: GroupCommit[int, int], groups: Groups, threads: Executor, members: list[int]
) -> list[Future[int]]:
    """One member is being committed while all the others come to wait."""
    futures = [threads.submit(shared.submit, 0)]
    assert groups.begun.wait(20)
    futures += [threads.submit(shared.submit, member) for member in members]
    eventually(lambda: len(shared._waiting) == len(members))
    groups.open.set()
    return futures


def test_who_waits_is_committed_together(shared: GroupCommit[int, int], groups: Groups, threads: Executor) -> None:
    futures = submit_behind_a_slow_commit(shared, groups, threads, list(range(1, 51)))
    assert [future.result(20) for future in futures] == [2 * member for member in range(51)]
    assert [len(group) for group in groups.groups] == [1, 50]


def test_one_that_is_refused_does_not_fail_the_others(
    shared: GroupCommit[int, int], groups: Groups, threads: Executor
) -> None:
    futures = submit_behind_a_slow_commit(shared, groups, threads, [1, -2, 3])
    assert futures[1].result(20) == 2
    with pytest.raises(ValueError, match="-2"):
        futures[2].result(20)
    assert futures[3].result(20) == 6


@pytest.mark.parametrize(
    "error",
    [
        DataRefused("no"),
        Conflict("deadlock"),
        NothingWritten("gone"),
        StoreUnavailable("no right to write such a row"),
        RowcallError("raised by a trigger"),
        OverflowError("int too large"),
    ],
)
def test_members_of_a_group_that_was_not_written_are_written_alone(error: Exception) -> None:
    def write(members: list[int]) -> list[int | Exception]:
        if len(members) > 1:
            raise error
        if members[0] < 0:
            raise DataRefused(str(members[0]))
        return [2 * members[0]]

    with ThreadPoolExecutor(1) as thread:
        shared: GroupCommit[int, int] = GroupCommit(threading.Lock(), write, lambda: thread, 5)
        answers = asyncio.run(submit_together(shared, [1, -2, 3]))
    assert [answers[0], str(answers[1]), answers[2]] == [2, "-2", 6]


@pytest.mark.parametrize(("error", "seconds"), [(OutcomeUnknown("cut off"), 5), (StoreUnavailable("locked"), -1)])
def test_members_are_not_written_again_if_they_may_be_there_or_have_waited(error: Exception, seconds: float) -> None:
    groups = []

    def write(members: list[int]) -> NoReturn:
        groups.append(members)
        raise error

    with ThreadPoolExecutor(1) as thread:
        shared: GroupCommit[int, int] = GroupCommit(threading.Lock(), write, lambda: thread, seconds)
        answers = asyncio.run(submit_together(shared, [1, 2, 3]))
    assert (answers, groups) == ([error] * 3, [[1, 2, 3]])


def test_members_are_written_alone_only_while_the_database_answers() -> None:
    def write(members: list[int]) -> NoReturn:
        raise Conflict("deadlock") if len(members) > 1 else StoreUnavailable("away")

    with ThreadPoolExecutor(1) as thread:
        shared: GroupCommit[int, int] = GroupCommit(threading.Lock(), write, lambda: thread, -1)
        answers = asyncio.run(submit_together(shared, [1, 2, 3]))
    assert [str(answer) for answer in answers] == ["away", *["away. Nothing was written"] * 2]


async def submit_together(shared: GroupCommit[int, int], members: list[int]) -> list[int | BaseException]:
    with shared._lock:  # so that they are one group
        futures = [shared.asubmit(member) for member in members]
    return await asyncio.gather(*futures, return_exceptions=True)


def test_a_commit_that_fails_fails_all_its_members_and_no_later_one(threads: Executor) -> None:
    def write(members: list[int]) -> list[int]:
        if members == [13]:
            raise StoreUnavailable("gone")
        return members

    shared: GroupCommit[int, int] = GroupCommit(threading.Lock(), write, lambda: threads, 5)
    with pytest.raises(StoreUnavailable, match="gone"):
        shared.submit(13)
    assert shared.submit(1) == 1


def test_an_interrupt_during_a_commit_leaves_no_one_waiting(threads: Executor) -> None:
    def interrupted(members: list[int]) -> NoReturn:
        raise KeyboardInterrupt

    shared: GroupCommit[int, int] = GroupCommit(threading.Lock(), interrupted, lambda: threads, 5)
    with pytest.raises(KeyboardInterrupt):
        shared.submit(1)
    assert not shared._waiting


def test_a_group_has_a_most(shared: GroupCommit[int, int], groups: Groups, threads: Executor) -> None:
    async def submit_all() -> list[int]:
        tasks = [asyncio.ensure_future(shared.asubmit(member)) for member in range(MOST_MEMBERS + 100)]
        await asyncio.sleep(0)
        groups.open.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(submit_all()) == [2 * member for member in range(MOST_MEMBERS + 100)]
    assert max(len(group) for group in groups.groups) <= MOST_MEMBERS


# on a real file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def jobs(path: Path) -> Iterator[Rowcall]:
    with Rowcall(path) as jobs:
        jobs.migrate()
        yield jobs


@pytest.mark.concurrency
def test_enqueues_of_many_threads_share_commits(jobs: Rowcall, path: Path, threads: Executor) -> None:
    jobs.enqueue("first")
    before = commits_in(path)
    barrier = threading.Barrier(MANY + 1)

    def enqueue(number: int) -> Job:
        barrier.wait(20)
        return jobs.enqueue("task", {"number": number})

    with closing(sqlite3.connect(path, isolation_level=None)) as somebody_else:
        somebody_else.execute("begin immediate")
        futures = [threads.submit(enqueue, number) for number in range(MANY)]
        barrier.wait(20)
        database = queue_of(jobs).database
        assert isinstance(database, SqliteDatabase)
        eventually(lambda: len(database.shared._waiting) >= MANY // 2)
        somebody_else.execute("rollback")
        written = [future.result(20) for future in futures]
    assert len({job.id for job in written}) == MANY
    assert [jobs.get(job.id).payload for job in written] == [{"number": number} for number in range(MANY)]
    assert 1 <= commits_in(path) - before <= MANY // 2


@pytest.mark.concurrency
def test_aenqueues_of_many_tasks_share_commits(jobs: Rowcall, path: Path) -> None:
    before = commits_in(path)

    async def enqueue_all() -> list[Job]:
        return await asyncio.gather(*(jobs.aenqueue("task", {"number": number}) for number in range(MANY)))

    written = asyncio.run(enqueue_all())
    assert [job.payload for job in written] == [{"number": number} for number in range(MANY)]
    assert jobs.stats().total == MANY
    assert 1 <= commits_in(path) - before <= MANY // 10


@pytest.mark.concurrency
def test_a_row_that_the_table_refuses_fails_alone(jobs: Rowcall, threads: Executor) -> None:
    def write(number: int) -> int:
        kind = "" if number % 10 == 0 else "task"
        return queue_of(jobs).database.shared.submit(Member(NewJob(type=kind, queue="default"), "{}")).id

    futures = [threads.submit(write, number) for number in range(MANY)]
    wait(futures, 20)
    for number, future in enumerate(futures):
        if number % 10 == 0:
            with pytest.raises(DataRefused, match="type_is_text_without_nul"):
                future.result()
        else:
            assert jobs.get(future.result()).type == "task"
    assert jobs.stats().total == MANY - MANY // 10


@pytest.mark.concurrency
def test_a_cancelled_aenqueue_harms_no_other(jobs: Rowcall, path: Path) -> None:
    async def enqueue_some() -> list[Job | BaseException]:
        with closing(sqlite3.connect(path, isolation_level=None)) as somebody_else:
            somebody_else.execute("begin immediate")
            tasks = [asyncio.ensure_future(jobs.aenqueue("task", {"number": number})) for number in range(20)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            somebody_else.execute("rollback")
            return await asyncio.gather(*tasks, return_exceptions=True)

    outcomes = asyncio.run(enqueue_some())
    assert [type(outcome) for outcome in outcomes[::2]] == [asyncio.CancelledError] * 10
    for number, outcome in enumerate(outcomes):
        if isinstance(outcome, Job):
            assert jobs.get(outcome.id).payload == {"number": number}
    assert sum(isinstance(outcome, Job) for outcome in outcomes) == 10
    assert 10 <= jobs.stats().total <= 20  # a cancelled one may still have been written
    assert jobs.enqueue("after").id == jobs.stats().total


@pytest.mark.concurrency
def test_threads_and_tasks_share_one_queue(jobs: Rowcall, threads: Executor) -> None:
    async def enqueue_all() -> list[Job]:
        return await asyncio.gather(*(jobs.aenqueue("async") for _ in range(50)))

    sync = [threads.submit(jobs.enqueue, "sync") for _ in range(50)]
    written = asyncio.run(enqueue_all()) + [future.result(20) for future in sync]
    assert len({job.id for job in written}) == 100
    assert jobs.stats().total == 100
