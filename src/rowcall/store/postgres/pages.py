"""Pages of jobs, newest first, in time that does not depend on how many there are.

Within one group (of a queue, a type, and what else an index begins with) the ids are in order: the first of each group
are merged. Which groups there are is learned by hopping from one to the next.
"""

from __future__ import annotations

from rowcall.domain.job import Job, Status
from rowcall.store.columns import job_from_row
from rowcall.store.dialect import Filter
from rowcall.store.jobs.pages import FINISHED_SOURCE, IS_FINISHED, Source, sources_of
from rowcall.store.postgres.words import render
from rowcall.store.statement import Parameter, Plan, Statement, fetch

HIGHEST_ID = 2**63 - 1


class PostgresPages:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def page(self, wanted: Filter) -> Plan[list[Job]]:
        before = HIGHEST_ID if wanted.before_id is None else wanted.before_id
        given: tuple[Parameter, ...] = (wanted.limit, before, wanted.queue, wanted.type, wanted.status, wanted.tag)
        sql, used = _renumbered(self.statement(wanted))
        return fetch(Statement(sql, tuple(given[number - 1] for number in used), job_from_row))

    def statement(self, wanted: Filter) -> str:
        """Parameters, as far as they are used: limit, the id to continue from, queue, type, status, tag."""
        if wanted.tag is not None:
            return render(_TAGGED if wanted.status is None else _TAGGED_WITH_STATUS, self._prefix)
        if wanted.status is wanted.queue is wanted.type is None:
            return render(_NEWEST, self._prefix)
        arms = [_first_ids(source, wanted) for source in sources_of(wanted)]
        if wanted.status in (None, Status.RUNNING):
            arms.append(_RUNNING.replace("<asked>", _asked(wanted)))
        return render(
            f"""
            select <job_columns> from (
              select id from ({" union all ".join(f"({arm})" for arm in arms)}) as first order by id desc limit $1::int
            ) as page cross join lateral (select * from <prefix>jobs where id = page.id offset 0) as job
            order by page.id desc""",
            self._prefix,
        )


_NEWEST = "select <job_columns> from <prefix>jobs as job where job.id < $2::bigint order by job.id desc limit $1::int"
# Both say it so that no planner hopes to meet the running, or the tagged, soon among all others: `offset 0` is a fence,
# and the order of pairs is that of one index alone.
_RUNNING = """
    select id from (
      (select id from <job> where status = <running> <asked> offset 0)
      union all
      (select id from <prefix>claimed where true <asked>)) as running
    where id < $2::bigint order by id desc limit $1::int"""


def _tagged(*columns: tuple[str, str]) -> str:
    names = ", ".join(f"tagged.{name}" for name, _ in columns)
    values = ", ".join(f"{parameter}::text" for _, parameter in columns)
    order = ", ".join(f"tagged.{name} desc" for name, _ in columns)
    return f"""
    select <job_columns> from <job_tag> as tagged
      cross join lateral (select * from <job> where id = tagged.job_id offset 0) as job
    where ({names}, tagged.job_id) < ({values}, $2::bigint)
      and ({names}, tagged.job_id) >= ({values}, '-9223372036854775808'::bigint)
      and ($3::text is null or job.queue = $3::text) and ($4::text is null or job.type = $4::text)
    order by {order}, tagged.job_id desc limit $1::int"""


_TAGGED = _tagged(("tag", "$6"))
_TAGGED_WITH_STATUS = _tagged(("tag", "$6"), ("status", "$5"))


def _asked(wanted: Filter, of: str = "") -> str:
    given = (("queue", "$3", wanted.queue), ("type", "$4", wanted.type))
    return " ".join(f"and {of}{name} = {parameter}::text" for name, parameter, value in given if value is not None)


def _first_ids(source: Source, wanted: Filter) -> str:
    """The highest ids of an index's groups that fit."""
    shown = ", ".join(source.columns)
    found = ", ".join(f"found.{name}" for name in source.columns)
    rows = f"<{source.table}> as job where {source.proof}"
    of_status = ""
    if source is FINISHED_SOURCE:
        of_status = f"and found.{IS_FINISHED}" if wanted.status is None else "and found.status = $5::text"
    # `= any (array[…])` is not a constant to the planner, so only this index has the order below. With `=`, the planner
    # may read by id instead, and expect to find the jobs soon.
    first, *others = source.columns
    equal = " and ".join(
        [f"job.{first} = any (array[found.{first}::text])", *(f"job.{name} = found.{name}" for name in others)]
    )
    backwards = ", ".join(f"{name} desc" for name in (*source.columns, source.ordered))
    return f"""
        with recursive found ({shown}) as (
          (select {shown} from {rows} order by {shown} limit 1)
          union all
          select {", ".join(f"next.{name}" for name in source.columns)} from found cross join lateral (
            select {shown} from {rows} and ({shown}) > ({found}) order by {shown} limit 1) as next
        )
        select head.id from found cross join lateral (
          select id from {rows} {source.fitting} and {equal} and {source.ordered} < $2::bigint
          order by {backwards} limit $1::int) as head
        where true {of_status} {_asked(wanted, "found.")}"""


def _renumbered(sql: str) -> tuple[str, list[int]]:
    """The statement with parameters that leave out no number, and which of them it has."""
    used = [number for number in range(1, 7) if f"${number}::" in sql]
    for index, number in enumerate(used, start=1):
        sql = sql.replace(f"${number}::", f"${index}::")
    return sql, used
