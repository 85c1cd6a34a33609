"""Every statement about blobs is prepared against a real database, under short and long names."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowcall.store.postgres import blobs_sql as of_postgres
from rowcall.store.sqlite import blobs_sql as of_sqlite
from tests.store.databases import migrated, parameters_of, query_plan
from tests.store.postgres.databases import migrated as migrated_server

PREFIXES = ("rowcall_", "My_App_", "x" * 40)
PLAIN_TYPES = {"text", "integer", "bigint", "double precision"}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_on_sqlite(tmp_path: Path, prefix: str) -> None:
    sql = of_sqlite.BlobsSql(prefix)
    with migrated(tmp_path / "app.db", prefix) as connection:
        for name in of_sqlite.statements():
            text = getattr(sql, name)
            connection.execute(f"explain {text}", parameters_of(text))


@pytest.mark.parametrize("prefix", PREFIXES)
def test_on_postgresql_with_plain_parameters(postgres_url: str, prefix: str) -> None:
    sql = of_postgres.BlobsSql(prefix)
    with migrated_server(postgres_url, prefix) as connection:
        for name in of_postgres.statements():
            connection.execute(f"prepare {name} as {getattr(sql, name)}".encode(), prepare=False)
        types = connection.execute("select name, parameter_types::text[] from pg_prepared_statements").fetchall()
    assert {name for name, _ in types} == of_postgres.statements().keys()
    assert {kind for _, kinds in types for kind in kinds} <= PLAIN_TYPES


def test_whether_a_blob_is_needed_is_found_by_its_digest(tmp_path: Path) -> None:
    with migrated(tmp_path / "app.db") as connection:
        steps = query_plan(connection, of_sqlite.BlobsSql("rowcall_").unreferred_blobs)
    assert any("SEARCH ref USING PRIMARY KEY (digest=?)" in step for step in steps), steps


def test_nothing_is_left_out() -> None:
    assert of_sqlite.statements().keys() < of_postgres.statements().keys()
    assert {"refer_to_blobs", "pin_blobs", "unreferred_blobs"} <= of_sqlite.statements().keys()
