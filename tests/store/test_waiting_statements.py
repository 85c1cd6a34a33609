"""Those who wait for a job find it by its id, and are spoken to under one name."""

from __future__ import annotations

from pathlib import Path

from rowcall.store.postgres import waiting_sql as of_postgres
from rowcall.store.sqlite import waiting as of_sqlite
from rowcall.store.sqlite.words import render
from tests.store.databases import migrated, query_plan


def test_on_sqlite_each_job_is_found_by_its_id(tmp_path: Path) -> None:
    with migrated(tmp_path / "app.db") as connection:
        steps = query_plan(connection, render(of_sqlite.AWAITED_ENDS, "rowcall_"))
    assert any("SEARCH rowcall_job USING INTEGER PRIMARY KEY" in step for step in steps), steps


def test_a_lent_connection_speaks_to_the_same_ears() -> None:
    assert "pg_notify('rowcall_ended'" in of_postgres.WaitingSql('"My schema".rowcall_').tell_of_ends
