"""The conformance kit on SQLite files."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.conformance.store import Row, Store
from tests.conformance.suite import *  # noqa: F403


class SqliteFile:
    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self._path = path

    def execute(self, sql: str) -> list[Row]:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            return connection.execute(sql).fetchall()


@pytest.fixture
def new_store(tmp_path: Path) -> Callable[[], Store]:
    numbers = itertools.count()
    return lambda: SqliteFile(tmp_path / f"queue-{next(numbers)}.db")


@pytest.fixture  # type: ignore[no-redef]
def new_migrated_store(tmp_path: Path, sqlite_template: Path) -> Callable[[], Store]:
    numbers = itertools.count()

    def make() -> Store:
        return SqliteFile(Path(shutil.copyfile(sqlite_template, tmp_path / f"queue-with-tables-{next(numbers)}.db")))

    return make
