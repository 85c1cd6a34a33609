"""What PostgreSQL calls the things that the templates name. See `rowcall.store.rendering`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace

import msgspec

from rowcall.store import rendering
from rowcall.store.columns import job_columns
from rowcall.store.queries.claims import SEPARATOR
from rowcall.store.rendering import STATES, Words
from rowcall.store.schema import TABLES

# never now(): in a long transaction that is when it began
CLOCK = "date_trunc('milliseconds', clock_timestamp())"
MOST_COUNT, MOST_LEASE, MOST_SUMMED = 2**30 - 1, 2**62 - 1, 2**53  # far from where adding to them fails
ENDED_LEASE = f"least(job.lease, {MOST_LEASE - 2}) + 2"
"""Two more: then the statement writes the ready row, and no trigger does."""
HIGHEST_ID = 2**63 - 1

NAMES = (*TABLES, "blob")


@cache
def words(prefix: str, schema: str = "") -> Words:
    """Return the words for one table prefix; `schema` is of use in functions, where every name says where it is."""
    return {
        **STATES,
        **{table: f"{prefix}{table}" for table in NAMES},
        "prefix": prefix,
        "schema": schema,
        "channel": channel_of(prefix),
        "channel_of_ends": channel_of_ends(prefix),
        "clock": CLOCK,
        "now": f"coalesce({time_of('$1')}, {CLOCK})",
        "job_columns": job_columns(time=milliseconds_or_null, json="{}::text".format),
        "named": lambda table: f"""'{prefix.replace("'", "''")}{table}'""",
        "for_update": "for update",
        "next": lambda column: f"least({column}, {MOST_LEASE - 1}) + 1",
        "text": lambda number: f"${number}::text",
        "int": lambda number: f"${number}::int",
        "bigint": lambda number: f"${number}::bigint",
        "real": lambda number: f"${number}::float8",
        "time": lambda number: time_of(f"${number}"),
        "json": lambda number: f"${number}::text::jsonb",
        "ms": milliseconds_of,
        "ms_or_null": milliseconds_or_null,
        "ms_after": milliseconds_after,
        "span": lambda column: f"{column} * interval '1 millisecond'",
        "text_of": lambda column: f"{column}::text",
        "same": lambda values: " is not distinct from ".join(values.split(", ")),
        "indexed": lambda index: "",
        "skip_locked": "skip locked",
        "in_rows": "= any (array(",
        "end_rows": "))",
        "after": _after,
        "as_written": "offset 0",
        "by_id": lambda column: f"({column} || '')",
        "interval": lambda number: f"${number}::bigint * interval '1 millisecond'",
        "ids": lambda number: f"unnest(${number}::text::bigint[]) as given (id)",
        "texts": lambda number: f"jsonb_array_elements_text(${number}::text::jsonb) as given (item)",
        "in_texts": lambda number: f"= any (array(select jsonb_array_elements_text(${number}::text::jsonb)))",
        "in_ids": lambda number: f"= any (${number}::text::bigint[])",
        "rows": lambda number: f"jsonb_array_elements(${number}::text::jsonb) as item",
        "fields": _fields,
        "shown": lambda time: f"to_char({time} at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS') || ' UTC'",
        "rounded": lambda number: f"round({number})",
        "is_time": lambda column: f"isfinite({column})",
        "payload_holds": lambda number: f"job.payload @> ${number}::text::jsonb",
        "covering": lambda columns: f") include ({columns}",
        "place_in": lambda values: f"pg_catalog.strpos({values})",
        "separator": f"pg_catalog.chr({ord(SEPARATOR)})",
        "least": lambda values: f"least({values})",
        "greatest": lambda values: f"greatest({values})",
    }


def _fields(kinds: str) -> str:
    return ", ".join(_field(number, kind) for number, kind in enumerate(kinds.split()))


def _after(places: str) -> str:
    # a queue that is a constant to the planner would let it choose another index, which has the order of the places
    given = ", ".join(f"${number}::bigint" for number, _ in enumerate(places.split(", "), 3))
    return f"(queue, type, {places}) > ($1::text, $2::text, {given}) and (queue, type) <= ($1::text, $2::text)"


def _field(number: int, kind: str) -> str:
    if kind == "time":
        return f"to_timestamp((item ->> {number})::bigint / 1000::float8)"
    return f"(item ->> {number})" if kind == "json" else f"(item ->> {number})::{kind}"


def render(template: str, prefix: str, schema: str = "") -> str:
    """Return the SQL with its names filled in."""
    return rendering.render(template, words(prefix, schema))


def channel_of(prefix: str) -> str:
    """Return the channel on which idle workers are notified of jobs, the same for every connection."""
    return f"{prefix.rpartition('.')[2]}job".lower()


def channel_of_ends(prefix: str) -> str:
    """Return the channel on which waiters are notified of ended jobs, the same for every connection."""
    return f"{prefix.rpartition('.')[2]}ended".lower()


def array(numbers: Sequence[int]) -> str:
    """Return numbers as PostgreSQL writes an array of them: text that any driver can send.

    >>> array([1, 2, 3])
    '{1,2,3}'
    """
    return "{" + ",".join(map(str, numbers)) + "}"


def time_of(milliseconds: str) -> str:
    return f"to_timestamp({milliseconds}::bigint / 1000::float8)"  # numeric takes ten times as long


def milliseconds_of(time: str) -> str:
    # a float8 of seconds is off by less than the half microsecond that is added
    return f"floor(date_part('epoch', {time}) * 1000 + 0.0005)::bigint"


def milliseconds_or_null(time: str) -> str:
    """`milliseconds_of`, for columns in which plain SQL may have put infinity."""
    return f"case when isfinite({time}) then {milliseconds_of(time)} end"


def milliseconds_after(time: str) -> str:
    """Return the first whole millisecond that is not before it."""
    return f"ceil(date_part('epoch', {time}) * 1000 - 0.0005)::bigint"


def field_of(row: str, index: int) -> str:
    """Return a field, as text, of the array that the document in `given` has under the id of the row."""
    return f"(select document from given) -> {row}::text ->> {index}"


def fields(struct: type[msgspec.Struct], row: str = "job.id") -> SimpleNamespace:
    """Return `field_of` for each field of a struct, by its name; JSON is text."""
    kinds = {name: "bigint" if "int" in str(kind) else "text" for name, kind in struct.__annotations__.items()}
    indexes = enumerate(struct.__struct_fields__)
    return SimpleNamespace(**{name: f"({field_of(row, index)})::{kinds[name]}" for index, name in indexes})
