"""Every statement is prepared on a real server: a wrong column or comma fails here, and not at night."""

from __future__ import annotations

import itertools

import psycopg
import pytest

from rowcall import Status
from rowcall.store.dialect import Filter
from rowcall.store.postgres.dialect import catalogue
from rowcall.store.postgres.pages import PostgresPages
from rowcall.store.postgres.sql import Sql, statements
from tests.store.postgres.databases import migrated

PREFIXES = ("rowcall_", "q", "my_app_", "_x1_", "x" * 40)
# what psycopg, asyncpg and any other driver can send without being taught
PLAIN_TYPES = {"text", "integer", "bigint", "double precision"}


def every_statement(prefix: str) -> dict[str, str]:
    sql, pages = Sql(prefix), PostgresPages(prefix)
    found = {name: getattr(sql, name) for name in statements()}
    found |= catalogue(prefix).texts()
    del found["lock_tallies"]  # PREPARE does not take it; recounting is tested
    statuses: list[Status | None] = [None, *Status]
    choices = itertools.product(statuses, (None, "queue"), (None, "type"), (None, "tag"))
    for status, queue, kind, tag in choices:
        wanted = Filter(status=status, queue=queue, type=kind, tag=tag)
        found[f"page {status} {queue} {kind} {tag}"] = next(pages.page(wanted)).sql
    return found


def types_of_parameters(connection: psycopg.Connection, sql: str) -> list[str]:
    """What the server makes of a statement's parameters when nobody tells it their types."""
    connection.execute(f"prepare probe as {sql}".encode(), prepare=False)
    row = connection.execute("select parameter_types::text[] from pg_prepared_statements where name = 'probe'")
    (found,) = row.fetchone() or ([],)
    connection.execute("deallocate probe")
    return list(found)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_statement_can_be_prepared_with_plain_parameters(postgres_url: str, prefix: str) -> None:
    with migrated(postgres_url, prefix) as connection:
        for name, sql in every_statement(prefix).items():
            if sql.startswith("set local "):  # the one kind that is not prepared; it takes no parameters
                connection.execute(sql.encode())
                continue
            types = types_of_parameters(connection, sql)
            assert set(types) <= PLAIN_TYPES, (name, types)


def test_a_statement_with_a_mistake_would_be_seen(postgres_url: str) -> None:
    with migrated(postgres_url) as connection:
        with pytest.raises(psycopg.errors.UndefinedColumn):
            types_of_parameters(connection, Sql("rowcall_").get.replace("lease", "leash"))
        with pytest.raises(psycopg.errors.IndeterminateDatatype):
            types_of_parameters(connection, "select $2::text")
        assert types_of_parameters(connection, "select $1::jsonb") == ["jsonb"]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_no_name_is_left_to_be_filled_in(prefix: str) -> None:
    for name, sql in every_statement(prefix).items():
        assert "<" not in sql.replace("<=", "").replace("<>", "").replace(" < ", ""), name


def test_no_statement_is_left_out() -> None:
    assert {"insert", "look", "stage", "expire", "mark_claimed", "settle_plain", "owned_by"} <= statements().keys()
    assert {"tally", "totals", "unfinished", "take_tallies", "prune", "once_every"} <= catalogue("q").texts().keys()
