"""An ASGI app that receives jobs, and runs their tasks in place."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rowcall.domain.errors import RowcallError
from rowcall.domain.job import Status
from rowcall.domain.push import PushedJob, PushOptions, pushed_from
from rowcall.domain.push_signatures import attempt_of_token, checked_headers, verify_message
from rowcall.http.guard import problem_response
from rowcall.http.problems import Problem
from rowcall.http.push.running import json_answer, refusal, run_received
from rowcall.operations import inspect
from rowcall.queue import Queue

BODY_SECONDS = 30.0
MOST_REMEMBERED = 10_000
MORE_THAN_PAYLOAD = 64 * 1024
SMALL_BODY = 64 * 1024
LONGEST_LENGTH = 18
UNKNOWN_TASK_CODE, BATCH_CODE, OVER_CODE = "PUSH:UNKNOWN_TASK", "PUSH:BATCH_TASK", "PUSH:ATTEMPT_OVER"


class Receiver:
    """With `look_up`, the database says whether the attempt is current, and what the job's result was if it is over."""

    def __init__(self, queue: Queue, *, look_up: bool) -> None:
        self._queue = queue
        self._look_up = look_up
        self._answers = Answers(queue)
        self._room = Room()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        with suppress(ClientDisconnect):
            try:
                response = await self._answer(Request(scope, receive))
            except (Problem, RowcallError, TimeoutError) as error:
                response = problem_response(error)
            await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if request.method != "POST":
            raise Problem(405, "Method not allowed", "POST a job")
        push, clock = self._queue.declared.options.push, self._queue.clock
        if push is None:
            raise Problem(503, "Service unavailable", "this app has no secret: Rowcall(push=PushOptions(secrets=[…]))")
        tolerance = float(push.tolerance)  # type: ignore[arg-type]
        checked_headers(request.headers, clock.wall(), tolerance)  # before anything is read: the body may be large
        try:
            pushed, message_id = await clock.within(self._signed(request, push, tolerance), BODY_SECONDS)
        except TimeoutError:
            raise Problem(408, "Request timeout", f"the body took longer than {BODY_SECONDS:g} s") from None
        return await self._answers.once(message_id, 2 * tolerance, lambda: self._run(pushed, push))

    async def _signed(self, request: Request, push: PushOptions, tolerance: float) -> tuple[PushedJob, str]:
        """Read the body, and return the job in it and the id of the message. Until then its sender is anyone."""
        most = self._queue.declared.options.payload_limit + MORE_THAN_PAYLOAD
        size = _length_of(request, most)
        async with self._room.of_one(most) as grow:
            body = bytearray()
            async for chunk in request.stream():
                body += chunk
                if len(body) > size:
                    raise Problem(413, "Content too large", f"at most {size:,} bytes of body")
                await grow(len(body))
            wall = self._queue.clock.wall()
            message_id = verify_message(push.secrets, request.headers, body, wall, tolerance)
            return pushed_from(body), message_id

    async def _run(self, pushed: PushedJob, push: PushOptions) -> Response:
        if self._look_up and (answer := await self._known(pushed, push)) is not None:
            return answer
        task = self._queue.declared.tasks.get(pushed.task)
        if task is None:  # another instance may have a newer version of the app
            return refusal(503, UNKNOWN_TASK_CODE, f"this app does not declare the task {pushed.task!r}")
        if task.options.batch is not None:
            return refusal(422, BATCH_CODE, f"{pushed.task!r} runs in batches, and one job was received")
        return await run_received(task, pushed, self._queue.clock.wall())

    async def _known(self, pushed: PushedJob, push: PushOptions) -> Response | None:
        """Return the answer for an attempt that is over, or None for one that is current."""
        job_id, lease, holder = attempt_of_token(push.secrets, pushed.token)
        job = await self._queue.arun(inspect.get(self._queue, job_id))
        if job.status is Status.SUCCEEDED:
            return json_answer(msgspec.json.encode(job.result))
        if job.status is Status.RUNNING and (job.lease, job.holder) == (lease, holder):
            return None
        return refusal(409, OVER_CODE, f"this attempt of job {job_id} is over: the job is {job.status}")


def _length_of(request: Request, most: int) -> int:
    """Return how long the body is, or how long it may be if its client does not say."""
    header = request.headers.get("content-length", "")
    if not (header.isascii() and header.isdigit()):
        return most
    if len(header) > LONGEST_LENGTH or int(header) > most:
        raise Problem(413, "Content too large", f"at most {most:,} bytes of body")
    return int(header)


class Room:
    """The memory of bodies that are being read, and whose signatures are not checked yet.

    What has come counts, not what was announced: a client that sends nothing keeps no other waiting. Small bodies are
    read at once. When all larger ones together are as large as one may be, only the first of them is read further.
    """

    def __init__(self) -> None:
        self._sizes: dict[object, int] = {}
        self._used = 0
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def of_one(self, most: int) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
        """Yield a function of how large the body has become. It waits until more may be read."""
        mine = object()

        async def grow(size: int) -> None:
            if size > SMALL_BODY:
                self._used += size - self._sizes.get(mine, 0)
                self._sizes[mine] = size
                while self._used > most and next(iter(self._sizes)) is not mine:
                    self._freed.clear()
                    await self._freed.wait()

        try:
            yield grow
        finally:
            self._used -= self._sizes.pop(mine, 0)
            self._freed.set()


class Answers:
    """Lets each message run once: one that comes again, while its task runs or after its success, gets that answer.

    They are kept until a copy of the message is too old to be accepted.
    """

    def __init__(self, queue: Queue) -> None:
        self._clock = queue.clock
        self._kept: OrderedDict[str, tuple[float, asyncio.Task[Response]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    async def once(
        self, message_id: str, keep_seconds: float, run: Callable[[], Coroutine[object, object, Response]]
    ) -> Response:
        self._forget()
        if message_id not in self._kept:
            # a separate task: the work continues if the client leaves
            task = asyncio.get_running_loop().create_task(run())
            self._kept[message_id] = self._clock.timer() + keep_seconds, task
            task.add_done_callback(lambda task: self._keep_success(message_id, task))
        return await asyncio.shield(self._kept[message_id][1])

    def _keep_success(self, message_id: str, task: asyncio.Task[Response]) -> None:
        if task.cancelled() or task.exception() is not None or task.result().status_code >= 300:
            self._kept.pop(message_id, None)

    def _forget(self) -> None:
        now = self._clock.timer()
        while self._kept:
            until, _ = next(iter(self._kept.values()))
            if until > now and len(self._kept) < MOST_REMEMBERED:
                return
            self._kept.popitem(last=False)
