"""`rowcall retention`: what is kept, for how long, how much that is, and what the next prune deletes."""

from __future__ import annotations

from datetime import datetime

from rowcall.cli.command import Answer, queue_command
from rowcall.cli.commands.stats import show_rest
from rowcall.cli.present.cells import count, status_text
from rowcall.cli.present.console import show
from rowcall.cli.present.tables import first_of, table, table_of
from rowcall.cli.target import Target
from rowcall.domain.job import FINISHED, RetentionReport
from rowcall.overview.counts import kept_by_status
from rowcall.overview.formats import ago, counted, period, size
from rowcall.overview.liveness import database_time

MOST_RULES = 30
_NUMBERS = ("kept", "next prune")


@queue_command("retention", "Show what is kept, and what the next prune deletes.")
def command(target: Target) -> Answer:
    """Show which finished jobs are kept, for how long, how much that is, and what the next prune deletes.

    The rules come from APP; without APP, from what its workers have written to the database, or else the defaults.

    With --json: {"kept": [{"status", "queue", "type", "keep", "jobs", "prunable", "oldest_at"}, …], "jobs",
    "prunable", "size_bytes"}; "keep" is seconds, or null for no limit.
    """
    report, now = target.jobs.retention(), database_time(target.queue)
    return Answer(report, lambda: _show(report, now))


def _show(report: RetentionReport, now: datetime) -> None:
    show(retention_line(report))
    if not report.kept:
        return
    jobs, prunable = kept_by_status(report)
    shown = table("state", *_NUMBERS, right=_NUMBERS)
    for status in FINISHED:
        shown.add_row(status_text(status), jobs[status], count(prunable[status], "yellow"))
    show("")
    show(shown)
    order = sorted(report.kept, key=lambda rule: (-rule.prunable, -rule.jobs, rule.status, rule.queue, rule.type))
    rows, rest = first_of(order, MOST_RULES)
    show("\nby queue and type, most to delete first", style="bold")
    columns = {
        "state": lambda rule: status_text(rule.status),
        "queue": lambda rule: rule.queue,
        "type": lambda rule: rule.type,
        "keep": lambda rule: period(rule.keep),
        "kept": lambda rule: rule.jobs,
        "next prune": lambda rule: count(rule.prunable, "yellow"),
        "oldest": lambda rule: ago(rule.oldest_at, now),
    }
    show(table_of(rows, columns, right=_NUMBERS, whole=("state", "keep")))
    show_rest(rest)


def retention_line(report: RetentionReport) -> str:
    """
    >>> retention_line(RetentionReport(kept=[], jobs=1200, prunable=1, size_bytes=2048))
    '1,200 finished jobs kept; the next prune deletes 1; the database is 2.0 KB'
    """
    kept = f"{counted(report.jobs, 'finished job')} kept"
    return f"{kept}; the next prune deletes {report.prunable:,}; the database is {size(report.size_bytes)}"
