"""Work without a worker: claim a job, run it, and settle it. The lease of the claim fences every call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from datetime import timedelta
from functools import partial

import msgspec

from rowcall.base.text import code_problem
from rowcall.base.times import time_of, time_or_none
from rowcall.declare.limits import with_derived
from rowcall.declare.retry_policy import policy_of
from rowcall.domain import checks
from rowcall.domain.encryption import Kind, is_hidden
from rowcall.domain.errors import (
    BlobUnreadable,
    CannotDecrypt,
    Control,
    InvalidOption,
    LeaseLost,
    RowcallError,
    seconds_of,
)
from rowcall.domain.job import WAITING, Job, Status
from rowcall.domain.outcome import AttemptBudget, Outcome, Released, Reported, Succeeded, Transition, decide, noted
from rowcall.domain.payload import payload_from_row, result_to_json, tags_from_row
from rowcall.operations import blobs
from rowcall.operations.arguments import checked_actor, checked_id, checked_limit, fitting_result
from rowcall.operations.effects import Blocking, EnsureSchema, Sleep, Uninterrupted, Write, joined, write
from rowcall.operations.enqueue import Bound
from rowcall.operations.flows import step_job
from rowcall.operations.inspect import type_of
from rowcall.queue import Operation, Queue
from rowcall.store.claims.demand import Demand, RoundResult
from rowcall.store.claims.round import claim_by_hand, made
from rowcall.store.control import single_actions
from rowcall.store.counts.tallies import fold
from rowcall.store.ends import attempts as settle
from rowcall.store.ends.next_steps import Then
from rowcall.store.flows.inserted import standing_of
from rowcall.store.new_job import RelatedJob
from rowcall.store.queries.claims import Fence, Ready, new_holder
from rowcall.store.statement import Plan

DEFAULT_LEASE_SECONDS = 300.0
MOST_CLAIMED = 1000
FOLD_EVERY = 200
HELD_SECONDS, MOST_WAITS = 0.005, 40


def dequeue(
    queue: Queue, worker: str, *, queues: Iterable[str] | None = None, lease: float | timedelta = DEFAULT_LEASE_SECONDS
) -> Operation[Job | None]:
    """Claim the next job that is due, or return None."""
    jobs = yield from claim(queue, worker, lease=lease, queues=queues)
    return jobs[0] if jobs else None


def claim(
    queue: Queue,
    worker: str,
    *,
    limit: int = 1,
    lease: float | timedelta = DEFAULT_LEASE_SECONDS,
    queues: Iterable[str] | None = None,
) -> Operation[list[Job]]:
    """Claim up to `limit` jobs for `lease` seconds by the database's clock; `heartbeat` renews it.

    A job that is neither settled nor renewed by then is claimed by another worker, and the attempt counts.
    """
    jobs: list[Job] = []
    demand = _checked_demand(queue, worker, limit, lease, queues)
    try:
        yield from Uninterrupted(_claim_all(queue, jobs, demand))
    except asyncio.CancelledError:  # no caller would learn of these
        yield from Uninterrupted(_release_all(queue, jobs))
        raise
    return jobs


def _claim_all(queue: Queue, jobs: list[Job], demand: Demand) -> Operation[None]:
    waits = 0
    while True:
        try:
            result, claimed = yield from Write(_claim_some, queue, demand, demand.slots - len(jobs))
            if queue.blobs.requires or any(is_hidden(ready.payload) for ready in result.started):
                claimed = yield from Blocking(_with_payloads, queue, result, claimed)
            jobs.extend(claimed)
        except Exception:
            if jobs:  # these are claimed: the caller must learn of them
                return
            raise
        if not _goes_on(result, jobs, demand.slots, waits):
            return
        if not (result.started or result.more):  # another claimer holds the limit of all that is ready, for a moment
            waits += 1
            yield from Sleep(HELD_SECONDS)


def _release_all(queue: Queue, jobs: list[Job]) -> Operation[None]:
    for job in jobs:
        with contextlib.suppress(RowcallError):  # else its lease runs out
            yield from release(queue, job)


def complete(
    queue: Queue,
    job: Job | int,
    result: object = None,
    *,
    then: Bound | None = None,
    actor: str | None = None,
    connection: object = None,
) -> Operation[None]:
    """Settle a claimed job as succeeded. `LeaseLost` if it is no longer yours.

    Or complete a job that waits, given by its id, without running it: for approvals. `WrongState` if it runs or has
    finished. `then` is the next step of its chain.

        jobs.complete(approval.id, {"approved": True}, then=ship.bind(order_id=7), actor="ann")
    """
    name = _owned(job).type if isinstance(job, Job) else "complete"
    text = fitting_result(queue, name, result) if isinstance(job, Job) else result_to_json(name, result)
    connection = yield from joined(queue, connection)
    task = (yield from type_of(queue, job, connection)) if queue.backend.cipher is not None else None
    stored = yield from blobs.store(queue, name, text, Kind.RESULT, task)
    step = (yield from _next_step(queue, then, connection)) if then is not None else None
    if isinstance(job, Job):
        step = None if step is None else step.after(job.id, job.chain_id, job.chain_index)
        yield from _settle(queue, job, Succeeded(stored), connection, step)
        return
    make_plan = blobs.safe_on(connection, single_actions.complete, stored, None if step is None else step.payload)
    check = partial(fitting_result, queue, result=result)
    who = checked_actor(actor)
    yield from write(queue, connection, make_plan, checked_id(job), stored, who, step, check)


def _next_step(queue: Queue, call: Bound, connection: object) -> Operation[Then]:
    job = with_derived(step_job(call, "then"), call.payload)
    if job.after:
        yield from write(queue, connection, standing_of, [RelatedJob(job=job, payload=call.payload)])
    if queue.declared.tracing is not None:
        job = msgspec.structs.replace(job, trace_context=queue.declared.tracing.carried())
    return Then(job, (yield from blobs.store(queue, job.type, call.payload, Kind.ARGUMENTS)))


def fail(
    queue: Queue, job: Job, error: str | BaseException, detail: str = "", *, connection: object = None
) -> Operation[None]:
    """Settle the attempt as failed: with a code such as `"TIMEOUT:UPSTREAM_API"` and a detail, or an exception."""
    connection = yield from joined(queue, connection)
    if isinstance(error, BaseException):
        if isinstance(error, Control) and error.hold is not None:
            queue.declared.limits.check_hold(error.hold, None)
        yield from _settle(queue, job, queue.declared.failures.raised(error), connection)
        return
    if problem := code_problem(error):
        raise InvalidOption("error", f"{problem}; an exception works too")
    yield from _settle(queue, job, Reported(error, queue.declared.failures.detail(detail)), connection)


def release(queue: Queue, job: Job) -> Operation[None]:
    """Put a claimed job back at once, without using up an attempt."""
    yield from _settle(queue, job, Released())


def heartbeat(queue: Queue, job: Job, *, lease: float | timedelta | None = None) -> Operation[None]:
    """Renew the lease of a claimed job, from now on for `lease` seconds if that is given.

    `JobCancelled` if someone has called `cancel(id)`: stop, and `release` the job, which ends it.
    """
    lease_ms = None if lease is None else _lease_ms(lease)
    fence = Fence(_owned(job).id, job.lease, job.holder)
    yield from Write(settle.heartbeat, queue.dialect, fence, lease_ms)


def _lease_ms(lease: float | timedelta) -> int:
    lease_ms = round(seconds_of("lease", lease) * 1000)
    if lease_ms < 1:
        raise InvalidOption("lease", f"must be more than 0 seconds, got {lease!r}")
    return lease_ms


def _checked_demand(
    queue: Queue, worker: str, limit: int, lease: float | timedelta, queues: Iterable[str] | None
) -> Demand:
    checks.name("worker", worker)
    checked_limit(limit, MOST_CLAIMED)
    lease_ms = _lease_ms(lease)
    names = None if queues is None else list(queues)
    if isinstance(queues, str) or names == []:
        raise InvalidOption("queues", f"must be a list of names, or None for all, got {queues!r}")
    for name in names or ():
        checks.queue("queues", name)
    return Demand(
        worker=worker,
        holder=new_holder(),
        slots=limit,
        queues=None if names is None else dict.fromkeys(names),
        lease_ms=lease_ms,
        limits=queue.declared.limits.declared,
        aliases=queue.declared.aliases,
        on_end=queue.declared.follow_ups.on_end_of,
    )


def _claim_some(queue: Queue, demand: Demand, slots: int) -> Plan[tuple[RoundResult, list[Job]]]:
    demand = msgspec.structs.replace(demand, slots=slots, last_queue=queue.backend.last_queue)
    result = yield from claim_by_hand(queue.dialect, demand)
    queue.backend.last_queue = result.last_queue
    # before the commit: a claim whose jobs cannot be handed over must not be committed
    make = partial(job_of, worker=demand.worker, claimed_at_ms=result.work.now_ms)
    return result, (yield from made(queue.dialect, result.started, make))


def _with_payloads(queue: Queue, result: RoundResult, claimed: list[Job]) -> list[Job]:
    """Return the claimed jobs. One whose large payload cannot be read has failed, as it would in a worker."""
    jobs = []
    by_id = {ready.id: ready for ready in result.started}
    for job in claimed:
        ready = by_id[job.id]
        if not (queue.blobs.requires or is_hidden(ready.payload)):
            jobs.append(job)
            continue
        known = queue.declared.tasks.get(ready.type)
        takes_outcome = known is not None and known.takes_outcome
        try:
            ready.payload = queue.blobs.payload(ready.payload, ready.type, takes_outcome=takes_outcome)
        except BlobUnreadable as error:
            with contextlib.suppress(LeaseLost):
                queue.run(_settle(queue, job, queue.declared.failures.raised(error)))
        except CannotDecrypt as error:
            with contextlib.suppress(LeaseLost):
                queue.run(_settle(queue, job, queue.declared.failures.unfit(error, error.error_code)))
        except BaseException:  # the store cannot be reached, which is not the fault of any job
            for other in claimed:
                with contextlib.suppress(LeaseLost):
                    queue.run(release(queue, other))
            raise
        else:
            jobs.append(msgspec.structs.replace(job, payload=payload_from_row(ready.payload)))
    return jobs


def _settle(
    queue: Queue, job: Job, outcome: Outcome, connection: object = None, then: Then | None = None
) -> Operation[None]:
    policy = policy_of(
        queue.declared.tasks.get(_owned(job).type), job.retry, job.queue, queue.declared.options.defaults
    )
    transition = decide(AttemptBudget(job.attempt, job.max_attempts), outcome, policy, chance=queue.clock.chance())
    transition = queue.declared.follow_ups.followed(transition, job.type, job.queue)
    if connection is None:  # a caller's transaction may be long, and other ends would wait for it
        transition = noted(transition, queue.declared.limits.breakers)
    if queue.backend.cipher is not None:
        yield from EnsureSchema()
        transition = queue.backend.cipher.encrypted(transition, job.type)
    if connection is None:
        yield from Write(_settle_one, queue, job, transition, then)
    else:
        texts = transition.result, None if then is None else then.payload
        make_plan = blobs.safe_on(connection, settle.settle_one, *texts)
        yield from write(queue, connection, make_plan, job, transition, then)


def _settle_one(queue: Queue, job: Job, transition: Transition, then: Then | None) -> Plan[None]:
    yield from settle.settle_one(queue.dialect, job, transition, then)
    if job.id % FOLD_EVERY == 0:  # there may be no worker to do it
        yield from fold(queue.dialect, everything=False)


def _goes_on(result: RoundResult, jobs: list[Job], limit: int, waits: int) -> bool:
    """Return whether to claim again: one transaction locks a bounded number of limits."""
    if jobs:
        return len(jobs) < limit and result.more and bool(result.started)
    return bool(result.started) or result.more or (result.left and waits < MOST_WAITS)


def _owned(job: Job) -> Job:
    """Return the job if it was read while it ran: then it carries the lease of its claim."""
    if not isinstance(job, Job):
        raise InvalidOption("job", f"must be a Job that claim or dequeue returned, got {job!r}")
    if job.status in WAITING:
        how = "pass the Job that claim or dequeue returned, or to complete a waiting job, its id"
        raise LeaseLost(job.id, f"job {job.id} was not claimed by you; {how}")
    if job.status is not Status.RUNNING:
        raise LeaseLost(job.id)
    return job


def job_of(ready: Ready, worker: str, claimed_at_ms: int) -> Job:
    """Return a claimed job as its handler sees it."""
    claimed_at = time_of(max(claimed_at_ms, ready.created_at_ms))
    return Job(
        id=ready.id,
        type=ready.type,
        queue=ready.queue,
        payload=payload_from_row(ready.payload),
        status=Status.RUNNING,
        priority=ready.priority,
        attempt=ready.attempt,
        max_attempts=ready.max_attempts,
        run_at=time_of(ready.run_at_ms),
        created_at=time_of(ready.created_at_ms),
        claimed_at=claimed_at,
        started_at=claimed_at,
        worker=worker,
        error_code=ready.error_code,
        error_detail=ready.error_detail,
        key=ready.key,
        tags=tags_from_row(ready.tags),
        chain_id=ready.chain_id,
        chain_index=ready.chain_index,
        expires_at=time_or_none(ready.expires_at_ms),
        deadline_at=time_or_none(ready.deadline_at_ms),
        timeout=ready.timeout_seconds,
        retry=ready.retry,
        target=ready.target,
        parent_id=ready.parent_id,
        lease=ready.lease,
        holder=ready.holder,
    )
