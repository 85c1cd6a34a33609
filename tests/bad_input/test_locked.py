"""Another process locks the database for longer than the busy timeout."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Rowcall, StoreUnavailable
from tests.support import PythonProcess

BUSY_TIMEOUT = 0.3

HOLD = """
import signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(sys.argv[2])
print("held", flush=True)
signal.pause()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def jobs(path: Path) -> Iterator[Rowcall]:
    with Rowcall(path, busy_timeout=BUSY_TIMEOUT) as jobs:

        @jobs.task
        def task() -> None: ...

        jobs.migrate()
        yield jobs


def writes(jobs: Rowcall) -> list[Callable[[], object]]:
    return [
        lambda: jobs.enqueue("task"),
        lambda: asyncio.run(jobs.aenqueue("task")),
        lambda: jobs.claim("me"),
        lambda: jobs.cancel(1),
    ]


@pytest.mark.concurrency
def test_another_process_that_holds_it_is_named(jobs: Rowcall, path: Path) -> None:
    jobs.enqueue("task")
    with PythonProcess("-c", HOLD, str(path), "begin immediate") as holder:
        holder.wait_for("held")
        for write in writes(jobs):
            began = time.monotonic()
            with pytest.raises(StoreUnavailable) as caught:
                write()
            assert BUSY_TIMEOUT * 0.8 <= time.monotonic() - began < 15
            said = str(caught.value)
            assert f"{path} is locked by process {holder.pid} (python" in said
            assert "End that transaction (kill its process if it hangs), or raise busy_timeout" in said
            assert "Nothing was written" in said
        assert [job.status for job in jobs.list().jobs] == ["pending"]  # reads still work
    assert jobs.stats().total == 1
    assert jobs.enqueue("task").id == 2


@pytest.mark.concurrency
def test_a_new_file_that_another_process_locks(path: Path) -> None:
    with (
        Rowcall(path, busy_timeout=BUSY_TIMEOUT) as jobs,
        PythonProcess("-c", HOLD, str(path), "begin exclusive") as holder,
    ):
        holder.wait_for("held")
        with pytest.raises(StoreUnavailable, match="is locked by another transaction"):
            jobs.enqueue("task")
        holder.kill()
        assert jobs.enqueue("task").id == 1


def test_this_thread_is_advised_to_pass_its_connection(jobs: Rowcall, path: Path) -> None:
    with closing(sqlite3.connect(path)) as mine:
        mine.execute("create table mine (id integer)")
        mine.execute("insert into mine values (1)")
        assert mine.in_transaction
        with pytest.raises(StoreUnavailable) as caught:
            jobs.enqueue("task")
        said = str(caught.value)
        assert f"{path} is locked by a transaction of this process. If this thread began it" in said
        assert "pass that connection with connection=…; otherwise end it sooner. Nothing was written" in said
        job = jobs.enqueue("task", connection=mine)
        mine.commit()
        assert jobs.list().jobs == [jobs.get(job.id)]
        assert mine.execute("select count(*) from mine").fetchone() == (1,)


@pytest.mark.concurrency
def test_a_lock_that_is_freed_in_time_is_waited_for(path: Path) -> None:
    with Rowcall(path, busy_timeout=20) as jobs:
        jobs.migrate()
        with PythonProcess("-c", HOLD, str(path), "begin immediate") as holder:
            holder.wait_for("held")

            async def enqueue() -> int:
                waiting = asyncio.ensure_future(jobs.aenqueue("task"))
                done, _ = await asyncio.wait([waiting], timeout=0.1)
                assert not done
                holder.kill()
                return (await waiting).id

            assert asyncio.run(enqueue()) == 1
