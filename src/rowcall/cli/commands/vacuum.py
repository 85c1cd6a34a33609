"""`rowcall vacuum`: return the space of deleted jobs to the disk."""

from __future__ import annotations

from rowcall.cli.command import Answer, queue_command
from rowcall.cli.present.console import show
from rowcall.cli.target import Target
from rowcall.overview.formats import size


@queue_command("vacuum", "Return the space of deleted jobs to the disk.")
def command(target: Target) -> Answer:
    """Return the space of deleted jobs to the disk, in small steps while others work. Workers do so after each prune.

    With --json: {"freed_bytes", "size_bytes"}; the latter is the size of the database now.
    """
    freed = target.jobs.vacuum()
    left = target.jobs.retention().size_bytes
    return Answer(
        {"freed_bytes": freed, "size_bytes": left},
        lambda: show(f"{size(freed)} freed; the database is now {size(left)}"),
    )
