"""The SQLite file of one queue in one process."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.drivers.sqlite.database import MOST_IDLE_READERS, SqliteDatabase
from tests.support import PythonProcess

LEAVE_NOTHING_IN_MEMORY = """
from rowcall import Rowcall
from rowcall.app import queue_of
jobs = Rowcall("sqlite:///:memory:")
jobs.enqueue("task")
print(queue_of(jobs).database.path)
"""


def test_the_file_is_opened_on_first_use(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    jobs = Rowcall(path)

    @jobs.task
    def task() -> None: ...

    task.using(priority=3)
    assert list(tmp_path.iterdir()) == []
    task.enqueue()
    assert path.exists()
    jobs.close()


def test_close_and_use_again(tmp_path: Path) -> None:
    jobs = Rowcall(tmp_path / "app.db")
    for turn in range(3):
        job = jobs.enqueue("task")
        assert jobs.get(job.id) == job
        assert asyncio.run(jobs.aenqueue("other")).id == job.id + 1 == 2 * turn + 2
        jobs.close()
        jobs.close()


def test_closing_leaves_no_descriptor_open(tmp_path: Path) -> None:
    def descriptors() -> int:
        return sum(
            str(tmp_path) in os.readlink(f"/proc/self/fd/{name}")
            for name in os.listdir("/proc/self/fd")
            if os.path.lexists(f"/proc/self/fd/{name}")
        )

    jobs = Rowcall(tmp_path / "app.db")
    jobs.enqueue("task")
    jobs.list()
    jobs.drain()
    assert descriptors() > 0
    jobs.close()
    assert descriptors() == 0


def test_a_with_block_closes(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:
        jobs.enqueue("task")
    assert not (tmp_path / "app.db-wal").exists()

    async def use() -> None:
        async with Rowcall(tmp_path / "app.db") as jobs:
            await jobs.aenqueue("task")

    asyncio.run(use())
    assert not (tmp_path / "app.db-wal").exists()


def test_in_memory_a_queue_works_within_its_process(tmp_path: Path) -> None:
    with Rowcall("sqlite:///:memory:") as jobs, Rowcall("sqlite:///:memory:") as other:

        @jobs.task
        def double(number: int) -> int:
            return 2 * number

        job = double.enqueue(4)
        with ThreadPoolExecutor(2) as threads:
            assert threads.submit(jobs.get, job.id).result().status == "pending"
        assert other.list().jobs == []
        assert jobs.drain().succeeded == 1
        assert jobs.get(job.id).result == 8


def test_nothing_of_a_queue_in_memory_outlives_its_process() -> None:
    with PythonProcess("-c", LEAVE_NOTHING_IN_MEMORY) as process:
        assert process.wait() == 0, process.output
        assert not os.path.exists(os.path.dirname(process.output.strip()))


def test_many_readers_at_once_leave_few_connections(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs, ThreadPoolExecutor(20) as threads:
        job = jobs.enqueue("task")
        barrier = threading.Barrier(20)

        def read() -> int:
            barrier.wait(20)
            return jobs.get(job.id).id

        assert [future.result(20) for future in [threads.submit(read) for _ in range(20)]] == [job.id] * 20
        database = queue_of(jobs).database
        assert isinstance(database, SqliteDatabase)
        assert len(database._readers) <= MOST_IDLE_READERS
