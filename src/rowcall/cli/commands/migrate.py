"""`rowcall migrate`: create or update the tables, or say what that would do."""

from __future__ import annotations

import click

from rowcall.cli.command import Answer, queue_command
from rowcall.cli.doctor.migration_preview import preview_of, show_preview
from rowcall.cli.present.console import show
from rowcall.cli.target import Target, find


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
        data = {"path": path, "from": would.before, "to": would.after, "locked_seconds": would.locked_seconds}
        return Answer({**data, "steps": steps}, lambda: show_preview(target.queue, would))
    before, now = target.jobs.migrate()
    message = f"{path}: migrated the tables from version {before} to {now}"
    if before == now:
        message = f"{path}: the tables are already at version {now}"
    elif before == 0:
        message = f"{path}: created the tables, version {now}"
    return Answer({"path": path, "from": before, "to": now}, lambda: show(message))
