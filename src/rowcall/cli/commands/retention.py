"""`rowcall retention`, `prune` and `vacuum`: what is kept and for how long; delete it; return its space to the disk."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from datetime import datetime

import click

from rowcall.base.text import duration
from rowcall.cli.command import Answer, queue_command
from rowcall.cli.present.console import console, show, show_section
from rowcall.cli.present.text_tables import Table, count, first_of, has_unicode, status_text, table_of
from rowcall.cli.processes import interruptible
from rowcall.cli.target import Target
from rowcall.domain.job import FINISHED, Pruned, RetentionReport
from rowcall.operations.retention import prune_now
from rowcall.overview.counts import kept_by_status
from rowcall.overview.formats import ago, at_least, counted, size
from rowcall.overview.liveness import database_time

MOST_RULES = 30
_NUMBERS = ("kept", "next prune")


@queue_command("retention", "Show what is kept, and what the next prune deletes.")
def retention_command(target: Target) -> Answer:
    """Show which finished jobs are kept, how many, for how long, and what the next prune deletes.

    The rules come from APP. Without APP, the rules that its workers stored in the database apply, else the defaults.

    With --json: {"kept": [{"status", "queue", "type", "keep", "jobs", "prunable", "more_prunable", "oldest_at"}, …],
    "jobs", "prunable", "more_prunable", "size_bytes"}; "keep" is seconds, or null for no limit.
    """
    report, now = target.jobs.retention(), database_time(target.queue)
    return Answer(report, lambda: _show(report, now))


def _show(report: RetentionReport, now: datetime) -> None:
    show(retention_line(report))
    if not report.kept:
        return
    jobs, prunable, more = kept_by_status(report)
    shown = Table("state", *_NUMBERS, right=_NUMBERS)
    for status in FINISHED:
        shown.add_row(status_text(status), jobs[status], count(prunable[status], "yellow", more=status in more))
    show("")
    show(shown)
    rules = sorted(report.kept, key=lambda rule: (-rule.prunable, -rule.jobs, rule.status, rule.queue, rule.type))
    rows, omitted = first_of(rules, MOST_RULES)
    columns = {
        "state": lambda rule: status_text(rule.status),
        "queue": lambda rule: rule.queue,
        "type": lambda rule: rule.type,
        "keep": lambda rule: "forever" if rule.keep is None else duration(rule.keep),
        "kept": lambda rule: rule.jobs,
        "next prune": lambda rule: count(rule.prunable, "yellow", more=rule.more_prunable),
        "oldest": lambda rule: ago(rule.oldest_at, now),
    }
    found = table_of(rows, columns, right=_NUMBERS, whole=("state", "keep"), keys=3)
    show_section("by queue and type, most to delete first", found, omitted=omitted)


def retention_line(report: RetentionReport) -> str:
    """
    >>> retention_line(RetentionReport(kept=[], jobs=1200, prunable=1, size_bytes=2048))
    '1,200 finished jobs kept; the next prune deletes 1; the database is 2.0 KB'
    """
    kept = f"{counted(report.jobs, 'finished job')} kept"
    prunable = at_least(report.prunable, report.more_prunable)
    return f"{kept}; the next prune deletes {prunable}; the database is {size(report.size_bytes)}"


@queue_command("prune", "Delete finished jobs that have been kept long enough.")
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
def prune_command(target: Target, dry_run: bool) -> Answer:
    """Delete finished jobs that have been kept long enough, with their history, in small batches. Workers prune,
    too. After Ctrl-C, run it again for the rest.

    The rules come from APP. Without APP, the rules that its workers stored in the database apply, else the defaults.

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
    """Show a bar while jobs are deleted; after an interrupt, say how many jobs were deleted."""
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


@queue_command("vacuum", "Return the space of deleted jobs to the disk.")
def vacuum_command(target: Target) -> Answer:
    """Return the space of deleted jobs to the disk, in small steps, so that others can work. Workers do so after
    each prune.

    With --json: {"freed_bytes", "size_bytes"}; the latter is the size of the database now.
    """
    freed = target.jobs.vacuum()
    left = target.jobs.retention().size_bytes
    return Answer(
        {"freed_bytes": freed, "size_bytes": left},
        lambda: show(f"{size(freed)} freed; the database is now {size(left)}"),
    )
