"""Jobs that a target has accepted: they stay open until it calls back, with the token that it was given."""

from __future__ import annotations

from rowcall.domain.errors import LeaseLost, PushRefused
from rowcall.domain.job import Job, Status
from rowcall.domain.push import PushOptions
from rowcall.domain.push_signatures import attempt_of_token
from rowcall.operations import inspect
from rowcall.operations.effects import Write
from rowcall.queue import Operation, Queue
from rowcall.store.ends import attempts as settle
from rowcall.store.queries.claims import Fence


def leave_open(queue: Queue, job: Job, host: str, push: PushOptions) -> Operation[bool]:
    """Leave the attempt to the target. Return whether it was still this worker's: the callback may have come first."""
    lease_ms = round(float(push.open_for) * 1000)  # type: ignore[arg-type]
    fence = Fence(job.id, job.lease, job.holder)
    return (yield from Write(settle.leave_open, queue.dialect, fence, host, lease_ms))


def pushed_job(queue: Queue, token: str) -> Operation[Job]:
    """Return the job that a target has accepted, by the token that it was given.

        job = jobs.pushed_job(token)
        jobs.complete(job, result={"sent": 3})

    `fail` and `heartbeat` take it, too. Raise `PushRefused` if the token was not made with one of the secrets, and
    `LeaseLost` if the attempt is over.
    """
    push = queue.declared.options.push
    if push is None:
        raise PushRefused("this app has no secret to check tokens with: Rowcall(push=PushOptions(secrets=[…]))")
    job_id, lease, holder = attempt_of_token(push.secrets, token)
    job = yield from inspect.get(queue, job_id)
    if job.status is not Status.RUNNING or (job.lease, job.holder) != (lease, holder):
        raise LeaseLost(job_id)
    return job
