"""Make and update the tables of MariaDB and MySQL.

Each statement that changes a table commits. So others are kept out by a lock of the session, and a migration that was
stopped begins again, and skips what is there.
"""

from __future__ import annotations

import re
from typing import cast

from rowcall.domain.errors import Conflict
from rowcall.store.dialect import Version
from rowcall.store.migration import FINGERPRINTS, LOCK_SECONDS, RECORD_MIGRATION, pending
from rowcall.store.mysql import schema
from rowcall.store.mysql.schema import CODE, MIGRATIONS, NEWEST_VERSION
from rowcall.store.mysql.words import adapted, render
from rowcall.store.statement import Parameter, Plan, ReadTime, Row, Statement, plain

_LOCK_NAME = "concat('rowcall-', left(sha2(concat('<migration>@', database()), 256), 32))"  # MySQL takes 64 characters
_LOCK_MIGRATIONS = f"select get_lock({_LOCK_NAME}, $1)"
_UNLOCK_MIGRATIONS = f"select release_lock({_LOCK_NAME})"
# a name is looked for in a list of the database, given the table and the name
_LOOKED_FOR = (
    (re.compile(r"(?:create (?:unique )?|drop )index (?P<name>\S+) on (?P<table>\S+)"), "statistics", "index_name"),
    (re.compile(r"alter table (?P<table>\S+) add column `(?P<name>\w+)`"), "columns", "column_name"),
)
_IS_THERE = (
    "select 1 from information_schema.{} where table_schema = database() and table_name = $1 and {} = $2 limit 1"
)


class MysqlTables:
    """The plans of `Dialect` for the tables with one prefix."""

    newest_version = NEWEST_VERSION

    def __init__(self, prefix: str, now_ms: ReadTime) -> None:
        self._prefix = prefix
        self._now_ms = now_ms

    def version(self) -> Plan[Version]:
        if not (yield self._statement(schema.TABLE_EXISTS)):
            return Version(0, 0)
        (row,) = yield self._statement(schema.VERSION_FOUND, NEWEST_VERSION)
        recorded = yield self._statement(FINGERPRINTS)
        return Version.from_rows(row, recorded, MIGRATIONS)

    def migrate(self) -> Plan[tuple[int, int]]:
        ((is_locked,),) = yield self._statement(_LOCK_MIGRATIONS, LOCK_SECONDS)
        if not is_locked:
            raise Conflict("another process is migrating the tables: call again")
        yield self._statement(schema.VERSION_TABLE)
        version = yield from self.version()
        version.require_fit(NEWEST_VERSION)
        for migration, statements in pending(MIGRATIONS, CODE, version.found):
            for template in statements:
                statement = self._statement(template)
                if not (yield from _is_done(statement.sql)):
                    yield statement
            recorded = (migration.version, migration.name, migration.oldest, migration.fingerprint)
            yield self._statement(RECORD_MIGRATION, self._now_ms(), *recorded)
        yield self._statement(_UNLOCK_MIGRATIONS)
        return version.found, max(version.found, NEWEST_VERSION)

    def _statement(self, template: str, *parameters: Parameter) -> Statement[Row]:
        return plain(render(cast("str", adapted(template)), self._prefix), *parameters)


def _is_done(sql: str) -> Plan[bool]:
    for pattern, rows, column in _LOOKED_FOR:
        if match := pattern.match(sql):
            is_there = bool((yield plain(_IS_THERE.format(rows, column), match["table"], match["name"])))
            return is_there != sql.startswith("drop")
    return False
