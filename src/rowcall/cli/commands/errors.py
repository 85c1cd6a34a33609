"""`rowcall errors`: why jobs fail, most frequent reason first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from rowcall.app import Rowcall
from rowcall.cli.present.output import NARROW_COLUMNS, ago, bar, console, print_json, table, text
from rowcall.cli.target import app_argument, existing, json_option, queue_of, url_option
from rowcall.domain.job import ErrorGroup
from rowcall.overview.formats import NOTHING
from rowcall.overview.liveness import time_there
from rowcall.overview.scrub import scrubbed_errors

if TYPE_CHECKING:
    from rich.table import Table

BAR_WIDTH = 12
MOST_TYPES = 3
_NO_CODE = "(none)"


@click.command("errors", short_help="Show why jobs failed, most frequent reason first.")
@app_argument
@url_option
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Codes at most.")
@json_option
def errors_command(app: str | None, url: str | None, limit: int, as_json: bool) -> None:
    """Show failed jobs by error code, most frequent first, with a sample of what was said last.

    With --json: {"errors": [{"error_code", "count", "types": {"send_email": 7, …}, "first_at", "last_at", "sample"},
    …]}.
    """
    with existing(app, url) as jobs:
        errors, now = error_groups(jobs, limit), time_there(queue_of(jobs))
    if as_json:
        print_json({"errors": errors})
        return
    _print(errors, now, limit)


def error_groups(jobs: Rowcall, limit: int) -> list[ErrorGroup]:
    """As they may be shown."""
    return [scrubbed_errors(queue_of(jobs).failures, group) for group in jobs.top_errors(limit=limit)]


def _print(errors: Sequence[ErrorGroup], now: datetime, limit: int) -> None:
    out = console()
    if not errors:
        out.print("no failed jobs")
        return
    narrow = out.width < NARROW_COLUMNS
    out.print(errors_table(errors, now, wide=not narrow))
    out.print("\nwhat was said last", style="bold")
    out.print(samples_table(errors))
    if len(errors) == limit:
        out.print(f"\nthere may be more: these are the first {limit:,}", style="dim")


def errors_table(errors: Sequence[ErrorGroup], now: datetime, *, wide: bool = True) -> Table:
    """Narrow, it leaves out the bars and the first time."""
    columns = ("error", "jobs", *(("",) if wide else ()), "types", *(("first",) if wide else ()), "last")
    shown = table(*columns, right=("jobs",))
    most = max((group.count for group in errors), default=0)
    for group in errors:
        shown.add_row(
            text(group.error_code or _NO_CODE, "red"),
            f"{group.count:,}",
            *((text(bar(group.count, most, BAR_WIDTH), "red"),) if wide else ()),
            text(_types(group.types)),
            *((_when(group.first_at, now),) if wide else ()),
            _when(group.last_at, now),
        )
    return shown


def samples_table(errors: Sequence[ErrorGroup]) -> Table:
    """Apart from the other columns, which a long detail would push away."""
    shown = table("error", "detail", line=False)
    shown.show_header = False
    for group in errors:
        said = (group.sample or "").strip()
        shown.add_row(text(group.error_code or _NO_CODE), text(said or NOTHING, "" if said else "dim"))
    return shown


def _types(types: Mapping[str, int]) -> str:
    if len(types) == 1:
        return next(iter(types))
    named = [f"{kind} ({count:,})" for kind, count in list(types.items())[:MOST_TYPES]]
    left = len(types) - MOST_TYPES
    return ", ".join(named) + (f" and {left:,} more" if left > 0 else "")


def _when(at: datetime | None, now: datetime) -> str:
    return ago(at, now) if at is not None else NOTHING
