"""Small writes about attempts that run: when they started, and their progress."""

from __future__ import annotations

from collections.abc import Sequence

from rowcall.store.dialect import Dialect
from rowcall.store.jobs.queries import MARK_PROGRESS, MARK_STARTED
from rowcall.store.statement import Plan


def mark_started(dialect: Dialect, marks: Sequence[tuple[int, int, int]], now_ms: int | None) -> Plan[None]:
    """Write when attempts (ids and leases) started, as so many milliseconds ago."""
    marks = sorted(marks)
    document = {str(job_id): (lease, age_ms) for job_id, lease, age_ms in marks}
    yield from dialect.ask(MARK_STARTED, now_ms, [mark[0] for mark in marks], document)


def mark_progress(
    dialect: Dialect, marks: Sequence[tuple[int, int, float, str | None]], now_ms: int | None
) -> Plan[None]:
    """Write the progress of attempts (ids, leases, shares and messages), which is also a heartbeat of each."""
    document = {str(job_id): (lease, share, message) for job_id, lease, share, message in marks}
    yield from dialect.ask(MARK_PROGRESS, now_ms, [mark[0] for mark in marks], document)
