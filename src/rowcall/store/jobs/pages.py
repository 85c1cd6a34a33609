"""The partial indexes by which jobs are found, and which of them hold the jobs of a filter."""

from __future__ import annotations

from typing import NamedTuple

from rowcall.domain.job import FINISHED, Status
from rowcall.store.dialect import Filter


class Source(NamedTuple):
    """An index whose entries are in the order of the ids within each group of equal `columns`.

    An index in another order names its column in `ordered`, which equals the id for all jobs that fit. Without an index
    it is the primary key of the table.
    """

    index_name: str
    proof: str
    columns: tuple[str, ...]
    ordered: str = "id"
    fitting: str = ""
    table: str = "job"


_READY = Source("", "true", ("queue", "type", "rank"), "turn", "and turn = id", "ready")
_TURNED = Source("ready_turned", "turn <> id", ("queue", "type"), table="ready")
_HELD = Source("job_held", "status = <pending> and held is not null", ("queue", "type"))
_SCHEDULED = Source("job_scheduled", "status = <scheduled>", ("queue", "type"))
_BLOCKED = Source("job_blocked", "status = <blocked>", ("queue", "type"))
FINISHED_SOURCE = Source("job_finished", "finished_at is not null", ("status", "queue", "type"))

SOURCES = (_READY, _TURNED, _HELD, _SCHEDULED, _BLOCKED, FINISHED_SOURCE)
_BY_STATUS: dict[Status, tuple[Source, ...]] = {
    Status.PENDING: (_READY, _TURNED, _HELD),
    Status.SCHEDULED: (_SCHEDULED,),
    Status.BLOCKED: (_BLOCKED,),
    Status.RUNNING: (),
    **dict.fromkeys(FINISHED, (FINISHED_SOURCE,)),
}


def sources_of(wanted: Filter) -> tuple[Source, ...]:
    """Return the indexes to read. Running jobs are in none of them: they are few, and all are read."""
    return SOURCES if wanted.status is None else _BY_STATUS[wanted.status]


# plain SQL may have set `finished_at` of a job that has not finished: another index lists it
IS_FINISHED = "status in <finished>"


def fits(source: Source, group: tuple[object, ...], wanted: Filter) -> bool:
    """Return whether a group of an index fits the filter."""
    if source is FINISHED_SOURCE and group[0] not in FINISHED:
        return False
    asked = {"status": wanted.status, "queue": wanted.queue, "type": wanted.type}
    return all(asked.get(name) in (None, value) for name, value in zip(source.columns, group, strict=True))
