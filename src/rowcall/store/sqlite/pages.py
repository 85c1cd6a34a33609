"""Pages of jobs, newest first, in time that does not depend on how many there are.

Within one group (of a queue, a type, and what else an index begins with) the ids are in order, and SQLite merges as
many groups as are asked for, lazily. Which groups there are is learned by hopping from one to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from rowcall.domain.job import Job, Status
from rowcall.store.catalogue import as_json
from rowcall.store.columns import job_from_row
from rowcall.store.dialect import Filter
from rowcall.store.jobs.pages import SOURCES, Source, fits, sources_of
from rowcall.store.sqlite.words import render
from rowcall.store.statement import Parameter, Plan, Statement, fetch, plain

HIGHEST_ID = 2**63 - 1
MOST_GROUPS_MERGED = 100
_BY_IDS = """
    select <job_columns> from json_each(?1) as given cross join <prefix>jobs as job on job.id = given.value
    order by 1 desc"""
_NEWEST = "select <job_columns> from <prefix>jobs as job where job.id < ?2 order by job.id desc limit ?1"
_RUNNING = """
    select id from (
      select id, queue, type from <job> indexed by <prefix>job_owned where status = <running>
      union all
      select id, queue, type from <prefix>claimed)
    where id < ?2 and (?3 is null or queue = ?3) and (?4 is null or type = ?4) order by id desc limit ?1"""
_TAGGED = """
    select <job_columns> from <job_tag> as tagged cross join <job> as job on job.id = tagged.job_id
    where tagged.tag = ?3 and tagged.job_id < ?2 and (?4 is null or job.queue = ?4) and (?5 is null or job.type = ?5)
    order by tagged.job_id desc limit ?1"""
_TAGGED_AND_STATUS = _TAGGED.replace("where tagged.tag = ?3", "where tagged.tag = ?3 and tagged.status = ?6")


class SqlitePages:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.by_ids = render(_BY_IDS, prefix)
        self.newest = render(_NEWEST, prefix)
        self.running = render(_RUNNING, prefix)
        self.tagged = render(_TAGGED, prefix)
        self.tagged_and_status = render(_TAGGED_AND_STATUS, prefix)
        self.groups = {source: render(groups_of(source), prefix) for source in SOURCES}

    def page(self, wanted: Filter) -> Plan[list[Job]]:
        before = HIGHEST_ID if wanted.before_id is None else wanted.before_id
        if wanted.tag is not None:
            return (yield from self._tagged(wanted, before))
        if wanted.status is wanted.queue is wanted.type is None:
            return (yield from fetch(Statement(self.newest, (wanted.limit, before), job_from_row)))
        ids: list[int] = []
        for source in sources_of(wanted):
            found = yield from fetch(plain(self.groups[source]))
            groups = [group for group in found if fits(source, group, wanted)]
            for first in range(0, len(groups), MOST_GROUPS_MERGED):
                merged = groups[first : first + MOST_GROUPS_MERGED]
                values = cast("list[Parameter]", [value for group in merged for value in group])
                statement = plain(self.first_ids(source, len(merged)), wanted.limit, before, *values)
                ids += [cast("int", row[0]) for row in (yield from fetch(statement))]
        if wanted.status in (None, Status.RUNNING):
            statement = plain(self.running, wanted.limit, before, wanted.queue, wanted.type)
            ids += [cast("int", row[0]) for row in (yield from fetch(statement))]
        newest = sorted(ids, reverse=True)[: wanted.limit]
        return (yield from fetch(Statement(self.by_ids, (as_json(newest),), job_from_row)))

    def _tagged(self, wanted: Filter, before: int) -> Plan[list[Job]]:
        given: tuple[Parameter, ...] = (wanted.limit, before, wanted.tag, wanted.queue, wanted.type)
        if wanted.status is None:
            return fetch(Statement(self.tagged, given, job_from_row))
        return fetch(Statement(self.tagged_and_status, (*given, wanted.status), job_from_row))

    def first_ids(self, source: Source, groups: int) -> str:
        """Return SQL for the highest ids of some groups of an index. Parameters: limit, last id, each group."""
        arms = []
        for group in range(groups):
            numbers = range(3 + group * len(source.columns), 3 + (group + 1) * len(source.columns))
            conditions = " and ".join(
                f"{name} = ?{number}" for name, number in zip(source.columns, numbers, strict=True)
            )
            arms.append(
                f"select {source.ordered} as found from {_rows_of(source)}"
                f" and {conditions} and {source.ordered} < ?2 {source.fitting}"
            )
        return render(f"{' union all '.join(arms)} order by found desc limit ?1", self._prefix)


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
    next_group = ", ".join("~next.priority" if name == "rank" else f"next.{name}" for name in source.columns)
    return f"""
        with recursive found ({shown}) as (
          select * from (select {shown} from {first} order by {shown} limit 1)
          union all
          select {next_group} from found cross join <job> as next on next.id = coalesce({", ".join(hops)})
        )
        select {shown} from found"""


def _after(columns: Sequence[str], length: int) -> str:
    """Return the condition: equal in the first columns, and greater in the next."""
    equal = [f"and {name} = found.{name}" for name in columns[:length]]
    return " ".join([*equal, f"and {columns[length]} > found.{columns[length]}"])
