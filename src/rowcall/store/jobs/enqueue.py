"""Enqueue jobs that depend on no other job."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rowcall.store.blobs.references import refer_to
from rowcall.store.dialect import Dialect
from rowcall.store.new_job import NOTHING_DERIVED, Derived, Inserted, NewJob
from rowcall.store.statement import Plan


class Member(msgspec.Struct, frozen=True, gc=False):
    """One enqueue of several that share a commit."""

    job: NewJob
    payload: str
    now_ms: int | None
    derived: Derived = NOTHING_DERIVED


def enqueue(dialect: Dialect, member: Member) -> Plan[Inserted]:
    return dialect.insert(member.job, member.payload, member.now_ms, member.derived)


def enqueue_referring(dialect: Dialect, member: Member) -> Plan[Inserted]:
    """Write a job whose payload is a reference to a blob."""
    inserted = yield from enqueue(dialect, member)
    yield from refer_to(dialect, [member.payload], [inserted.id])
    return inserted


def enqueue_alike(dialect: Dialect, members: Sequence[Member]) -> Plan[list[Inserted]]:
    """Write members that differ only in their payloads."""
    first = members[0]
    derived = None if first.job.is_derived else [member.derived for member in members]
    return (yield from dialect.insert_many(first.job, [member.payload for member in members], first.now_ms, derived))


def enqueue_many(
    dialect: Dialect,
    job: NewJob,
    payloads: Sequence[str],
    now_ms: int | None,
    *,
    referring: bool = False,
    derived: Sequence[Derived] | None = None,
) -> Plan[list[Inserted]]:
    """Write all jobs or none, with ids in the order given; `referring` if some payloads refer to blobs."""
    if not payloads:
        return []
    inserted = yield from dialect.insert_many(job, payloads, now_ms, derived)
    if referring:
        yield from refer_to(dialect, payloads, [row.id for row in inserted])
    return inserted
