"""`rowcall stats`: how many jobs there are in each state, in all and by queue."""

from __future__ import annotations

import click

from rowcall.cli.output import STYLES, bar, console, print_json, status_text, table, text
from rowcall.cli.target import app_argument, existing, json_option, url_option
from rowcall.job import Stats, Status


@click.command("stats")
@app_argument
@url_option
@json_option
def stats_command(app: str | None, url: str | None, as_json: bool) -> None:
    """Count jobs by state and queue.

    With --json: {"total", "by_status": {"pending": 3, …}, "by_queue": {"default": {"pending": 3, …}, …}}; every state
    is there, also with 0.
    """
    with existing(app, url) as jobs:
        stats = jobs.stats()
    if as_json:
        print_json(stats)
        return
    _print(stats)


def _print(stats: Stats) -> None:
    out = console()
    states = table("state", "jobs", "", right=("jobs",))
    for status in Status:
        count = stats.by_status[status]
        states.add_row(status_text(status), f"{count:,}", text(bar(count, stats.total, 30), STYLES[status]))
    states.add_row("all", f"{stats.total:,}", "", style="bold")
    out.print(states)
    if stats.by_queue:
        out.print()
        out.print(_by_queue(stats))


def _by_queue(stats: Stats) -> object:
    occurring = [status for status in Status if stats.by_status[status]]
    numbers = [*(status.value for status in occurring), "all"]
    queues = table("queue", *numbers, right=numbers)
    for queue, counts in stats.by_queue.items():
        row = [text(f"{counts[status]:,}", STYLES[status] if counts[status] else "dim") for status in occurring]
        queues.add_row(text(queue), *row, f"{sum(counts.values()):,}")
    return queues
