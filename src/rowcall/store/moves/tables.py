"""Which tables a move copies, and how: derived from `rowcall.store.schema`, so that no table is forgotten."""

from __future__ import annotations

from typing import NamedTuple, cast

from rowcall.store.schema import READY_COLUMNS, READY_ROW, READY_TYPE, TABLES
from rowcall.store.statement import Parameter, Row

LEFT = {
    "migration": "the target has its own",
    "ready": "follows from the rows of the jobs",
    "claim": "no attempt runs when the queue switches",
    "slot": "no attempt runs when the queue switches",
    "worker": "workers register where they work",
    "waiter": "who waits registers again where the queue is",
    "change": "readers of events start again where the queue is",
    "blob_pin": "what is about to refer to a blob fails with MovedTo",
}
"""The tables whose rows are not copied, and why. All others are."""

OWNED = ("job", "attempt", "event", "step", "signal", "stream", "log", "job_tag", "blob_ref", "edge")
"""What belongs to jobs is copied with them, and again when it changes. All other tables are small: they are copied as
a whole."""
WHOLE = tuple(name for name in TABLES if name not in OWNED and name not in LEFT)

_KINDS = {
    **dict.fromkeys(("time", "moment"), "time"),
    **dict.fromkeys(("json", "tags"), "jsonb"),
    **dict.fromkeys(("real", "seconds"), "float8"),
    **dict.fromkeys(("text", "key", "spelled", "status", "name", "value"), "text"),
    **dict.fromkeys(("identity", "rowid", "job_key", "lease", "bigint", "number"), "bigint"),
    **dict.fromkeys(("int", "whole", "count", "limit", "flag"), "bigint"),
}
"""What each kind of column is to `<fields:…>`."""
_READ = {"time": "<ms_or_null:{}>", "jsonb": "<text_of:{}>"}


class MovedTable(NamedTuple):
    """The columns of a table, in their order, each with what it is to `<fields:…>`."""

    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    numbered: bool
    """Whether the database numbers its rows."""

    @property
    def names(self) -> str:
        return ", ".join(column for column, _ in self.columns)

    @property
    def of_job(self) -> str:
        """Return the column with the id of the job."""
        return "id" if self.name == "job" else "job_id"

    @property
    def read(self) -> str:
        """Return a SELECT of all rows, with values that JSON can hold."""
        columns = (_READ.get(kind, "{}").format(column) for column, kind in self.columns)
        return f"select {', '.join(columns)} from <{self.name}>"

    @property
    def write(self) -> str:
        """Return an INSERT of rows as `read` returns them, given as JSON."""
        kinds = " ".join(kind for _, kind in self.columns)
        return f"insert into <{self.name}> ({self.names}) select <fields:{kinds}> from <rows:1>"

    @property
    def delete(self) -> str:
        kinds = dict(self.columns)
        conditions = (f"{column} = <{kinds[column]}:{place}>" for place, column in enumerate(self.key, 1))
        return f"delete from <{self.name}> where {' and '.join(conditions)}"

    def key_of(self, row: Row) -> tuple[Parameter, ...]:
        return cast("tuple[Parameter, ...]", tuple(row[self.position(column)] for column in self.key))

    def position(self, column: str) -> int:
        return [name for name, _ in self.columns].index(column)


def _moved(name: str) -> MovedTable:
    lines = [line.split() for line in TABLES[name].strip().splitlines()]
    columns = [line for line in lines if line[0] not in ("primary", "constraint")]
    kinds = tuple((line[0], _KINDS[line[1].removesuffix("?")]) for line in columns)
    own = [line[0] for line in columns if line[1] in _IDS or line[2:4] == ["primary", "key"]]
    (key,) = [own] if own else [_names(line) for line in lines if line[0] == "primary"]
    return MovedTable(name, kinds, tuple(key), numbered=columns[0][1] in ("identity", "rowid"))


_IDS = ("identity", "rowid", "job_key")


def _names(line: list[str]) -> list[str]:
    """
    >>> _names("primary key (tag, job_id)".split())
    ['tag', 'job_id']
    """
    return " ".join(line).partition("(")[2].rstrip(")").split(", ")


MOVED = {name: _moved(name) for name in (*OWNED, *WHOLE)}

MAKE_READY = f"""
    insert into <ready> {READY_COLUMNS} select {READY_ROW.format("job")} from <job> as job
    where status = <pending> and held is null and id in ({{ids}})"""
READY_KEYS = f"""
    select queue, {READY_TYPE.format("job")}, ~job.priority, coalesce(job.turn, job.id), id from <job> as job
    where status = <pending> and held is null and id in ({{ids}})"""
DELETE_READY = """
    delete from <ready>
    where queue = <text:1> and type = <text:2> and rank = <bigint:3> and turn = <bigint:4> and id = <bigint:5>"""
