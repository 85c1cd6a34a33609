"""Small helpers that both dialects speak with."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from rowcall.store.catalogue import as_json as as_json
from rowcall.store.statement import Parameter, Row, Statement, fetch, no_row

R = TypeVar("R")


def plain(sql: str, *parameters: Parameter) -> Statement[Row]:
    return Statement(sql, parameters, no_row)


def only(statement: Statement[R]) -> Generator[Statement[R], list[Row], R]:
    """The value of a statement that always has one row."""
    return (yield from fetch(statement))[0]
