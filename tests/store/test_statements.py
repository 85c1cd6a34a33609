"""Every statement is prepared against a real database: a wrong column or comma fails here, and not at night."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rowcall import Status
from rowcall.store.dialect import Filter
from rowcall.store.jobs.pages import SOURCES
from rowcall.store.postgres.dialect import catalogue as postgres_catalogue
from rowcall.store.postgres.pages import PostgresPages
from rowcall.store.sqlite import jobs
from rowcall.store.sqlite.dialect import catalogue
from rowcall.store.sqlite.pages import MOST_GROUPS_MERGED, SqlitePages
from rowcall.store.sqlite.words import render
from tests.store.databases import migrated, parameters_of
from tests.store.postgres.databases import migrated as migrated_server

PREFIXES = ("rowcall_", "q", "my_app_2_", "x" * 40)
# what psycopg, asyncpg and any other driver can send without being taught
PLAIN_TYPES = {"text", "integer", "bigint", "double precision"}


def on_sqlite(prefix: str) -> Iterator[tuple[str, str]]:
    yield from catalogue(prefix).texts().items()
    for types in (1, 2, 4, 8, 64, 100, 128):
        yield f"ready jobs of {types} types", render(jobs.ready_jobs(types), prefix)
    pages = SqlitePages(prefix)
    for name in ("by_ids", "newest", "running", "tagged", "tagged_and_status"):
        yield f"page {name}", getattr(pages, name)
    for source, groups in pages.groups.items():
        yield f"groups of {source.index_name}", groups
    for source, count in itertools.product(SOURCES, (1, 2, 3, MOST_GROUPS_MERGED)):
        yield f"ids of {count} groups of {source.index_name}", pages.first_ids(source, count)


def on_postgres(prefix: str) -> Iterator[tuple[str, str]]:
    for name, sql in postgres_catalogue(prefix).texts().items():
        if name not in ("lock_tallies", "lock_ready"):  # PREPARE does not take it; recounting is tested
            yield name, sql
    statuses: list[Status | None] = [None, *Status]
    for status, queue, kind, tag in itertools.product(statuses, (None, "queue"), (None, "type"), (None, "tag")):
        wanted = Filter(status=status, queue=queue, type=kind, tag=tag)
        yield f"page {status} {queue} {kind} {tag}", next(PostgresPages(prefix).page(wanted)).sql


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_statement_can_be_prepared_on_sqlite(tmp_path: Path, prefix: str) -> None:
    with migrated(tmp_path / "app.db", prefix) as connection:
        for _, sql in on_sqlite(prefix):
            connection.execute(f"explain {sql}", parameters_of(sql))


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_statement_can_be_prepared_on_postgres_with_plain_parameters(postgres_url: str, prefix: str) -> None:
    with migrated_server(postgres_url, prefix) as connection:
        for name, sql in on_postgres(prefix):
            types = types_of_parameters(connection, sql)
            assert set(types) <= PLAIN_TYPES, (name, types)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_no_word_is_left_in_a_statement(prefix: str) -> None:
    for name, sql in itertools.chain(on_sqlite(prefix), on_postgres(prefix)):
        assert "<" not in sql.replace("<=", "").replace("<>", "").replace(" < ", ""), name


def test_a_statement_with_a_mistake_would_be_seen(postgres_url: str) -> None:
    with migrated_server(postgres_url) as connection:
        with pytest.raises(psycopg.errors.UndefinedColumn):
            types_of_parameters(connection, postgres_catalogue("rowcall_").texts()["get"].replace("lease", "leash"))
        with pytest.raises(psycopg.errors.IndeterminateDatatype):
            types_of_parameters(connection, "select $2::text")
        assert types_of_parameters(connection, "select $1::jsonb") == ["jsonb"]


def types_of_parameters(connection: psycopg.Connection, sql: str) -> list[str]:
    """Return the types that the server infers for a statement's parameters."""
    connection.execute(f"prepare probe as {sql}".encode(), prepare=False)
    row = connection.execute("select parameter_types::text[] from pg_prepared_statements where name = 'probe'")
    (found,) = row.fetchone() or ([],)
    connection.execute("deallocate probe")
    return list(found)
