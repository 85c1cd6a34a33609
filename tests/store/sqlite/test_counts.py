"""Triggers on a SQLite file: plain SQL is counted, within its own transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Rowcall


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db") as jobs:
        jobs.migrate()
        yield jobs


@pytest.fixture
def plain(jobs: Rowcall, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "app.db", isolation_level=None)) as connection:
        yield connection


def finished(jobs: Rowcall) -> dict[str, int]:
    return {status: count for status, count in jobs.stats().by_status.items() if count}


def test_inserted_and_deleted(jobs: Rowcall, plain: sqlite3.Connection) -> None:
    for status in ("failed", "failed", "cancelled", "pending"):
        plain.execute("insert into rowcall_job (type, status) values ('send', ?)", [status])
    assert finished(jobs) == {"failed": 2, "cancelled": 1, "pending": 1}
    plain.execute("delete from rowcall_job where id in (1, 4)")
    assert finished(jobs) == {"failed": 1, "cancelled": 1}
    plain.execute("delete from rowcall_job")  # not the truncate optimization, which skips triggers
    assert finished(jobs) == {}


def test_replaced(jobs: Rowcall, plain: sqlite3.Connection) -> None:
    """A replaced row is deleted without its trigger, unless triggers are recursive."""
    plain.execute("pragma recursive_triggers = on")
    plain.execute("insert into rowcall_job (id, type, status) values (7, 'send', 'failed')")
    plain.execute("insert or replace into rowcall_job (id, type, status) values (7, 'send', 'succeeded')")
    assert finished(jobs) == {"succeeded": 1}


def test_rolled_back(jobs: Rowcall, plain: sqlite3.Connection) -> None:
    plain.execute("insert into rowcall_job (type, status) values ('send', 'failed')")
    plain.execute("begin")
    plain.execute("insert into rowcall_job (type, status) values ('send', 'failed')")
    plain.execute("delete from rowcall_job where id = 1")
    plain.execute("rollback")
    assert finished(jobs) == {"failed": 1}


def test_finish_times_are_those_given_or_that_of_creation(jobs: Rowcall, plain: sqlite3.Connection) -> None:
    plain.execute("insert into rowcall_job (type, status, finished_at) values ('send', 'failed', 1900000000000)")
    plain.execute("insert into rowcall_job (type, status) values ('send', 'failed')")
    second, first = jobs.list().jobs
    assert first.finished_at is not None
    assert first.finished_at.timestamp() == 1_900_000_000
    assert second.finished_at == second.created_at
