"""Alembic: leave Rowcall's tables alone, or make them in a revision."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy

from rowcall.base.effects import drive
from rowcall.domain.config import Config, configure
from rowcall.domain.errors import InvalidOption
from rowcall.drivers.caller.sqlalchemy import Alchemy
from rowcall.integrations.sqlalchemy.tables import DEFAULT_PREFIX, OWNER
from rowcall.store.dialect import Dialect
from rowcall.store.dialects import DIALECTS
from rowcall.store.mysql.words import NAMES
from rowcall.store.statement import Plan, plain

ParentNames = Mapping[Any, str | None]  # Alembic's keys are literals
IncludeName = Callable[[str | None, str, ParentNames], bool]


def include_name(name: str | None, type_: str, parent_names: ParentNames) -> bool:
    """Return false for Rowcall's tables: for `context.configure(include_name=include_name)` in `env.py`.

    >>> include_name("users", "table", {}), include_name("rowcall_job", "table", {})
    (True, False)
    """
    return not (type_ == "table" and name in _names(DEFAULT_PREFIX))


def include_name_with(table_prefix: str = DEFAULT_PREFIX, also: IncludeName | None = None) -> IncludeName:
    """Return an `include_name` for another `table_prefix`, or together with your own function.

    >>> include = include_name_with("jobs_", also=lambda name, type_, parent_names: name != "legacy")
    >>> [include(name, "table", {}) for name in ("users", "jobs_job", "legacy")]
    [True, False, False]
    """
    names = _names(_config(table_prefix).table_prefix)

    def include(name: str | None, type_: str, parent_names: ParentNames) -> bool:
        ours = type_ == "table" and name in names
        return not ours and (also is None or also(name, type_, parent_names))

    return include


def include_object(
    object: sqlalchemy.schema.SchemaItem, name: str | None, type_: str, reflected: bool, compare_to: object
) -> bool:
    """Return false for the tables of `add_tables`: for `context.configure(include_object=include_object)`.

    Without it, Alembic would write `create_table` for them.
    """
    table = object if isinstance(object, sqlalchemy.Table) else getattr(object, "table", None)
    return table is None or OWNER not in table.info


def migrate(connection: sqlalchemy.Connection, table_prefix: str = DEFAULT_PREFIX) -> tuple[int, int]:
    """Make or update the tables in the transaction of a revision; return the version found and the version now.

    On MariaDB and MySQL, each change of a table commits.

        def upgrade() -> None:
            rowcall.sqlalchemy.migrate(op.get_bind())

    Then use `Rowcall(url, auto_migrate=False)`: a worker that needs newer tables says so, and does not make them.
    """
    if not isinstance(connection, sqlalchemy.Connection):
        raise InvalidOption("connection", f"must be a SQLAlchemy Connection, such as op.get_bind(), got {connection!r}")
    prefix = _config(table_prefix).table_prefix
    alchemy = Alchemy(connection)
    if alchemy.database == "sqlite":
        # otherwise the app's first transaction would be in the way; inside of one it cannot be changed
        with contextlib.suppress(sqlalchemy.exc.OperationalError):
            connection.exec_driver_sql("pragma journal_mode = wal")
    if alchemy.database not in DIALECTS:
        raise InvalidOption("connection", f"leads to {alchemy.database}; Rowcall needs {' or '.join(DIALECTS)}")
    dialect = DIALECTS[alchemy.database](prefix)
    if alchemy.database == "postgresql":
        return drive(_with_settings_restored(dialect), alchemy.execute)
    return drive(dialect.migrate(), alchemy.execute)


def _with_settings_restored(dialect: Dialect) -> Plan[tuple[int, int]]:
    """A migration sets these for the whole transaction, which is the caller's."""
    ((path, timeout),) = yield plain("select current_setting('search_path'), current_setting('lock_timeout')")
    versions = yield from dialect.migrate()
    yield plain(
        "select set_config('search_path', $1::text, true), set_config('lock_timeout', $2::text, true)",
        str(path),
        str(timeout),
    )
    return versions


def _names(prefix: str) -> frozenset[str]:
    return frozenset(f"{prefix}{table}" for table in NAMES)  # MariaDB has all that the others have


def _config(table_prefix: str) -> Config:
    return configure(None, without_url=True, table_prefix=table_prefix)
