"""Running a plan on a `sqlite3.Connection` of the caller's, inside whatever transaction the caller has."""

from __future__ import annotations

import os
import sqlite3
from typing import TypeVar

from rowcall.drivers.runner import run
from rowcall.drivers.sqlite_errors import explained
from rowcall.errors import InvalidOption
from rowcall.store.statement import Plan, Row, Statement

T = TypeVar("T")


class LentConnections:
    """We never begin, commit or roll back here, and rely on none of the connection's settings."""

    def __init__(self, path: str) -> None:
        self._path = path

    def run(self, connection: object, plan: Plan[T]) -> T:
        if not isinstance(connection, sqlite3.Connection):
            raise InvalidOption(
                "connection",
                f"wants a sqlite3.Connection, not {type(connection).__module__}.{type(connection).__name__}",
            )
        try:
            self._check(connection)
            return run(plan, lambda statement: _execute(connection, statement))
        except sqlite3.ProgrammingError as error:
            raise InvalidOption("connection", f"cannot be used here: {error}") from error
        except sqlite3.Error as error:
            raise explained(error, self._path) from error

    def _check(self, connection: sqlite3.Connection) -> None:
        files = {_text(name): _text(file) for _, name, file in _rows(connection, "pragma database_list", ())}
        file = str(files.get("main") or "")
        if not file or not os.path.exists(self._path) or not os.path.samefile(file, self._path):
            raise InvalidOption(
                "connection", f"is open on {file or 'a database in memory'}, and this queue is in {self._path}"
            )


def _execute(connection: sqlite3.Connection, statement: Statement[object]) -> list[Row]:
    return [tuple(map(_text, row)) for row in _rows(connection, statement.sql, statement.parameters)]


def _rows(connection: sqlite3.Connection, sql: str, parameters: tuple[object, ...]) -> list[Row]:
    cursor = sqlite3.Cursor(connection)
    cursor.row_factory = None
    try:
        return cursor.execute(sql, parameters).fetchall()
    finally:
        cursor.close()


def _text(value: object) -> object:
    # no column of ours is a blob: bytes come from the caller's text_factory
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
