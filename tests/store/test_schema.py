"""Each column is read by a query, and each index is used by a query plan. The exceptions have a reason."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rowcall.store.migration import FINGERPRINTS
from rowcall.store.postgres.schema import MORE_COLUMNS
from rowcall.store.postgres.schema import TABLES as TABLES_ON_POSTGRES
from rowcall.store.schema import TABLES, definitions
from rowcall.store.sqlite.schema import VERSION_FOUND
from rowcall.store.sqlite.words import render
from tests.store.databases import PREFIX, migrated, parameters_of, query_plan
from tests.store.postgres.databases import migrated as migrated_server
from tests.store.test_statements import on_postgres, on_sqlite

FOR_PEOPLE = {("migration", "name"), ("migration", "applied_at")}
FOR_DELETES = {"blob_ref_job", "job_tag_job"}  # rows that a foreign key deletes, or a trigger changes, with their job
FOR_TRIGGERS = {"job_fair", "job_turn"}  # tests/store/order/test_fair_turns.py looks at their plans


@pytest.fixture
def file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with migrated(tmp_path / "app.db") as connection:
        yield connection


@pytest.fixture
def server(postgres_url: str) -> Iterator[psycopg.Connection]:
    with migrated_server(postgres_url, PREFIX) as connection:
        yield connection


def columns_of(table: str) -> set[tuple[str, str]]:
    return {(table, name) for name in definitions(TABLES[table], lambda name, kind, rest: name) if " " not in name}


def read_columns(connection: sqlite3.Connection, *texts: str) -> set[tuple[str, str]]:
    """Return our tables and columns that SQLite reads when it runs these texts, without what triggers read."""
    found: set[tuple[str, str]] = set()
    triggers = {name for (name,) in connection.execute("select name from sqlite_master where type = 'trigger'")}

    def authorize(action: int, table: str | None, column: str | None, database: str | None, inside: str | None) -> int:
        # no column: whether a row is there
        if action == sqlite3.SQLITE_READ and column and inside not in triggers and str(table).startswith(PREFIX):
            found.add((str(table).removeprefix(PREFIX), str(column)))
        return sqlite3.SQLITE_OK

    connection.set_authorizer(authorize)
    for sql in texts:
        connection.execute(f"explain {sql}", parameters_of(sql))
    connection.set_authorizer(None)
    return found


def test_a_column_that_is_only_written_would_be_seen(file: sqlite3.Connection) -> None:
    sql = "update rowcall_job set lease = 1, attempt = attempt + 1 where id = 1"
    assert read_columns(file, sql) == {("job", "attempt"), ("job", "id")}


def test_each_column_is_read_by_a_query(file: sqlite3.Connection) -> None:
    about_versions = (render(text, PREFIX) for text in (VERSION_FOUND, FINGERPRINTS))
    read = read_columns(file, *about_versions, *(sql for _, sql in on_sqlite(PREFIX)))
    assert set().union(*map(columns_of, TABLES)) - read == FOR_PEOPLE


def test_each_column_that_only_postgres_has_is_in_a_condition_or_read() -> None:
    texts = " ".join(sql for _, sql in on_postgres(PREFIX))
    more = [*MORE_COLUMNS.values(), *(TABLES_ON_POSTGRES[table] for table in TABLES_ON_POSTGRES.keys() - TABLES.keys())]
    names = {name for columns in more for name in definitions(columns, lambda name, kind, rest: name)}
    assert {"listening", "touched_at"} < names
    unread = {name for name in names if not re.search(rf"\b(select|where|and|or|not) \(?(\w+\.)?{name}\b", texts)}
    assert {name for name in unread if " " not in name} == set()


def test_each_index_is_used_by_a_query_plan_on_sqlite(file: sqlite3.Connection) -> None:
    steps = "\n".join(step for _, sql in on_sqlite(PREFIX) for step in query_plan(file, sql))
    used = set(re.findall(rf"USING INDEX {PREFIX}(\w+)", steps))
    made = file.execute("select name from sqlite_master where type = 'index' and sql is not null")
    assert {str(name).removeprefix(PREFIX) for (name,) in made} - used <= FOR_DELETES | FOR_TRIGGERS


@pytest.mark.new_database  # no statistics of earlier tests
def test_each_index_is_used_by_a_query_plan_on_postgres(server: psycopg.Connection) -> None:
    for setting in ("enable_seqscan", "enable_bitmapscan"):
        server.execute(f"set {setting} = off".encode())
    used: set[str] = set()
    for _, sql in on_postgres(PREFIX):
        numbers = max((int(number) for number in re.findall(r"\$(\d+)", sql)), default=0)
        values = f"({', '.join(['null'] * numbers)})" if numbers else ""
        server.execute(f"prepare probe as {sql}".encode(), prepare=False)
        server.execute("set plan_cache_mode = force_generic_plan")
        for (step,) in server.execute(f"explain execute probe{values}".encode(), prepare=False):
            used.update(re.findall(rf"using {PREFIX}(\w+) on", str(step)))
        server.execute("deallocate probe")
    made = server.execute(
        "select indexname from pg_indexes where tablename like 'rowcall%' and indexname not like '%pkey'"
    )
    assert {str(name).removeprefix(PREFIX) for (name,) in made} - used <= FOR_DELETES | FOR_TRIGGERS
