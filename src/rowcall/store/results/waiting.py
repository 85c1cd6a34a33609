"""Plans for waiters: callers that wait for the end of jobs."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from rowcall.store.dialect import Dialect
from rowcall.store.results.queries import ENDS, NOTIFY_WAITERS, NOTIFY_WAITERS_OF_ENDED
from rowcall.store.statement import Plan


class Ends(NamedTuple):
    """Jobs that have ended, and jobs that an open transaction may be about to end without having seen the waiter."""

    over: set[int]
    unsure: set[int]


def ends(dialect: Dialect, job_ids: Collection[int]) -> Plan[Ends]:
    """Return which of the jobs have ended, or may be about to."""
    found = yield from dialect.ask(ENDS, sorted(job_ids))
    return Ends({job_id for job_id, over in found if over}, {job_id for job_id, over in found if not over})


def notify_waiters(dialect: Dialect, job_ids: Collection[int] | None) -> Plan[None]:
    """Notify the waiters of these jobs, or of all that have ended, once the transaction is committed."""
    if job_ids is None:
        yield from dialect.ask(NOTIFY_WAITERS_OF_ENDED)
    else:
        yield from dialect.ask(NOTIFY_WAITERS, sorted(job_ids))
