"""What people do to jobs that are not running."""

from __future__ import annotations

from rowcall.errors import StillNeeded, WrongState
from rowcall.job import WAITING, Job
from rowcall.lifecycle import CANCELLED_BY_HAND_CODE, Move, sources
from rowcall.store.dialect import Dialect
from rowcall.store.plans.books import cancelled_by_hand, revived
from rowcall.store.plans.inspect import get, lock
from rowcall.store.statement import Plan


def retry(dialect: Dialect, job_id: int, more_attempts: int, actor: str | None, now_ms: int | None) -> Plan[Job]:
    job = yield from _allowed(dialect, job_id, Move.RERUN, "retry")
    yield from dialect.rerun(job_id, more_attempts, now_ms)
    yield from dialect.tally([revived(job)], now_ms)
    yield from dialect.record_event(job_id, "MANUAL_RETRY", actor, None, now_ms)
    return (yield from get(dialect, job_id))


def cancel(dialect: Dialect, job_id: int, reason: str | None, actor: str | None, now_ms: int | None) -> Plan[Job]:
    job = yield from lock(dialect, job_id)
    if job.status not in WAITING:
        raise WrongState(job_id, job.status, "cancel", [str(status) for status in WAITING])
    yield from dialect.cancel(job_id, CANCELLED_BY_HAND_CODE, reason, now_ms)
    yield from dialect.tally([cancelled_by_hand(job, CANCELLED_BY_HAND_CODE)], now_ms)
    yield from dialect.record_event(job_id, "CANCELLED", actor, reason, now_ms)
    return (yield from get(dialect, job_id))


def delete(dialect: Dialect, job_id: int) -> Plan[None]:
    yield from _allowed(dialect, job_id, Move.DELETE, "delete")
    if waiting := (yield from dialect.dependants([job_id])):
        raise StillNeeded(job_id, sorted(job.id for job in waiting))
    yield from dialect.delete(job_id)


def _allowed(dialect: Dialect, job_id: int, move: Move, verb: str) -> Plan[Job]:
    job = yield from lock(dialect, job_id)
    if job.status not in sources(move):
        raise WrongState(job_id, job.status, verb, [str(status) for status in sources(move)])
    return job
