"""Every statement is prepared against a real database: a wrong column or comma fails here, and not at night."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from rowcall import Status
from rowcall.store.sqlite.sql import Sql, statements
from tests.store.databases import migrated, parameters_of

PREFIXES = ("rowcall_", "q", "My_App_2_", "x" * 40)


def list_variants(sql: Sql) -> list[str]:
    statuses: list[str | None] = [None, *Status]
    return [
        sql.list_jobs(status=status, queue=queue, kind=kind, tag=tag)
        for status, queue, kind, tag in itertools.product(statuses, (False, True), (False, True), (False, True))
    ]


def every_statement(prefix: str) -> list[str]:
    sql = Sql(prefix)
    fixed = [getattr(sql, name) for name in statements()]
    return [*fixed, *(sql.ready_jobs(types) for types in (1, 2, 4, 8, 64, 100, 128)), *list_variants(sql)]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_statement_can_be_prepared(tmp_path: Path, prefix: str) -> None:
    with migrated(tmp_path / "app.db", prefix) as connection:
        for sql in every_statement(prefix):
            connection.execute(f"explain {sql}", parameters_of(sql))


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_name_in_a_statement_has_the_prefix(prefix: str) -> None:
    for sql in every_statement(prefix):
        assert "<" not in sql.replace("<=", "").replace("<>", "").replace(" < ", ""), sql


def test_no_statement_is_left_out() -> None:
    assert {"insert", "look", "stage", "expire", "mark_claimed", "settle_successes", "owned_by"} <= statements().keys()
