"""Every statement is prepared against a real database: a wrong column or comma fails here, and not at night."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rowcall.store.catalogue import queries_for
from rowcall.store.jobs.pages import BY_CHAIN, BY_ID, BY_KEY, BY_TAG, BY_TAG_AND_STATUS, HOPPED
from rowcall.store.postgres.dialect import catalogue as postgres_catalogue
from rowcall.store.postgres.pages import PostgresPages
from rowcall.store.sqlite import claims
from rowcall.store.sqlite.dialect import catalogue
from rowcall.store.sqlite.pages import MOST_GROUPS_MERGED, SqlitePages
from rowcall.store.sqlite.words import render
from tests.store.databases import migrated, parameters_of
from tests.store.filters import ALONE, FILTERS, ORDERS, span_of
from tests.store.postgres.databases import migrated as migrated_server

SOURCES = (*HOPPED, BY_ID, BY_KEY, BY_TAG, BY_TAG_AND_STATUS, BY_CHAIN)
PREFIXES = ("rowcall_", "q", "my_app_2_", "x" * 40)
# PREPARE does not take them; tests of recounting and of actions run them
NOT_PREPARED = {"lock_tallies", "lock_ready", "lock_savepoint", "back_to_lock", "release_lock"}
# what psycopg, asyncpg and any other driver can send without being taught
PLAIN_TYPES = {"text", "integer", "bigint", "double precision"}


def on_sqlite(prefix: str) -> Iterator[tuple[str, str]]:
    yield from catalogue(prefix).texts().items()
    for types in (1, 2, 4, 8, 64, 100, 128):
        yield f"ready jobs of {types} types", render(claims.ready_jobs(types), prefix)
    pages = SqlitePages(prefix)
    for source, groups in pages.groups.items():
        yield f"groups of {source.index_name}", groups
    for source, count, order in itertools.product(SOURCES, (1, 2, 3, MOST_GROUPS_MERGED), ORDERS):
        yield f"places of {count} groups of {source.index_name}", pages.first_places(source, count, order)
    for order in ORDERS:
        yield "running", pages.running(order)
    for wanted in FILTERS:
        yield f"jobs of {wanted}", next(pages.matching(wanted, [1])).sql


def on_postgres(prefix: str) -> Iterator[tuple[str, str]]:
    for name, sql in postgres_catalogue(prefix).texts().items():
        if name not in NOT_PREPARED:
            yield name, sql
    pages = PostgresPages(prefix)
    yield "payload index", next(pages.has_payload_index()).sql
    for wanted in FILTERS:
        yield f"jobs of {wanted}", next(pages.matching(wanted, [1])).sql
        for order in ORDERS if wanted in ALONE else ORDERS[:1]:
            places = pages.places(wanted, order, span_of(order), 10, by_payload=wanted.payload is not None)
            yield f"places of {wanted} {order}", next(places).sql


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


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_no_two_statements_have_one_name(database: str) -> None:
    """All tests here find the texts by their names."""
    texts: dict[str, set[tuple[str, str | None]]] = {}
    for topic, query in queries_for(database):
        texts.setdefault(query.name, set()).add((topic, query.text))
    assert {name: found for name, found in texts.items() if len(found) > 1} == {}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_no_word_is_left_in_a_statement(prefix: str) -> None:
    for name, sql in itertools.chain(on_sqlite(prefix), on_postgres(prefix)):
        assert "<" not in sql.replace("<=", "").replace("<>", "").replace(" < ", ""), name


def test_all_connections_notify_waiters_on_one_channel() -> None:
    assert "pg_notify('rowcall_ended'" in postgres_catalogue('"My schema".rowcall_').texts()["notify_waiters"]


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
