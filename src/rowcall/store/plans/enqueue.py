"""Jobs come in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rowcall.store.dialect import Dialect, Inserted, NewJob
from rowcall.store.statement import Plan


class Member(NamedTuple):
    """One enqueue among those that share a commit."""

    job: NewJob
    payload: str
    now_ms: int | None


def enqueue(dialect: Dialect, member: Member) -> Plan[Inserted]:
    return dialect.insert(member.job, member.payload, member.now_ms)


def enqueue_many(dialect: Dialect, job: NewJob, payloads: Sequence[str], now_ms: int | None) -> Plan[list[Inserted]]:
    """All of them or none, with ids in the order given."""
    if not payloads:
        return []
    return (yield from dialect.insert_many(job, payloads, now_ms))
