"""Small writes beside the status of a job: its tags, when an attempt started, its progress."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import itemgetter
from typing import NamedTuple

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


class ProgressMark(NamedTuple):
    """A report of an attempt. If it `replays`, the handler may only repeat what an earlier attempt has reported."""

    job_id: int
    lease: int
    share: float
    message: str | None
    age_ms: int = 0
    replays: bool = False

    def at_end(self, age_ms: int, *, succeeded: bool) -> ProgressMark:
        """Return what is written after the attempt was settled, in the same transaction.

        A handler that succeeds has come further than all before it.
        """
        share, replays = (1.0, False) if succeeded else (self.share, self.replays)
        return ProgressMark(self.job_id, self.lease + 1, share, self.message, age_ms, replays)


def mark_progress(dialect: Dialect, marks: Sequence[ProgressMark], now_ms: int | None) -> Plan[None]:
    """Write the progress of attempts, which is also a heartbeat of each. Skip what replays, if the job has steps.

    Of several attempts at one job, the last one counts: the handler of an earlier one may still run.
    """
    marks = sorted(marks, key=itemgetter(0, 1))
    yield from write_free_claims_of(dialect, [mark.job_id for mark in marks if mark.lease == 1])
    document = {str(mark.job_id): mark[1:] for mark in marks}
    yield from dialect.ask(MARK_PROGRESS, now_ms, [mark.job_id for mark in marks], document)


def retag(dialect: Dialect, job_ids: Collection[int]) -> Plan[None]:
    """Copy the status of these jobs to their tags. PostgreSQL has a trigger for that, and nothing is run there."""
    if job_ids and any((yield from dialect.ask(ANY_TAG))):
        yield from dialect.ask(RETAG, job_ids)
