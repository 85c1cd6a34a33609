"""A statement is SQL with parameters; a plan is a generator that yields statements and receives their rows.

Whoever runs a plan owns the transaction. A plan never catches a database error: what may conflict comes back as rows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, TypeVar

R = TypeVar("R", covariant=True)
T = TypeVar("T")

Row = tuple[object, ...]
Parameter = str | int | float | None


class Statement(Generic[R]):
    """`hint` says, of the rows that came, whether those who wait for work are to be told once this is committed."""

    __slots__ = ("hint", "make", "parameters", "sql")

    def __init__(
        self,
        sql: str,
        parameters: tuple[Parameter, ...],
        make: Callable[[Row], R],
        hint: Callable[[list[Row]], bool] | None = None,
    ) -> None:
        self.sql = sql
        self.parameters = parameters
        self.make = make
        self.hint = hint

    def __repr__(self) -> str:
        return f"Statement({' '.join(self.sql.split())!r}, {self.parameters!r})"


Plan = Generator[Statement[object], list[Row], T]


def fetch(statement: Statement[R]) -> Generator[Statement[R], list[Row], list[R]]:
    """The rows of a statement, each made into a value."""
    rows = yield statement
    make = statement.make
    return [make(row) for row in rows]


def first(statement: Statement[R]) -> Generator[Statement[R], list[Row], R | None]:
    """The first row of a statement, or None."""
    rows = yield statement
    return statement.make(rows[0]) if rows else None


def execute(statement: Statement[R]) -> Generator[Statement[R], list[Row], None]:
    """Run a statement for what it does."""
    yield statement


def no_row(row: Row) -> Row:
    return row
