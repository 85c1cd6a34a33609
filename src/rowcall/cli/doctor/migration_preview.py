"""What a migration would do to the tables, and what it would lock. Changes nothing."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import textwrap
from collections.abc import Callable
from functools import partial

from rowcall.base.effects import drive
from rowcall.base.text import duration
from rowcall.cli.doctor.schema_version import open_read_only, rows_in
from rowcall.cli.present.console import show
from rowcall.cli.present.text_tables import table_of
from rowcall.drivers.sqlite.errors import explained
from rowcall.queue import MIGRATION_PATIENCE_SECONDS, Queue
from rowcall.store.migration import LOCK_SECONDS, MigrationPreview, MigrationStep
from rowcall.store.sqlite.dialect import SqliteDialect

_SHOWN_LENGTH = 70
_ON_SQLITE = "The whole migration has SQLite's write lock: others can read, and wait to write."
_ON_SERVER = f"""\
All locks last until the end. Next to ACCESS EXCLUSIVE, others wait to read and to write that table; next to SHARE
and SHARE ROW EXCLUSIVE, to write it; next to ROW EXCLUSIVE, only to write the rows that are changed. The migration
waits {LOCK_SECONDS:g} s for a lock, then lets others continue, and tries again for {MIGRATION_PATIENCE_SECONDS:g} s."""


def preview_of(queue: Queue) -> MigrationPreview:
    """Return what a migration would do. Creates no file."""
    if queue.config.server is not None:
        return queue.database.read(queue.dialect.preview_migration(), snapshot=True)
    path = queue.database.path
    is_there = os.path.exists(path) and not queue.config.in_memory
    try:
        with open_read_only(path) if is_there else contextlib.closing(sqlite3.connect(":memory:")) as raw:
            return drive(SqliteDialect(queue.config.table_prefix).preview_migration(), partial(rows_in, raw))
    except sqlite3.Error as error:
        raise explained(error, path) from error


def show_preview(queue: Queue, would: MigrationPreview) -> None:
    path, before, after = queue.database.name, would.before, would.after
    if not would.steps:
        show(f"{path}: the tables are up to date, at version {after}: nothing to do")
        return
    locking = [step for step in would.steps if step.table]
    new = len(would.steps) - len(locking)
    what = f"update the tables from version {before} to {after}" if before else f"create the tables, version {after}"
    show(f"{path}: would {what}, with {len(would.steps)} statements in one transaction. Nothing was written.")
    if new:
        show(f"{new} of them only make what no one uses yet, and lock nothing.")
    if locking:
        show("", table_of(locking, _COLUMNS, right=("version", "rows", "locked for about")), "")
        show(_ON_SERVER if queue.config.server is not None else _ON_SQLITE)


_COLUMNS: dict[str, Callable[[MigrationStep], object]] = {
    "version": lambda step: step.version,
    "statement": lambda step: textwrap.shorten(step.statement, _SHOWN_LENGTH, placeholder=" …"),
    "lock": lambda step: step.lock,
    "on": lambda step: step.table,
    "rows": lambda step: step.rows,
    "locked for about": lambda step: duration(step.locked_seconds),
}
