"""Rewrite numbered placeholders for drivers of MariaDB and MySQL, which take `%s` for each parameter in turn.

After `in`, a parameter is a list in JSON, and becomes a list of values: the servers find rows by such a list through an
index, and would read the whole table for a subquery in an UPDATE or a DELETE.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple, cast

import msgspec

from rowcall.store.statement import Parameter

_NOTHING = "select null from dual where false"  # a null would make `not in` null, too
_NUMBERED = re.compile(r"'[^']*'|(?P<list>\bin )?\$(?P<number>\d+)")


class _Split(NamedTuple):
    """The text around its parameters; for each of them its position, and whether it is a list."""

    texts: tuple[str, ...]
    parameters: tuple[tuple[int, bool], ...]


@lru_cache(1024)
def _split(sql: str) -> _Split:
    texts, parameters, end = [], [], 0
    for match in _NUMBERED.finditer(sql):
        if match["number"] is None:  # a text in quotes
            continue
        texts.append(sql[end : match.start()].replace("%", "%%"))
        parameters.append((int(match["number"]) - 1, match["list"] is not None))
        end = match.end()
    return _Split((*texts, sql[end:].replace("%", "%%")), tuple(parameters))


def arranged(sql: str, parameters: tuple[Parameter, ...]) -> tuple[str, list[Parameter]]:
    """Return the SQL for the driver, and the values of its placeholders.

    >>> arranged("select $2 from t where id in $1 and x like 'a%'", ("[3,4]", "b"))
    ("select %s from t where id in (%s, %s) and x like 'a%%'", ['b', 3, 4])
    """
    split = _split(sql)
    parts, values = [split.texts[0]], cast("list[Parameter]", [])
    for (position, is_list), text in zip(split.parameters, split.texts[1:], strict=True):
        if is_list:
            members = msgspec.json.decode(cast("str", parameters[position]), type=list[int | str])
            values += members
            parts += ["in (", ", ".join(["%s"] * len(members)) or _NOTHING, ")"]
        else:
            values.append(parameters[position])
            parts.append("%s")
        parts.append(text)
    return "".join(parts), values
