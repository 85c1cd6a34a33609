"""Tables with no line but one under the headings, and what their cells hold.

Where a terminal is too narrow, cells are wrapped between words. Columns that do not fit even then follow each row as a
dimmed line, as `name value`. A table is never split, and no word is broken that fits a line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeVar

from rowcall.base.text import NOTHING, one_line, printable
from rowcall.overview.formats import at_least

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.measure import Measurement
    from rich.table import Table as RichTable
    from rich.text import Text

T = TypeVar("T")

MOST_ROWS = 20
GAP = 2
WRAPPED_WIDTH = 16  # of a column: shorter texts are not wrapped
INDENT = 2  # of the lines below a row
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
    """The first `keys` columns name a row, and stay on its line.

    Columns that are `whole` or `right` are never wrapped. `notes` are sentences, after all other columns: unless they
    fit on the line unwrapped, they follow the row, without their name.

    A column without a heading, which holds bars, is left out where there is no room. The columns in `continued` mean
    nothing without the column before them, and stay next to it. Rich is imported when the table is printed.
    """

    def __init__(
        self,
        *columns: str,
        right: Collection[str] = (),
        whole: Collection[str] = (),
        continued: Collection[str] = (),
        notes: Collection[str] = (),
        keys: int = 1,
        line: bool = True,
        headings: bool = True,
    ) -> None:
        self._columns, self._keys = columns, keys
        self._right, self._whole, self._continued = right, ("", *whole, *right, *notes), continued
        self._line, self._headings = line, headings
        self._notes = notes
        self._rows: list[tuple[list[Text], str]] = []

    def add_row(self, *cells: object, style: str = "") -> None:
        """Add a row. Text takes one line, whole numbers are grouped by thousands, None is empty."""
        self._rows.append(([_cell(cell) for cell in cells], style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.padding import Padding

        needed = self._needed(options.max_width)
        beside, below = self._divided(needed, options.max_width)
        widths = self._widths(beside, needed, options.max_width)
        if not below:
            yield self._drawn(widths, self._rows, headings=self._headings)
            return
        if self._headings:
            yield self._drawn(widths, [], headings=True)
        for row in self._rows:
            yield self._drawn(widths, [row], headings=False)
            if (more := self._below(row[0], below)).plain:
                yield Padding(more, (0, 0, 0, INDENT))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        widths = dict(enumerate(self._longest))
        return self._drawn(widths, self._rows, headings=self._headings).__rich_measure__(console, options)

    def _drawn(self, widths: Mapping[int, int], rows: Iterable[tuple[list[Text], str]], *, headings: bool) -> RichTable:
        """Return the columns with these numbers."""
        from rich import box
        from rich.table import Table as RichTable

        lines = box.SIMPLE_HEAD if has_unicode() else box.Box(str(box.SIMPLE_HEAD).replace("─", "-"), ascii=True)
        drawn = RichTable(
            box=lines if self._line else None,
            header_style="bold",
            padding=(0, 1 if self._line else 2, 0, 0),
            pad_edge=False,
            show_edge=False,
            show_header=headings,
        )
        for at, width in widths.items():
            justify: Literal["left", "right"] = "right" if self._columns[at] in self._right else "left"
            drawn.add_column(self._columns[at], justify=justify, overflow="fold", width=width)
        for cells, style in rows:
            drawn.add_row(*(cells[at] for at in widths), style=style)
        return drawn

    def _below(self, cells: Sequence[Text], columns: Sequence[int]) -> Text:
        """Return what has no room on the line of a row: values with their names, then notes."""
        from rich.text import Text

        more = Text(style="dim")
        for at in columns:
            if cells[at].plain not in ("", NOTHING) and self._columns[at]:
                is_note = self._columns[at] in self._notes or not self._headings
                more.append(("\n" if is_note else " " * GAP) if more.plain else "")
                more.append("" if is_note else f"{self._columns[at]} ")
                more.append_text(cells[at])
        return more

    def _divided(self, needed: Sequence[int], room: int) -> tuple[list[int], list[int]]:
        """Return the columns that fit next to the keys, and the others."""
        beside = list(range(self._keys))
        left = room - sum(needed[at] + GAP for at in beside) + GAP
        for group in sorted(self._groups(), key=lambda group: not self._columns[group[0]]):  # bars come last
            taken = sum(needed[at] + GAP for at in group)
            if taken <= left:
                beside += group
                left -= taken
        return sorted(beside), [at for at in range(len(self._columns)) if at not in beside]

    def _groups(self) -> list[list[int]]:
        """Return the columns after the keys, together where they mean nothing alone."""
        groups: list[list[int]] = []
        for at in range(self._keys, len(self._columns)):
            if groups and self._columns[at] in self._continued:
                groups[-1].append(at)
            else:
                groups.append([at])
        return groups

    def _widths(self, part: Sequence[int], needed: Sequence[int], room: int) -> dict[int, int]:
        """Return what each column needs, and a share of the room that is left if it can use it."""
        widths = {at: needed[at] for at in part}
        left = room - sum(widths.values()) - GAP * (len(part) - 1)
        for others, at in enumerate(sorted(part, key=lambda at: self._longest[at] - needed[at])):
            more = min(self._longest[at] - needed[at], max(0, left) // (len(part) - others))
            widths[at] += more
            left -= more
        return widths

    def _needed(self, room: int) -> list[int]:
        """Return how narrow each column may be. Keys are folded where they do not fit a line.

        A word that is too long next to short keys is folded: it would be too long below them, too.
        """
        narrowest = self._narrowest
        keys, others = narrowest[: self._keys], narrowest[self._keys :]
        while sum(keys) + GAP * (self._keys - 1) > room and max(keys) > 1:
            keys[keys.index(max(keys))] -= 1
        left = room - sum(keys) - GAP * self._keys
        if sum(keys) <= room // 3:
            named = zip(self._columns[self._keys :], others, strict=True)
            others = [width if name in self._whole else min(width, left) for name, width in named]
        return [*keys, *others]

    @cached_property
    def _narrowest(self) -> list[int]:
        """The widths at which no word is broken."""
        words = [_longest(cells, str.split) for cells in self._texts()]
        return [
            longest if column in self._whole else max(word, min(longest, WRAPPED_WIDTH))
            for column, longest, word in zip(self._columns, self._longest, words, strict=True)
        ]

    @cached_property
    def _longest(self) -> list[int]:
        return [_longest(cells, str.splitlines) for cells in self._texts()]

    def _texts(self) -> Iterator[list[str]]:
        """Yield the texts of each column, with its heading."""
        for at, column in enumerate(self._columns):
            yield [column if self._headings else "", *(cells[at].plain for cells, _ in self._rows)]


def _longest(texts: Iterable[str], parts_of: Callable[[str], list[str]]) -> int:
    from rich.cells import cell_len

    return max((cell_len(part) for text in texts for part in parts_of(text)), default=0)


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
    notes: Collection[str] = (),
    keys: int = 1,
    line: bool = True,
    headings: bool = True,
) -> Table:
    """Return a table with a cell for each row and column."""
    made = Table(*columns, right=right, whole=whole, notes=notes, keys=keys, line=line, headings=headings)
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


def count(number: int, style: str = "", *, more: bool = False) -> Text:
    return text(at_least(number, more), style if number else "dim")


def status_text(status: str) -> Text:
    return text(status, STYLES.get(status, ""))


def has_unicode() -> bool:
    """Return whether standard output takes all letters; if not, lines and bars are drawn in ASCII."""
    return (sys.stdout.encoding or "utf-8").lower().startswith("utf")


def sparkline(counts: Sequence[int], width: int) -> str:
    """Return a small picture of counts over time, in at most `width` columns.

    >>> sparkline([0, 0, 1, 0, 4, 4, 8, 0], 4), sparkline([0, 0], 2)
    ('▁▂██', '')
    """
    share = -(-len(counts) // width) or 1
    sums = [sum(counts[at : at + share]) for at in range(0, len(counts), share)]
    levels = "▁▂▃▄▅▆▇█" if has_unicode() else "_.:-=+*#"
    highest = max(sums, default=0)
    return "".join(levels[-(-one * (len(levels) - 1) // highest)] for one in sums) if highest else ""


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
