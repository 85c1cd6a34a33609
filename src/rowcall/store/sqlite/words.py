"""What SQLite calls the things that the templates name. See `rowcall.store.rendering`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import msgspec

from rowcall.store import rendering
from rowcall.store.columns import job_columns
from rowcall.store.queries.claims import SEPARATOR
from rowcall.store.rendering import STATES, Words
from rowcall.store.schema import TABLES

# 'now' is stable within one statement; julianday is exact to 0.05 ms, so rounding returns the millisecond
CLOCK = "cast(round((julianday('now') - 2440587.5) * 86400000) as integer)"
LARGEST = 2**62  # far from where adding one would make a float of it
LARGEST_SUMMED = 2**53

# every object and value of the given one, at the same path
_PAYLOAD_HOLDS = """case when json_valid(job.payload) then not exists (
      select 1 from json_tree(${0}) as given where not coalesce(
        case when given.type = 'object' then json_type(job.payload, given.fullkey) = 'object'
             when given.type in ('integer', 'real') then json_extract(job.payload, given.fullkey) = given.atom
               and json_type(job.payload, given.fullkey) in ('integer', 'real')
             else json_type(job.payload, given.fullkey) = given.type
               and json_extract(job.payload, given.fullkey) is given.atom end, 0)) end"""


@cache
def words(prefix: str) -> Words:
    """Return the words for one table prefix."""
    return {
        **STATES,
        **{table: f"{prefix}{table}" for table in TABLES},
        "prefix": prefix,
        "clock": CLOCK,
        "now": f"coalesce($1, {CLOCK})",
        "job_columns": job_columns(time=str, json=str),
        "for_update": "",
        "next": next_of,
        **dict.fromkeys(("text", "int", "bigint", "real", "time", "json", "interval"), lambda number: f"${number}"),
        **dict.fromkeys(("ms", "ms_or_null", "ms_after", "span"), lambda time: time),
        "text_of": lambda column: column,
        "same": lambda values: " is ".join(values.split(", ")),
        "indexed": lambda index: f"indexed by <prefix>{index}",
        "skip_locked": "",
        "in_rows": "in (",
        "end_rows": ")",
        "after": _after,
        "as_written": "",
        "by_id": lambda column: f"+{column}",
        **dict.fromkeys(("in_ids", "in_texts"), lambda number: f"in (select value from json_each(${number}))"),
        "ids": lambda number: f"(select value as id from json_each(${number})) as given",
        "texts": lambda number: f"(select value as item from json_each(${number})) as given",
        "rows": lambda number: f"json_each(${number}) as item",
        "fields": _fields,
        "shown": lambda time: f"strftime('%Y-%m-%d %H:%M:%f', {time} / 1000.0, 'unixepoch') || ' UTC'",
        "rounded": lambda number: f"cast(round({number}) as integer)",
        "is_time": lambda column: f"typeof({column}) = 'integer'",
        "payload_holds": lambda number: _PAYLOAD_HOLDS.format(number),
        "covering": lambda columns: f", {columns}",
        "place_in": lambda values: f"instr({values})",
        "separator": f"char({ord(SEPARATOR)})",
        "least": lambda values: f"min({values})",
        "greatest": lambda values: f"max({values})",
    }


def _fields(kinds: str) -> str:
    return ", ".join(f"json_extract(item.value, '$[{number}]')" for number, _ in enumerate(kinds.split()))


def _after(places: str) -> str:
    given = ", ".join(f"${number}" for number, _ in enumerate(places.split(", "), 3))
    return f"queue = $1 and type = $2 and ({places}) > ({given})"


def render(template: str, prefix: str) -> str:
    """Return the SQL with its names filled in; `$1` becomes `?1`."""
    return re.sub(r"\$(\d+)", r"?\1", rendering.render(template, words(prefix)))


def next_of(column: str) -> str:
    """Return one more, except where plain SQL has put the highest number: such a job harms only itself."""
    return f"{column} + ({column} < {LARGEST})"


def given(fields: type[msgspec.Struct] | Sequence[str], parameter: str) -> str:
    """Return a table of the arrays in a JSON array or object, with a column for each field.

    The limit makes SQLite read each field once, and not wherever it is named: a settle takes a quarter less.
    """
    names = fields if isinstance(fields, Sequence) else fields.__struct_fields__
    columns = ", ".join(f"json_extract(value, '$[{index}]') as {name}" for index, name in enumerate(names))
    return f"(select {columns} from json_each({parameter}) as given limit -1) as given"
