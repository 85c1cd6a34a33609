"""What commands print: one JSON object, or text and tables that fit a terminal, a pipe and a CI log alike."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import msgspec

from rowcall.base.text import printable
from rowcall.base.text import span as span
from rowcall.domain.job import Job

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

STYLES = {
    "blocked": "magenta",
    "scheduled": "cyan",
    "pending": "blue",
    "running": "yellow",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "bright_black",
    "lost": "red",
}
NARROW_COLUMNS = 100
_HIDDEN = ("lease", "duplicate")


def print_json(value: object) -> None:
    """One object on one line."""
    encoded = msgspec.json.encode(value).decode()
    escaped = encoded if has_unicode() else json.dumps(json.loads(encoded), separators=(",", ":"))
    write(f"{escaped}\n")


def write(printed: str) -> None:
    """To standard output as it is set up: `click.echo` would send UTF-8 to one that is set to ASCII."""
    sys.stdout.write(printed)
    sys.stdout.flush()


def has_unicode() -> bool:
    """Whether standard output takes all letters; where it does not, lines and bars are drawn in ASCII."""
    return (sys.stdout.encoding or "utf-8").lower().startswith("utf")


def job_as_json(job: Job) -> dict[str, object]:
    fields: dict[str, object] = msgspec.to_builtins(job)
    return {name: value for name, value in fields.items() if name not in _HIDDEN}


def console() -> Console:
    """Colours on a terminal unless $NO_COLOR is set; no line is broken on its way into a pipe."""
    if not sys.stdout.isatty():
        from rowcall.cli.present.pipe_console import PipedConsole

        return PipedConsole()
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


def table(
    *columns: str,
    right: Collection[str] = (),
    whole: Collection[str] = (),
    continued: Collection[str] = (),
    line: bool = True,
) -> Table:
    """A table with no line but one under its head; columns that are `whole` or `right` are never broken or cut: where
    there is no room beside the first one they come below."""
    from rich import box

    from rowcall.cli.present.narrow_tables import FittingTable

    lines = box.SIMPLE_HEAD if has_unicode() else box.Box(str(box.SIMPLE_HEAD).replace("─", "-"), ascii=True)
    made = FittingTable(
        continued,
        box=lines if line else None,
        header_style="bold",
        padding=(0, 1 if line else 2, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for column in columns:
        justify: Literal["left", "right"] = "right" if column in right else "left"
        made.add_column(column, justify=justify, overflow="fold", no_wrap=column in ("", *whole, *right))
    return made


def text(value: object, style: str = "") -> Text:
    """Text as it is: neither markup nor what a terminal would obey."""
    from rich.text import Text

    return Text(printable(str(value)), style=style)


def status_text(status: str) -> Text:
    return text(status, STYLES.get(status, ""))


def moment(at: datetime | None) -> str:
    """
    >>> moment(datetime(2026, 1, 2, 3, 4, 5, 678000, UTC))
    '2026-01-02 03:04:05.678'
    """
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"


def ago(at: datetime, now: datetime) -> str:
    """How long ago, or in how long, in one unit.

    >>> ago(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 5, tzinfo=UTC))
    '5 min ago'
    """
    seconds = (now - at).total_seconds()
    return f"{span(seconds)} ago" if seconds >= 0 else f"in {span(-seconds)}"


def bar_width(columns: int) -> int:
    """How long bars are on a terminal of so many columns."""
    return 30 if columns >= 60 else 12


def bar(part: int, whole: int, width: int = 20) -> str:
    """
    >>> bar(1, 4, 8), bar(1, 1000, 8)
    ('██', '▏')
    """
    if part <= 0 or whole <= 0:
        return ""
    if not has_unicode():
        return "#" * max(1, round(part / whole * width))
    eighths = max(1, round(part / whole * width * 8))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
