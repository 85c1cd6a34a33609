"""`rowcall retention`: what is kept, for how long, how much that is, and what the next prune deletes."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

import click

from rowcall.cli.present.output import ago, console, print_json, status_text, table, text
from rowcall.cli.target import app_argument, existing, json_option, queue_of, url_option
from rowcall.domain.job import FINISHED, RetentionReport
from rowcall.overview.formats import NOTHING, counted, first_of, rounded, size
from rowcall.overview.liveness import time_there

if TYPE_CHECKING:
    from rich.table import Table

MOST_ROWS = 30


@click.command("retention", short_help="Show what is kept, and what the next prune deletes.")
@app_argument
@url_option
@json_option
def retention_command(app: str | None, url: str | None, as_json: bool) -> None:
    """Show which finished jobs are kept, for how long, how much that is, and what the next prune deletes.

    The rules are those of APP, else those that its workers have written to the database, else the defaults.

    With --json: {"kept": [{"status", "queue", "type", "keep", "jobs", "prunable", "oldest_at"}, …], "jobs",
    "prunable", "size_bytes"}; "keep" is seconds, or null for ever.
    """
    with existing(app, url) as jobs:
        report, now = jobs.retention(), time_there(queue_of(jobs))
    if as_json:
        print_json(report)
        return
    _print(report, now)


def _print(report: RetentionReport, now: datetime) -> None:
    out = console()
    out.print(text(retention_line(report)))
    if not report.kept:
        return
    out.print()
    out.print(_statuses(report))
    shown, rest = _rules(report, now)
    out.print("\nby queue and type, what the next prune deletes first", style="bold")
    out.print(shown)
    if rest:
        out.print(rest, style="dim")


def retention_line(report: RetentionReport) -> str:
    """
    >>> retention_line(RetentionReport(kept=[], jobs=1200, prunable=1, size_bytes=2048))
    '1,200 finished jobs are kept; the next prune deletes 1; the database has 2.0 KB'
    """
    kept = f"{counted(report.jobs, 'finished job')} {'is' if report.jobs == 1 else 'are'} kept"
    return f"{kept}; the next prune deletes {report.prunable:,}; the database has {size(report.size_bytes)}"


def _statuses(report: RetentionReport) -> Table:
    jobs: Counter[str] = Counter()
    prunable: Counter[str] = Counter()
    for kept in report.kept:
        jobs[kept.status] += kept.jobs
        prunable[kept.status] += kept.prunable
    shown = table("state", "kept", "next prune", right=("kept", "next prune"))
    for status in FINISHED:
        doomed = prunable[status]
        shown.add_row(status_text(status), f"{jobs[status]:,}", text(f"{doomed:,}", "yellow" if doomed else "dim"))
    return shown


def _rules(report: RetentionReport, now: datetime) -> tuple[Table, str]:
    numbers = ("kept", "next prune")
    shown = table("state", "queue", "type", "keep", *numbers, "oldest", right=numbers, whole=("state", "keep"))
    order = sorted(report.kept, key=lambda one: (-one.prunable, -one.jobs, one.status, one.queue, one.type))
    rows, rest = first_of(order, MOST_ROWS)
    for one in rows:
        shown.add_row(
            *(status_text(one.status), text(one.queue), text(one.type), rounded(one.keep), f"{one.jobs:,}"),
            text(f"{one.prunable:,}", "yellow" if one.prunable else "dim"),
            ago(one.oldest_at, now) if one.oldest_at is not None else NOTHING,
        )
    return shown, rest
