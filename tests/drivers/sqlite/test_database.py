"""The SQLite file of one queue in one process."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Rowcall, StoreUnavailable
from rowcall.app import queue_of
from rowcall.drivers.sqlite.database import MOST_IDLE_READERS, SqliteDatabase
from rowcall.operations.steps import Write
from rowcall.store.statement import Plan, Statement, execute, no_row
from tests.support import PythonProcess

FORK_AFTER_OPENING = """
import os, sys
from rowcall import Rowcall
jobs = Rowcall(f"sqlite:///{sys.argv[1]}")

@jobs.task
def task() -> None: ...

jobs.enqueue("before")
assert [job.type for job in jobs.list().jobs] == ["before"]
child = os.fork()
if child == 0:
    inherited = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if int(name) > 2
                 and os.path.lexists(f"/proc/self/fd/{name}")]
    assert not [file for file in inherited if "-rowcall/" in file], inherited  # locks stay with the parent
for number in range(50):
    job = jobs.enqueue("child" if child == 0 else "parent", {"number": number})
    assert jobs.get(job.id).payload == {"number": number}
if child == 0:
    task.enqueue()
    assert jobs.drain().succeeded == 1
    jobs.close()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0, "the child failed"
jobs.enqueue("after")
jobs.close()
print("done", flush=True)
"""

FORK_AND_ASYNC = """
import asyncio, os, sys
from rowcall import Rowcall
jobs = Rowcall(f"sqlite:///{sys.argv[1]}")
asyncio.run(jobs.aenqueue("before"))
child = os.fork()
asyncio.run(jobs.aenqueue("child" if child == 0 else "parent"))
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0, "the child failed"
print("done", flush=True)
"""

LEAVE_NOTHING_IN_MEMORY = """
from rowcall import Rowcall
from rowcall.app import queue_of
jobs = Rowcall("sqlite:///:memory:")
jobs.enqueue("task")
print(queue_of(jobs).database.path)
"""


def types_in(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        return dict(connection.execute("select type, count(*) from rowcall_job group by type").fetchall())


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


def test_a_plan_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    def half_way() -> Plan[None]:
        yield from execute(Statement("insert into rowcall_job (type) values ('half')", (), no_row))
        raise RuntimeError("half way")

    with Rowcall(tmp_path / "app.db") as jobs:
        jobs.migrate()
        with pytest.raises(RuntimeError, match="half way"):
            queue_of(jobs).run(Write(half_way))
        assert jobs.list().jobs == []
        assert jobs.enqueue("task").id == 1


def test_a_read_never_waits_for_a_writer(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db", busy_timeout=0) as jobs:
        job = jobs.enqueue("task")
        with closing(sqlite3.connect(tmp_path / "app.db", isolation_level=None)) as somebody_else:
            somebody_else.execute("begin immediate")
            somebody_else.execute("insert into rowcall_job (type) values ('unseen')")
            assert jobs.list().jobs == [job]
            with pytest.raises(StoreUnavailable, match="locked"):
                jobs.enqueue("task")
        assert jobs.enqueue("task").id > 1


@pytest.mark.concurrency
@pytest.mark.parametrize("program", [FORK_AFTER_OPENING, FORK_AND_ASYNC])
def test_a_fork_after_opening_harms_neither_side(tmp_path: Path, program: str) -> None:
    path = tmp_path / "app.db"
    with PythonProcess("-W", "ignore::DeprecationWarning", "-c", program, str(path)) as process:
        assert process.wait() == 0, process.output
        assert "done\n" in process.output
    each = 50 if program is FORK_AFTER_OPENING else 1
    written = types_in(path)
    assert (written["before"], written["child"], written["parent"]) == (1, each, each)
