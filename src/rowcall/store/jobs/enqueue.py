"""Enqueue jobs that depend on no other job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from rowcall.store.blobs.references import refer_to
from rowcall.store.dialect import Dialect
from rowcall.store.new_job import Derived, Inserted, NewJob
from rowcall.store.statement import Plan


class Member(msgspec.Struct, frozen=True, gc=False):
    """One job of several that share a commit."""

    job: NewJob
    payload: str
    derived: Derived | None = None


def enqueue(
    dialect: Dialect,
    job: NewJob,
    payloads: Sequence[str],
    derived: Sequence[Derived] | None = None,
    *,
    referring: bool = False,
) -> Plan[list[Inserted]]:
    """Write all jobs or none, with ids in the order given; `referring` if some payloads refer to blobs."""
    if not payloads:
        return []
    inserted = yield from dialect.insert(job, payloads, derived)
    if referring:
        yield from refer_to(dialect, payloads, [row.id for row in inserted])
    return inserted


def enqueue_members(dialect: Dialect, members: Sequence[Member]) -> Plan[list[Inserted]]:
    """Write members in groups that differ only in their payloads. One member is one statement."""
    return _insert_group(dialect, members) if len(members) == 1 else _insert_groups(dialect, members)


def _insert_groups(dialect: Dialect, members: Sequence[Member]) -> Plan[list[Inserted]]:
    groups: dict[object, list[int]] = defaultdict(list)
    for place, member in enumerate(members):
        groups[id(member.job)].append(place)
    written: dict[int, Inserted] = {}
    for places in groups.values():
        rows = yield from _insert_group(dialect, [members[place] for place in places])
        written |= zip(places, rows, strict=True)
    return [written[place] for place in range(len(members))]


def _insert_group(dialect: Dialect, members: Sequence[Member]) -> Plan[list[Inserted]]:
    first = members[0]
    payloads = [member.payload for member in members]
    if first.derived is None:
        return dialect.insert(first.job, payloads)
    derived = [member.derived for member in members if member.derived is not None]
    return dialect.insert(first.job, payloads, derived)
