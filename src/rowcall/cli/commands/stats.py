"""`rowcall stats`: how many jobs there are in each state, how long the oldest waits, how fast they come and go."""

from __future__ import annotations

from rowcall.cli.command import Answer, queue_command
from rowcall.cli.options import window_option
from rowcall.cli.present.cells import bar_width
from rowcall.cli.present.console import NARROW_COLUMNS, console, show
from rowcall.cli.present.stats_view import (
    counts_table,
    flow_text,
    pace_table,
    paused_text,
    states_table,
    times_table,
)
from rowcall.cli.target import Target
from rowcall.domain.job import Stats
from rowcall.overview.formats import duration


@queue_command("stats", "Count jobs, and show how fast they come and go.")
@window_option
def command(target: Target, window: float) -> Answer:
    """Count jobs by state, queue and type. Show how long the oldest has waited, how fast jobs come and go, and how long
    they wait and run.

    With --json: {"total", "by_status": {"pending": 3, …}, "by_queue": {"default": {"pending": 3, …}, …}, "by_type":
    {…}, "oldest_waiting", "oldest_waiting_by_queue": {…}, "window", "arrival_window", "arrivals_per_second",
    "completions_per_second", "pace": {"arrived", "succeeded", "failed", "retried", "wait": {"p50", "p95", "p99"} or
    null, "run": …}, "pace_by_queue": {…}, "pace_by_type": {…}, "paused": [{"kind", "name", "actor", "at"}, …]}. Every
    state is listed, even with 0; times are seconds.
    """
    stats = target.jobs.stats(window=window)
    return Answer(stats, lambda: _show(stats))


def _show(stats: Stats) -> None:
    width = console().width
    narrow = width < NARROW_COLUMNS
    show(states_table(stats, bar_width(width)))
    show("")
    show(flow_text(stats))
    if stats.paused:
        show(paused_text(stats))
    for name, counts, ages in (
        ("queue", stats.by_queue, stats.oldest_waiting_by_queue),
        ("type", stats.by_type, {}),
    ):
        if counts:
            shown, rest = counts_table(name, counts, ages)
            show(f"\njobs by {name}", style="bold")
            show(shown)
            show_rest(rest)
    for name, paces in (("queue", stats.pace_by_queue), ("type", stats.pace_by_type)):
        if paces:
            shown, rest = pace_table(name, paces, times=not narrow)
            show(f"\nlast {duration(stats.window)} by {name}", style="bold")
            show(shown)
            if narrow:
                show("")
                show(times_table(name, paces))
            show_rest(rest)


def show_rest(rest: str) -> None:
    if rest:
        show(rest, style="dim")
