"""Callbacks of targets: settle or extend an attempt that was left open. The token in the body is the permission."""

from __future__ import annotations

from rowcall.domain.errors import Fail
from rowcall.domain.job import Status
from rowcall.domain.value import Value
from rowcall.http.endpoint import Call, EndpointInput
from rowcall.operations import by_hand, inspect, push


class CallbackAnswer(Value, frozen=True, kw_only=True):
    """The job after the callback."""

    id: int
    status: Status


class PushComplete(EndpointInput, frozen=True, kw_only=True):
    token: str
    result: object = None


class PushFail(EndpointInput, frozen=True, kw_only=True):
    """`error_code` looks like `PAYMENT:DECLINED`. With `final`, the job is not retried."""

    token: str
    error_code: str
    error_detail: str = ""
    final: bool = False


class PushExtend(EndpointInput, frozen=True, kw_only=True):
    """`seconds` is how long the job stays open from now on; default as long as before."""

    token: str
    seconds: float | None = None


async def complete_pushed(call: Call, body: PushComplete) -> CallbackAnswer:
    """Settle an open job as succeeded, with a result."""
    job = await call.write(push.pushed_job(call.queue, body.token))
    await call.write(by_hand.complete(call.queue, job, body.result))
    return await _answer(call, job.id)


async def fail_pushed(call: Call, body: PushFail) -> CallbackAnswer:
    """Fail the attempt of an open job, which is retried if attempts are left."""
    job = await call.write(push.pushed_job(call.queue, body.token))
    if body.final:
        await call.write(by_hand.fail(call.queue, job, Fail(body.error_code, body.error_detail), ""))
    else:
        await call.write(by_hand.fail(call.queue, job, body.error_code, body.error_detail))
    return await _answer(call, job.id)


async def extend_pushed(call: Call, body: PushExtend) -> CallbackAnswer:
    """Keep a job open for longer."""
    job = await call.write(push.pushed_job(call.queue, body.token))
    await call.write(by_hand.heartbeat(call.queue, job, lease=body.seconds))
    return await _answer(call, job.id)


async def _answer(call: Call, job_id: int) -> CallbackAnswer:
    job = await call.read(inspect.get_row(call.queue, job_id))
    return CallbackAnswer(id=job.id, status=job.status)
