"""What MariaDB and MySQL call the things that the templates name, and how they say what others say in one statement.

See `rowcall.store.rendering`. The texts that all databases share are rewritten here, by `adapted`:

| elsewhere | here |
| --- | --- |
| `update … returning`, `delete … returning` | a locking read, then the change: MySQL has no RETURNING |
| `update … from` | an update of a join |
| `where id <in_rows> … <end_rows>` of a change | a join: such a subquery would be run for each row of the table |
| `on conflict … do update` | `on duplicate key update` |
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import msgspec

from rowcall.store import rendering
from rowcall.store.columns import job_columns
from rowcall.store.queries.claims import SEPARATOR
from rowcall.store.rendering import STATES, Words
from rowcall.store.schema import TABLES
from rowcall.store.statement import Otherwise

CLOCK = "utc_timestamp(3)"
EPOCH = "timestamp'1970-01-01 00:00:00'"
HIGHEST_ID = 2**63 - 1
MOST_COUNT, MOST_LEASE, MOST_SUMMED = 2**30 - 1, 2**62 - 1, 2**53
NAMES = (*TABLES, "blob", "mutex")
MOST_SLOTS = 1000
"""How many locks the names of limits and keys share: each is the lock of a row of a small table. A recursive query
makes as many rows, without a setting.
"""

COLLATION = "/*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */"
"""Names are compared byte by byte, and spaces at their ends count. Each server calls that in its own way."""
OF_JSON = "/*!80017 collate utf8mb4_0900_bin */"
"""After what a function of JSON returns: MySQL would not compare it with such texts."""
TEXT = f"longtext collate {COLLATION}"

_TYPES = {
    **dict.fromkeys(("text", "jsonb"), TEXT),
    **dict.fromkeys(("int", "bigint"), "bigint"),
    "float8": "double",
    "time": "bigint",
    "json": "json",  # else an object would be null
}


@cache
def words(prefix: str) -> Words:
    """Return the words for one table prefix."""
    return {
        **STATES,
        **{table: f"{prefix}{table}" for table in NAMES},
        "prefix": prefix,
        "clock": CLOCK,
        "now": f"coalesce({time_of('$1')}, {CLOCK})",
        "job_columns": job_columns(time=milliseconds_of, json=str),
        "for_update": "for update",
        "skip_locked": "skip locked",
        "next": lambda column: f"least({column}, {MOST_LEASE - 1}) + 1",
        **dict.fromkeys(("text", "int", "bigint", "real", "json"), lambda number: f"${number}"),
        "time": lambda number: time_of(f"${number}"),
        **dict.fromkeys(("ms", "ms_or_null", "ms_after"), milliseconds_of),
        "span": lambda column: f"interval {column} * 1000 microsecond",
        "interval": lambda number: f"interval ${number} * 1000 microsecond",
        "text_of": lambda column: column,
        "same": lambda values: " <=> ".join(values.split(", ", 1)),
        "indexed": lambda index: f"force index (<prefix>{index})",
        "nested": "/*M! json_compact( */ /*!80000 cast( */",
        "end_nested": "/*M! ) */ /*!80000 as json) */",
        "in_rows": "in (select * from (",
        "end_rows": ") as chosen)",
        "after": _after,
        "as_written": "",
        "by_id": lambda column: column,
        **dict.fromkeys(("in_ids", "in_texts"), lambda number: f"in ${number}"),
        "ids": lambda number: f"json_table(${number}, '$[*]' columns (id bigint path '$')) as given",
        "texts": lambda number: f"json_table(${number}, '$[*]' columns (item {TEXT} path '$')) as given",
        "shown": lambda time: f"concat({time}, ' UTC')",  # a view would give a cast the wrong collation
        "rounded": lambda number: f"cast(round({number}) as signed)",
        "is_time": lambda column: f"{column} is not null",
        "payload_holds": lambda number: f"json_contains(job.payload, ${number})",
        "covering": lambda columns: f", {columns}",
        "place_in": lambda values: f"instr({values})",
        "separator": f"char({ord(SEPARATOR)} using utf8mb4)",
        "least": lambda values: f"least({values})",
        "greatest": lambda values: f"greatest({values})",
    }


def time_of(milliseconds: str) -> str:
    return f"({EPOCH} + interval {milliseconds} * 1000 microsecond)"


def milliseconds_of(time: str) -> str:
    return f"(timestampdiff(microsecond, {EPOCH}, {time}) div 1000)"


def given(fields: type[msgspec.Struct] | str, number: int, path: str = "$[*]") -> str:
    """Return a table `given` of the arrays in a JSON array, or with `$.*` in an object: a column for each field.

    >>> given("id bigint", 2)
    "json_table($2, '$[*]' columns (`id` bigint path '$[0]')) as given"
    """
    if isinstance(fields, str):
        names = [(name, _TYPES[kind]) for name, kind in (field.split() for field in fields.split(", "))]
    else:
        names = [(name, _type_of(str(kind))) for name, kind in fields.__annotations__.items()]
    columns = ", ".join(f"`{name}` {kind} path '$[{place}]'" for place, (name, kind) in enumerate(names))
    return f"json_table(${number}, '{path}' columns ({columns})) as given"


def _type_of(annotation: str) -> str:
    return "bigint" if "int" in annotation else "double" if "float" in annotation else TEXT


def _after(places: str) -> str:
    names = places.split(", ")
    given = ", ".join(f"${number}" for number, _ in enumerate(names, 3))
    return f"queue = $1 and type = $2 and ({', '.join(map('`{}`'.format, names))}) > ({given})"


_FIELDS_OF_ROWS = re.compile(r"<fields:([^>]*)>(.*?)<rows:(\d+)>", re.DOTALL)


def _with_fields(match: re.Match[str]) -> str:
    """Return the columns of a JSON array of arrays, and the table that has them."""
    kinds, between, number = match.groups()
    columns, fields = [], []
    for position, kind in enumerate(kinds.split()):
        columns.append(f"field{position} {_TYPES[kind]} path '$[{position}]'")
        made = {"time": time_of, "json": "json_unquote({})".format}.get(kind, str)  # a text, if it is one
        fields.append(made(f"field{position}"))
    table = f"json_table(${number}, '$[*]' columns ({', '.join(columns)})) as item"
    return f"{', '.join(fields)}{between}{table}"


def _without_alias(match: re.Match[str]) -> str:
    """Return an INSERT whose table has no other name."""
    text = re.sub(rf"\b{match['alias']}\.", f"{match['table']}.", match["text"])
    return f"insert into {match['table']}{text}"


_ROWS = r"where (?:\w+\.)?(\w+) <in_rows>(.*)<end_rows>\s*$"
_OTHER = r"(<\w+> as \w+|\(select <now> as now\) as moment)"
_REWRITTEN: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (_FIELDS_OF_ROWS, _with_fields),
    (re.compile(r"^(\s*insert .*)(\breturning .*)$", re.DOTALL), r"\1/*M! \2 */"),
    (
        re.compile(rf"^\s*update (<\w+>) (?:as \w+ )?set (.*?) {_ROWS}", re.DOTALL),
        r"update \1 as job join (\4) as chosen on chosen.\3 = job.\3 set \2",
    ),
    (
        re.compile(rf"^\s*delete from (<\w+>) {_ROWS}", re.DOTALL),
        r"delete whole from \1 as whole join (\3) as chosen on chosen.\2 = whole.\2",
    ),
    (
        re.compile(rf"^\s*update (<\w+>) as (\w+) set ((?:(?!\bwhere\b).)*?)\s+from {_OTHER}\s+where (.*)$", re.DOTALL),
        r"update \1 as \2 join \4 set \3 where \5",
    ),
    (  # a change does not read its table in a subquery, but in a table of one
        re.compile(r"^(\s*delete from (<\w+>) where [^(]*)\((\s*select [\w()]+ from \2[^()]*)\)"),
        r"\1(select * from (\3) as newest)",
    ),
    (re.compile(r"\bon conflict \([^)]*\) do update\s+set"), "on duplicate key update"),
    (re.compile(r"\bon conflict \((\w+)[^)]*\) do nothing"), r"on duplicate key update \1 = values(\1)"),
    (re.compile(r"^\s*insert into (?P<table><\w+>) as (?P<alias>\w+)(?P<text>.*)$", re.DOTALL), _without_alias),
    (re.compile(r"^\s*delete from (<\w+>) as (\w+) where"), r"delete \2 from \1 as \2 where"),
    (re.compile(r"^release (\w+)$"), r"release savepoint \1"),
    (re.compile(r"\bexcluded\.(\w+)"), r"values(\1)"),
    (re.compile(r" / "), " div "),
    (re.compile(r"~([\w.]+)"), r"(-1 - \1)"),  # theirs has no sign
    (re.compile(r"\bcast\(null as text\)"), "null"),
    (re.compile(r"\bas (?:text|char)\)"), "as char)"),
    (re.compile(r"\bas (?:bigint|integer)\)"), "as signed)"),
    (
        re.compile(
            r"(?<!primary )(?<!foreign )(?<!duplicate )(?<!unique )(?<![\w'`<:])"
            r"(key|rank|signal(?! sqlstate)|change|lines)(?![\w'`:>])"
        ),
        r"`\1`",
    ),
]
_RETURNING = re.compile(
    r"^\s*(?:(?P<update>update (?P<updated><\w+>(?: as \w+)?(?: join .*?)?) set .*?)"
    r"|(?P<delete>delete from (?P<deleted><\w+>)))"
    r"\s+where (?P<condition>.*?)\s+returning (?P<columns>.*)$",
    re.DOTALL,
)


_CHOSEN = re.compile(r"\s*select (?P<columns>[\w., `]+?)\s+from ")
# a change of the rows that a subquery locks, without rows that others have locked
_SKIPPING = re.compile(
    r"^\s*(?P<verb>update|delete) .*?(?P<table><\w+>) as (?P<alias>\w+)\s+join \("
    r"(?P<rows>\s*select .*skip[ _]locked>?)\s*\)\s*as (?P<chosen>\w+)\s+on (?P<on>.*?)(?P<set>\s+set .*)?$",
    re.DOTALL,
)


def noted(rows: str, alias: str = "chosen") -> tuple[str, str]:
    """Return the text that locks rows and notes their keys in the session, and a table of these for the next texts.

    In a change, the servers would wait for all rows that a subquery names. And a text that chooses the rows once more
    may choose others, which were committed since then.
    """
    match = _CHOSEN.match(rows)
    assert match is not None, rows
    columns = [column.strip().rpartition(".")[2] for column in match["columns"].split(",")]
    kinds = ", ".join(
        f"{column.strip('`')} {'text' if column in ('name', 'limit_key') else 'bigint'}" for column in columns
    )
    table = given(kinds, 0).replace("$0", "@rowcall_rows").removesuffix("given") + alias
    return f"select json_arrayagg(json_array({', '.join(columns)})) from ({rows}) as {alias} into @rowcall_rows", table


def in_two(change: str) -> tuple[str, str]:
    """Return a change of the rows that a subquery locks as two texts: what locks them, and what changes them."""
    match = _SKIPPING.match(change)
    assert match is not None, change
    note, table = noted(match["rows"], match["chosen"])
    joined = f"{table} straight_join {match['table']} as {match['alias']} on {match['on']}"
    return note, f"update {joined}{match['set']}" if match["set"] else f"delete {match['alias']} from {joined}"


# what the trigger notes of the statement that inserted jobs, as a table of the first and the last ids
_RUNS = """json_table(concat(@rowcall_runs, @rowcall_last, ']]'), '$[*]' columns (
      low bigint path '$[0]', high bigint path '$[1]')) as run"""
# where each statement commits, a job may be gone when it is read
_GONE = {"id": "run.low", "status": "<pending>", **dict.fromkeys(("<ms:run_at>", "<ms:created_at>"), "<ms:<clock>>")}


def inserted(insert: str) -> tuple[str, Otherwise]:
    """Return an INSERT of jobs … RETURNING as one text for MariaDB, and two for MySQL, which has no RETURNING."""
    change, _, columns = insert.rpartition("returning ")
    read = [f"coalesce({one}, {_GONE[one]})" if one in _GONE else one for one in columns.split(", ")]
    return f"{change}/*M! returning {columns} */", Otherwise(f"""
    select {", ".join(read)} from {_RUNS} left join <job> as job on job.id between run.low and run.high
    where coalesce(job.id, run.high) >= last_insert_id() order by 1""")


def adapted(template: str) -> str | tuple[str, ...]:
    """Return a template, or several, that say the same here."""
    for pattern, replacement in _REWRITTEN:
        template = pattern.sub(replacement, template)
    if _SKIPPING.match(template):
        return in_two(template)
    if match := _RETURNING.match(template):
        table, condition = match["updated"] or match["deleted"], match["condition"]
        locking = f"select {match['columns']} from {table} where {condition} for update"
        return locking, f"{match['update'] or match['delete']} where {condition}"
    return template


_PARENTHESES = r"\((?:[^()']|'[^']*')*\)"
for _ in range(4):  # as deep as in our texts
    _PARENTHESES = rf"\((?:[^()']|'[^']*'|{_PARENTHESES})*\)"
_CASE = r"\bcase\b(?:'[^']*'|(?!\bcase\b|\bend\b)[^'])*\bend\b"
_OPERAND = rf"(?:'[^']*'|{_CASE}|(?<![\w.@`$])(?!end\b)[\w.@`$]+(?:{_PARENTHESES})?|{_PARENTHESES})"
_CHAIN = re.compile(rf"{_OPERAND}(?:\s*\|\|\s*{_OPERAND})+")
_LINKED = re.compile(rf"({_OPERAND})(?:\s*\|\|\s*)?")


def concatenated(sql: str) -> str:
    """Return SQL without `||`, which means "or" on a connection of a caller who has not set PIPES_AS_CONCAT.

    >>> concatenated("select a || ': ' || coalesce(b || 'c', '') from t")
    "select concat(a, ': ', coalesce(concat(b, 'c'), '')) from t"
    """
    while "||" in sql:
        changed = _CHAIN.sub(lambda chain: f"concat({', '.join(_LINKED.findall(chain[0]))})", sql)
        if changed == sql:
            break
        sql = changed
    return sql


# Tables of claims and of ready jobs are often so small that the servers would read all of it, and wait for the locks of
# rows that they do not need.
_BY_KEY = [
    (
        re.compile(r"\bstraight_join (<(?:job|claim|ready)>) as (\w+)(?=\s+on \2\.(?:id|job_id|queue) =)"),
        r"straight_join \1 as \2 force index (primary)",
    ),
    (
        re.compile(
            r"\b(from|update) (<(?:job|claim)>(?: as \w+)?)(?=\s+(?:set [^;]*?)?where (?:\w+\.)?(?:id|job_id) in \$)"
        ),
        r"\1 \2 force index (primary)",
    ),
]


# MySQL refuses to lock a list, and has its own words
_LOCKS_OF_GIVEN = re.compile(
    rf"(as given\s+straight_join <\w+> as (\w+)(?:[^()]|{_PARENTHESES})*?)(for update|lock in share mode)"
)
_SHARED = re.compile(r"lock in share mode( /\*!80000 (of \w+ )\*/)?")


def render(template: str, prefix: str) -> str:
    """Return the SQL with its names filled in."""
    for pattern, replacement in _BY_KEY:
        template = pattern.sub(replacement, template)
    template = _LOCKS_OF_GIVEN.sub(r"\1\3 /*!80000 of \2 */", template)
    template = _SHARED.sub(r"/*M! lock in share mode */ /*!80000 for share \2*/", template)
    return concatenated(rendering.render(template, words(prefix)))
