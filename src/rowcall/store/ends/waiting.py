"""The end of jobs without a claim: expired, cancelled, refused, or completed by a person."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from rowcall.domain.job import Job, Status, serves
from rowcall.domain.lifecycle import Move, target
from rowcall.domain.outcome import CANCELLED_BY_HAND_CODE, CHAIN_COMPLETED_CODE, DEADLINE_CODE, EXPIRED_CODE
from rowcall.domain.payload import MISMATCH_CODE, UNKNOWN_TASK_CODE
from rowcall.domain.step import CHANGED_CODE
from rowcall.store.blobs.references import refer_to
from rowcall.store.counts.tallies import broken, cancelled_by_hand, completed_by_hand
from rowcall.store.counts.tallies import expired as tallies_of_expired
from rowcall.store.dialect import Dialect
from rowcall.store.ends.after import Locked, WaitingEnd, after_end, any_followed, end_waiting
from rowcall.store.new_job import OnEnd
from rowcall.store.queries import ends as queries
from rowcall.store.queries.claims import IS_CONSUMED, InUse, parts_of, takes
from rowcall.store.queries.counts import Tally
from rowcall.store.queries.flows import Touched
from rowcall.store.queries.workers import KNOWN_TASKS
from rowcall.store.statement import Plan

EXPIRED_AT_ONCE = 1000
FAILED_AT_ONCE = 500


def expire(dialect: Dialect, in_use: InUse) -> Plan[int]:
    """Cancel jobs that were not started in time; return how many."""
    details = dict((yield from dialect.ask(queries.FIND_EXPIRED, EXPIRED_AT_ONCE)))
    details.update((yield from dialect.ask(queries.FIND_EXPIRED_READY, EXPIRED_AT_ONCE)))
    if not details:
        return 0
    end = WaitingEnd(target(Status.PENDING, Move.EXPIRE), EXPIRED_CODE)
    expired = yield from end_waiting(dialect, details, end)
    ids, tallies = [job.id for job in expired], tallies_of_expired(expired)
    followed = any_followed(expired)
    yield from after_end(dialect, ids, tallies, (), in_use, Locked.SKIP, claimed=False, followed=followed)
    return len(expired)


def end_overdue(dialect: Dialect, in_use: InUse, on_end: OnEnd | None) -> Plan[int]:
    """Fail jobs that wait and have not ended by their deadlines; return how many."""
    overdue = yield from dialect.ask(queries.FIND_OVERDUE, EXPIRED_AT_ONCE)
    overdue += yield from dialect.ask(queries.FIND_OVERDUE_READY, EXPIRED_AT_ONCE)
    ended = 0
    for task, queue in sorted({(job.type, job.queue) for job in overdue}):
        details = {job.job_id: job.detail for job in overdue if (job.type, job.queue) == (task, queue)}
        follows = None if on_end is None else on_end(task, queue)
        end = WaitingEnd(target(Status.PENDING, Move.OVERRUN), DEADLINE_CODE, on_end=follows)
        failed = yield from end_waiting(dialect, details, end)
        ids, tallies = [job.id for job in failed], broken(failed, end.status, end.error_code)
        followed = any_followed(failed)
        yield from after_end(dialect, ids, tallies, (), in_use, Locked.SKIP, claimed=False, followed=followed)
        ended += len(failed)
    return ended


def cancel_waiting(dialect: Dialect, jobs: Sequence[Job], reason: str | None) -> Plan[None]:
    """Cancel locked jobs that wait."""
    end = WaitingEnd(target(Status.PENDING, Move.CANCEL), CANCELLED_BY_HAND_CODE)
    ids = [job.id for job in jobs]
    followed = any_followed((yield from end_waiting(dialect, dict.fromkeys(ids, reason), end)))
    tallies = [cancelled_by_hand(job, CANCELLED_BY_HAND_CODE) for job in jobs]
    yield from after_end(dialect, ids, tallies, (), locked=Locked.SKIP, claimed=False, followed=followed)


def complete_by_hand(dialect: Dialect, job: Job, result: str | None) -> Plan[None]:
    """Complete a locked job that has not finished. An attempt that runs loses its lease."""
    end = WaitingEnd(target(job.status, Move.COMPLETE), result=result, running=job.status is Status.RUNNING)
    followed = any_followed((yield from end_waiting(dialect, {job.id: None}, end)))
    yield from refer_to(dialect, [result], [job.id])
    tallies = [completed_by_hand(job)]
    yield from after_end(dialect, [job.id], tallies, locked=Locked.SKIP, claimed=False, followed=followed)


def skip_steps(dialect: Dialect, jobs: Sequence[Job]) -> Plan[None]:
    """Cancel locked steps of a chain that is completed. Attempts that run lose their leases."""
    end = WaitingEnd(target(Status.BLOCKED, Move.CANCEL), CHAIN_COMPLETED_CODE, running=True)
    details = dict.fromkeys((job.id for job in jobs), "its chain was completed")
    touched = yield from end_waiting(dialect, details, end)
    tallies, followed = broken(touched, end.status, end.error_code), any_followed(touched)
    yield from after_end(dialect, list(details), tallies, locked=Locked.SKIP, claimed=False, followed=followed)


def known_keys(dialect: Dialect, pairs: Iterable[tuple[str, str]]) -> Plan[set[tuple[str, str]]]:
    """Return the pairs of a queue and a key of ready jobs that a registered worker may claim."""
    workers = yield from dialect.ask(KNOWN_TASKS)
    return {
        (queue, key)
        for queue, key in pairs
        if any(serves(worker.queues, queue) and takes(worker.tasks, key) for worker in workers)
    }


def fail_unknown(
    dialect: Dialect, queue: str, key: str, due_ms: int, detail: str, on_end: str | None = None
) -> Plan[int]:
    """Fail the first jobs of a key that have been due for `due_ms`, unless someone runs such jobs; return how many."""
    task, unfit = parts_of(key)
    # jobs of the same task that fit may succeed all the time
    (is_consumed,) = yield from dialect.ask(IS_CONSUMED, queue, task, None if unfit else due_ms)
    if is_consumed or (yield from known_keys(dialect, [(queue, key)])):
        return 0
    refusals = yield from dialect.ask(queries.FIND_UNKNOWN, queue, key, due_ms, FAILED_AT_ONCE)
    if not refusals:
        return 0
    by_code: dict[str, dict[int, str | None]] = defaultdict(dict)
    for job_id, refusal, refused_by in refusals:
        code = UNKNOWN_TASK_CODE if not unfit else CHANGED_CODE if refused_by == CHANGED_CODE else MISMATCH_CODE
        by_code[code][job_id] = f"{refusal}; {detail}" if unfit and refusal else detail
    failed: list[Touched] = []
    tallies: list[Tally] = []
    for code, details in by_code.items():
        end = WaitingEnd(target(Status.PENDING, Move.REFUSE), code, on_end=on_end)
        ended = yield from end_waiting(dialect, details, end)
        failed += ended
        tallies += broken(ended, end.status, code)
    ids, followed = [job.id for job in failed], any_followed(failed)
    yield from after_end(dialect, ids, tallies, (), locked=Locked.SKIP, claimed=False, followed=followed)
    return len(failed)
