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
from rowcall.testing import eventually
from rowcall.worker.upkeep.vacuum import VACUUM_AFTER, Vacuum

pytestmark = pytest.mark.new_database  # no statistics of earlier tests


@pytest.fixture
def jobs(postgres_url: str) -> Iterator[Rowcall]:
    with Rowcall(postgres_url) as jobs:
        yield jobs


@pytest.fixture
def raw(postgres_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def vacuums(raw: psycopg.Connection) -> list[int]:
    raw.execute("select pg_stat_clear_snapshot()")
    rows = raw.execute(
        "select vacuum_count from pg_stat_user_tables where relname in ('rowcall_ready', 'rowcall_claim')"
    )
    return [int(count) for (count,) in rows]


def test_a_worker_vacuums_after_many_claims(jobs: Rowcall, raw: psycopg.Connection) -> None:
    @jobs.task
    async def task() -> None: ...

    task.enqueue_many([{}] * VACUUM_AFTER)
    with jobs.worker():
        eventually(lambda: min(vacuums(raw)) == 1)


def test_not_before_there_were_enough(jobs: Rowcall, raw: psycopg.Connection) -> None:
    vacuum = Vacuum(queue_of(jobs), after=10)
    vacuum.thread.start()
    vacuum.note_claimed(9)
    assert vacuums(raw) == [0, 0]
    vacuum.note_claimed(1)
    eventually(lambda: vacuums(raw) == [1, 1])
    vacuum.thread.stop()
    vacuum.thread.wait()
    assert vacuums(raw) == [1, 1]


def test_a_few_deleted_rows_among_many_ready_jobs_are_left_to_autovacuum(
    jobs: Rowcall, raw: psycopg.Connection
) -> None:
    @jobs.task
    async def task() -> None: ...

    task.enqueue_many([{}] * 100)
    raw.execute("analyze rowcall_ready")
    database = queue_of(jobs).database
    assert not database.vacuum_ready(19)
    assert database.vacuum_ready(20)


def test_a_role_that_does_not_own_the_tables_leaves_them_to_autovacuum(
    jobs: Rowcall, raw: psycopg.Connection, postgres_url: str
) -> None:
    name = f"rowcall_other_{secrets.token_hex(4)}"
    raw.execute(f"create role {name} login password 'secret'".encode())
    raw.execute(f"grant select, insert, update, delete on all tables in schema public to {name}".encode())
    other = re.sub(r"^postgresql://[^@/]*@", f"postgresql://{name}:secret@", postgres_url)
    try:
        with Rowcall(other) as theirs:
            assert not queue_of(theirs).database.vacuum_ready(VACUUM_AFTER)
        assert queue_of(jobs).database.vacuum_ready(VACUUM_AFTER)
    finally:
        raw.execute(f"drop owned by {name}; drop role {name}".encode())


def test_a_file_has_nothing_to_vacuum(tmp_path: Path) -> None:
    with Rowcall(f"sqlite:///{tmp_path}/app.db") as jobs:
        assert not queue_of(jobs).database.vacuum_ready(VACUUM_AFTER)
