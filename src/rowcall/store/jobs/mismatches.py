"""Jobs that wait for a worker that their arguments fit: some workers refused them, and their time may be over."""

from __future__ import annotations

from collections.abc import Sequence

from rowcall.domain.job import Status
from rowcall.domain.lifecycle import Move, target
from rowcall.domain.payload import MISMATCH_CODE
from rowcall.store.counts.queries import TALLY
from rowcall.store.counts.tallies import broken
from rowcall.store.dialect import Dialect
from rowcall.store.jobs.after_settling import follow
from rowcall.store.jobs.marks import retag
from rowcall.store.jobs.queries import FAIL_MISMATCHED, IN_USE
from rowcall.store.statement import Plan


def fail_overdue(dialect: Dialect, job_ids: Sequence[int], now_ms: int | None) -> Plan[int]:
    """Fail those of the jobs that still wait and whose time is over; return how many."""
    failed = yield from dialect.ask(FAIL_MISMATCHED, now_ms, job_ids)
    yield from retag(dialect, [job.id for job in failed])
    if failed:
        tallies = broken(failed, target(Status.PENDING, Move.REFUSE), MISMATCH_CODE)
        yield from dialect.ask(TALLY, now_ms, tallies)
        (in_use,) = yield from dialect.ask(IN_USE)
        concerned = in_use._replace(slots=False)  # they do not run
        if any(concerned):
            yield from follow(dialect, [job.id for job in failed], concerned, now_ms)
    return len(failed)
