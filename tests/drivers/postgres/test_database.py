"""The PostgreSQL database of one queue in one process."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

import pytest

from rowcall import Rowcall, StoreUnavailable
from rowcall.app import queue_of
from rowcall.base.clock import SystemClock
from rowcall.domain.config import Config, Server
from rowcall.domain.errors import Conflict, DataRefused
from rowcall.drivers.postgres import database
from rowcall.drivers.postgres.connection import connect
from rowcall.drivers.postgres.database import MOST_TRIES
from rowcall.operations.effects import Write
from rowcall.store.statement import Plan, Row, Statement, as_is, execute, fetch
from rowcall.testing.postgres_database import database_of, terminate_connections
from rowcall.testing.process import ForkedProcess, PythonProcess
from tests.connected import Connection, connected
from tests.descriptors import many_descriptors, open_descriptors
from tests.drivers.postgres.support import MANY, database_of_queue
from tests.pgbouncer import PgBouncer
from tests.support import eventually

FORK_AFTER_OPENING = """
import os, sys
from rowcall import Rowcall
jobs = Rowcall(sys.argv[1])

@jobs.task
def task() -> None: ...

jobs.enqueue("before")
assert [job.type for job in jobs.list().jobs] == ["before"]
child = os.fork()
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
jobs = Rowcall(sys.argv[1])
asyncio.run(jobs.aenqueue("before"))
child = os.fork()
asyncio.run(jobs.aenqueue("child" if child == 0 else "parent"))
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0, "the child failed"
asyncio.run(jobs.aenqueue("after"))
print("done", flush=True)
"""

FORK_WHILE_OTHERS_WRITE = """
import os, sys, threading
from rowcall import Rowcall
jobs = Rowcall(sys.argv[1])
jobs.enqueue("before")
stop = threading.Event()

def write():
    while not stop.is_set():
        jobs.enqueue("parent")
        jobs.get(1)

threads = [threading.Thread(target=write) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        jobs.enqueue("child")
        jobs.get(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, "a child failed"
stop.set()
for thread in threads:
    thread.join()
jobs.enqueue("after")
print("done", flush=True)
"""

END_WITHOUT_CLOSING = """
import asyncio, sys
from rowcall import Rowcall
jobs = Rowcall(sys.argv[1])
jobs.enqueue("task")
asyncio.run(jobs.aenqueue("task"))
jobs.list()
"""


def ours(mine: Connection) -> int:
    """How many connections to this database are Rowcall's."""
    there = "select from pg_stat_activity where datname = current_database() and application_name = 'rowcall'"
    return len(mine.execute(there).fetchall())


def types_in(mine: Connection) -> dict[object, object]:
    counted = mine.execute("select type, count(*) from rowcall_job group by type").fetchall()
    return {row[0]: row[1] for row in counted}


def plain(sql: str) -> Plan[list[Row]]:
    return fetch(Statement(sql, (), as_is))


@contextmanager
def writers_held_up(url: str) -> Iterator[None]:
    with connected(url, autocommit=False) as other:
        other.execute("lock table rowcall_job in share mode")
        yield
        other.rollback()


# --- opening and closing --------------------------------------------------------------------------


def test_nothing_is_opened_before_the_first_use(url: str, mine: Connection) -> None:
    with Rowcall(url) as jobs:

        @jobs.task
        def task() -> None: ...

        task.using(priority=3)
        assert ours(mine) == 0
        task.enqueue()
        assert ours(mine) > 0


def test_close_and_use_again(url: str, mine: Connection) -> None:
    jobs = Rowcall(url)
    for turn in range(3):
        job = jobs.enqueue("task")
        assert jobs.get(job.id) == job
        assert asyncio.run(jobs.aenqueue("other")).id == job.id + 1 == 2 * turn + 2
        jobs.close()
        jobs.close()
        eventually(lambda: ours(mine) == 0)


def test_closing_leaves_nothing_behind(url: str, mine: Connection) -> None:
    asyncio.run(asyncio.sleep(0))  # whatever asyncio opens once
    descriptors, running = open_descriptors(), threading.active_count()
    with Rowcall(url) as jobs:
        jobs.enqueue("task")
        jobs.list()
        asyncio.run(jobs.aenqueue("task"))
        jobs.drain()
        assert len(open_descriptors()) > len(descriptors)
    eventually(lambda: threading.active_count() == running, message="the end of all threads")
    assert open_descriptors() == descriptors
    eventually(lambda: ours(mine) == 0)


def test_a_process_that_does_not_close_still_ends(url: str, mine: Connection) -> None:
    with PythonProcess("-W", "error", "-c", END_WITHOUT_CLOSING, url) as process:
        assert process.wait() == 0, process.output
        assert process.output == ""
    assert types_in(mine) == {"task": 2}


def test_closing_while_others_write_fails_no_one_for_good(jobs: Rowcall, threads: Executor) -> None:
    """A call that is caught in it gets an error; all others get new connections."""
    stop = threading.Event()
    told: list[StoreUnavailable] = []

    def write() -> int:
        written = 0
        while not stop.is_set():
            try:
                jobs.enqueue("task")
                jobs.list(limit=1)
                written += 1
            except StoreUnavailable as error:
                told.append(error)
        return written

    writing = [threads.submit(write) for _ in range(4)]
    for _ in range(5):
        before = jobs.stats().total
        eventually(lambda before=before: jobs.stats().total > before)  # type: ignore[misc]
        jobs.close()
    stop.set()
    assert all(future.result(20) > 0 for future in writing)
    assert {error.problem.rpartition(": ")[2] for error in told} <= {"the queue is being closed"}


def test_many_open_files_are_no_obstacle(url: str) -> None:
    with many_descriptors(), Rowcall(url) as jobs:
        for _ in range(2):
            job = jobs.enqueue("task")
            assert jobs.get(job.id) == job
        assert asyncio.run(jobs.aenqueue("task")).id == 3

        @jobs.task
        def task() -> None: ...

        assert jobs.drain().succeeded == 3


def test_a_server_that_is_not_there_is_said_at_once() -> None:
    with Rowcall("postgresql://ann:secret@127.0.0.1:1/shop", busy_timeout=600) as jobs:
        calls: list[Callable[[], object]] = [
            lambda: jobs.enqueue("task"),
            lambda: jobs.list(),
            lambda: asyncio.run(jobs.aenqueue("task")),
            jobs.migrate,
            jobs.drain,
        ]
        for call in calls:
            with pytest.raises(StoreUnavailable, match=r"postgresql://ann@127\.0\.0\.1:1/shop: cannot connect"):
                call()


# --- options of the connections -------------------------------------------------------------------


def in_every_session(jobs: Rowcall, setting: str) -> set[object]:
    """What a setting is where we read, where we write, where a worker's rounds run, and where we listen."""
    question = f"select current_setting('{setting}')"
    database = database_of_queue(jobs)
    worker = database.connect()
    listening = database.connect_to_listen()
    assert listening is not None
    found = [
        *database.read(plain(question)),
        *database.write(lambda: plain(question)),
        *worker.read(plain(question)),
        *worker.write(plain(question)),
        *worker.write(plain(question), one_statement=True),
        *listening.execute(question).fetchall(),
    ]
    worker.close()
    listening.close()
    return {row[0] for row in found}


def test_our_sessions_say_who_they_are(jobs: Rowcall) -> None:
    assert in_every_session(jobs, "application_name") == {"rowcall"}
    assert in_every_session(jobs, "transaction_isolation") == {"read committed"}
    assert in_every_session(jobs, "rowcall.notifies") == {"after_commit"}
    assert in_every_session(jobs, "synchronous_commit") == {"on"}


def test_options_in_the_url_win(url: str) -> None:
    options = "application_name=mine&keepalives_idle=77&connect_timeout=3&options=-c%20statement_timeout%3D98765"
    with Rowcall(f"{url}?{options}") as jobs:
        assert in_every_session(jobs, "application_name") == {"mine"}
        assert in_every_session(jobs, "statement_timeout") == {"98765ms"}
        raw = database_of_queue(jobs).connect_to_listen()
        assert raw is not None
        with raw:
            used = raw.info.get_parameters()
    assert (used["keepalives_idle"], used["connect_timeout"]) == ("77", "3")


def test_defaults_of_the_connections(url: str) -> None:
    with connect(url, Config(server=Server(url=url))) as raw:
        used = raw.info.get_parameters()
    assert (used["keepalives_idle"], used["connect_timeout"]) == ("10", "5")


def test_an_isolation_that_the_url_asks_for_is_not_ours(url: str) -> None:
    """Claims and settling are written for READ COMMITTED."""
    with Rowcall(f"{url}?options=-c%20default_transaction_isolation%3Dserializable") as jobs:
        assert in_every_session(jobs, "transaction_isolation") == {"read committed"}


def test_normal_durability_does_not_wait_for_the_disk(url: str) -> None:
    with Rowcall(url, durability="normal") as jobs:
        assert in_every_session(jobs, "synchronous_commit") == {"off"}


def test_behind_a_pooler_nothing_is_left_on_its_connections(url: str, pgbouncer: PgBouncer) -> None:
    through = pgbouncer.url(database_of(url))
    with Rowcall(through, durability="normal") as jobs:

        @jobs.task
        def task() -> None: ...

        for _ in range(10):
            task.enqueue()
        assert jobs.drain().succeeded == 10
        assert asyncio.run(jobs.aenqueue("task")).id == 11
    with connected(through) as other:
        question = "select current_setting(%s, true)"
        found = {name: other.execute(question, [name]).fetchone() for name in ("jit", "synchronous_commit")}
        assert found["synchronous_commit"] == ("on",)
        assert other.execute("select current_setting('rowcall.notifies', true)").fetchone() in [(None,), ("",)]
        assert other.execute("select count(*) from pg_prepared_statements").fetchone() == (0,)


# --- plans ----------------------------------------------------------------------------------------


def test_a_plan_that_fails_half_way_leaves_nothing(jobs: Rowcall) -> None:
    def half_way() -> Plan[None]:
        yield from execute(Statement("insert into rowcall_job (type) values ('half')", (), as_is))
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        queue_of(jobs).run(Write(half_way))
    with pytest.raises(RuntimeError, match="half way"):
        asyncio.run(queue_of(jobs).arun(Write(half_way)))
    assert jobs.list().jobs == []
    assert jobs.enqueue("task").type == "task"


def test_a_statement_that_fails_half_way_leaves_nothing(jobs: Rowcall) -> None:
    def half_way() -> Plan[None]:
        yield from execute(Statement("insert into rowcall_job (type) values ('half')", (), as_is))
        yield from execute(Statement("select 1 / 0", (), as_is))

    for _ in range(3):
        with pytest.raises(DataRefused, match="division by zero"):
            queue_of(jobs).run(Write(half_way))
    assert jobs.list().jobs == []


def test_a_read_never_waits_for_a_writer(jobs: Rowcall, url: str) -> None:
    job = jobs.enqueue("task")
    with connected(url, autocommit=False) as other:
        other.execute("insert into rowcall_job (type) values ('unseen')")
        other.execute("lock table rowcall_job in exclusive mode")
        assert jobs.list().jobs == [job]
        assert jobs.get(job.id) == job
        assert jobs.stats().total == 1
        assert asyncio.run(jobs.aget(job.id)) == job


def test_a_read_does_not_wait_behind_our_own_writers(jobs: Rowcall, url: str, threads: Executor) -> None:
    job = jobs.enqueue("task")
    with writers_held_up(url):
        writing = [threads.submit(jobs.enqueue, "task") for _ in range(20)]
        assert jobs.get(job.id) == job
        assert not any(future.done() for future in writing)
    assert len({future.result(20).id for future in writing}) == 20


@pytest.mark.parametrize("sqlstate", ["40001", "40P01", "55P03"])
def test_a_conflict_is_tried_again(jobs: Rowcall, sqlstate: str) -> None:
    tries: list[int] = []

    def conflicting() -> Plan[int]:
        tries.append(1)
        yield from execute(Statement("insert into rowcall_job (type) values ('once')", (), as_is))
        if len(tries) < 3:
            text = f"do $$ begin raise exception using errcode = '{sqlstate}', message = 'so it goes'; end $$"
            yield from execute(Statement(text, (), as_is))
        return len(tries)

    assert queue_of(jobs).run(Write(conflicting)) == 3
    assert [job.type for job in jobs.list().jobs] == ["once"]


def test_a_conflict_that_does_not_end_is_said(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def conflicting() -> Plan[None]:
        tries.append(1)
        yield from execute(Statement("do $$ begin raise sqlstate '40001'; end $$", (), as_is))

    with pytest.raises(Conflict, match="call again"):
        queue_of(jobs).run(Write(conflicting))
    assert len(tries) == MOST_TRIES


def test_a_connection_that_is_lost_before_the_commit_is_replaced(jobs: Rowcall) -> None:
    tries: list[int] = []

    def cut() -> Plan[int]:
        tries.append(1)
        yield from execute(Statement("insert into rowcall_job (type) values ('once')", (), as_is))
        if len(tries) == 1:
            yield from execute(Statement("select pg_terminate_backend(pg_backend_pid())", (), as_is))
        return len(tries)

    assert queue_of(jobs).run(Write(cut)) == 2
    assert [job.type for job in jobs.list().jobs] == ["once"]


def test_connections_that_were_cut_while_idle(jobs: Rowcall, url: str, caplog: pytest.LogCaptureFixture) -> None:
    job = jobs.enqueue("task")
    calls: list[Callable[[], object]] = [
        lambda: jobs.get(job.id),
        lambda: jobs.enqueue("task"),
        lambda: asyncio.run(jobs.aenqueue("task")),
        lambda: jobs.claim("worker-1"),
    ]
    with caplog.at_level(logging.INFO):
        for call in calls:
            call()
            assert terminate_connections(url, database_of(url)) > 0
            call()
    assert caplog.records == []


# --- the pool -------------------------------------------------------------------------------------


def test_many_readers_at_once_share_few_connections(url: str, mine: Connection, threads: Executor) -> None:
    with Rowcall(url, pool_size=3) as jobs:
        job = jobs.enqueue("task")
        barrier = threading.Barrier(MANY, timeout=20)

        def read() -> int:
            barrier.wait()
            return jobs.get(job.id).id

        assert [future.result(20) for future in [threads.submit(read) for _ in range(MANY)]] == [job.id] * MANY
        assert ours(mine) <= 3 + 1  # and the one that writes


def test_a_pool_that_is_used_up_says_so(url: str, threads: Executor) -> None:
    with Rowcall(url, pool_size=2, busy_timeout=0.5) as jobs:
        job = jobs.enqueue("task")
        held, go_on = threading.Barrier(3, timeout=20), threading.Event()

        def hold() -> Plan[None]:
            yield from execute(Statement("select 1", (), as_is))
            held.wait()
            assert go_on.wait(20)

        holding = [threads.submit(queue_of(jobs).run, Write(hold)) for _ in range(2)]
        held.wait()
        with pytest.raises(StoreUnavailable, match=r"all 2 connections of this process were busy for 0\.5 s"):
            jobs.get(job.id)
        assert jobs.enqueue("task").id == job.id + 1  # on its own connection
        go_on.set()
        for future in holding:
            future.result(20)
        assert jobs.get(job.id) == job


def test_a_server_that_was_frozen_does_not_make_a_pool_used_up(
    url: str, threads: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FrozenClock(SystemClock):
        frozen_seconds = 0.0

        def timer(self) -> float:
            return super().timer() + self.frozen_seconds

    clock = FrozenClock()
    with Rowcall(url, pool_size=1, busy_timeout=0.1) as jobs:
        job = jobs.enqueue("task")
        held, go_on = threading.Barrier(2, timeout=20), threading.Event()

        def hold() -> Plan[None]:
            yield from execute(Statement("select 1", (), as_is))
            held.wait()
            assert go_on.wait(20)

        def connect_after_a_while(url: str, config: Config) -> object:
            clock.frozen_seconds += 60
            go_on.set()  # what the server did not reply to has its reply now
            return connect(url, config)

        holding = threads.submit(queue_of(jobs).run, Write(hold))
        held.wait()
        monkeypatch.setattr(database, "SYSTEM_CLOCK", clock)
        monkeypatch.setattr(database, "connect", connect_after_a_while)
        assert jobs.get(job.id) == job
        holding.result(20)


# --- forks ----------------------------------------------------------------------------------------


@pytest.mark.concurrency
@pytest.mark.parametrize("program", [FORK_AFTER_OPENING, FORK_AND_ASYNC, FORK_WHILE_OTHERS_WRITE])
def test_a_fork_after_opening_harms_neither_side(url: str, mine: Connection, program: str) -> None:
    with ForkedProcess("-W", "ignore::DeprecationWarning", "-c", program, url) as process:
        assert process.wait() == 0, process.output
        assert process.output.endswith("done\n")
        assert "Traceback" not in process.output
    each = 50 if program is FORK_AFTER_OPENING else 10 if program is FORK_WHILE_OTHERS_WRITE else 1
    written = types_in(mine)
    assert (written["before"], written["child"], written["after"]) == (1, each, 1)
    eventually(lambda: ours(mine) == 0)
