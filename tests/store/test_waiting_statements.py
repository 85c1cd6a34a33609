"""Every statement about those who wait is prepared against a real database, under short and long names."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowcall.store.postgres import waiting_sql as of_postgres
from rowcall.store.sqlite import waiting as of_sqlite
from rowcall.store.sqlite.schema import render
from tests.store.databases import migrated, query_plan
from tests.store.postgres.databases import migrated as migrated_server

PREFIXES = ("rowcall_", "My_App_", "x" * 40)
PLAIN_TYPES = {"text", "bigint"}


def test_on_sqlite_each_job_is_found_by_its_id(tmp_path: Path) -> None:
    with migrated(tmp_path / "app.db") as connection:
        steps = query_plan(connection, render(of_sqlite.AWAITED_ENDS, "rowcall_"))
    assert any("SEARCH rowcall_job USING INTEGER PRIMARY KEY" in step for step in steps), steps


@pytest.mark.parametrize("prefix", PREFIXES)
def test_on_postgresql_with_plain_parameters(postgres_url: str, prefix: str) -> None:
    sql = of_postgres.WaitingSql(prefix)
    with migrated_server(postgres_url, prefix) as connection:
        for name in of_postgres.statements():
            connection.execute(f"prepare {name} as {getattr(sql, name)}".encode(), prepare=False)
        types = connection.execute("select name, parameter_types::text[] from pg_prepared_statements").fetchall()
    assert {name for name, _ in types} == of_postgres.statements().keys()
    assert {kind for _, kinds in types for kind in kinds} <= PLAIN_TYPES


def test_a_lent_connection_speaks_to_the_same_ears() -> None:
    assert "pg_notify('rowcall_ended'" in of_postgres.WaitingSql('"My schema".rowcall_').tell_of_ends
