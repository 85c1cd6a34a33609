"""Runs the task of a received job in place, and says in an answer how it ended."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Never

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from rowcall.context import Context, logger, running
from rowcall.declare.declaration import Declaration
from rowcall.domain.error_codes import RETRY_REQUESTED_CODE
from rowcall.domain.errors import Cancel, Control, Fail, InvalidArguments, Retry, Snooze
from rowcall.domain.job import Job, Status
from rowcall.domain.outcome import CANCELLED_BY_HANDLER_CODE
from rowcall.domain.payload import BAD_RESULT_CODE, HANDLER_RETURNED, PayloadUnfit, checked_result, untyped_to_json
from rowcall.domain.push import PushedJob
from rowcall.http.push.answers import CODE_HEADER

NOTHING = b"null"


class ReceivedAttempt:
    """What a context is about, where no worker runs the job. Progress is not recorded."""

    cancelled = False
    saw_cancelled = False
    log_lines = None
    worker_values: Mapping[Callable[..., object], object] = {}

    def __init__(self, pushed: PushedJob) -> None:
        self._job = Job(
            id=pushed.id,
            type=pushed.task,
            queue=pushed.queue,
            payload=pushed.arguments,
            status=Status.RUNNING,
            attempt=pushed.attempt,
            max_attempts=pushed.max_attempts,
            run_at=pushed.created_at,
            created_at=pushed.created_at,
            tags=pushed.tags,
        )
        self.context: Context = Context(self)

    @property
    def log_fields(self) -> dict[str, object]:
        job = self._job
        return {"job_id": job.id, "job_type": job.type, "job_queue": job.queue, "job_attempt": job.attempt}

    def claimed_job(self) -> Job:
        return self._job

    def claimed_jobs(self) -> list[Job]:
        return [self._job]

    def report(self, share: float, message: str | None) -> None:
        pass

    def stream(self, value: object, name: str) -> None:
        raise _not_here("stream")

    @property
    def resources(self) -> Never:
        raise _not_here("ctx.resources")

    @property
    def steps(self) -> Never:
        raise _not_here("ctx.step")

    def continue_with(self, task: object, arguments: tuple[object, ...], options: dict[str, object]) -> None:
        raise _not_here("ctx.continue_with")

    def blockers(self) -> list[object]:
        raise _not_here("ctx.blockers")

    def previous(self) -> object:
        raise _not_here("ctx.previous")

    def batch_of_job(self) -> None:
        raise _not_here("ctx.batch")

    def use_units(self, limit: str, units: int) -> None:
        raise _not_here("ctx.used")

    def complete(self, result: object, connection: object) -> None:
        raise _not_here("ctx.complete")

    async def acomplete(self, result: object, connection: object) -> None:
        raise _not_here("ctx.acomplete")


def _not_here(name: str) -> RuntimeError:
    return RuntimeError(f"{name} is not available in an app that receives its jobs by push: a worker has it")


async def run_received(task: Declaration, pushed: PushedJob, now: float) -> Response:
    """Call the function of the task. `now` is in seconds since 1970."""
    attempt = ReceivedAttempt(pushed)
    running.set(attempt)
    try:
        args, kwargs = task.arguments.from_json(untyped_to_json(task.name, pushed.arguments))
        if task.takes_context:
            args.insert(0, attempt.context)
        if task.is_async:
            result = await task.call(*args, **kwargs)  # type: ignore[misc]
        else:
            result = await run_in_threadpool(task.call, *args, **kwargs)
    except Exception as error:
        return _failed(task, attempt, error, now)
    try:
        text = checked_result(task.name, result, task.result_decoder, HANDLER_RETURNED)
    except InvalidArguments as error:
        return refusal(422, error.error_code or BAD_RESULT_CODE, task.failures.detail(error.problem))
    return json_answer(NOTHING if text is None else text.encode())


def json_answer(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def refusal(status: int, code: str, detail: str, retry_after: float | None = None) -> Response:
    headers = {CODE_HEADER: code}
    if retry_after is not None:
        headers["retry-after"] = str(math.ceil(retry_after))
    return Response(detail, status, headers, "text/plain")


def _failed(task: Declaration, attempt: ReceivedAttempt, error: Exception, now: float) -> Response:
    failures = task.failures
    if isinstance(error, Control) and error.hold is not None:
        error = _not_here("hold=")
    match error:
        case Retry() | Snooze():
            at_ms = error.run_at_ms
            delay = error.delay_seconds if at_ms is None else max(0.0, at_ms / 1000 - now)
            code = failures.code_of(error) if isinstance(error, Retry) else RETRY_REQUESTED_CODE
            return refusal(503, code, failures.detail(str(error)), delay)
        case Fail():
            return refusal(422, error.code, failures.detail(error.detail))
        case Cancel():
            return refusal(422, CANCELLED_BY_HANDLER_CODE, failures.detail(error.reason))
        case PayloadUnfit():
            return refusal(422, error.code, failures.detail(str(error)))
    raised = failures.raised(error)
    logger.error(
        "job %d (%s), received by push, failed: %s\n%s",
        *(attempt.claimed_job().id, task.name, raised.code, failures.described(error)),
        extra=attempt.log_fields,
    )
    return refusal(500, raised.code, raised.detail)
