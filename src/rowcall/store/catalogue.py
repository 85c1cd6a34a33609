"""Loads the catalogue of one database: the SQL of every query, rendered once for a table prefix, and checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TypeVar, cast, get_type_hints

import msgspec

from rowcall.store.queries import (
    alerts,
    attention,
    batches,
    blobs,
    claims,
    control,
    counts,
    ends,
    flows,
    jobs,
    limits,
    notes,
    order,
    results,
    schedules,
    steps,
    streams,
    workers,
)
from rowcall.store.statement import (
    Catalogue,
    CatalogueEntry,
    Change,
    Encoder,
    Otherwise,
    Packed,
    ParameterKind,
    Query,
    QueryPart,
    Row,
    as_json,
    row_as,
)

R = TypeVar("R")

TOPICS: Mapping[str, ModuleType] = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        *(alerts, attention, batches, blobs, claims, control, counts, ends, flows, jobs, limits),
        *(notes, order, results, schedules, steps, streams, workers),
    )
}


class CatalogueError(Exception):
    """The texts of a database and the queries of the topics do not match."""


def _decoder(struct: type[R]) -> Callable[[object], list[R]]:
    return cast("Callable[[object], list[R]]", msgspec.json.Decoder(list[struct]).decode)  # type: ignore[valid-type]


def load_catalogue(
    database: str,
    modules: Sequence[ModuleType],
    render: Callable[[str], str],
    encode_ids: Callable[[Sequence[int]], str] = as_json,
    count_changes: str = "{}",
    *,
    packed: bool = False,
    adapted: Callable[[str], str | tuple[str, ...]] = str,
    in_parts: bool = False,
    has_booleans: bool = True,
) -> Catalogue:
    """Return the catalogue of a database, or raise `CatalogueError`.

    `encode_ids` makes one text of a list of ids, in the form that the texts of this database expect. `count_changes` is
    put around the text of each `Change`, to have it return the number of changed rows. Where `packed`, the texts of
    `Packed` queries return one JSON array. `adapted` makes one text or several of a text that all databases share; a
    text of the database's own replaces such a text. Where `in_parts`, a `Change` or a `Packed` query may be several
    texts, too. `has_booleans`: whether a condition is read as a bool; where a row is packed as JSON, it always is.
    """
    faults = list(faults_of(database, modules))
    if faults:
        raise CatalogueError(f"the catalogue of {database} does not fit: {'; '.join(faults)}")
    encoders: dict[ParameterKind, Encoder] = {
        ParameterKind.IDS: cast("Encoder", encode_ids),
        ParameterKind.JSON: as_json,
    }
    texts = texts_of(modules)
    entries: dict[Query[object], CatalogueEntry] = {}
    for topic, query in queries_for(database):
        own = texts.get((topic, query.name))
        text = adapted(query.text or "") if own is None else own
        several = () if isinstance(text, str) else tuple(render(part) for part in text)
        sql = render(text) if isinstance(text, str) else ";\n".join(several)
        if several and isinstance(query, Change | Packed) and not in_parts:
            raise CatalogueError(f"{topic}.{query.name} of {database} must be one text, got {len(several)}")
        if isinstance(query, Change):
            sql = count_changes.format(sql)
        bare = re.sub(r'"[^"]*"', "", sql)  # a schema may be called "tenant$1"
        used = max((int(number) for number in re.findall(r"[$?](\d+)", bare)), default=0)
        if used != len(query.kinds):
            raise CatalogueError(
                f"{topic}.{query.name} of {database} uses parameters up to {used}, but its query has {len(query.kinds)}"
            )
        if ParameterKind.NOW in query.kinds[1:]:
            raise CatalogueError(f"{topic}.{query.name}: Now must be the first parameter")
        entries[query] = CatalogueEntry(
            sql,
            tuple((index, encoders[kind]) for index, kind in enumerate(query.kinds) if kind in encoders),
            _decoder(query.struct) if packed and isinstance(query, Packed) else None,
            ParameterKind.NOW in query.kinds,
            tuple(_renumbered(part, given) for part, given in zip(several, text, strict=False)),
            _with_flags(query.struct) if isinstance(query, Packed) and not has_booleans else query.make,
        )
    return Catalogue(entries)


def _with_flags(struct: type[R]) -> Callable[[Row], object]:
    """Return the maker of a value from a row in which a bool is a number."""
    flags = [number for number, kind in enumerate(get_type_hints(struct).values()) if kind is bool]

    def make(row: Row) -> object:
        values = list(row)
        for number in flags:
            values[number] = bool(values[number])
        return struct(*values)

    return make if flags else row_as(struct)


def _renumbered(sql: str, text: str) -> QueryPart:
    """Return a part whose parameters are numbered from 1 without gaps, with their positions among the given ones.

    Drivers refuse parameters that a statement does not use.
    """
    positions: list[int] = []

    def number(match: re.Match[str]) -> str:
        if match[1] is None:  # a quoted name
            return match[0]
        position = int(match[2]) - 1
        if position not in positions:
            positions.append(position)
        return f"{match[1]}{positions.index(position) + 1}"

    return QueryPart(re.sub(r'"[^"]*"|([$?])(\d+)', number, sql), tuple(positions), isinstance(text, Otherwise))


def queries_for(database: str) -> Iterator[tuple[str, Query[object]]]:
    """Yield the topic and the query for each query that a database needs."""
    for topic, module in TOPICS.items():
        for value in vars(module).values():
            for query in value if isinstance(value, tuple) else (value,):
                if isinstance(query, Query) and (not query.only or database in query.only):
                    yield topic, query


def texts_of(modules: Sequence[ModuleType]) -> dict[tuple[str, str], str | tuple[str, ...]]:
    """Return the texts by topic and name: all names in lower case that do not begin with an underscore."""
    return {
        (module.__name__.rpartition(".")[2], name): text
        for module in modules
        for name, text in vars(module).items()
        if isinstance(text, str | tuple) and name.islower() and not name.startswith("_")
    }


def faults_of(database: str, modules: Sequence[ModuleType]) -> Iterator[str]:
    """Yield what is missing in the texts of a database, and what no query names."""
    known = {(topic, query.name): query.text for topic, query in queries_for(database)}
    texts = texts_of(modules).keys()
    for topic, name in sorted(known.keys() - texts):
        if known[topic, name] is None:
            yield f"{topic}.{name} is missing"
    for topic, name in sorted(texts - known.keys()):
        yield f"{topic}.{name} is unknown"
