"""A table that is split into parts on a narrow terminal, each with the first column: no figure is ever cut."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import StyleType
from rich.table import Column, Table
from rich.text import Text

from rowcall.cli.present.cells import text

GAP = 2
FOLDED_WIDTH = 8

Widths = Mapping[int, int]


class FittingTable(Table):
    """A column without a heading, which holds bars, is the first to be left out.

    The columns in `continued` mean nothing without the column before them, and stay beside it.
    """

    def __init__(self, continued: Collection[str] = (), **options: Any) -> None:
        super().__init__(**options)
        self._continued = continued

    def add_row(self, *cells: object, style: StyleType | None = None, end_section: bool = False) -> None:
        """Add a row. Text takes one line, whole numbers are grouped by thousands, None is empty."""
        super().add_row(*map(_cell, cells), style=style, end_section=end_section)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for number, part in enumerate(self._parts(console, options)):
            if number:
                yield Segment.line()
            yield from self._part(part)._drawn(console, options)

    def _drawn(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return super().__rich_console__(console, options)

    def _part(self, columns: Sequence[Column]) -> FittingTable:
        part = copy.copy(self)
        part.columns = [replace(column, _index=number) for number, column in enumerate(columns)]
        return part

    def _parts(self, console: Console, options: ConsoleOptions) -> Iterator[list[Column]]:
        widths = {id(column): self._needed(console, options, column) for column in self.columns}
        if not self.columns or _width(self.columns, widths) <= options.max_width:
            yield self.columns
            return
        names, *rest = self.columns
        part = [names]
        for group in self._groups([column for column in rest if column.header]):
            if len(part) > 1 and _width([*part, *group], widths) > options.max_width:
                yield part
                part = [names]
            part += group
        yield part

    def _groups(self, columns: Sequence[Column]) -> list[list[Column]]:
        groups: list[list[Column]] = []
        for column in columns:
            if groups and column.header in self._continued:
                groups[-1].append(column)
            else:
                groups.append([column])
        return groups

    def _needed(self, console: Console, options: ConsoleOptions, column: Column) -> int:
        shown = [*([column.header] if self.show_header else []), *column.cells]
        anywhere = options.update(width=10_000)
        longest = max((Measurement.get(console, anywhere, cell).maximum for cell in shown), default=0)
        return longest if column.no_wrap else min(longest, FOLDED_WIDTH)


def _cell(value: object) -> Text:
    if isinstance(value, Text):
        return value
    return text("" if value is None else f"{value:,}" if isinstance(value, int) else value)


def _width(columns: Sequence[Column], widths: Widths) -> int:
    return sum(widths[id(column)] for column in columns) + GAP * (len(columns) - 1)
