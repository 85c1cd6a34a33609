"""`rowcall stats`: how many jobs there are in each state, how long the oldest waits, how fast they come and go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from rowcall.cli.present.output import (
    NARROW_COLUMNS,
    STYLES,
    bar,
    bar_width,
    console,
    print_json,
    status_text,
    table,
    text,
)
from rowcall.cli.target import app_argument, existing, json_option, url_option
from rowcall.domain.job import Pace, Stats, Status, what_is_paused
from rowcall.overview.formats import NOTHING, duration, first_of, of_percentiles, rate, typed_seconds
from rowcall.queue.observing import DEFAULT_WINDOW_SECONDS

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

MOST_ROWS = 20
MOST_PAUSED = 5
_OUTCOMES = ("arrived", "succeeded", "retried", "failed")
_SHARES = ("p50", "p95", "p99")
_TIMES = ["wait p50", *_SHARES[1:], "run p50", *_SHARES[1:]]

window_option = click.option(
    "--window",
    type=typed_seconds,
    metavar="DURATION",
    default=f"{DEFAULT_WINDOW_SECONDS / 60:g}m",
    show_default=True,
    help="What rates and percentiles are about: the last 90s, 5m, 1h, 2d, …",
)


@click.command("stats", short_help="Count jobs, and say how fast they come and go.")
@app_argument
@url_option
@window_option
@json_option
def stats_command(app: str | None, url: str | None, window: float, as_json: bool) -> None:
    """Count jobs by state, queue and type; say how long the oldest waits, how fast they come and go, and how long they
    wait and run.

    With --json: {"total", "by_status": {"pending": 3, …}, "by_queue": {"default": {"pending": 3, …}, …}, "by_type":
    {…}, "oldest_waiting", "oldest_waiting_by_queue": {…}, "window", "arrival_window", "arrivals_per_second",
    "completions_per_second", "pace": {"arrived", "succeeded", "failed", "retried", "wait": {"p50", "p95", "p99"} or
    null, "run": …}, "pace_by_queue": {…}, "pace_by_type": {…}, "paused": [{"kind", "name", "actor", "at"}, …]}. Every
    state is there, also with 0; times are seconds.
    """
    with existing(app, url) as jobs:
        stats = jobs.stats(window=window)
    if as_json:
        print_json(stats)
        return
    _print(stats)


def _print(stats: Stats) -> None:
    out = console()
    out.print(states_table(stats, bar_width(out.width)))
    out.print()
    out.print(flow_text(stats))
    if stats.paused:
        out.print(paused_text(stats))
    for name, counts, ages in (
        ("queue", stats.by_queue, stats.oldest_waiting_by_queue),
        ("type", stats.by_type, {}),
    ):
        if counts:
            shown, rest = counts_table(name, counts, ages)
            _section(f"jobs by {name}", shown, rest)
    for name, paces in (("queue", stats.pace_by_queue), ("type", stats.pace_by_type)):
        if paces:
            heading = f"the last {duration(stats.window)} by {name}"
            narrow = out.width < NARROW_COLUMNS
            shown, rest = pace_table(name, paces, times=not narrow)
            _section(heading, shown, "" if narrow else rest)
            if narrow:
                out.print()
                out.print(times_table(name, paces))
                _say(rest)


def _section(heading: str, shown: Table, rest: str) -> None:
    out = console()
    out.print(f"\n{heading}", style="bold")
    out.print(shown)
    _say(rest)


def _say(rest: str) -> None:
    if rest:
        console().print(rest, style="dim")


def states_table(stats: Stats, width: int) -> Table:
    shown = table("state", "jobs", "", right=("jobs",))
    for status in Status:
        count = stats.by_status[status]
        drawn = bar(count, stats.total, width)
        shown.add_row(status_text(status), f"{count:,}", text(f"{drawn:{width}}", STYLES[status]))
    shown.add_row("all", f"{stats.total:,}", "", style="bold")
    return shown


def states_text(stats: Stats) -> Text:
    """The same in a line, without those that do not occur."""
    said = text(f"{stats.total:,} jobs")
    for status in Status:
        if stats.by_status[status]:
            said.append_text(text(f"  {stats.by_status[status]:,} {status}", STYLES[status]))
    return said


def flow_text(stats: Stats) -> Text:
    """Three lines: who waits for how long, how fast jobs come, and how fast they are done."""
    ages = stats.oldest_waiting_by_queue
    oldest = max(ages, key=lambda queue: ages[queue], default=None)
    waits = "nothing that is due waits"
    if oldest is not None:
        waits = f"the oldest that is due waits for {duration(ages[oldest])}, in queue {oldest}"
    over = duration(stats.window)
    came = over if stats.arrival_window >= stats.window - 1 else duration(stats.arrival_window)
    return text(
        f"waiting  {waits}\n"
        f"arrived  {rate(stats.arrivals_per_second)} over the last {came}\n"
        f"done     {rate(stats.completions_per_second)} over the last {over}"
    )


def paused_text(stats: Stats) -> Text:
    """A line: of what nothing is started."""
    names = ", ".join(f"{what_is_paused(one.kind, one.name)} (by {one.actor})" for one in stats.paused[:MOST_PAUSED])
    more = len(stats.paused) - MOST_PAUSED
    return text(f"paused: {names}{f' and {more} more' if more > 0 else ''}", "yellow")


def counts_table(
    name: str, counts: Mapping[str, Mapping[str, int]], ages: Mapping[str, float], most: int = MOST_ROWS
) -> tuple[Table, str]:
    """A row for each queue or type, those with most unfinished jobs first, and what is said about the rest."""
    occurring = [status for status in Status if any(row[status] for row in counts.values())]
    numbers = [*(status.value for status in occurring), "all", *(["oldest"] if ages else [])]
    shown = table(name, *numbers, right=numbers)
    rows, rest = first_of(sorted(counts, key=lambda key: (-_unfinished(counts[key]), key)), most)
    for key in rows:
        row = [
            text(f"{counts[key][status]:,}", STYLES[status] if counts[key][status] else "dim") for status in occurring
        ]
        age = [duration(ages.get(key))] if ages else []
        shown.add_row(text(key), *row, f"{sum(counts[key].values()):,}", *age)
    return shown, rest


def _unfinished(counts: Mapping[str, int]) -> int:
    return sum(counts[status] for status in (Status.PENDING, Status.RUNNING, Status.SCHEDULED, Status.BLOCKED))


def pace_table(name: str, paces: Mapping[str, Pace], *, times: bool, most: int = MOST_ROWS) -> tuple[Table, str]:
    """What came and what became of it, busiest first; with the percentiles beside it where there is room for them."""
    columns = [*_OUTCOMES, *(_TIMES if times else [])]
    shown = table(name, *columns, right=columns, continued=_SHARES)
    rows, rest = first_of(_busiest(paces), most)
    for key in rows:
        pace = paces[key]
        counts = [text(f"{getattr(pace, outcome):,}", _style(outcome, pace)) for outcome in _OUTCOMES]
        shown.add_row(text(key), *counts, *(_times(pace) if times else []))
    return shown, rest


def times_table(name: str, paces: Mapping[str, Pace], most: int = MOST_ROWS) -> Table:
    shown = table(name, *_TIMES, right=_TIMES, continued=_SHARES)
    for key in first_of(_busiest(paces), most)[0]:
        shown.add_row(text(key), *_times(paces[key]))
    return shown


def _times(pace: Pace) -> list[Text]:
    said = [*of_percentiles(pace.wait), *of_percentiles(pace.run)]
    return [text(time, "dim" if time == NOTHING else "") for time in said]


def _busiest(paces: Mapping[str, Pace]) -> list[str]:
    return sorted(paces, key=lambda key: (-sum(getattr(paces[key], outcome) for outcome in _OUTCOMES), key))


def _style(outcome: str, pace: Pace) -> str:
    if not getattr(pace, outcome):
        return "dim"
    return {"failed": "red", "retried": "yellow"}.get(outcome, "")
