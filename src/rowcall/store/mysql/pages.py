"""Places of jobs in an order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from rowcall.domain.job import Job
from rowcall.store.columns import job_from_row
from rowcall.store.dialect import Filter, Order, Place, Span
from rowcall.store.jobs.pages import conditions_of
from rowcall.store.mysql.words import milliseconds_of, render
from rowcall.store.statement import Parameter, Plan, Statement, as_json, fetch, plain

_MATCHING = "select <job_columns> from <prefix>jobs as job where job.id in $1 and "
_END_MS = milliseconds_of("job.finished_at")


class MysqlPages:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def places(self, job_filter: Filter, order: Order, span: Span, limit: int) -> Plan[list[Place]]:
        condition, values = conditions_of(msgspec.structs.replace(job_filter, payload=None))  # no index has it
        place = [_END_MS, "job.id"] if order.by_end else ["job.id"]
        parameters: list[Parameter] = [limit, *values]
        bounds = [self._bound(place, end, sign, parameters) for end, sign in ((span.low, ">"), (span.high, "<"))]
        if order.by_end:
            bounds.append("job.finished_at is not null")
        direction = "desc" if order.newest_first else "asc"
        ordered = ", ".join(f"{number} {direction}" for number, _ in enumerate(place, 1))
        sql = f"""
            select {", ".join(place)} from <prefix>jobs as job where {" and ".join([condition, *bounds])}
            order by {ordered} limit $1"""
        return cast("list[Place]", (yield from fetch(plain(render(sql, self._prefix), *parameters))))

    def matching(self, job_filter: Filter, ids: Sequence[int]) -> Plan[list[Job]]:
        condition, values = conditions_of(job_filter)
        return fetch(Statement(render(_MATCHING + condition, self._prefix), (as_json(ids), *values), job_from_row))

    @staticmethod
    def _bound(place: Sequence[str], end: Place, sign: str, parameters: list[Parameter]) -> str:
        if len(place) == 1:
            parameters.append(end[-1])
            return f"{place[0]} {sign} ${len(parameters)}"
        parameters += end
        moment, job_id = len(parameters) - 1, len(parameters)
        return f"({place[0]} {sign} ${moment} or {place[0]} = ${moment} and {place[1]} {sign} ${job_id})"
