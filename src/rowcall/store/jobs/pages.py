"""Where jobs are found by state: the partial indexes, and which of them hold what a filter asks for."""

from __future__ import annotations

from typing import NamedTuple

from rowcall.domain.job import FINISHED, Status
from rowcall.store.dialect import Filter


class Source(NamedTuple):
    """An index whose entries are in the order of the ids within each group of equal `columns`.

    Where it is in the order of something else, that is what is `ordered`: the same as the id, for all that fit.
    """

    name: str
    proof: str
    columns: tuple[str, ...]
    ordered: str = "id"
    fitting: str = ""


_READY = Source(
    "ready",
    "status = <pending> and held is null",
    ("queue", "type", "priority desc"),
    "coalesce(turn, id)",
    "and turn is null",
)
_TURNED = Source("turned", "status = <pending> and held is null and turn is not null", ("queue", "type"))
_HELD = Source("held", "status = <pending> and held is not null", ("queue", "type"))
_SCHEDULED = Source("scheduled", "status = <scheduled>", ("queue", "type"))
_BLOCKED = Source("blocked", "status = <blocked>", ("queue", "type"))
FINISHED_SOURCE = Source("finished", "finished_at is not null", ("status", "queue", "type"))

SOURCES = (_READY, _TURNED, _HELD, _SCHEDULED, _BLOCKED, FINISHED_SOURCE)
_BY_STATUS: dict[Status, tuple[Source, ...]] = {
    Status.PENDING: (_READY, _TURNED, _HELD),
    Status.SCHEDULED: (_SCHEDULED,),
    Status.BLOCKED: (_BLOCKED,),
    Status.RUNNING: (),
    **dict.fromkeys(FINISHED, (FINISHED_SOURCE,)),
}


def sources_of(wanted: Filter) -> tuple[Source, ...]:
    """The indexes to read. Running jobs are in none of these: they are few, and looked through."""
    return SOURCES if wanted.status is None else _BY_STATUS[wanted.status]


# plain SQL may have written that a job which waits has finished: its place is not there
IS_FINISHED = "status in <finished>"


def fits(source: Source, group: tuple[object, ...], wanted: Filter) -> bool:
    """Whether a group of an index holds what is asked for."""
    if source is FINISHED_SOURCE and group[0] not in FINISHED:
        return False
    asked = {"status": wanted.status, "queue": wanted.queue, "type": wanted.type}
    return all(asked.get(name) in (None, value) for name, value in zip(source.columns, group, strict=True))
