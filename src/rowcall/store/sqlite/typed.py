"""Columns that hold what they say: SQLite takes any value anywhere, and has STRICT tables only since 3.37."""

from __future__ import annotations

import re

LARGEST = 2**62  # far from where adding one would make a float of it
_LARGEST_SUMMED = 2**53

_COLUMN = re.compile(r"\b(?!id integer)(\w+) (text|integer)( not null| primary key)?")


def typed(table: str) -> str:
    """A CREATE TABLE that refuses values of another type than its columns have."""
    head, parenthesis, columns = table.partition("(")
    return head + parenthesis + _COLUMN.sub(_checked, columns)


def _checked(found: re.Match[str]) -> str:
    return found[0] + check_of(found[1], found[2], optional=found[3] is None)


def check_of(column: str, kind: str, *, optional: bool = False) -> str:
    """A rule for one column; its name says what is wrong."""
    fits = f"typeof({column}) = '{kind}'"
    if kind == "integer" and not column.endswith(("_id", "lease")):
        fits += f" and {column} between -{_LARGEST_SUMMED} and {_LARGEST_SUMMED}"
    rule = f"{column} is null or ({fits})" if optional else fits
    return f" constraint {column}_is_{kind} check ({rule})"


def spelled(column: str) -> str:
    """A rule for names by which rows are found: bytes that are not UTF-8 are read as U+FFFD, and never found again."""
    return f" constraint {column}_is_utf_8 check ({column} not glob '*[\ufffd]*')"


def next_of(column: str) -> str:
    """One more, but where plain SQL has put the highest number: such a job harms nobody but itself."""
    return f"{column} + ({column} < {LARGEST})"
