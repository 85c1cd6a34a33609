"""Rewrite numbered placeholders (`$1`, `?1`) for drivers that take `%s` for each parameter in turn."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from rowcall.store.statement import Parameter

# a schema's name, quoted or not, may contain what looks like a placeholder
_NUMBERED = re.compile(r""""(?:[^"]|"")*"|(?<![\w$])[$?](\d+)""")


class Counted(NamedTuple):
    """SQL with `%s`, and the number of the parameter of each `%s`."""

    sql: str
    order: tuple[int, ...]

    def arranged(self, parameters: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
        return tuple(parameters[number] for number in self.order)


@lru_cache(256)
def counted(sql: str) -> Counted:
    """
    >>> counted("select $2 + $1 + $2 where x like 'a%'")
    Counted(sql="select %s + %s + %s where x like 'a%%'", order=(1, 0, 1))
    """
    order = tuple(int(number) - 1 for number in _NUMBERED.findall(sql) if number)
    return Counted(_NUMBERED.sub(_placeholder, sql.replace("%", "%%")), order)


def in_turn(sql: str, parameters: tuple[Parameter, ...]) -> tuple[str, tuple[Parameter, ...]]:
    """Return SQL with `%s`, and the parameters in the order of its placeholders."""
    text = counted(sql)
    return text.sql, text.arranged(parameters)


def _placeholder(match: re.Match[str]) -> str:
    if not match[1]:
        return match[0]
    # psycopg2 writes values into the text, and `-9223372036854775808::bigint` casts before it negates: out of range
    return "(%s)" if match.string.startswith("::", match.end()) else "%s"
