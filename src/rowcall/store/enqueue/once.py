"""Enqueue the jobs of a request once, however often it is repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Job
from rowcall.store.dialect import Dialect
from rowcall.store.enqueue.keys import Committed
from rowcall.store.enqueue.related import write_related
from rowcall.store.jobs.inspect import get_all
from rowcall.store.new_job import Inserted, RelatedJob
from rowcall.store.queries.flows import BEGIN_WRITING
from rowcall.store.queries.notes import CHANGE_NOTE, NOTE, WRITE_NOTE
from rowcall.store.statement import Plan


class Once(NamedTuple):
    """A request: under which name it is noted and for how long, and a digest of all that it has."""

    name: str
    digest: str
    window_ms: int


class _Noted(msgspec.Struct, array_like=True):
    digest: str
    ids: list[int]


def write_once(
    once: Once,
    dialect: Dialect,
    related: Sequence[RelatedJob],
    committed: Committed | None = None,
    *,
    whole: bool = False,
) -> Plan[list[Inserted | Job]]:
    """Write all jobs or none, or return those of the earlier request. See `write_related`."""
    yield from dialect.ask(BEGIN_WRITING)
    if not (yield from dialect.ask(WRITE_NOTE, once.name, once.window_ms, "")):
        return [*((yield from find_earlier(dialect, once)) or ())]
    written = yield from write_related(dialect, related, committed, whole=whole)
    noted = _Noted(once.digest, [one.id for one in written])
    yield from dialect.ask(CHANGE_NOTE, once.name, msgspec.json.encode(noted).decode())
    return written


def find_earlier(dialect: Dialect, once: Once) -> Plan[list[Job] | None]:
    """Return the jobs of the earlier request that still exist, or None if there was none. It must be the same one."""
    notes = yield from dialect.ask(NOTE, once.name)
    if not notes:
        return None
    try:
        noted = msgspec.json.decode(notes[0], type=_Noted)
    except msgspec.MsgspecError:  # plain SQL can write anything there
        noted = _Noted("", [])
    if noted.digest != once.digest:
        raise InvalidOption("Idempotency-Key", "was used with another request: use another key for this one")
    jobs = yield from get_all(dialect, noted.ids)
    return [msgspec.structs.replace(jobs[one], duplicate=True) for one in noted.ids if one in jobs]
