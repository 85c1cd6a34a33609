"""The catalogue of one database: the SQL of every query, rendered once for a table prefix and checked when loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import NamedTuple, TypeVar, cast

import msgspec

from rowcall.store.queries import (
    blobs,
    control,
    counts,
    flows,
    jobs,
    limits,
    notes,
    order,
    results,
    schedules,
    steps,
    workers,
)
from rowcall.store.statement import Change, Packed, Parameter, ParameterKind, Plan, Query, Statement

R = TypeVar("R")
Encoder = Callable[[object], Parameter]

TOPICS: Mapping[str, ModuleType] = {
    module.__name__.rpartition(".")[2]: module
    for module in (blobs, control, counts, flows, jobs, limits, notes, order, results, schedules, steps, workers)
}


def as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


class CatalogueError(Exception):
    """The texts of a database and the queries of the topics do not match."""


class _Entry(NamedTuple):
    sql: str
    encoders: tuple[tuple[int, Encoder], ...]
    decode: Callable[[object], list[object]] | None


def _decoder(struct: type[R]) -> Callable[[object], list[R]]:
    return cast("Callable[[object], list[R]]", msgspec.json.Decoder(list[struct]).decode)  # type: ignore[valid-type]


class Catalogue:
    """`encode_ids` makes one text of a list of ids, in the form that the texts of this database expect.

    `count_changes` is put around the text of each `Change`, to have it return the number of changed rows. Where
    `packed`, the texts of `Packed` queries return one JSON array.
    """

    def __init__(
        self,
        database: str,
        modules: Sequence[ModuleType],
        render: Callable[[str], str],
        encode_ids: Callable[[Sequence[int]], str] = as_json,
        count_changes: str = "{}",
        *,
        packed: bool = False,
    ) -> None:
        faults = list(faults_of(database, modules))
        if faults:
            raise CatalogueError(f"the catalogue of {database} does not fit: {'; '.join(faults)}")
        encoders: dict[ParameterKind, Encoder] = {
            ParameterKind.IDS: cast("Encoder", encode_ids),
            ParameterKind.JSON: as_json,
        }
        texts = texts_of(modules)
        self._entries: dict[Query[object], _Entry] = {}
        for topic, query in queries_for(database):
            sql = render(texts[topic, query.name] if query.text is None else query.text)
            if isinstance(query, Change):
                sql = count_changes.format(sql)
            bare = re.sub(r'"[^"]*"', "", sql)  # a schema may be called "tenant$1"
            used = max((int(number) for number in re.findall(r"[$?](\d+)", bare)), default=0)
            if used != len(query.kinds):
                raise CatalogueError(
                    f"{topic}.{query.name} of {database} uses parameters up to {used},"
                    f" but its query has {len(query.kinds)}"
                )
            self._entries[query] = _Entry(
                sql,
                tuple((index, encoders[kind]) for index, kind in enumerate(query.kinds) if kind in encoders),
                _decoder(query.struct) if packed and isinstance(query, Packed) else None,
            )

    def statement(self, query: Query[R], *values: object) -> Statement[R]:
        """Return the query with its values, ready to run."""
        sql, encoders, _ = self._entries[query]
        if len(values) != len(query.kinds):
            raise TypeError(f"{query} has {len(query.kinds)} parameters, got {len(values)}")
        if encoders:
            encoded = list(values)
            for index, encode in encoders:
                if encoded[index] is not None:
                    encoded[index] = encode(encoded[index])
            values = tuple(encoded)
        return Statement(sql, values, query.make, query.notifies, query.is_long)  # type: ignore[arg-type]

    def ask(self, query: Query[R], *values: object) -> Plan[list[R]]:
        """Run the query and return its rows as values; nothing where this database does not need it."""
        entry = self._entries.get(query)
        if entry is None:
            return []
        rows = yield self.statement(query, *values)
        if entry.decode is not None:
            return entry.decode(rows[0][0])  # type: ignore[return-value]
        make = query.make
        return [make(row) for row in rows]

    def texts(self) -> dict[str, str]:
        """Return every text by the name of its query."""
        return {query.name: entry.sql for query, entry in self._entries.items()}


def queries_for(database: str) -> Iterator[tuple[str, Query[object]]]:
    """Yield the topic and the query for each query that a database needs."""
    for topic, module in TOPICS.items():
        for value in vars(module).values():
            for query in value if isinstance(value, tuple) else (value,):
                if isinstance(query, Query) and (not query.only or database in query.only):
                    yield topic, query


def texts_of(modules: Sequence[ModuleType]) -> dict[tuple[str, str], str]:
    """Return the texts by topic and name: all names in lower case that do not begin with an underscore."""
    return {
        (module.__name__.rpartition(".")[2], name): text
        for module in modules
        for name, text in vars(module).items()
        if isinstance(text, str) and name.islower() and not name.startswith("_")
    }


def faults_of(database: str, modules: Sequence[ModuleType]) -> Iterator[str]:
    """Yield what is missing in the texts of a database, and what no query names."""
    needed = {(topic, query.name) for topic, query in queries_for(database) if query.text is None}
    found = texts_of(modules).keys()
    for topic, name in sorted(needed - found):
        yield f"{topic}.{name} is missing"
    for topic, name in sorted(found - needed):
        yield f"{topic}.{name} is unknown"
