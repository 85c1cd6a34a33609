"""Places of jobs in an order, in time that does not depend on how many there are.

Within one group (of a queue, a type, and what else an index begins with) the places are in order, and SQLite merges as
many groups as are asked for, lazily. Which groups there are is learned by hopping from one to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from rowcall.domain.job import Job
from rowcall.store.columns import job_from_row
from rowcall.store.dialect import Filter, Order, Place, Span
from rowcall.store.jobs.pages import HOPPED, Group, Source, conditions_of, fits, sources_of
from rowcall.store.schema import READY_TYPE
from rowcall.store.sqlite.words import render
from rowcall.store.statement import Plan, Statement, as_json, fetch, plain

MOST_GROUPS_MERGED = 100
_MATCHING = """
    select <job_columns> from json_each(?1) as given cross join <prefix>jobs as job on job.id = given.value
    where """
_RUNNING = """
    select job_id from <claim> where job_id > ?2 and job_id < ?3
    union
    select id from <job> indexed by <prefix>job_waiting where status = <running> and +id > ?2 and +id < ?3
    order by 1 {} limit ?1"""


class SqlitePages:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.groups = {source: render(groups_of(source), prefix) for source in HOPPED}

    def places(self, job_filter: Filter, order: Order, span: Span, limit: int) -> Plan[list[Place]]:
        sources = sources_of(job_filter, order)
        groups: dict[Source, list[Group]] = {}
        for source, group in sources.known:
            groups.setdefault(source, []).append(group)
        for source in sources.hopped:
            found = cast("list[Group]", (yield from fetch(plain(self.groups[source]))))
            groups[source] = [group for group in found if fits(source, group, job_filter)]
        places: list[Place] = []
        for source, of_source in groups.items():
            for first in range(0, len(of_source), MOST_GROUPS_MERGED):
                merged = of_source[first : first + MOST_GROUPS_MERGED]
                values = [value for group in merged for value in group]
                statement = plain(self.first_places(source, len(merged), order), limit, *span.low, *span.high, *values)
                places += cast("list[Place]", (yield from fetch(statement)))
        if sources.running:
            places += cast("list[Place]", (yield from fetch(plain(self.running(order), limit, *span.low, *span.high))))
        return sorted(places, reverse=order.newest_first)[:limit]

    def matching(self, job_filter: Filter, ids: Sequence[int]) -> Plan[list[Job]]:
        condition, values = conditions_of(job_filter)
        return fetch(Statement(render(_MATCHING + condition, self._prefix), (as_json(ids), *values), job_from_row))

    def running(self, order: Order) -> str:
        return render(_RUNNING.format(_direction(order)), self._prefix)

    def first_places(self, source: Source, groups: int, order: Order) -> str:
        """Return SQL for the first places of some groups of an index. Parameters: limit, both ends, each group."""
        shown, size = ", ".join(source.place), len(source.place)
        low, high = (_row(range(start, start + size)) for start in (2, 2 + size))
        arms = []
        for group in range(groups):
            start = 2 + 2 * size + group * len(source.columns)
            equal = "".join(f" and {name} = ?{number}" for number, name in enumerate(source.columns, start))
            arms.append(
                f"select {shown} from {_rows_of(source)}{equal} and ({shown}) > {low} and ({shown}) < {high}"
                f" {source.fitting}"
            )
        ordered = ", ".join(f"{number} {_direction(order)}" for number in range(1, size + 1))
        return render(f"{' union all '.join(arms)} order by {ordered} limit ?1", self._prefix)


def _direction(order: Order) -> str:
    return "desc" if order.newest_first else "asc"


def _row(numbers: range) -> str:
    return f"({', '.join(f'?{number}' for number in numbers)})"


def _rows_of(source: Source) -> str:
    indexed = f"indexed by <prefix>{source.index_name}" if source.index_name else ""
    return f"<{source.table}> {indexed} where {source.proof}"


def groups_of(source: Source) -> str:
    """Return SQL for the distinct values of an index's first columns: one search for each group."""
    rows, shown = _rows_of(source), ", ".join(source.columns)
    hops = [
        f"(select id from {rows} {_after(source.columns, length)} order by {shown} limit 1)"
        for length in reversed(range(len(source.columns)))
    ]
    # always true; without it, SQLite reads the whole index if an old ANALYZE found it empty
    first = f"{rows} and {source.columns[0]} > ''"
    next_group = ", ".join(_of_next(source, name) for name in source.columns)
    return f"""
        with recursive found ({shown}) as (
          select * from (select {shown} from {first} order by {shown} limit 1)
          union all
          select {next_group} from found cross join <job> as next on next.id = coalesce({", ".join(hops)})
        )
        select {shown} from found"""


def _of_next(source: Source, name: str) -> str:
    """Return what a column of an index holds for the row of a job."""
    if source.table == "ready" and name == "type":
        return READY_TYPE.format("next")
    return "~next.priority" if name == "rank" else f"next.{name}"


def _after(columns: Sequence[str], length: int) -> str:
    """Return the condition: equal in the first columns, and greater in the next."""
    equal = [f"and {name} = found.{name}" for name in columns[:length]]
    return " ".join([*equal, f"and {columns[length]} > found.{columns[length]}"])
