"""Delivers one job to its target: a signed POST, and what its answer means."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import httpcore
import msgspec

from rowcall.base.clock import Clock
from rowcall.context import Context
from rowcall.domain.config import VERSION
from rowcall.domain.errors import PushFailed
from rowcall.domain.job import Job
from rowcall.domain.push import LeftOpen, PushedJob, PushOptions, PushTarget
from rowcall.domain.push_signatures import callback_token, sign
from rowcall.http.push.answers import ACCEPTED, LONGEST_DETAIL_BYTES, AnswerHead
from rowcall.http.push.checked_network import CheckedNetwork, default_ssl_context
from rowcall.operations.push import leave_open
from rowcall.queue import Queue

NO_OPTIONS_CODE, TARGET_CODE = "PUSH:NOT_CONFIGURED", "PUSH:TARGET_REFUSED"
CONNECTION_CODE, PROTOCOL_CODE, TIMEOUT_CODE = "PUSH:CONNECTION", "PUSH:PROTOCOL", "PUSH:TIMEOUT"


async def deliver(
    queue: Queue, ctx: Context, target: str, arguments: dict[str, object], timeout_seconds: float | None
) -> object:
    """Deliver a job and return its result, or raise `PushFailed`."""
    push = queue.declared.options.push
    if push is None:
        raise PushFailed(NO_OPTIONS_CODE, "this worker has no secret: Rowcall(push=PushOptions(secrets=[…]))")
    if (problem := push.problem_of(target)) is not None:
        raise PushFailed(TARGET_CODE, f"the target {problem}", final=True)
    parsed = PushTarget.of(target)
    own = None if timeout_seconds is not None else float(push.timeout)  # type: ignore[arg-type]
    body = body_of(ctx.job, arguments, push)
    headers = sign(push.secrets, message_id(ctx.job), int(queue.clock.wall()), body)
    try:
        with network_errors():
            return await queue.clock.within(_post(push, parsed, headers, body, queue.clock), own)
    except LeftOpen:
        await _leave_open(queue, ctx.job, parsed.host, push)
        raise
    except TimeoutError:
        raise PushFailed(TIMEOUT_CODE, f"the target did not answer within {own:g} s") from None


async def _leave_open(queue: Queue, job: Job, host: str, push: PushOptions) -> None:
    try:
        await queue.arun(leave_open(queue, job, host, push))
    except asyncio.CancelledError:  # the target has accepted the job: a worker that stops must not release it
        await queue.arun(leave_open(queue, job, host, push))


def message_id(job: Job) -> str:
    """Return the id that all attempts share, until the job is retried by hand: then its limit of attempts grows."""
    return f"job-{job.id}-{job.max_attempts}"


def body_of(job: Job, arguments: dict[str, object], push: PushOptions) -> bytes:
    pushed = PushedJob(
        id=job.id,
        task=job.type,
        arguments=arguments,
        queue=job.queue,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        created_at=job.created_at,
        tags=job.tags,
        token=callback_token(push.secrets, job.id, job.lease, job.holder),
        callback_url=push.callback_url,
    )
    return msgspec.json.encode(pushed)


async def _post(push: PushOptions, target: PushTarget, headers: dict[str, str], body: bytes, clock: Clock) -> object:
    network = CheckedNetwork(push.refusal, clock)
    async with posted(target, headers, body, push.ssl_context, network) as response:
        answer = answer_head(response)
        if answer.status == ACCEPTED:
            raise LeftOpen
        if answer.is_success:
            if not answer.has_result:
                return None
            return answer.result(await read(response.aiter_stream(), push.largest_answer), push.largest_answer)
        said = await read(response.aiter_stream(), LONGEST_DETAIL_BYTES)
        raise answer.failure(said, clock.wall())


@asynccontextmanager
async def posted(
    target: PushTarget, headers: dict[str, str], body: bytes, context: ssl.SSLContext | None, network: CheckedNetwork
) -> AsyncIterator[httpcore.Response]:
    """POST JSON on a new connection. The response is read as far as the caller reads it."""
    url = httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
    sent = {
        "host": target.authority,
        "content-type": "application/json",
        "content-length": str(len(body)),
        "accept": "application/json",
        "accept-encoding": "identity",
        "connection": "close",
        "user-agent": f"rowcall/{VERSION}",
        **headers,
    }
    context = context or default_ssl_context()
    async with (
        httpcore.AsyncHTTPConnection(url.origin, ssl_context=context, network_backend=network) as connection,
        connection.stream("POST", url, headers=list(sent.items()), content=body) as response,
    ):
        yield response


def answer_head(response: httpcore.Response) -> AnswerHead:
    texts = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
    return AnswerHead(response.status, texts)


@contextmanager
def network_errors() -> Iterator[None]:
    """Raise `PushFailed` for errors of the network."""
    try:
        yield
    except (httpcore.NetworkError, httpcore.TimeoutException) as error:
        raise PushFailed(CONNECTION_CODE, f"the connection failed: {str(error) or type(error).__name__}") from error
    except httpcore.ProtocolError as error:
        raise PushFailed(PROTOCOL_CODE, f"the answer is not HTTP: {error}") from error


async def read(chunks: AsyncIterable[bytes], most: int) -> bytes:
    """Return what there is to read; of more than `most` bytes, one byte more than that."""
    content = bytearray()
    async for chunk in chunks:
        content += chunk
        if len(content) > most:
            return bytes(content[: most + 1])
    return bytes(content)
