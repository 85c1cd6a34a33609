"""Small writes beside the status of a job: its tags, when an attempt started, its progress."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rowcall.store.dialect import Dialect
from rowcall.store.jobs.claim_rows import write_free_claims_of
from rowcall.store.queries.jobs import ANY_TAG, MARK_PROGRESS, MARK_STARTED, RETAG
from rowcall.store.statement import Plan


def mark_started(dialect: Dialect, marks: Sequence[tuple[int, int, int]], now_ms: int | None) -> Plan[None]:
    """Write when attempts started: their ids, their leases, and how many milliseconds ago.

    Jobs that other transactions have locked are left out, here and below.
    """
    marks = sorted(marks)
    yield from write_free_claims_of(dialect, [job_id for job_id, lease, _ in marks if lease == 1])
    document = {str(job_id): (lease, age_ms) for job_id, lease, age_ms in marks}
    yield from dialect.ask(MARK_STARTED, now_ms, [mark[0] for mark in marks], document)


def mark_progress(
    dialect: Dialect, marks: Sequence[tuple[int, int, float, str | None]], now_ms: int | None
) -> Plan[None]:
    """Write the progress of attempts (ids, leases, shares and messages), which is also a heartbeat of each."""
    yield from write_free_claims_of(dialect, [job_id for job_id, lease, _, _ in marks if lease == 1])
    document = {str(job_id): (lease, share, message) for job_id, lease, share, message in marks}
    yield from dialect.ask(MARK_PROGRESS, now_ms, [mark[0] for mark in marks], document)


def retag(dialect: Dialect, job_ids: Collection[int]) -> Plan[None]:
    """Copy the status of these jobs to their tags. PostgreSQL has a trigger for that, and nothing is run there."""
    if job_ids and any((yield from dialect.ask(ANY_TAG))):
        yield from dialect.ask(RETAG, job_ids)
