"""`rowcall errors`: why jobs fail, most frequent error first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from rowcall.cli.command import Answer, limit_option, queue_command
from rowcall.cli.present.console import is_narrow, show, show_section
from rowcall.cli.present.tables import Table, bar, block, table_of, text
from rowcall.cli.target import Target
from rowcall.domain.job import ErrorGroup
from rowcall.overview.formats import NOTHING, ago
from rowcall.overview.liveness import database_time
from rowcall.overview.scrub import scrubbed

BAR_WIDTH = 12
MOST_TYPES = 3
_NO_CODE = "(none)"
_WIDE_ONLY = ("", "first")


@queue_command("errors", "Show why jobs failed, most frequent error first.")
@limit_option
def errors_command(target: Target, limit: int) -> Answer:
    """Show failed jobs by error code, most frequent first, with the latest message of each.

    With --json: {"errors": [{"error_code", "count", "types": {"send_email": 7, …}, "first_at", "last_at", "sample"},
    …]}.
    """
    errors, now = error_groups(target, limit), database_time(target.queue)
    return Answer({"errors": errors}, lambda: _show(errors, now, limit) if errors else show("no failed jobs"))


def error_groups(target: Target, limit: int) -> list[ErrorGroup]:
    return [scrubbed(target.queue.failures, group) for group in target.jobs.top_errors(limit=limit)]


def _show(errors: Sequence[ErrorGroup], now: datetime, limit: int) -> None:
    show(errors_table(errors, now, wide=not is_narrow()))
    # apart from the other columns, which a long message would push away
    messages: dict[str, Callable[[ErrorGroup], object]] = {
        "error": lambda group: group.error_code or _NO_CODE,
        "message": lambda group: block(said) if (said := (group.sample or "").strip()) else text(NOTHING, "dim"),
    }
    rest = f"\nonly the first {limit:,} are shown; use --limit for more" if len(errors) == limit else ""
    show_section("latest messages", table_of(errors, messages, line=False, headings=False), rest=rest)


def errors_table(errors: Sequence[ErrorGroup], now: datetime, *, wide: bool = True) -> Table:
    """Return a row for each error code; without bars and first times if it is not `wide`."""
    most = max((group.count for group in errors), default=0)
    columns: dict[str, Callable[[ErrorGroup], object]] = {
        "error": lambda group: text(group.error_code or _NO_CODE, "red"),
        "jobs": lambda group: group.count,
        "": lambda group: text(bar(group.count, most, BAR_WIDTH), "red"),
        "types": lambda group: _types(group.types),
        "first": lambda group: ago(group.first_at, now),
        "last": lambda group: ago(group.last_at, now),
    }
    shown = {name: cell for name, cell in columns.items() if wide or name not in _WIDE_ONLY}
    return table_of(errors, shown, right=("jobs",))


def _types(types: Mapping[str, int]) -> str:
    if len(types) == 1:
        return next(iter(types))
    named = [f"{name} ({count:,})" for name, count in list(types.items())[:MOST_TYPES]]
    left = len(types) - MOST_TYPES
    return ", ".join(named) + (f" and {left:,} more" if left > 0 else "")
