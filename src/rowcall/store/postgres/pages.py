"""Places of jobs in an order, in time that does not depend on how many there are.

Within one group (of a queue, a type, and what else an index begins with) the places are in order: the first of each
group are merged. Which groups there are is learned by hopping from one to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from rowcall.domain.job import Job
from rowcall.store.columns import job_from_row
from rowcall.store.dialect import HIGHEST, LOWEST, Filter, Order, Place, Span
from rowcall.store.jobs.pages import (
    BY_CHAIN,
    FINISHED_SOURCE,
    IS_FINISHED,
    Group,
    Source,
    conditions_of,
    error_condition,
    sources_of,
)
from rowcall.store.postgres.words import array, render
from rowcall.store.queries.claims import SEPARATOR
from rowcall.store.statement import Parameter, Plan, Statement, fetch, plain

_MATCHING = """
    select <job_columns> from <ids:1>
      cross join lateral (select * from <prefix>jobs where id = given.id offset 0) as job
    where """
# Claims are read in the order of places. Each is asked for what fits, not the other way round: that may be millions.
_CLAIMED = "select job_id as id from <claim> as job where {}"
_UNCLAIMED = "select id from (select id from <job> where status = <running> offset 0) as job where {}"
_RUNNING = f"select id from (({{}}) union {_UNCLAIMED}) as job where true"
_OF_JOB = "exists (select 1 from <job> where id = job.job_id and {} offset 0)"
_HAS_TAG = "tags is not null and exists (select 1 from jsonb_array_elements_text(tags) as tag where tag = {}::text)"
# `offset 0` is a fence: no planner hopes to meet the steps of a chain soon among all others
_OF_CHAIN = "select id from (select id from <job> where chain_id = {} offset 0) as job where true"
_WITH_PAYLOAD = """
    with job as materialized (select id, finished_at from <job> where payload @> {}::jsonb)
    select {} from job where true"""
_HAS_PAYLOAD_INDEX = """
    select 1 from pg_index join pg_class as class on class.oid = pg_index.indexrelid
      join pg_am as method on method.oid = class.relam
      join pg_attribute as part on part.attrelid = indrelid and part.attnum = indkey[0]
    where indrelid = to_regclass('<job>') and indisvalid and indpred is null
      and method.amname = 'gin' and part.attname = 'payload' limit 1"""
# what is shown of a place, for the columns of an index that order it
_SHOWN = {
    "finished_at": "round(date_part('epoch', finished_at) * 1000000)::bigint as moment",
    **{name: f"{name} as id" for name in ("id", "turn", "job_id")},
}


class PostgresPages:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def places(
        self, job_filter: Filter, order: Order, span: Span, limit: int, *, by_payload: bool = False
    ) -> Plan[list[Place]]:
        texts = _Texts(job_filter, order, span, limit)
        sources = sources_of(job_filter, order)
        if by_payload:
            arms = [texts.of_payload(str(job_filter.payload))]
        else:
            arms = [
                *(texts.of_hopped(source) for source in sources.hopped),
                *(texts.of_known(source, group) for source, group in sources.known),
                *([texts.of_running()] if sources.running else []),
            ]
        sql = arms[0] if len(arms) == 1 else texts.merged(" union all ".join(f"({arm})" for arm in arms))
        statement = plain(render(sql, self._prefix), *texts.values)
        return cast("list[Place]", (yield from fetch(statement)))

    def matching(self, job_filter: Filter, ids: Sequence[int]) -> Plan[list[Job]]:
        condition, values = conditions_of(job_filter)
        return fetch(Statement(render(_MATCHING + condition, self._prefix), (array(ids), *values), job_from_row))

    def has_payload_index(self) -> Plan[bool]:
        return bool((yield plain(render(_HAS_PAYLOAD_INDEX, self._prefix))))


class _Texts:
    """The arms of one statement, and its parameters."""

    def __init__(self, job_filter: Filter, order: Order, span: Span, limit: int) -> None:
        self.values: list[Parameter] = []
        self._filter = job_filter
        self._direction = "desc" if order.newest_first else "asc"
        self._limit = f"limit {self._given(limit)}::int"
        self._low, self._high = (self._end(place) for place in span)
        self._place = ("moment", "id") if order.by_end else ("id",)

    def of_known(self, source: Source, group: Group) -> str:
        """Use an order that no other index has, so that the planner uses this one."""
        values = [f"{self._given(value)}::{'bigint' if isinstance(value, int) else 'text'}" for value in group]
        if source is BY_CHAIN:
            return self.within(_OF_CHAIN.format(*values), source.place)
        equal = "".join(f" and {name} = {value}" for name, value in zip(source.columns[:-1], values, strict=False))
        rows = f"select {_SHOWN[source.place[0]]} from <{source.table}> as job where {source.proof}{equal}"
        return self.within(rows, (*source.columns[-1:], *source.place), values[-1:])

    def of_running(self) -> str:
        job_filter = self._filter
        numbers = {"batch_id": job_filter.batch_id, "parent_id": job_filter.parent_id}
        of_job = [
            *(f"{name} = {self._given(value)}::text" for name, value in job_filter.names() if name != "worker"),
            *(f"{name} = {self._given(value)}::bigint" for name, value in numbers.items() if value is not None),
            *([] if job_filter.tag is None else [_HAS_TAG.format(self._given(job_filter.tag))]),
        ]
        fitting = [
            *([_OF_JOB.format(" and ".join(of_job))] if of_job else []),
            *([] if job_filter.worker is None else [f"worker = {self._given(job_filter.worker)}::text"]),
        ]
        claimed = self.within(_CLAIMED.format(" and ".join(fitting or ["true"])), ("job_id",))
        return self.within(_RUNNING.format(claimed, self._bounds(("id",))), ("id",))

    def of_payload(self, payload: str) -> str:
        columns = ("finished_at", "id") if len(self._place) == 2 else ("id",)
        rows = _WITH_PAYLOAD.format(f"{self._given(payload)}::text", ", ".join(_SHOWN[name] for name in columns))
        return self.within(rows, columns)

    def of_hopped(self, source: Source) -> str:
        """Return the first places of an index's groups that fit."""
        shown = ", ".join(source.columns)
        last_group = ", ".join(f"found.{name}" for name in source.columns)
        rows = f"<{source.table}> as job where {source.proof}"
        # `= any (array[…])` is not a constant to the planner, so only this index has the order below. With `=`, the
        # planner may read by id instead, and expect to find the jobs soon.
        first, *others = source.columns
        equal = " and ".join(
            [f"job.{first} = any (array[found.{first}::text])", *(f"job.{name} = found.{name}" for name in others)]
        )
        places = ", ".join(_SHOWN[name] for name in source.place)
        heads = f"select {places} from {rows} {source.fitting} and {equal} and {self._bounds(source.place)}"
        return self.merged(
            f"""
            with recursive found ({shown}) as (
              (select {shown} from {rows} order by {shown} limit 1)
              union all
              select {", ".join(f"next.{name}" for name in source.columns)} from found cross join lateral (
                select {shown} from {rows} and ({shown}) > ({last_group}) order by {shown} limit 1) as next
            )
            select {", ".join(f"head.{name}" for name in self._place)} from found cross join lateral (
              {heads} order by {self._ordered((*source.columns, *source.place))} {self._limit}) as head
            where true {self._of_groups(source)}"""
        )

    def merged(self, rows: str) -> str:
        shown = ", ".join(self._place)
        return f"select {shown} from ({rows}) as first order by {self._ordered(self._place)} {self._limit}"

    def within(self, rows: str, columns: Sequence[str], group: Sequence[str] = ()) -> str:
        return f"{rows} and {self._bounds(columns, group)} order by {self._ordered(columns)} {self._limit}"

    def _of_groups(self, source: Source) -> str:
        job_filter = self._filter
        conditions = [
            f"and {_of_group(source, name)} = {self._given(value)}::text"
            for name, value in job_filter.names()
            if name in source.columns
        ]
        if "status" in source.columns and job_filter.statuses is not None:
            given = ", ".join(f"{self._given(status.value)}::text" for status in job_filter.statuses)
            conditions.append(f"and found.status in ({given})")
        if source is FINISHED_SOURCE:
            conditions.append(f"and found.{IS_FINISHED}")
        if "error_code" in source.columns and job_filter.error_code is not None:
            condition, value = error_condition("found.error_code", job_filter.error_code)
            conditions.append(f"and {condition.replace('<text:#>', f'{self._given(value)}::text')}")
        return " ".join(conditions)

    def _bounds(self, columns: Sequence[str], group: Sequence[str] = ()) -> str:
        shown = ", ".join(columns)
        low, high = (", ".join((*group, *end)) for end in (self._low, self._high))
        return f"({shown}) > ({low}) and ({shown}) < ({high})"

    def _ordered(self, columns: Sequence[str]) -> str:
        return ", ".join(f"{name} {self._direction}" for name in columns)

    def _end(self, place: Place) -> list[str]:
        *moments, job_id = place
        return [*map(self._moment, moments), f"{self._given(job_id)}::bigint"]

    def _moment(self, moment: int) -> str:
        if moment in (LOWEST, HIGHEST):
            return f"'{'-' if moment == LOWEST else ''}infinity'::timestamptz"
        return f"'epoch'::timestamptz + {self._given(moment)}::bigint * interval '1 microsecond'"

    def _given(self, value: Parameter) -> str:
        self.values.append(value)
        return f"${len(self.values)}"


def _of_group(source: Source, name: str) -> str:
    """Return the column of a group. Of ready jobs the type is a key, which ends with what has refused them."""
    if source.table == "ready" and name == "type":
        return f"regexp_replace(found.type, '{SEPARATOR}[^{SEPARATOR}]*$', '')"
    return f"found.{name}"
