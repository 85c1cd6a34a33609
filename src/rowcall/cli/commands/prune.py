"""`rowcall prune` and `rowcall vacuum`: delete what was kept long enough, and give back its space."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

import click

from rowcall.app import Rowcall
from rowcall.cli.child_workers import interruptible
from rowcall.cli.present.output import console, has_unicode, print_json, text
from rowcall.cli.target import app_argument, existing, json_option, queue_of, url_option
from rowcall.domain.job import Pruned
from rowcall.overview.formats import counted, size
from rowcall.queue.keeping import prune_now


@click.command("prune", short_help="Delete finished jobs that were kept long enough.")
@app_argument
@url_option
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@json_option
def prune_command(app: str | None, url: str | None, dry_run: bool, as_json: bool) -> None:
    """Delete finished jobs that were kept long enough, with their history, in small batches; workers do the same by
    themselves. Ctrl-C between two batches loses nothing: run it again.

    The rules are those of APP, else those that its workers have written to the database, else the defaults.

    With --json: {"jobs", "by_status": {"succeeded", "failed", "cancelled"}, "dry_run"}.
    """
    with existing(app, url) as jobs:
        pruned = jobs.prune(dry_run=True) if dry_run else _prune(jobs, quiet=as_json)
    if as_json:
        print_json(pruned)
        return
    console().print(text(_said(pruned)))


@click.command("vacuum", short_help="Give back the space of what was deleted.")
@app_argument
@url_option
@json_option
def vacuum_command(app: str | None, url: str | None, as_json: bool) -> None:
    """Give back the space of what was deleted, in small steps beside whoever works; workers do so after each prune.

    With --json: {"freed_bytes", "size_bytes"}, the latter being what the database has now.
    """
    with existing(app, url) as jobs:
        freed = jobs.vacuum()
        left = jobs.retention().size_bytes
    if as_json:
        print_json({"freed_bytes": freed, "size_bytes": left})
        return
    console().print(text(f"{size(freed)} given back; the database has {size(left)}"))


def _prune(jobs: Rowcall, *, quiet: bool) -> Pruned:
    if quiet or not sys.stdout.isatty():
        return prune_now(queue_of(jobs))
    with interruptible(), _progress(jobs.prune(dry_run=True).jobs) as noted:
        return prune_now(queue_of(jobs), noted)


@contextlib.contextmanager
def _progress(expected: int) -> Iterator[Callable[[int], None]]:
    """A bar while it lasts; whoever interrupts it learns how far it came."""
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
    '3 jobs would be deleted: 2 succeeded, 1 failed'
    """
    if not pruned.jobs:
        return "nothing was kept long enough to be deleted"
    parts = ", ".join(f"{count:,} {status}" for status, count in pruned.by_status.items() if count)
    was = "was" if pruned.jobs == 1 else "were"
    return f"{counted(pruned.jobs, 'job')} {'would be' if pruned.dry_run else was} deleted: {parts}"
