"""The dialect of each database, by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from rowcall.store.dialect import Dialect
from rowcall.store.mysql.dialect import MysqlDialect
from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.sqlite.dialect import SqliteDialect

DIALECTS: Mapping[str, Callable[[str], Dialect]] = MappingProxyType(
    {"sqlite": SqliteDialect, "postgresql": PostgresDialect, "mysql": MysqlDialect}
)
"""Called with the prefix of the tables. MariaDB has that of MySQL."""
