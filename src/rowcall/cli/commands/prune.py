"""`rowcall prune`: delete finished jobs that have been kept long enough."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

import click

from rowcall.cli.command import Answer, queue_command
from rowcall.cli.interrupt import interruptible
from rowcall.cli.present.cells import has_unicode
from rowcall.cli.present.console import console, show
from rowcall.cli.target import Target
from rowcall.domain.job import Pruned
from rowcall.operations.retention import prune_now
from rowcall.overview.formats import counted


@queue_command("prune", "Delete finished jobs that have been kept long enough.")
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
def command(target: Target, dry_run: bool) -> Answer:
    """Delete finished jobs that have been kept long enough, with their history, in small batches. Workers do the same
    on their own. After Ctrl-C, run it again for the rest.

    The rules come from APP; without APP, from what its workers have written to the database, or else the defaults.

    With --json: {"jobs", "by_status": {"succeeded", "failed", "cancelled"}, "dry_run"}.
    """
    pruned = target.jobs.prune(dry_run=True) if dry_run else _prune(target)
    return Answer(pruned, lambda: show(_said(pruned)))


def _prune(target: Target) -> Pruned:
    if not sys.stdout.isatty():
        return prune_now(target.queue)
    with interruptible(), _progress(target.jobs.prune(dry_run=True).jobs) as noted:
        return prune_now(target.queue, noted)


@contextlib.contextmanager
def _progress(expected: int) -> Iterator[Callable[[int], None]]:
    """Show a bar meanwhile; after an interrupt, say how many jobs were deleted."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    done = 0
    columns = [TextColumn("deleting"), *([BarColumn()] if has_unicode() else [])]
    columns += [TextColumn("{task.completed:,.0f} of {task.total:,.0f}"), TimeRemainingColumn()]
    with Progress(*columns, console=console(), transient=True) as shown:
        bar = shown.add_task("", total=expected)

        def noted(deleted: int) -> None:
            nonlocal done
            done += deleted
            shown.update(bar, completed=done, total=max(done, expected))

        try:
            yield noted
        except KeyboardInterrupt:
            click.echo(f"interrupted: {counted(done, 'job')} deleted; run it again for the rest", err=True)
            raise


def _said(pruned: Pruned) -> str:
    """
    >>> _said(Pruned(jobs=3, by_status={"succeeded": 2, "failed": 1, "cancelled": 0}, dry_run=True))
    'would delete 3 jobs: 2 succeeded, 1 failed'
    """
    if not pruned.jobs:
        return "no jobs to delete"
    parts = ", ".join(f"{count:,} {status}" for status, count in pruned.by_status.items() if count)
    return f"{'would delete' if pruned.dry_run else 'deleted'} {counted(pruned.jobs, 'job')}: {parts}"
