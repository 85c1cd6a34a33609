"""What is written about a running attempt, and about the tags of a job."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rowcall.store.dialect import Dialect
from rowcall.store.queries.claims import MARK, Mark
from rowcall.store.queries.jobs import ANY_TAG, RETAG
from rowcall.store.statement import Plan


def mark(dialect: Dialect, marks: Sequence[Mark]) -> Plan[None]:
    """Write when attempts started, or their progress, which is also a heartbeat. Claims that are locked are skipped.

    Of several attempts at one job, the last one counts: the handler of an earlier one may still run.
    """
    latest = {one.job_id: one for one in sorted(marks, key=lambda one: one.lease)}
    yield from dialect.ask(MARK, sorted(latest), {str(job_id): one for job_id, one in latest.items()})


def retag(dialect: Dialect, job_ids: Collection[int]) -> Plan[None]:
    """Copy the status of these jobs to their tags. PostgreSQL has a trigger for that, and nothing is run there."""
    if job_ids and any((yield from dialect.ask(ANY_TAG))):
        yield from dialect.ask(RETAG, job_ids)
