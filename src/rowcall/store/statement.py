"""A statement is SQL with parameters; a plan is a generator that yields statements and receives their rows.

The runner of a plan owns the transaction. A plan never catches a database error: a conflict comes back as rows.

A query is a statement by name. To add one:

1. Define it in `store/queries/<topic>.py`: its name, the kinds of its parameters, and the function that makes a value
   of a row.

       RUNNING = Query("running", (Int,), running_from_row)

2. Write its text under the same name in `<topic>.py` of `store/sqlite`, `store/postgres` and `store/mysql`. Parameters
   are `$1`, `$2`, …; words in angle brackets come from `store/rendering.py` and from the `words.py` of the database. A
   text that needs nothing but words is written once instead, in the query: `Query("drop_setting", (Text,), text="…")`;
   a database where that is wrong or slow has its own text under the same name.

       running = "select <job_columns>, … from <job> where status = <running> … limit $1"

3. Ask it in a plan. The rows come as values.

       running = yield from dialect.ask(RUNNING, limit)

A query that needs the time has `Now` as its first parameter, which the catalogue fills in: plans do not pass it.

A database may need several statements for a query, for instance because it has no RETURNING. Then its text is a tuple
of texts. `ask` runs them in order, in the transaction of the plan. Each uses any of the parameters, and the rows of the
query are the rows of all of them.

    drop_worker = ("select … from <worker> where name = $1 for update", "delete from <worker> where name = $1")

One of these texts may be an `Otherwise`, which runs if those before it have returned no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from copy import copy
from enum import Enum, auto
from typing import Generic, NamedTuple, TypedDict, TypeVar, Unpack, cast, overload

import msgspec

R = TypeVar("R", covariant=True)
T = TypeVar("T")

Row = tuple[object, ...]
Parameter = str | int | float | None
Encoder = Callable[[object], Parameter]
ReadTime = Callable[[], int | None]
"""Returns the time in milliseconds, or None for the database's own clock."""


class Statement(msgspec.Struct, Generic[R], frozen=True, eq=False):
    """`notifies` returns whether idle workers must be notified after the commit, given the rows that came.

    `is_long`: whether it takes most of the time of its plan.
    """

    sql: str
    parameters: tuple[Parameter, ...]
    make: Callable[[Row], R]
    notifies: Callable[[list[Row]], bool] | None = None
    is_long: bool = False

    def __repr__(self) -> str:
        return f"Statement({' '.join(self.sql.split())!r}, {self.parameters!r})"


Plan = Generator[Statement[object], list[Row], T]


def fetch(statement: Statement[R]) -> Generator[Statement[R], list[Row], list[R]]:
    """Return the rows of a statement, each made into a value."""
    rows = yield statement
    make = statement.make
    return [make(row) for row in rows]


def first(statement: Statement[R]) -> Generator[Statement[R], list[Row], R | None]:
    """Return the first row of a statement, or None."""
    rows = yield statement
    return statement.make(rows[0]) if rows else None


def execute(statement: Statement[R]) -> Generator[Statement[R], list[Row], None]:
    """Run a statement, and ignore its rows."""
    yield statement


def before_long(plan: Plan[T], action: Callable[[], None]) -> Plan[T]:
    """Run a plan, and call `action` just before the first statement that takes long."""
    rows: list[Row] | None = None
    is_done = False
    while True:
        try:
            statement = next(plan) if rows is None else plan.send(rows)
        except StopIteration as stop:
            return cast("T", stop.value)
        if statement.is_long and not is_done:
            is_done = True
            action()
        rows = yield statement


def as_is(row: Row) -> Row:
    return row


def plain(sql: str, *parameters: Parameter) -> Statement[Row]:
    """Return a statement whose rows stay as they are."""
    return Statement(sql, parameters, as_is)


def always_notify(rows: list[Row]) -> bool:
    """Notify idle workers for any rows: a value for `notifies`."""
    return True


def row_as(kind: Callable[..., T]) -> Callable[[Row], T]:
    """Return the maker of a value whose fields are the columns, in their order."""
    return lambda row: kind(*row)


def number_from_row(row: Row) -> int:
    return int(cast("int", row[0]))  # a sum comes as Decimal from PostgreSQL


def text_from_row(row: Row) -> str:
    return cast("str", row[0])


def json_from_row(kind: type[T]) -> Callable[[Row], T]:
    """Return the maker of a value of one type from the JSON text that is the only column."""
    decode = msgspec.json.Decoder(kind).decode
    return lambda row: decode(cast("str", row[0]))


class ParameterKind(Enum):
    """What a parameter is. Lists become one text that every driver can send; the rest is sent as it is."""

    NOW = auto()  # the first one, filled in by the catalogue: milliseconds, or None for the database's own clock
    MS = auto()
    TEXT = auto()
    INT = auto()
    FLOAT = auto()
    IDS = auto()  # a sequence of integers
    JSON = auto()  # whatever msgspec can encode


Now, Ms, Text, Int, Float, Ids, Json = ParameterKind


class QueryOptions(TypedDict, total=False):
    text: str | None
    only: tuple[str, ...]
    notifies: Callable[[list[Row]], bool] | None
    is_long: bool


class Query(Generic[R]):
    """A statement by name. Its text is in the catalogue of each database, or in `text` where one serves them all.

    `only` names the databases that need it. On another one, `ask` runs nothing and returns no rows. `notifies`,
    `is_long`: see `Statement`.
    """

    __slots__ = ("is_long", "kinds", "make", "name", "notifies", "only", "text")

    @overload
    def __init__(
        self: Query[Row], name: str, kinds: tuple[ParameterKind, ...] = ..., **options: Unpack[QueryOptions]
    ) -> None: ...
    @overload
    def __init__(
        self, name: str, kinds: tuple[ParameterKind, ...], make: Callable[[Row], R], **options: Unpack[QueryOptions]
    ) -> None: ...
    def __init__(
        self,
        name: str,
        kinds: tuple[ParameterKind, ...] = (),
        make: Callable[[Row], object] = as_is,
        **options: Unpack[QueryOptions],
    ) -> None:
        self.name = name
        self.kinds = kinds
        self.make = cast("Callable[[Row], R]", make)
        self.text = options.get("text")
        self.only = options.get("only", ())
        self.notifies = options.get("notifies")
        self.is_long = options.get("is_long", False)

    def __repr__(self) -> str:
        return f"Query({self.name!r})"


class Packed(Query[R]):
    """A query with many rows of one struct. On SQLite its text returns them as one JSON array of arrays.

    sqlite3 releases the interpreter's lock at each row, and while a handler thread is busy needs up to 5 ms to have it
    back.
    """

    __slots__ = ("struct",)

    def __init__(
        self, name: str, kinds: tuple[ParameterKind, ...], struct: type[R], **options: Unpack[QueryOptions]
    ) -> None:
        super().__init__(name, kinds, row_as(struct), **options)
        self.struct = struct


class Change(Query[int]):
    """A plain INSERT, UPDATE or DELETE whose number of changed rows matters: `yield from dialect.change(PRUNE, …)`.

    Its text returns no rows; each dialect learns the number in its own way.
    """

    __slots__ = ()

    def __init__(self, name: str, kinds: tuple[ParameterKind, ...] = (), **options: Unpack[QueryOptions]) -> None:
        super().__init__(name, kinds, number_from_row, **options)


def database_time() -> None:
    """Leave the time to the database's own clock."""


def as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


class Otherwise(str):
    """A text that runs if those before it have returned no rows."""

    __slots__ = ()


class QueryPart(NamedTuple):
    """One of several statements of a query: its text, and the positions of its parameters."""

    sql: str
    positions: tuple[int, ...]
    is_otherwise: bool = False


class CatalogueEntry(NamedTuple):
    sql: str
    encoders: tuple[tuple[int, Encoder], ...]
    decode: Callable[[object], list[object]] | None
    has_now: bool
    parts: tuple[QueryPart, ...]
    make: Callable[[Row], object]


class Catalogue:
    """The queries of one database with their texts. `store/catalogue.py` loads it."""

    def __init__(self, entries: Mapping[Query[object], CatalogueEntry]) -> None:
        self.now_ms: ReadTime = database_time
        self._entries = entries

    def timed(self, now_ms: ReadTime) -> Catalogue:
        """Return this catalogue with another source of the time."""
        catalogue = copy(self)
        catalogue.now_ms = now_ms
        return catalogue

    def statement(self, query: Query[R], *values: object) -> Statement[R]:
        """Return the query with the time and its values, ready to run."""
        sql, encoders, _, has_now, _, make = self._entries[query]
        if has_now:
            values = (self.now_ms(), *values)
        if len(values) != len(query.kinds):
            raise TypeError(f"{query} has {len(query.kinds) - has_now} parameters, got {len(values) - has_now}")
        if encoders:
            encoded = list(values)
            for index, encode in encoders:
                if encoded[index] is not None:
                    encoded[index] = encode(encoded[index])
            values = tuple(encoded)
        return Statement(sql, values, make, query.notifies, query.is_long)  # type: ignore[arg-type]

    def ask(self, query: Query[R], *values: object) -> Plan[list[R]]:
        """Run the query and return its rows as values; nothing where this database does not need it."""
        entry = self._entries.get(query)
        if entry is None:
            return []
        statement = self.statement(query, *values)
        if entry.parts:
            rows: list[Row] = []
            for part in entry.parts:
                if part.is_otherwise and rows:
                    continue
                parameters = tuple(statement.parameters[position] for position in part.positions)
                rows += yield msgspec.structs.replace(statement, sql=part.sql, parameters=parameters)
        else:
            rows = yield statement
        if entry.decode is not None:
            return entry.decode(rows[0][0])  # type: ignore[return-value]
        if entry.make is as_is:
            return rows  # type: ignore[return-value]
        make = self.maker(query)
        return [make(row) for row in rows]

    def maker(self, query: Query[R]) -> Callable[[Row], R]:
        """Return what makes a value of a row of this database."""
        return self._entries[query].make  # type: ignore[return-value]

    def texts(self) -> dict[str, str]:
        """Return every text by the name of its query."""
        return {query.name: entry.sql for query, entry in self._entries.items()}
