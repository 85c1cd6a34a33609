"""`dialect.at` pins the time, and changes nothing else."""

from __future__ import annotations

import pytest

from rowcall.base.effects import drive
from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.queries.counts import NOW
from rowcall.store.sqlite.dialect import SqliteDialect


def dialects() -> list[SqliteDialect | PostgresDialect]:
    return [
        SqliteDialect("rowcall_", lambda: 1),
        SqliteDialect("rowcall_", lambda: 1, for_caller=True),
        PostgresDialect("rowcall_", lambda: 1),
    ]


@pytest.mark.parametrize("dialect", dialects(), ids=["sqlite", "sqlite-caller", "postgres"])
def test_a_pinned_dialect_differs_only_in_its_time(dialect: SqliteDialect | PostgresDialect) -> None:
    pinned = dialect.at(5)
    assert next(pinned.ask(NOW)).parameters == (5,)
    assert next(pinned.at(7).ask(NOW)).parameters == (7,)
    assert next(dialect.ask(NOW)).parameters == (1,)
    same = {name for name, value in vars(dialect).items() if vars(pinned)[name] is value}
    assert vars(dialect).keys() - same == {"_catalogue", "ask"}


@pytest.mark.parametrize("dialect", dialects(), ids=["sqlite", "sqlite-caller", "postgres"])
def test_the_dialect_of_a_caller_has_the_same_time(dialect: SqliteDialect | PostgresDialect) -> None:
    for_caller = drive(dialect.for_caller(), lambda statement: [("public",)])
    assert next(for_caller.ask(NOW)).parameters == (1,)
