"""`rowcall errors`: why jobs failed, and what fails now, most frequent error first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import click

from rowcall.base.text import NOTHING, duration
from rowcall.cli.command import Answer, limit_option, queue_command, window_option
from rowcall.cli.present.console import show, show_section
from rowcall.cli.present.text_tables import Table, bar, block, table_of, text
from rowcall.cli.target import Target
from rowcall.domain.job import ErrorGroup, Failing
from rowcall.overview.formats import ago, at_least
from rowcall.overview.liveness import database_time
from rowcall.overview.scrub import scrubbed

BAR_WIDTH = 12
MOST_TYPES = 3
_NO_CODE = "(none)"


@queue_command("errors", "Show why jobs failed, and what fails now.")
@window_option
@click.option("--type", metavar="NAME", help="Only errors of this task.")
@click.option(
    *("--error-code", "--code", "code"),
    metavar="CODE",
    help="Only this error code; one that ends with * matches all that begin so.",
)
@limit_option
def errors_command(target: Target, window: float, type: str | None, code: str | None, limit: int) -> Answer:
    """Show failed jobs by error code, most frequent first, with the latest message of each.

    Then show what fails now: the attempts that failed within the window, and the jobs that wait for a retry.

    With --json: {"errors": [{"error_code", "count", "types": {"send_email": 7, …}, "first_at", "last_at", "sample"},
    …], "failing": [{"error_code", "attempts", "failed", "waiting", "more_waiting",
    "types": {"send_email": 7, …}, "sample"}, …]}.
    """
    errors = error_groups(target, limit, type, code)
    now_failing = failing(target, window, limit, type, code)
    now = database_time(target.queue)

    def shown() -> None:
        if errors:
            _show(errors, now, limit)
        else:
            show("no failed jobs")
        if now_failing:
            show_section(
                failing_heading(window),
                failing_table(now_failing),
                omitted=_rest(now_failing, limit),
            )

    return Answer({"errors": errors, "failing": now_failing}, shown)


def error_groups(target: Target, limit: int, task: str | None = None, code: str | None = None) -> list[ErrorGroup]:
    groups = target.jobs.top_errors(limit=limit, type=task, error_code=code)
    return [scrubbed(target.queue.declared.failures, group) for group in groups]


def failing(
    target: Target, window: float, limit: int, task: str | None = None, code: str | None = None
) -> list[Failing]:
    groups = target.jobs.failing(window=window, type=task, error_code=code, limit=limit)
    return [scrubbed(target.queue.declared.failures, group) for group in groups]


def failing_heading(window: float) -> str:
    return f"failing in the last {duration(window)}, and waiting for a retry"


def failing_table(groups: Sequence[Failing]) -> Table:
    columns: dict[str, Callable[[Failing], object]] = {
        "error": lambda group: text(group.error_code or _NO_CODE, "red"),
        "attempts": lambda group: group.attempts,
        "waiting": lambda group: at_least(group.waiting, group.more_waiting),
        "failed": lambda group: group.failed,
        "types": lambda group: _types(group.types),
        "message": lambda group: _first_line(group.sample),
    }
    return table_of(groups, columns, right=("attempts", "waiting", "failed"), notes=("message",))


def _first_line(sample: str | None) -> str:
    return next(iter((sample or "").strip().splitlines()), "")


def _rest(groups: Sequence[object], limit: int) -> str:
    return f"\nonly the first {limit:,} are shown; use --limit for more" if len(groups) == limit else ""


def _show(errors: Sequence[ErrorGroup], now: datetime, limit: int) -> None:
    show(errors_table(errors, now))
    # apart from the other columns, which a long message would push away
    messages: dict[str, Callable[[ErrorGroup], object]] = {
        "error": lambda group: group.error_code or _NO_CODE,
        "message": lambda group: block(said) if (said := (group.sample or "").strip()) else text(NOTHING, "dim"),
    }
    shown = table_of(errors, messages, line=False, headings=False)
    show_section("latest messages", shown, omitted=_rest(errors, limit))


def errors_table(errors: Sequence[ErrorGroup], now: datetime) -> Table:
    """Return a row for each error code."""
    most = max((group.count for group in errors), default=0)
    columns: dict[str, Callable[[ErrorGroup], object]] = {
        "error": lambda group: text(group.error_code or _NO_CODE, "red"),
        "jobs": lambda group: group.count,
        "": lambda group: text(bar(group.count, most, BAR_WIDTH), "red"),
        "types": lambda group: _types(group.types),
        "first": lambda group: ago(group.first_at, now),
        "last": lambda group: ago(group.last_at, now),
    }
    return table_of(errors, columns, right=("jobs",))


def _types(types: Mapping[str, int]) -> str:
    if len(types) == 1:
        return next(iter(types))
    named = [f"{name} ({count:,})" for name, count in list(types.items())[:MOST_TYPES]]
    left = len(types) - MOST_TYPES
    return ", ".join(named) + (f" and {left:,} more" if left > 0 else "")
