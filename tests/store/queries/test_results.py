"""Waiters find a job by its id, and all connections notify on one channel."""

from __future__ import annotations

from pathlib import Path

from rowcall.store.postgres.dialect import catalogue as postgres_catalogue
from rowcall.store.sqlite.dialect import catalogue
from tests.store.databases import migrated, query_plan


def test_on_sqlite_each_job_is_found_by_its_id(tmp_path: Path) -> None:
    with migrated(tmp_path / "app.db") as connection:
        steps = query_plan(connection, catalogue("rowcall_").texts()["ends"])
    assert any("SEARCH rowcall_job USING INTEGER PRIMARY KEY" in step for step in steps), steps


def test_a_callers_connection_notifies_on_the_same_channel() -> None:
    assert "pg_notify('rowcall_ended'" in postgres_catalogue('"My schema".rowcall_').texts()["notify_waiters"]
