"""What people do to jobs and queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import msgspec

from rowcall.actions import CANCEL, COMPLETE, DELETE, EDIT, FROM_STEP, RESCHEDULE, RETRY, SET_PRIORITY, Action
from rowcall.base.times import time_of
from rowcall.domain.errors import DuplicateJob, InvalidOption, RowcallError, StillNeeded, WrongState
from rowcall.domain.failure import Scrub, unchanged
from rowcall.domain.job import FINISHED, WAITING, Job, Status
from rowcall.domain.limits import job_limits_from_text
from rowcall.store.batches.finishing import batches_left_by, finish_over, reopen
from rowcall.store.blobs.references import refer_to
from rowcall.store.counts.tallies import revived
from rowcall.store.dialect import Dialect
from rowcall.store.ends.next_steps import Then, refuse_taken, write_next_steps
from rowcall.store.ends.waiting import cancel_waiting, complete_by_hand
from rowcall.store.flows.blockers import block_again
from rowcall.store.jobs.inspect import find, get, lock, lock_jobs
from rowcall.store.jobs.marks import retag
from rowcall.store.order.first_in_order import orders_of, ready_heads
from rowcall.store.queries import control as queries
from rowcall.store.queries.control import Rerun
from rowcall.store.queries.counts import TALLY
from rowcall.store.queries.ends import LEASES
from rowcall.store.queries.flows import CHAIN_STEPS, DEPENDANTS, FALLEN, LOCK_KEYS
from rowcall.store.queries.jobs import DELETE as DELETE_JOBS
from rowcall.store.queries.steps import END_SLEEPS, OPEN_CHILDREN
from rowcall.store.results.readers import notify_waiters
from rowcall.store.schema import LAST_DEADLINE_MS
from rowcall.store.statement import Plan
from rowcall.store.steps.recorded import forget_failed_calls, forget_steps, start_over

# again


def retry(
    dialect: Dialect,
    job_id: int,
    attempts_of: Callable[[str], int],
    actor: str | None,
    from_step: str | None = None,
    scrub: Scrub = unchanged,
) -> Plan[Job]:
    if from_step is not None:
        return (yield from _retry_from(dialect, job_id, attempts_of, actor, from_step, scrub))
    job = yield from _allowed(dialect, job_id, RETRY)
    yield from _refuse_obstacles(dialect, job)
    yield from rerun(dialect, [job], [Rerun(job.id, attempts_of(job.type))], actor)
    return (yield from get(dialect, job_id))


def _retry_from(
    dialect: Dialect, job_id: int, attempts_of: Callable[[str], int], actor: str | None, from_step: str, scrub: Scrub
) -> Plan[Job]:
    """Delete the recorded steps from that one on, and let the job run: again, or now if it waits."""
    job = yield from _allowed(dialect, job_id, FROM_STEP)
    if job.status in FINISHED:
        yield from _refuse_obstacles(dialect, job)
    yield from forget_steps(dialect, job_id, from_step, scrub)
    if job.status in FINISHED:
        rerun_job = Rerun(job.id, attempts_of(job.type))
        yield from rerun(dialect, [job], [rerun_job], actor, f"from step {from_step!r}")
    else:
        yield from _reschedule(dialect, [job_id], None, 0)
        yield from retag(dialect, [job_id])
        yield from dialect.ask(queries.RECORD_EVENTS, [job_id], "MANUAL_RETRY", actor, f"from step {from_step!r}")
    return (yield from get(dialect, job_id))


def _refuse_obstacles(dialect: Dialect, job: Job) -> Plan[None]:
    for obstacle in (yield from obstacles_of(dialect, [job])).values():
        raise obstacle


def rerun(
    dialect: Dialect,
    jobs: Sequence[Job],
    reruns: Sequence[Rerun],
    actor: str | None,
    detail: str | None = None,
) -> Plan[None]:
    """Let locked jobs that have finished run again, and the jobs that fell with them.

    `detail` says where they continue; otherwise succeeded ones start over.
    """
    fallen = yield from _fallen_with(dialect, jobs)
    revivals = [*jobs, *fallen]
    yield from rerun_locked(dialect, [*reruns, *(Rerun(job.id, 0) for job in fallen)])
    if detail is None:
        yield from start_over(dialect, [job.id for job in revivals if job.status is Status.SUCCEEDED])
    yield from forget_failed_calls(dialect, [job.id for job in revivals if job.status is not Status.SUCCEEDED])
    yield from dialect.ask(TALLY, [revived(job) for job in revivals])
    yield from reopen(dialect, revivals)
    yield from dialect.ask(queries.RECORD_EVENTS, [job.id for job in jobs], "MANUAL_RETRY", actor, detail)
    if fallen:
        yield from dialect.ask(queries.RECORD_EVENTS, [job.id for job in fallen], "MANUAL_RETRY", actor, None)
    # a job that has run had all its blockers, and a job that was completed from outside needs none
    waiting = [job.id for job in revivals if job.attempt == 0 and job.status is not Status.SUCCEEDED]
    if waiting:
        yield from block_again(dialect, waiting)


def rerun_locked(dialect: Dialect, reruns: Sequence[Rerun]) -> Plan[None]:
    ids = [job.id for job in reruns]
    yield from dialect.ask(queries.RECORD_LAST_ATTEMPTS, ids)
    yield from dialect.ask(queries.RECORD_ENDS, ids)
    given = {str(job.id): [job.more_attempts, job.run_at_ms] for job in reruns}
    yield from dialect.ask(queries.RERUN, given)
    yield from retag(dialect, ids)


def _fallen_with(dialect: Dialect, jobs: Sequence[Job]) -> Plan[list[Job]]:
    """Return jobs that never ran because one of these did not succeed: later steps of a chain, and what waited for it.

    Jobs that cannot run again now, because another one has their key, are left out, and what fell with them.
    """
    fallen: list[Job] = []
    newest = jobs
    known = {job.id for job in jobs}
    keys: set[tuple[str, str | None]] = {(job.type, job.key) for job in jobs}
    while newest:
        steps = yield from _fallen_steps(dialect, newest)
        concerned = [*newest, *steps]
        ids = sorted({job.id for job in concerned} | {job.chain_id for job in concerned if job.chain_id is not None})
        of_jobs = {job.id for job in concerned}
        edges = yield from dialect.ask(FALLEN, ids)
        fell = {edge.job_id for edge in edges if edge.of_chain or edge.blocker_id in of_jobs}
        waited = sorted(fell - known - {job.id for job in steps})
        locked = [job for job in (yield from lock_jobs(dialect, waited)) if job.status in FINISHED]
        candidates = [job for job in (*steps, *locked) if job.id not in known]
        obstacles = yield from obstacles_of(dialect, candidates)
        newest = []
        for job in candidates:
            if job.id not in obstacles and (job.key is None or (job.type, job.key) not in keys):
                newest.append(job)
                keys.add((job.type, job.key))
        known |= {job.id for job in newest}
        fallen += newest
    return fallen


def _fallen_steps(dialect: Dialect, jobs: Sequence[Job]) -> Plan[list[Job]]:
    """Return later steps of the same chains that never ran because one of these jobs did not succeed."""
    known = {job.id for job in jobs}
    first = {job.chain_id: job.chain_index or 0 for job in jobs if job.chain_id is not None}
    fallen = []
    for chain_id, chain_index in sorted(first.items()):
        for step in (yield from dialect.ask(CHAIN_STEPS, chain_id)):
            is_later = step.id not in known and (step.chain_index or 0) > chain_index
            if is_later and step.attempt == 0 and step.status in (Status.FAILED, Status.CANCELLED):
                locked = yield from find(dialect, step.id, lock=True)
                if locked is not None and locked.status in FINISHED:
                    fallen.append(locked)
    return fallen


def obstacles_of(dialect: Dialect, jobs: Sequence[Job]) -> Plan[dict[int, RowcallError]]:
    """Return why some of these finished jobs must not run again, by id."""
    concerned = {job.id: job for job in jobs if job.key is not None or job.chain_id is not None}
    obstacles: dict[int, RowcallError] = {}
    if not concerned:
        return obstacles
    for task, keys in sorted(_keys_of(concerned.values()).items()):
        yield from dialect.ask(LOCK_KEYS, task, sorted(keys))
    for job_id, kind, other_id in (yield from dialect.ask(queries.OBSTACLES, list(concerned))):
        job = concerned[job_id]
        if kind == "key":
            obstacles[job_id] = DuplicateJob(job.type, job.key or "", other_id)
        else:
            problem = f"it is a step of chain {job.chain_id}, and job {other_id} came after it: retry the last step"
            obstacles.setdefault(job_id, WrongState(job_id, job.status, "retry", [], problem))
    return obstacles


def _keys_of(jobs: Iterable[Job]) -> dict[str, set[str]]:
    keys: dict[str, set[str]] = {}
    for job in jobs:
        if job.key is not None:
            keys.setdefault(job.type, set()).add(job.key)
    return keys


# cancelled


def cancel(dialect: Dialect, job_id: int, reason: str | None, actor: str | None) -> Plan[Job]:
    """Cancel a waiting job, or request the cancellation of a running one."""
    job = yield from _allowed(dialect, job_id, CANCEL)
    yield from cancel_locked(dialect, [job], reason, actor)
    return (yield from get(dialect, job_id))


def cancel_locked(dialect: Dialect, jobs: Sequence[Job], reason: str | None, actor: str | None) -> Plan[int]:
    """Cancel locked jobs that have not finished, and return how many changed."""
    waiting = [job for job in jobs if job.status in WAITING]
    running = [job.id for job in jobs if job.status is Status.RUNNING]
    if waiting:
        ids = [job.id for job in waiting]
        yield from dialect.ask(queries.RECORD_EVENTS, ids, "CANCELLED", actor, reason)
        yield from cancel_waiting(dialect, waiting, reason)
    requested = (yield from dialect.ask(queries.REQUEST_CANCEL, running)) if running else []
    if requested:
        yield from dialect.ask(queries.RECORD_EVENTS, sorted(requested), "CANCEL_REQUESTED", actor, reason)
    return len(waiting) + len(requested)


# completed


def complete(
    dialect: Dialect, job_id: int, result: str | None, actor: str, then: Then | None, check: Callable[[str], object]
) -> Plan[None]:
    """Complete a waiting job, which is not run any more, and write the next step of its chain if one is given.

    `check` raises if the result does not fit the job's task.
    """
    job = yield from _allowed(dialect, job_id, COMPLETE)
    check(job.type)
    if then is not None:
        then = then.after(job.id, job.chain_id, job.chain_index)
        yield from refuse_taken(dialect, [then])
    yield from complete_locked(dialect, job, result, actor, None, then)


def complete_locked(
    dialect: Dialect, job: Job, result: str | None, actor: str, detail: str | None, then: Then | None = None
) -> Plan[None]:
    """Complete a locked job that has not finished."""
    yield from dialect.ask(queries.RECORD_EVENTS, [job.id], "COMPLETED", actor, detail)
    if then is not None:
        yield from write_next_steps(dialect, {job.id: then})
    yield from complete_by_hand(dialect, job, result)


# reschedule and reprioritize


def reschedule(dialect: Dialect, job_id: int, run_at_ms: int | None, delay_ms: int, actor: str | None) -> Plan[Job]:
    before = yield from _allowed(dialect, job_id, RESCHEDULE)
    yield from reschedule_locked(dialect, [before], run_at_ms, delay_ms, actor)
    return (yield from get(dialect, job_id))


def reschedule_locked(
    dialect: Dialect, jobs: Sequence[Job], run_at_ms: int | None, delay_ms: int, actor: str | None
) -> Plan[None]:
    """Change the time of locked jobs that wait."""
    before = {job.id: job for job in jobs}
    moved = yield from _reschedule(dialect, list(before), run_at_ms, delay_ms)
    yield from retag(dialect, list(before))
    details = [
        (job_id, f"from {_written(before[job_id].run_at)} to {_written(time_of(at_ms))}") for job_id, at_ms in moved
    ]
    yield from dialect.ask(queries.RECORD_DETAILS, details, "RESCHEDULED", actor)


def _reschedule(
    dialect: Dialect, job_ids: list[int], run_at_ms: int | None, delay_ms: int
) -> Plan[list[queries.Moved]]:
    moved = yield from dialect.ask(queries.RESCHEDULE, job_ids, run_at_ms, delay_ms, LAST_DEADLINE_MS)
    yield from dialect.ask(END_SLEEPS, job_ids)
    return moved


class Edited(msgspec.Struct, frozen=True, kw_only=True):
    """What to change about a waiting job; None keeps what there is."""

    names: tuple[str, ...]
    payload: str | None = None
    limits: str | None = None
    shared: tuple[str | int | None, ...] | None = None
    """The values of the four columns from `fair` on."""
    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    timeout_seconds: float | None = None
    retry: str | None = None
    tags: tuple[str, ...] | None = None
    expires_at_ms: int | None = None
    expires_in_ms: int | None = None
    run_at_ms: int | None = None
    delay_ms: int | None = None


def edit(dialect: Dialect, job_id: int, edited: Edited, actor: str) -> Plan[Job]:
    """Change a waiting job. What holds it is checked again when it is claimed."""
    before = yield from _allowed(dialect, job_id, EDIT)
    if edited.max_attempts is not None and edited.max_attempts <= before.attempt:
        raise InvalidOption("max_attempts", f"must be above {before.attempt}, the attempts that job {job_id} has used")
    limits = edited.limits
    if limits is not None and not (yield from _has_limits_of_task(dialect, job_id, limits)):
        limits = None
    tags = msgspec.json.encode(edited.tags).decode() if edited.tags else None
    yield from dialect.ask(
        queries.EDIT,
        job_id,
        edited.payload,
        limits,
        edited.queue,
        edited.priority,
        edited.max_attempts,
        edited.timeout_seconds,
        edited.retry,
        int(edited.tags is not None),
        tags,
        edited.expires_at_ms,
        edited.expires_in_ms,
    )
    if edited.shared is not None:
        orders = yield from orders_of(dialect, [job_id])
        yield from dialect.ask(queries.SHARE, job_id, *edited.shared)
        yield from ready_heads(dialect, orders)
    yield from refer_to(dialect, [edited.payload], [job_id])
    if edited.run_at_ms is not None or edited.delay_ms is not None:
        yield from _reschedule(dialect, [job_id], edited.run_at_ms, edited.delay_ms or 0)
    if edited.tags is not None:
        yield from dialect.ask(queries.DROP_TAGS, job_id)
        yield from dialect.ask(queries.ADD_TAGS, job_id, edited.tags)
    else:
        yield from retag(dialect, [job_id])
    yield from dialect.ask(queries.RECORD_EVENTS, [job_id], "EDITED", actor, ", ".join(edited.names))
    return (yield from get(dialect, job_id))


def _has_limits_of_task(dialect: Dialect, job_id: int, limits: str) -> Plan[bool]:
    """Return whether a job has the limits of its task, which count by its new arguments, and none from its enqueue."""
    (written,) = yield from dialect.ask(queries.LIMITS_OF, job_id)
    return written is None or _limit_names(written) == _limit_names(limits)


def _limit_names(limits: str) -> list[str]:
    return [entry.name for entry in job_limits_from_text(limits) or ()]


def set_priority(dialect: Dialect, job_id: int, priority: int, actor: str | None) -> Plan[Job]:
    before = yield from _allowed(dialect, job_id, SET_PRIORITY)
    yield from prioritize_locked(dialect, [before], priority, actor)
    return (yield from get(dialect, job_id))


def prioritize_locked(dialect: Dialect, jobs: Sequence[Job], priority: int, actor: str | None) -> Plan[None]:
    """Change the priority of locked jobs that have not finished."""
    yield from dialect.ask(queries.SET_PRIORITY, [job.id for job in jobs], priority)
    details = [(job.id, f"from {job.priority} to {priority}") for job in jobs]
    yield from dialect.ask(queries.RECORD_DETAILS, details, "PRIORITY_CHANGED", actor)


def delete(dialect: Dialect, job_id: int) -> Plan[None]:
    job = yield from _allowed(dialect, job_id, DELETE)
    for obstacle in (yield from delete_locked(dialect, [job])).values():
        raise obstacle


def delete_locked(dialect: Dialect, jobs: Sequence[Job]) -> Plan[dict[int, RowcallError]]:
    """Delete locked jobs that do not run. Keep jobs that others need, and return them with the reasons."""
    kept = yield from kept_by_family(dialect, jobs)
    jobs = [job for job in jobs if job.id not in kept]
    orders = yield from orders_of(dialect, [job.id for job in jobs])
    awaited = {job.id for job in jobs} | {job.chain_id for job in jobs if job.chain_id is not None}
    if not (yield from dialect.ask(DEPENDANTS, sorted(awaited))):
        yield from dialect.ask(DELETE_JOBS, [job.id for job in jobs])
    else:
        keepers: set[int | None] = set()
        for job in jobs:
            if job.parent_id in keepers and job.parent_id is not None:
                kept[job.id] = StillNeeded(job.id, [job.parent_id])
            elif waiting := (yield from _waiting_for(dialect, job)):
                kept[job.id] = StillNeeded(job.id, waiting)
            else:
                yield from dialect.ask(DELETE_JOBS, [job.id])
                continue
            if job.status not in FINISHED:
                keepers.add(job.id)
    yield from ready_heads(dialect, orders)
    yield from notify_waiters(dialect, [job.id for job in jobs if job.id not in kept])
    yield from finish_over(dialect, batches_left_by(jobs), wait=False)
    return kept


def kept_by_family(dialect: Dialect, jobs: Iterable[Job]) -> Plan[dict[int, RowcallError]]:
    """Return jobs that cannot be deleted, with the reasons: a parent that has not ended keeps its children, and needs
    to be cancelled first if they have not ended.
    """
    jobs = sorted(jobs, key=lambda job: job.id)  # parents first
    unended = {job.id: job for job in jobs if job.status not in FINISHED}
    kept: dict[int, RowcallError] = {}
    for parent in (yield from dialect.ask(OPEN_CHILDREN, sorted(unended))) if unended else ():
        some = f"its child {parent.child_id} has" if parent.number == 1 else f"{parent.number} of its children have"
        job, problem = unended[parent.parent_id], f"{some} not ended; cancel it first"
        kept[job.id] = WrongState(job.id, str(job.status), "delete", [*map(str, FINISHED)], problem)
    parents = {job.parent_id for job in jobs if job.parent_id is not None}
    rows = (yield from dialect.ask(LEASES, sorted(parents))) if parents else []
    keepers = {job_id for job_id, _, status, _ in rows if status not in FINISHED}
    keepers -= unended.keys() - kept.keys()
    for job in jobs:
        if job.parent_id in keepers and job.id not in kept:
            kept[job.id] = StillNeeded(job.id, [job.parent_id])
            keepers |= {job.id} & unended.keys()
    return kept


def _waiting_for(dialect: Dialect, job: Job) -> Plan[list[int]]:
    waiting = {other.id for other in (yield from dialect.ask(DEPENDANTS, [job.id]))}
    if job.chain_id is not None:  # a job that waits for the chain waits for its last step, whichever that will be
        steps = {step.id for step in (yield from dialect.ask(CHAIN_STEPS, job.chain_id))}
        waiting |= {other.id for other in (yield from dialect.ask(DEPENDANTS, [job.chain_id]))} - steps
    return sorted(waiting)


def _allowed(dialect: Dialect, job_id: int, action: Action) -> Plan[Job]:
    job = yield from lock(dialect, job_id)
    action.check(job)
    return job


def _written(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03} UTC"
