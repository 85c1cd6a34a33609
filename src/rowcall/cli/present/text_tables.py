"""Tables with no line but one under the headings, and what their cells hold.

Where a terminal is too narrow, cells are wrapped between words. Where even the words do not fit side by side, the
table is split into parts, each with the columns that name a row: no figure and no name is broken, unless several
long names name a row. Two long names are stacked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeVar

from rowcall.base.text import one_line, printable
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
NARROWEST_KEY = 10  # of several columns that name a row: they are folded, but not to less
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
    """The first `keys` columns name a row. Where there is no room for all columns, more come below, with the keys.

    Columns that are `whole` or `right` are never wrapped.

    A column without a heading, which holds bars, is the first to be left out, with empty columns. The columns in
    `continued` mean nothing without the column before them, and stay next to it. Rich is imported when the table is
    printed.
    """

    def __init__(
        self,
        *columns: str,
        right: Collection[str] = (),
        whole: Collection[str] = (),
        continued: Collection[str] = (),
        keys: int = 1,
        line: bool = True,
        headings: bool = True,
    ) -> None:
        self._columns, self._keys = columns, keys
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
            yield part

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return self._drawn(dict(enumerate(self._longest))).__rich_measure__(console, options)

    def _drawn(self, widths: Mapping[int, int], *, is_first: bool = True) -> RichTable:
        """Return the columns with these numbers. A part that is not the first has no rows with nothing in them."""
        drawn = self._empty()
        for at, width in widths.items():
            justify: Literal["left", "right"] = "right" if self._columns[at] in self._right else "left"
            drawn.add_column(self._columns[at], justify=justify, overflow="fold", width=width)
        for cells, style in self._rows:
            if is_first or any(cells[at].plain for at in [*widths][self._keys :]):
                drawn.add_row(*(cells[at] for at in widths), style=style)
        return drawn

    def _is_filled(self, at: int) -> bool:
        return any(cells[at].plain for cells, _ in self._rows) or not self._rows

    def _stacked(self, at: int) -> RichTable:
        """Return one column of the first cells, each with its cell of another column below it."""
        from rich.console import Group
        from rich.padding import Padding

        drawn = self._empty()
        drawn.add_column(f"{self._columns[0]}\n  {self._columns[at]}", overflow="fold")
        for cells, style in self._rows:
            drawn.add_row(Group(cells[0], Padding(cells[at], (0, 0, 0, GAP))), style=style)
        return drawn

    def _empty(self) -> RichTable:
        from rich import box
        from rich.table import Table as RichTable

        lines = box.SIMPLE_HEAD if has_unicode() else box.Box(str(box.SIMPLE_HEAD).replace("─", "-"), ascii=True)
        return RichTable(
            box=lines if self._line else None,
            header_style="bold",
            padding=(0, 1 if self._line else 2, 0, 0),
            pad_edge=False,
            show_edge=False,
            show_header=self._headings,
        )

    def _parts(self, room: int) -> Iterator[RichTable]:
        narrowest = self._narrowest
        stacked = [
            at
            for at in range(1, len(narrowest))
            if narrowest[0] > room // 3 and narrowest[0] + GAP + narrowest[at] > room
        ]
        needed = self._needed(room, stacked)

        def fits(part: Sequence[int]) -> bool:
            return sum(needed[at] for at in part) + GAP * (len(part) - 1) <= room

        part, is_first = list(range(len(self._columns))), True
        if stacked or not fits(part):
            groups: list[list[int]] = []
            for at in part[self._keys :]:
                if not self._columns[at] or at in stacked or not self._is_filled(at):
                    continue
                if groups and self._columns[at] in self._continued:
                    groups[-1].append(at)
                else:
                    groups.append([at])
            part = keys = list(range(self._keys))
            for group in groups:
                if part != keys and not fits([*part, *group]):
                    yield self._drawn(self._widths(part, needed, room), is_first=is_first)
                    part, is_first = keys, False
                part = [*part, *group]
        if len(part) > 1 or not stacked:
            yield self._drawn(self._widths(part, needed, room), is_first=is_first)
        yield from map(self._stacked, stacked)

    def _widths(self, part: Sequence[int], needed: Sequence[int], room: int) -> dict[int, int]:
        """Return what each column needs, and a share of the room that is left if it can use it."""
        widths = {at: needed[at] for at in part}
        left = room - sum(widths.values()) - GAP * (len(part) - 1)
        for others, at in enumerate(sorted(part, key=lambda at: self._longest[at] - needed[at])):
            more = min(self._longest[at] - needed[at], max(0, left) // (len(part) - others))
            widths[at] += more
            left -= more
        return widths

    def _needed(self, room: int, stacked: Collection[int]) -> list[int]:
        """Return how narrow each column may be. A word is broken only if it is too long next to the first."""
        first, *others = self._narrowest
        next_to_it = [others[at - 1] for at, name in enumerate(self._columns) if at and name and at not in stacked]
        first = min(first, max(room // 2, room - GAP - max(next_to_it)) if next_to_it else room)
        needed = [first, *(min(width, max(1, room - GAP - first)) for width in others)]
        return needed if self._keys == 1 else self._fold_keys(needed, room)

    def _fold_keys(self, needed: list[int], room: int) -> list[int]:
        """Make several keys narrower, until all other columns fit next to them, or at least one of them."""
        keys, others = needed[: self._keys], needed[self._keys :]
        for taken in (sum(others) + GAP * len(others), max(others) + GAP):
            keys, left = needed[: self._keys], room - taken - GAP * (self._keys - 1)
            while sum(keys) > left and max(keys) > NARROWEST_KEY:
                keys[keys.index(max(keys))] -= 1
            if sum(keys) <= left:
                break
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
    keys: int = 1,
    line: bool = True,
    headings: bool = True,
) -> Table:
    """Return a table with a cell for each row and column."""
    made = Table(*columns, right=right, whole=whole, keys=keys, line=line, headings=headings)
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
