"""Tables with no line but one under the headings, and what their cells hold.

Where a terminal is too narrow, a table is split into parts, each with the first column: no figure is ever cut.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

from rowcall.base.text import one_line, printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.measure import Measurement
    from rich.table import Table as RichTable
    from rich.text import Text

T = TypeVar("T")

MOST_ROWS = 20
GAP = 2
FOLDED_WIDTH = 8
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


class Table:
    """Columns that are `whole` or `right` are never broken or cut: where there is no room for them, they come below.

    A column without a heading, which holds bars, is the first to be left out. The columns in `continued` mean nothing
    without the column before them, and stay beside it. Rich is imported when the table is printed.
    """

    def __init__(
        self,
        *columns: str,
        right: Collection[str] = (),
        whole: Collection[str] = (),
        continued: Collection[str] = (),
        line: bool = True,
        headings: bool = True,
    ) -> None:
        self._columns = columns
        self._right, self._whole, self._continued = right, ("", *whole, *right), continued
        self._line, self._headings = line, headings
        self._rows: list[tuple[list[Text], str]] = []

    def add_row(self, *cells: object, style: str = "") -> None:
        """Add a row. Text takes one line, whole numbers are grouped by thousands, None is empty."""
        self._rows.append(([_cell(cell) for cell in cells], style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for number, part in enumerate(self._parts(options.max_width)):
            if number:
                yield ""
            yield self._drawn(part)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return self._drawn(range(len(self._columns))).__rich_measure__(console, options)

    def _drawn(self, part: Sequence[int]) -> RichTable:
        from rich import box
        from rich.table import Table as RichTable

        lines = box.SIMPLE_HEAD if has_unicode() else box.Box(str(box.SIMPLE_HEAD).replace("─", "-"), ascii=True)
        drawn = RichTable(
            box=lines if self._line else None,
            header_style="bold",
            padding=(0, 1 if self._line else 2, 0, 0),
            pad_edge=False,
            show_edge=False,
            show_header=self._headings,
        )
        for column in (self._columns[at] for at in part):
            justify: Literal["left", "right"] = "right" if column in self._right else "left"
            drawn.add_column(column, justify=justify, overflow="fold", no_wrap=column in self._whole)
        for cells, style in self._rows:
            drawn.add_row(*(cells[at] for at in part), style=style)
        return drawn

    def _parts(self, room: int) -> Iterator[list[int]]:
        """Yield the numbers of the columns of each part."""
        widths = [self._needed(at) for at in range(len(self._columns))]

        def fits(part: Sequence[int]) -> bool:
            return sum(widths[at] for at in part) + GAP * (len(part) - 1) <= room

        part = list(range(len(self._columns)))
        if not fits(part):
            groups: list[list[int]] = []
            for at in (at for at in part[1:] if self._columns[at]):
                if groups and self._columns[at] in self._continued:
                    groups[-1].append(at)
                else:
                    groups.append([at])
            part = [0]
            for group in groups:
                if len(part) > 1 and not fits([*part, *group]):
                    yield part
                    part = [0]
                part += group
        yield part

    def _needed(self, at: int) -> int:
        from rich.cells import cell_len

        shown = [self._columns[at] if self._headings else "", *(cells[at].plain for cells, _ in self._rows)]
        longest = max(cell_len(line) for cell in shown for line in cell.splitlines() or [""])
        return longest if self._columns[at] in self._whole else min(longest, FOLDED_WIDTH)


def _cell(value: object) -> Text:
    from rich.text import Text

    if isinstance(value, Text):
        return value
    return text("" if value is None else f"{value:,}" if isinstance(value, int) else value)


def table_of(
    rows: Iterable[T],
    columns: Mapping[str, Callable[[T], object]],
    *,
    right: Collection[str] = (),
    whole: Collection[str] = (),
    line: bool = True,
    headings: bool = True,
) -> Table:
    """Return a table with a cell for each row and column."""
    made = Table(*columns, right=right, whole=whole, line=line, headings=headings)
    for row in rows:
        made.add_row(*(cell(row) for cell in columns.values()))
    return made


def first_of(rows: Sequence[T], most: int = MOST_ROWS) -> tuple[Sequence[T], str]:
    """Return as many rows as a person reads, and what to say about the rest."""
    left = len(rows) - most
    return (rows, "") if left <= 0 else (rows[:most], f"and {left:,} more; --json has them all")


def text(value: object, style: str = "") -> Text:
    """Return text on one line, without markup or anything that a terminal would obey."""
    from rich.text import Text

    return Text(one_line(str(value)), style=style)


def block(value: object, style: str = "") -> Text:
    """Return text with its line breaks and tabs: for tracebacks and messages, never for names."""
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
