"""Enqueue jobs that depend on no other job."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rowcall.store.blobs.references import refer_to
from rowcall.store.dialect import Dialect
from rowcall.store.new_job import Inserted, NewJob
from rowcall.store.statement import Plan


class Member(msgspec.Struct, frozen=True, gc=False):
    """One enqueue of several that share a commit."""

    job: NewJob
    payload: str
    now_ms: int | None
    limits: str | None = None


def enqueue(dialect: Dialect, member: Member) -> Plan[Inserted]:
    return dialect.insert(member.job, member.payload, member.now_ms, member.limits)


def enqueue_referring(dialect: Dialect, member: Member) -> Plan[Inserted]:
    """Write a job whose payload is a reference to a blob."""
    inserted = yield from enqueue(dialect, member)
    yield from refer_to(dialect, [member.payload], [inserted.id])
    return inserted


def enqueue_alike(dialect: Dialect, members: Sequence[Member]) -> Plan[list[Inserted]]:
    """Write members that differ only in their payloads."""
    first = members[0]
    limits = None if first.job.limited_by is None else [member.limits for member in members]
    return (yield from dialect.insert_many(first.job, [member.payload for member in members], first.now_ms, limits))


def enqueue_many(
    dialect: Dialect,
    job: NewJob,
    payloads: Sequence[str],
    now_ms: int | None,
    *,
    referring: bool = False,
    limits: Sequence[str | None] | None = None,
) -> Plan[list[Inserted]]:
    """Write all jobs or none, with ids in the order given; `referring` if some payloads refer to blobs."""
    if not payloads:
        return []
    inserted = yield from dialect.insert_many(job, payloads, now_ms, limits)
    if referring:
        yield from refer_to(dialect, payloads, [row.id for row in inserted])
    return inserted
