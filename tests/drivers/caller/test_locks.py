"""Nothing waits for a lock that the caller's own transaction holds: what cannot be had is said, and soon."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest
from psycopg.pq import TransactionStatus

from rowcall import Rowcall, RowcallError, SchemaMismatch, StoreUnavailable
from tests.connected import Connection, connected, database_with_tables

# the server ends a call that waits for the caller's own lock, and the caller's connection with it
BOUND = "set local idle_in_transaction_session_timeout = '15s'"
TABLES = "rowcall_job, rowcall_attempt, rowcall_event, rowcall_worker, rowcall_job_tag, rowcall_migration"
LOCKS = {
    "its jobs": "lock table rowcall_job in access exclusive mode",
    "its versions": "lock table rowcall_migration in access exclusive mode",
    "all its tables": f"lock table {TABLES} in access exclusive mode",
    "a column more": "alter table rowcall_job add column mine int",
    "emptied": "truncate rowcall_job, rowcall_migration cascade",
    "all rows": "update rowcall_migration set name = name",
}


@pytest.fixture(scope="module")
def with_tables(postgres_server_url: str) -> Iterator[str]:
    with database_with_tables(postgres_server_url) as url:
        yield url


@pytest.fixture
def mine(with_tables: str) -> Iterator[Connection]:
    with connected(with_tables, autocommit=False) as connection:
        yield connection


@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
def test_first_use_on_a_connection_that_has_locked(with_tables: str, mine: Connection, lock: str) -> None:
    mine.execute(BOUND)
    mine.execute(lock.encode())
    with Rowcall(with_tables) as jobs:
        try:
            jobs.enqueue("task", connection=mine)
        except RowcallError as error:
            assert "transaction" in str(error)  # noqa: PT017
        assert mine.execute("select 1").fetchone() == (1,)
        mine.rollback()
        jobs.enqueue("task", connection=mine)
        mine.rollback()


@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
def test_first_use_on_an_async_connection_that_has_locked(with_tables: str, lock: str) -> None:
    async def scenario() -> None:
        connection = await asyncpg.connect(with_tables)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(BOUND)
        await connection.execute(lock)
        with Rowcall(with_tables) as jobs:
            try:
                await jobs.aenqueue("task", connection=connection)
            except RowcallError as error:
                assert "transaction" in str(error)  # noqa: PT017
            assert await connection.fetchval("select 1") == 1
            await transaction.rollback()
        await connection.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
def test_later_use_on_a_connection_that_has_locked(with_tables: str, mine: Connection, lock: str) -> None:
    """What is locked by the connection that writes is no lock at all."""
    with Rowcall(with_tables) as jobs:
        jobs.stats()
        mine.execute(lock.encode())
        jobs.enqueue("task", connection=mine)
        mine.rollback()


@pytest.mark.no_tables
def test_tables_that_the_callers_transaction_has_just_made(postgres_url: str) -> None:
    """No other connection can see them yet, or create others of that name."""
    with connected(postgres_url, autocommit=False) as mine, Rowcall(postgres_url) as jobs:
        mine.execute(BOUND)
        mine.execute("create table rowcall_migration (version int primary key, name text, applied_at timestamptz)")
        mine.execute("create table orders (id int)")
        with pytest.raises((StoreUnavailable, SchemaMismatch), match=r"jobs\.migrate\(\)|rowcall migrate"):
            jobs.enqueue("task", connection=mine)
        assert mine.info.transaction_status == TransactionStatus.INTRANS
        mine.execute("drop table rowcall_migration")
        mine.commit()
        jobs.migrate()
        jobs.enqueue("task", connection=mine)
        mine.commit()
        assert jobs.stats().total == 1
        assert mine.execute("select count(*) from orders").fetchone() == (0,)


def test_another_transaction_holds_the_lock(with_tables: str, mine: Connection) -> None:
    """Then the caller's own settings say for how long it waits."""
    with Rowcall(with_tables) as jobs, connected(with_tables, autocommit=False) as other:
        jobs.stats()
        other.execute("lock table rowcall_job in access exclusive mode")
        mine.execute("set local lock_timeout = '10ms'")
        with pytest.raises(StoreUnavailable, match="could not get a lock in time"):
            jobs.enqueue("task", connection=mine)


@pytest.mark.parametrize("begin", ["begin immediate", "begin exclusive"])
@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_first_use_on_a_file_that_the_caller_has_locked(tmp_path: Path, journal: str, begin: str) -> None:
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as mine, Rowcall(path, busy_timeout=0.2) as jobs:
        mine.execute(f"pragma journal_mode = {journal}")
        mine.execute("create table mine (id integer)")
        mine.execute(begin)
        mine.execute("insert into mine values (1)")
        with pytest.raises(StoreUnavailable, match=r"call jobs\.migrate\(\) once before it"):
            jobs.enqueue("task", connection=mine)
        mine.execute("commit")
        assert mine.execute("select count(*) from mine").fetchone() == (1,)


def test_first_use_in_this_process_of_a_file_with_tables(tmp_path: Path) -> None:
    """Readers never wait: that the tables are there can be seen next to the caller's lock."""
    path = tmp_path / "app.db"
    with Rowcall(path) as before:
        before.migrate()
    with closing(sqlite3.connect(path, isolation_level=None)) as mine, Rowcall(path, busy_timeout=0.2) as jobs:
        mine.execute("begin exclusive")
        job = jobs.enqueue("task", connection=mine)
        mine.execute("commit")
        assert jobs.get(job.id) == job


def test_tables_of_sqlite_that_the_callers_transaction_has_just_made(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as mine, Rowcall(path, busy_timeout=0.2) as jobs:
        mine.execute("begin")
        mine.execute("create table rowcall_job (id integer)")
        with pytest.raises(StoreUnavailable, match=r"jobs\.migrate\(\)"):
            jobs.enqueue("task", connection=mine)
        assert mine.execute("select 1").fetchone() == (1,)
        mine.execute("rollback")
        jobs.migrate()
        jobs.enqueue("task", connection=mine)
