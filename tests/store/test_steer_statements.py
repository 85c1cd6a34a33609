"""Every statement about steering is prepared against a real database, and those that must be quick use their index."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowcall.store.postgres import steer_sql as of_postgres
from rowcall.store.sqlite import steer_sql as of_sqlite
from tests.store.databases import migrated, parameters_of, query_plan
from tests.store.postgres.databases import migrated as migrated_server

PREFIXES = ("rowcall_", "My_App_", "x" * 40)
PLAIN_TYPES = {"text", "integer", "bigint", "double precision"}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_on_sqlite(tmp_path: Path, prefix: str) -> None:
    sql = of_sqlite.SteerSql(prefix)
    with migrated(tmp_path / "app.db", prefix) as connection:
        for name in of_sqlite.statements():
            text = getattr(sql, name)
            connection.execute(f"explain {text}", parameters_of(text))


@pytest.mark.parametrize("prefix", PREFIXES)
def test_on_postgresql_with_plain_parameters(postgres_url: str, prefix: str) -> None:
    sql = of_postgres.SteerSql(prefix)
    with migrated_server(postgres_url, prefix) as connection:
        for name in of_postgres.statements():
            connection.execute(f"prepare {name} as {getattr(sql, name)}".encode(), prepare=False)
        types = connection.execute("select name, parameter_types::text[] from pg_prepared_statements").fetchall()
    assert {name for name, _ in types} == of_postgres.statements().keys()
    assert {kind for _, kinds in types for kind in kinds} <= PLAIN_TYPES


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("cancelling", "SEARCH job USING INDEX rowcall_job_cancelling (worker=?)"),
        ("failed_with", "SEARCH job USING INDEX rowcall_job_failed (<expr>=? AND finished_at>?)"),
        ("unfinished_with_key", "SEARCH rowcall_job USING INDEX rowcall_job_key (type=? AND key=?)"),
        ("asked_to_cancel", "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)"),
        ("obstacles", "SEARCH other USING INDEX rowcall_job_key (type=? AND key=?)"),
        ("obstacles", "SEARCH later USING INDEX rowcall_job_chain (chain_id=? AND chain_index>?)"),
    ],
)
def test_what_is_looked_for_is_found_by_its_index(tmp_path: Path, name: str, step: str) -> None:
    with migrated(tmp_path / "app.db") as connection:
        steps = query_plan(connection, getattr(of_sqlite.SteerSql("rowcall_"), name))
    assert step in steps, steps
    assert not any("TEMP B-TREE" in one for one in steps), steps


def test_nothing_is_left_out() -> None:
    assert of_postgres.statements().keys() - of_sqlite.statements().keys() == {"lock_attempts"}
    assert {"ask_to_cancel", "cancelling", "pause", "rerun"} <= of_sqlite.statements().keys()
