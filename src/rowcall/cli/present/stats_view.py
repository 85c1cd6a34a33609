"""The parts of `rowcall stats`, which `rowcall top` shows too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rowcall.cli.present.cells import STYLES, bar, count, status_text, text
from rowcall.cli.present.tables import MOST_ROWS, first_of, table
from rowcall.domain.job import Pace, Percentiles, Stats, Status, what_is_paused
from rowcall.overview.counts import OUTCOMES, by_activity, by_unfinished
from rowcall.overview.formats import NOTHING, duration, rate

if TYPE_CHECKING:
    from rich.text import Text

    from rowcall.cli.present.fitting_table import FittingTable

MOST_PAUSED = 5
_SHARES = ("p50", "p95", "p99")
_TIMES = ["wait p50", *_SHARES[1:], "run p50", *_SHARES[1:]]
_OUTCOME_STYLES = {"failed": "red", "retried": "yellow"}


def states_table(stats: Stats, width: int) -> FittingTable:
    shown = table("state", "jobs", "", right=("jobs",))
    for status in Status:
        jobs = stats.by_status[status]
        shown.add_row(status_text(status), jobs, text(f"{bar(jobs, stats.total, width):{width}}", STYLES[status]))
    shown.add_row("all", stats.total, "", style="bold")
    return shown


def states_text(stats: Stats) -> Text:
    """The same in one line, without the states that no job is in."""
    said = text(f"{stats.total:,} jobs")
    for status in Status:
        if stats.by_status[status]:
            said.append_text(text(f"  {stats.by_status[status]:,} {status}", STYLES[status]))
    return said


def flow_text(stats: Stats) -> Text:
    """Three lines: the oldest waiting job, how fast jobs arrive, and how fast they are done."""
    ages = stats.oldest_waiting_by_queue
    oldest = max(ages, key=lambda queue: ages[queue], default=None)
    waits = "no job is due"
    if oldest is not None:
        waits = f"the oldest due job has waited {duration(ages[oldest])}, in queue {oldest}"
    over = duration(stats.window)
    came = over if stats.arrival_window >= stats.window - 1 else duration(stats.arrival_window)
    said = text(f"waiting  {waits}")
    said.append(f"\narrived  {rate(stats.arrivals_per_second)} over the last {came}")
    said.append(f"\ndone     {rate(stats.completions_per_second)} over the last {over}")
    return said


def paused_text(stats: Stats) -> Text:
    names = ", ".join(f"{what_is_paused(one.kind, one.name)} (by {one.actor})" for one in stats.paused[:MOST_PAUSED])
    more = len(stats.paused) - MOST_PAUSED
    return text(f"paused: {names}{f' and {more} more' if more > 0 else ''}", "yellow")


def counts_table(
    name: str, counts: Mapping[str, Mapping[str, int]], ages: Mapping[str, float], most: int = MOST_ROWS
) -> tuple[FittingTable, str]:
    """Return a row for each queue or type, most unfinished jobs first, and what to say about the rest."""
    occurring = [status for status in Status if any(row[status] for row in counts.values())]
    numbers = [*(status.value for status in occurring), "all", *(["oldest"] if ages else [])]
    shown = table(name, *numbers, right=numbers)
    rows, rest = first_of(by_unfinished(counts), most)
    for key in rows:
        row = [count(counts[key][status], STYLES[status]) for status in occurring]
        shown.add_row(key, *row, sum(counts[key].values()), *([duration(ages.get(key))] if ages else []))
    return shown, rest


def pace_table(name: str, paces: Mapping[str, Pace], *, times: bool, most: int = MOST_ROWS) -> tuple[FittingTable, str]:
    """Return a row for each queue or type, busiest first, with percentiles if there is room for `times`."""
    columns = [*OUTCOMES, *(_TIMES if times else [])]
    shown = table(name, *columns, right=columns, continued=_SHARES)
    rows, rest = first_of(by_activity(paces), most)
    for key in rows:
        counts = [count(getattr(paces[key], outcome), _OUTCOME_STYLES.get(outcome, "")) for outcome in OUTCOMES]
        shown.add_row(key, *counts, *(_times(paces[key]) if times else []))
    return shown, rest


def times_table(name: str, paces: Mapping[str, Pace]) -> FittingTable:
    shown = table(name, *_TIMES, right=_TIMES, continued=_SHARES)
    for key in first_of(by_activity(paces))[0]:
        shown.add_row(key, *_times(paces[key]))
    return shown


def _times(pace: Pace) -> list[Text]:
    said = [*_percentiles(pace.wait), *_percentiles(pace.run)]
    return [text(time, "dim" if time == NOTHING else "") for time in said]


def _percentiles(found: Percentiles | None) -> list[str]:
    return [duration(value) for value in ((found.p50, found.p95, found.p99) if found else (None, None, None))]
