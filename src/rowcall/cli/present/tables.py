"""Tables with no line but one under the headings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

from rowcall.cli.present.cells import has_unicode

if TYPE_CHECKING:
    from rowcall.cli.present.fitting_table import FittingTable

T = TypeVar("T")

MOST_ROWS = 20


def table(
    *columns: str,
    right: Collection[str] = (),
    whole: Collection[str] = (),
    continued: Collection[str] = (),
    line: bool = True,
    headings: bool = True,
) -> FittingTable:
    """Return an empty table. Columns that are `whole` or `right` are never broken or cut: where there is no room beside
    the first column, they come below."""
    from rich import box

    from rowcall.cli.present.fitting_table import FittingTable

    lines = box.SIMPLE_HEAD if has_unicode() else box.Box(str(box.SIMPLE_HEAD).replace("─", "-"), ascii=True)
    made = FittingTable(
        continued,
        box=lines if line else None,
        header_style="bold",
        padding=(0, 1 if line else 2, 0, 0),
        pad_edge=False,
        show_edge=False,
        show_header=headings,
    )
    for column in columns:
        justify: Literal["left", "right"] = "right" if column in right else "left"
        made.add_column(column, justify=justify, overflow="fold", no_wrap=column in ("", *whole, *right))
    return made


def table_of(
    rows: Iterable[T],
    columns: Mapping[str, Callable[[T], object]],
    *,
    right: Collection[str] = (),
    whole: Collection[str] = (),
    line: bool = True,
) -> FittingTable:
    """Return a table with a cell for each row and column."""
    made = table(*columns, right=right, whole=whole, line=line)
    for row in rows:
        made.add_row(*(cell(row) for cell in columns.values()))
    return made


def first_of(rows: Sequence[T], most: int = MOST_ROWS) -> tuple[Sequence[T], str]:
    """Return as many rows as a person reads, and what to say about the rest."""
    left = len(rows) - most
    return (rows, "") if left <= 0 else (rows[:most], f"and {left:,} more; --json has them all")
