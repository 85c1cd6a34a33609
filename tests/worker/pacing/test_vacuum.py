"""A worker vacuums what its claims have deleted, long before autovacuum comes."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.drivers.postgres.database import LEAST_DELETED
from rowcall.testing import eventually
from rowcall.testing.postgres_database import database_of
from rowcall.worker.pacing.vacuum import VACUUM_AFTER, Vacuum
from tests.pgbouncer import PgBouncer

pytestmark = pytest.mark.new_database  # no statistics of earlier tests

INSERT = """
    insert into rowcall_ready (queue, type, rank, turn, id, since, attempt)
    select %s, 'any', 0, number, number, now(), 0 from generate_series(1, %s) as number"""


@pytest.fixture
def jobs(postgres_url: str) -> Iterator[Rowcall]:
    with Rowcall(postgres_url) as jobs:
        yield jobs


@pytest.fixture
def raw(postgres_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for table in ("ready", "claim"):
            connection.execute(f"alter table rowcall_{table} set (autovacuum_enabled = off)".encode())
        yield connection


def delete_ready_rows(raw: psycopg.Connection, count: int) -> None:
    raw.execute(INSERT, ("deleted", count))
    raw.execute("delete from rowcall_ready where queue = 'deleted'")
    raw.execute("select pg_stat_force_next_flush()")


def vacuums(raw: psycopg.Connection) -> list[int]:
    """Return how often the tables of ready jobs and of claims were vacuumed."""
    tables = [("rowcall_ready",), ("rowcall_claim",)]
    found = [raw.execute("select pg_stat_get_vacuum_count(%s::regclass)", table).fetchone() for table in tables]
    return [count for row in found if row is not None for count in row]


def test_a_worker_vacuums_after_many_claims(jobs: Rowcall, raw: psycopg.Connection) -> None:
    @jobs.task
    async def task() -> None: ...

    delete_ready_rows(raw, 2 * LEAST_DELETED)
    task.enqueue_many([{}] * VACUUM_AFTER)
    with jobs.worker():
        eventually(lambda: vacuums(raw) == [1, 1])


def test_its_thread_vacuums_after_enough_claims_and_ends_when_it_is_stopped(
    jobs: Rowcall, raw: psycopg.Connection
) -> None:
    delete_ready_rows(raw, LEAST_DELETED)
    vacuum = Vacuum(queue_of(jobs), after=10)
    vacuum.note_claimed(9)
    assert not vacuum._is_due.is_set()
    vacuum.note_claimed(1)
    vacuum.thread.start()
    try:
        eventually(lambda: vacuums(raw) == [1, 1])
    finally:
        vacuum.thread.stop()
        vacuum.thread.wait()
    assert vacuum.thread._thread is not None
    assert not vacuum.thread._thread.is_alive()


@pytest.mark.parametrize(("deleted", "live", "times"), [(-1, 0, 0), (0, 0, 1), (0, 40_000, 0), (3_000, 40_000, 1)])
def test_only_if_the_deleted_rows_are_many_and_a_fifth_of_all(
    jobs: Rowcall, raw: psycopg.Connection, deleted: int, live: int, times: int
) -> None:
    raw.execute(INSERT, ("live", live))
    delete_ready_rows(raw, LEAST_DELETED + deleted)
    assert queue_of(jobs).database.vacuum_ready()
    assert vacuums(raw) == [times, times]


def test_it_is_of_no_use_next_to_an_old_snapshot(jobs: Rowcall, raw: psycopg.Connection, postgres_url: str) -> None:
    database = queue_of(jobs).database
    with psycopg.connect(postgres_url) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("select 1 from rowcall_job")
        delete_ready_rows(raw, LEAST_DELETED)
        assert not database.vacuum_ready()
    assert database.vacuum_ready()
    assert vacuums(raw) == [2, 2]


def test_it_skips_a_table_that_is_locked(jobs: Rowcall, raw: psycopg.Connection, postgres_url: str) -> None:
    delete_ready_rows(raw, LEAST_DELETED)
    with psycopg.connect(postgres_url) as other:
        other.execute("lock table rowcall_ready in share update exclusive mode")
        assert queue_of(jobs).database.vacuum_ready()
        assert vacuums(raw) == [0, 1]


def test_a_user_who_does_not_own_the_tables_leaves_them_to_autovacuum(
    jobs: Rowcall, raw: psycopg.Connection, postgres_url: str
) -> None:
    delete_ready_rows(raw, LEAST_DELETED)
    name = f"rowcall_other_{secrets.token_hex(4)}"
    raw.execute(f"create role {name} login password 'secret'".encode())
    try:
        url = re.sub(r"^postgresql://[^@/]*@", f"postgresql://{name}:secret@", postgres_url)
        with Rowcall(url) as theirs:
            assert not queue_of(theirs).database.vacuum_ready()
    finally:
        raw.execute(f"drop role {name}".encode())
    assert vacuums(raw) == [0, 0]


def test_behind_a_pooler_only_with_a_url_that_avoids_it(
    raw: psycopg.Connection, pgbouncer: PgBouncer, postgres_url: str
) -> None:
    delete_ready_rows(raw, LEAST_DELETED)
    for listen_url, times in ((None, 0), (postgres_url, 1)):
        with Rowcall(pgbouncer.url(database_of(postgres_url)), listen_url=listen_url) as jobs:
            assert queue_of(jobs).database.vacuum_ready() == bool(times)
        assert vacuums(raw) == [times, times]


def test_a_file_has_nothing_to_vacuum(tmp_path: Path) -> None:
    with Rowcall(f"sqlite:///{tmp_path}/app.db") as jobs:
        assert not queue_of(jobs).database.vacuum_ready()
