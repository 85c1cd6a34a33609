"""The contents of a table's cells: text on one line, counts, states, bars."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rowcall.base.text import one_line, printable

if TYPE_CHECKING:
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


def text(value: object, style: str = "") -> Text:
    """Return text on one line, without markup or anything that a terminal would obey."""
    from rich.text import Text

    return Text(one_line(str(value)), style=style)


def block(value: object, style: str = "") -> Text:
    """Return the same with its line breaks and tabs: for tracebacks and messages, never for names."""
    from rich.text import Text

    return Text(printable(str(value)), style=style)


def count(number: int, style: str = "") -> Text:
    return text(f"{number:,}", style if number else "dim")


def status_text(status: str) -> Text:
    return text(status, STYLES.get(status, ""))


def has_unicode() -> bool:
    """Return whether standard output takes all letters; if not, lines and bars are drawn in ASCII."""
    return (sys.stdout.encoding or "utf-8").lower().startswith("utf")


def bar_width(columns: int) -> int:
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
