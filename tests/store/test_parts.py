"""Every statement of every part is prepared against a real database, under short and long names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from rowcall.store.postgres import limits_sql as postgres_limits
from rowcall.store.sqlite import limits_sql as sqlite_limits
from tests.store.databases import migrated, parameters_of
from tests.store.postgres.databases import migrated as migrated_server

PREFIXES = ("rowcall_", "my_app_", "x" * 40)
PLAIN_TYPES = {"text", "integer", "bigint", "double precision"}


class Part(NamedTuple):
    """The statements of one part: their names, and how they are rendered for a prefix."""

    names: Iterable[str]
    rendered: Callable[[str], object]


ON_SQLITE = {
    "limits": Part(sqlite_limits.statements(), sqlite_limits.LimitsSql),
}
ON_POSTGRESQL = {
    "limits": Part(postgres_limits.statements(), postgres_limits.LimitsSql),
}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_on_sqlite(tmp_path: Path, prefix: str) -> None:
    with migrated(tmp_path / "app.db", prefix) as connection:
        for part in ON_SQLITE.values():
            sql = part.rendered(prefix)
            for name in part.names:
                text = getattr(sql, name)
                connection.execute(f"explain {text}", parameters_of(text))


@pytest.mark.parametrize("prefix", PREFIXES)
def test_on_postgresql_with_plain_parameters(postgres_url: str, prefix: str) -> None:
    with migrated_server(postgres_url, prefix) as connection:
        for part, (names, rendered) in ON_POSTGRESQL.items():
            sql = rendered(prefix)
            for name in names:
                connection.execute(f"prepare {part}_{name} as {getattr(sql, name)}".encode(), prepare=False)
        types = connection.execute("select name, parameter_types::text[] from pg_prepared_statements").fetchall()
    assert {name for name, _ in types} == {f"{part}_{name}" for part, of in ON_POSTGRESQL.items() for name in of.names}
    assert {kind for _, kinds in types for kind in kinds} <= PLAIN_TYPES
