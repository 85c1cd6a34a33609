"""`rowcall stats`: how many jobs are in each state, how long the oldest waits, how fast they arrive and finish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rowcall.base.text import NOTHING, duration
from rowcall.cli.command import Answer, queue_command, window_option
from rowcall.cli.present.console import console, show, show_section
from rowcall.cli.present.text_tables import MOST_ROWS, STYLES, Table, bar, bar_width, count, first_of, status_text, text
from rowcall.cli.target import Target
from rowcall.domain.job import Pace, Paused, Stats, Status, what_is_paused
from rowcall.overview.counts import PACE_COUNTS, by_activity, by_unfinished
from rowcall.overview.formats import in_one_unit

if TYPE_CHECKING:
    from rich.text import Text

MOST_PAUSED = 5
_SHARES = ("p50", "p95", "p99")
_TIMES = ["wait p50", *_SHARES[1:], "run p50", *_SHARES[1:]]
_COUNT_STYLES = {"failed": "red", "retried": "yellow"}


@queue_command("stats", "Count jobs, and show how fast they arrive and finish.")
@window_option
def stats_command(target: Target, window: float) -> Answer:
    """Count jobs by state, queue and type. Show how long the oldest has waited, how fast jobs arrive and finish, and
    how long they wait and run.

    With --json: {"total", "by_status": {"pending": 3, …}, "by_queue": {"default": {"pending": 3, …}, …}, "by_type":
    {…}, "oldest_waiting", "oldest_waiting_by_queue": {…}, "window", "arrival_window", "arrivals_per_second",
    "completions_per_second", "pace": {"arrived", "succeeded", "failed", "retried", "wait": {"p50", "p95", "p99"} or
    null, "run": …}, "pace_by_queue": {…}, "pace_by_type": {…}, "paused": [{"kind", "name", "actor", "at"}, …],
    "counted_at"}. Every state is listed, even with 0; times are seconds.
    """
    stats = target.jobs.stats(window=window)
    return Answer(stats, lambda: _show(stats))


def _show(stats: Stats) -> None:
    show(states_table(stats, bar_width(console().width)))
    show("")
    show(flow_text(stats))
    if stats.paused:
        show(paused_text(stats.paused))
    for name, counts, ages in (
        ("queue", stats.by_queue, stats.oldest_waiting_by_queue),
        ("type", stats.by_type, {}),
    ):
        if counts:
            shown, omitted = counts_table(name, counts, ages)
            show_section(f"jobs by {name}", shown, omitted=omitted)
    for name, paces in (("queue", stats.pace_by_queue), ("type", stats.pace_by_type)):
        if paces:
            shown, omitted = pace_table(name, paces)
            show_section(f"last {duration(stats.window)} by {name}", shown, omitted=omitted)


def states_table(stats: Stats, width: int) -> Table:
    shown = Table("state", "jobs", "", right=("jobs",))
    for status in Status:
        jobs = stats.by_status[status]
        shown.add_row(status_text(status), jobs, text(f"{bar(jobs, stats.total, width):{width}}", STYLES[status]))
    shown.add_row("all", stats.total, "", style="bold")
    return shown


def states_text(stats: Stats) -> Text:
    """Return the counts in one line, without the states that no job is in."""
    line = text(f"{stats.total:,} jobs")
    for status in Status:
        if stats.by_status[status]:
            line.append_text(text(f"  {stats.by_status[status]:,} {status}", STYLES[status]))
    return line


def flow_text(stats: Stats) -> Text:
    """Return three lines: the oldest waiting job, how fast jobs arrive, and how fast they are done."""
    ages = stats.oldest_waiting_by_queue
    oldest = max(ages, key=lambda queue: ages[queue], default=None)
    waits = "no job is due"
    if oldest is not None:
        waits = f"the oldest due job has waited {duration(ages[oldest])}, in queue {oldest}"
    over = duration(stats.window)
    came = over if stats.arrival_window >= stats.window - 1 else duration(stats.arrival_window)
    (arrived, done), unit = in_one_unit(stats.arrivals_per_second, stats.completions_per_second)
    lines = text(f"waiting  {waits}")
    lines.append(f"\narrived  {arrived} {unit} over the last {came}")
    lines.append(f"\ndone     {done} {unit} over the last {over}")
    return lines


def rates_text(stats: Stats) -> Text:
    """Return how fast jobs arrive and are done, in one line."""
    (arrived, done), unit = in_one_unit(stats.arrivals_per_second, stats.completions_per_second)
    return text(f"in {arrived}, out {done} {unit} over the last {duration(stats.window)}")


def paused_text(paused: Sequence[Paused]) -> Text:
    names = ", ".join(f"{what_is_paused(one.kind, one.name)} (by {one.actor})" for one in paused[:MOST_PAUSED])
    more = len(paused) - MOST_PAUSED
    return text(f"paused: {names}{f' and {more} more' if more > 0 else ''}", "yellow")


def counts_table(
    name: str, counts: Mapping[str, Mapping[str, int]], ages: Mapping[str, float], most: int = MOST_ROWS
) -> tuple[Table, str]:
    """Return a row for each queue or type, most unfinished jobs first, and what to say about the rest."""
    occurring = [status for status in Status if any(row[status] for row in counts.values())]
    numbers = [*(status.value for status in occurring), "all", *(["oldest"] if ages else [])]
    shown = Table(name, *numbers, right=numbers)
    rows, omitted = first_of(by_unfinished(counts), most)
    for key in rows:
        row = [count(counts[key][status], STYLES[status]) for status in occurring]
        shown.add_row(key, *row, sum(counts[key].values()), *([duration(ages.get(key))] if ages else []))
    return shown, omitted


def pace_table(name: str, paces: Mapping[str, Pace], most: int = MOST_ROWS) -> tuple[Table, str]:
    """Return a row for each queue or type, busiest first, with counts of jobs and percentiles of times."""
    columns = [*PACE_COUNTS, *_TIMES]
    shown = Table(name, *columns, right=columns, continued=_SHARES)
    rows, omitted = first_of(by_activity(paces), most)
    for key in rows:
        cells = [count(getattr(paces[key], field), _COUNT_STYLES.get(field, "")) for field in PACE_COUNTS]
        shown.add_row(key, *cells, *_times(paces[key]))
    return shown, omitted


def _times(pace: Pace) -> list[Text]:
    said = [duration(getattr(found, share, None)) for found in (pace.wait, pace.run) for share in _SHARES]
    return [text(time, "dim" if time == NOTHING else "") for time in said]
