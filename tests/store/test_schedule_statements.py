"""Every statement about schedules is prepared against a real database, under short and long names."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowcall.store.postgres import schedules_sql as of_postgres
from rowcall.store.sqlite import schedules_sql as of_sqlite
from tests.store.databases import migrated, parameters_of, query_plan
from tests.store.postgres.databases import migrated as migrated_server

PREFIXES = ("rowcall_", "My_App_", "x" * 40)
PLAIN_TYPES = {"text", "integer", "bigint", "double precision"}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_on_sqlite(tmp_path: Path, prefix: str) -> None:
    sql = of_sqlite.SchedulesSql(prefix)
    with migrated(tmp_path / "app.db", prefix) as connection:
        for name in of_sqlite.statements():
            text = getattr(sql, name)
            connection.execute(f"explain {text}", parameters_of(text))


@pytest.mark.parametrize("prefix", PREFIXES)
def test_on_postgresql_with_plain_parameters(postgres_url: str, prefix: str) -> None:
    sql = of_postgres.SchedulesSql(prefix)
    with migrated_server(postgres_url, prefix) as connection:
        for name in of_postgres.statements():
            connection.execute(f"prepare {name} as {getattr(sql, name)}".encode(), prepare=False)
        types = connection.execute("select name, parameter_types::text[] from pg_prepared_statements").fetchall()
    assert {name for name, _ in types} == of_postgres.statements().keys()
    assert {kind for _, kinds in types for kind in kinds} <= PLAIN_TYPES


def test_what_is_due_is_found_in_the_order_of_its_time(tmp_path: Path) -> None:
    with migrated(tmp_path / "app.db") as connection:
        steps = query_plan(connection, of_sqlite.SchedulesSql("rowcall_").due_schedules)
    assert steps == ["SEARCH rowcall_schedule USING INDEX rowcall_schedule_due (next_run_at>? AND next_run_at<?)"]


def test_nothing_is_left_out() -> None:
    assert of_sqlite.statements().keys() == of_postgres.statements().keys()
    assert {"due_schedules", "move_on", "put_schedule"} <= of_sqlite.statements().keys()
