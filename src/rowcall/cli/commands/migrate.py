"""`rowcall migrate`: create or update the tables, or say what that would do."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import click

from rowcall.base.text import duration
from rowcall.cli.command import Answer, queue_command
from rowcall.cli.doctor.schema_version import preview_of
from rowcall.cli.present.console import show
from rowcall.cli.present.text_tables import table_of
from rowcall.cli.target import Target, find
from rowcall.queue import MIGRATION_PATIENCE_SECONDS
from rowcall.store.migration import LOCK_SECONDS, MigrationPreview, MigrationStep

_SHOWN_LENGTH = 70
_ON_SQLITE = "The whole migration has SQLite's write lock: others can read, and wait to write."
_ON_SERVER = f"""\
All locks last until the end. Next to ACCESS EXCLUSIVE, others wait to read and to write that table; next to SHARE
and SHARE ROW EXCLUSIVE, to write it; next to ROW EXCLUSIVE, only to write the rows that are changed. The migration
waits {LOCK_SECONDS:g} s for a lock, then lets others continue, and tries again for {MIGRATION_PATIENCE_SECONDS:g} s."""


@click.option("--dry-run", is_flag=True, help="Print what would be done and what it would lock, and write nothing.")
@queue_command("migrate", opened=find)
def migrate_command(target: Target, dry_run: bool) -> Answer:
    """Create the tables, or update them to this version. Creates a SQLite file if needed, but no database on a server.

    With --json: {"path", "from", "to"}: the file, or the URL without its password, and the versions before and now.

    With --dry-run --json: also {"locked_seconds", "steps": [{"version", "name", "statement", "table", "lock", "rows",
    "seconds", "locked_seconds"}, …]}. "table" and "lock" are null if the statement only makes something new.
    "rows" are read or written. "seconds" are estimated from them, and the lock lasts for "locked_seconds".
    """
    path = target.queue.database.name
    if dry_run:
        would = preview_of(target.queue)
        steps = [step._asdict() for step in would.steps]
        data = {"path": path, "from": would.found, "to": would.newest, "locked_seconds": would.locked_seconds}
        return Answer({**data, "steps": steps}, lambda: _show(target, would))
    before, now = target.jobs.migrate()
    message = f"{path}: migrated the tables from version {before} to {now}"
    if before == now:
        message = f"{path}: the tables are already at version {now}"
    elif before == 0:
        message = f"{path}: created the tables, version {now}"
    return Answer({"path": path, "from": before, "to": now}, lambda: show(message))


def _show(target: Target, would: MigrationPreview) -> None:
    path, found, newest = target.queue.database.name, would.found, would.newest
    if not would.steps:
        show(f"{path}: the tables are up to date, at version {newest}: nothing to do")
        return
    locking = [step for step in would.steps if step.table]
    new = len(would.steps) - len(locking)
    what = f"update the tables from version {found} to {newest}" if found else f"create the tables, version {newest}"
    show(f"{path}: would {what}, with {len(would.steps)} statements in one transaction. Nothing was written.")
    if new:
        show(f"{new} of them only make what nobody uses yet, and lock nothing.")
    if locking:
        show("", table_of(locking, _COLUMNS, right=("version", "rows", "locked for about")), "")
        show(_ON_SERVER if target.queue.config.server is not None else _ON_SQLITE)


_COLUMNS: dict[str, Callable[[MigrationStep], object]] = {
    "version": lambda step: step.version,
    "statement": lambda step: textwrap.shorten(step.statement, _SHOWN_LENGTH, placeholder=" …"),
    "lock": lambda step: step.lock,
    "on": lambda step: step.table,
    "rows": lambda step: step.rows,
    "locked for about": lambda step: duration(step.locked_seconds),
}
