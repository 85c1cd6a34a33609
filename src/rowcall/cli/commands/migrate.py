"""`rowcall migrate`: create or update the tables."""

from __future__ import annotations

from rowcall.cli.command import Answer, queue_command
from rowcall.cli.present.console import show
from rowcall.cli.target import Target, find


@queue_command("migrate", opened=find)
def migrate_command(target: Target) -> Answer:
    """Create the tables, or update them to this version. Creates a SQLite file if needed, but no database on a server.

    With --json: {"path", "from", "to"}: the file, or the URL without its password, and the versions before and now.
    """
    before, now = target.jobs.migrate()
    path = target.queue.database.name
    message = f"{path}: migrated the tables from version {before} to {now}"
    if before == now:
        message = f"{path}: the tables are already at version {now}"
    elif before == 0:
        message = f"{path}: created the tables, version {now}"
    return Answer({"path": path, "from": before, "to": now}, lambda: show(message))
