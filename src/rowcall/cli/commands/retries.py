"""`rowcall retries`: how many jobs have used how many attempts, in all and by type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from rowcall.cli.present.output import bar, bar_width, console, print_json, table, text
from rowcall.cli.target import app_argument, existing, json_option, url_option
from rowcall.domain.job import Retries
from rowcall.overview.formats import first_of, share

if TYPE_CHECKING:
    from rich.table import Table

MOST_ROWS = 20
MOST_COLUMNS = 7


@click.command("retries", short_help="Show how many jobs have used how many attempts.")
@app_argument
@url_option
@json_option
def retries_command(app: str | None, url: str | None, as_json: bool) -> None:
    """Show how many jobs have used how many attempts, in all and by type: does one type fail over and over?

    With --json: {"by_attempts": {"1": 340, "2": 12, …}, "by_type": {"send_email": {"1": 340, …}, …}}. "0" has not run
    yet; "100" is 100 or more.
    """
    with existing(app, url) as jobs:
        retries = jobs.retries()
    if as_json:
        print_json(retries)
        return
    _print(retries)


def _print(retries: Retries) -> None:
    out = console()
    if not retries.by_attempts:
        out.print("no jobs")
        return
    out.print(attempts_table(retries, bar_width(out.width)))
    shown, rest = types_table(retries)
    out.print("\nby type, most often tried again first", style="bold")
    out.print(shown)
    if rest:
        out.print(rest, style="dim")


def attempts_table(retries: Retries, width: int, most: int = MOST_ROWS) -> Table:
    """A bar for each number of attempts; the longest numbers share a row where there is no room for all."""
    shown = table("attempts", "jobs", "", right=("attempts", "jobs"))
    groups = _grouped(list(retries.by_attempts), most)
    counts = {label: sum(retries.by_attempts[number] for number in numbers) for label, numbers in groups.items()}
    longest = max(counts.values(), default=0)
    for label, count in counts.items():
        drawn = bar(count, longest, width)
        shown.add_row(label, f"{count:,}", text(f"{drawn:{width}}", "green" if label in ("0", "1") else "yellow"))
    return shown


def types_table(retries: Retries, most: int = MOST_ROWS) -> tuple[Table, str]:
    """A row for each type, with the share of its jobs that were tried again; and what is said about the rest."""
    groups = _grouped(list(retries.by_attempts), MOST_COLUMNS)
    shown = table("type", *groups, "again", right=(*groups, "again"))
    kinds = sorted(retries.by_type, key=lambda kind: (-again(retries.by_type[kind]), kind))
    rows, rest = first_of(kinds, most)
    for kind in rows:
        counts = retries.by_type[kind]
        numbers = [sum(counts.get(number, 0) for number in group) for group in groups.values()]
        cells = [text(f"{number:,}", "" if number else "dim") for number in numbers]
        tried = again(counts)
        shown.add_row(text(kind), *cells, text(share(tried, sum(counts.values())), "yellow" if tried else "dim"))
    return shown, rest


def again(counts: Mapping[int, int]) -> int:
    """Jobs that took more than one attempt."""
    return sum(jobs for attempts, jobs in counts.items() if attempts > 1)


def _grouped(numbers: list[int], most: int) -> dict[str, list[int]]:
    """
    >>> _grouped([0, 1, 2, 5, 9], 4)
    {'0': [0], '1': [1], '2': [2], '5+': [5, 9]}
    """
    if len(numbers) <= most:
        return {str(number): [number] for number in numbers}
    alone, together = numbers[: most - 1], numbers[most - 1 :]
    return {**{str(number): [number] for number in alone}, f"{together[0]}+": together}
