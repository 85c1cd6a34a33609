"""Every statement is prepared against a real database: a wrong column or comma fails here, and not at night."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowcall.store.sources import SOURCES
from rowcall.store.sqlite.dialect import catalogue
from rowcall.store.sqlite.pages import MOST_GROUPS_MERGED, SqlitePages
from rowcall.store.sqlite.sql import Sql, statements
from tests.store.databases import migrated, parameters_of

PREFIXES = ("rowcall_", "q", "my_app_2_", "x" * 40)


def statements_of_pages(prefix: str) -> list[str]:
    pages = SqlitePages(prefix)
    fixed = [pages.by_ids, pages.newest, pages.running, pages.tagged, pages.tagged_and_status, *pages.groups.values()]
    return [
        *fixed,
        *(pages.first_ids(source, groups) for source in SOURCES for groups in (1, 2, 3, MOST_GROUPS_MERGED)),
    ]


def every_statement(prefix: str) -> list[str]:
    sql = Sql(prefix)
    return [
        *(getattr(sql, name) for name in statements()),
        *(sql.ready_jobs(types) for types in (1, 2, 4, 8, 64, 100, 128)),
        *catalogue(prefix).texts().values(),
        *statements_of_pages(prefix),
    ]


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
    assert {"tally", "totals", "unfinished", "take_tallies", "prune", "once_every"} <= catalogue("q").texts().keys()
