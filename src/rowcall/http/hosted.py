"""The app inside a framework that passes its requests on, such as Django: without a server, and without streams."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message, Scope

from rowcall.http.access import Access
from rowcall.http.app import asgi_app
from rowcall.http.server_options import AppResponse, AsgiApp, HttpSettings
from rowcall.queue import Queue

PART_BYTES = 64 * 1024
_VISITOR = "rowcall.visitor"


class HostedRequest(NamedTuple):
    """A request, and what its framework says about the visitor: what `authorize` would return or raise."""

    visitor: Access | AppResponse | HTTPException | None
    method: str
    scheme: str
    root: str
    path: str
    """Begins with a slash, after `root`."""
    query: str
    headers: Sequence[tuple[str, str]]
    client: str | None
    read_body: Callable[[int], bytes]
    """Returns at most this many bytes, and none at the end."""

    @property
    def scope(self) -> Scope:
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in self.headers]
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": self.scheme,
            "root_path": self.root,
            "path": f"{self.root}{self.path}",
            "query_string": self.query.encode("latin-1"),
            "headers": headers,
            "client": None if self.client is None else (self.client, 0),
            _VISITOR: self.visitor,
        }


class HostedResponse(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes


def hosted_app(queue: Queue, origins: frozenset[str] = frozenset()) -> AsgiApp:
    """Return the app for requests that are `HostedRequest`s."""

    def authorize(request: Request) -> Access | AppResponse | None:
        visitor: Access | AppResponse | HTTPException | None = request.scope[_VISITOR]
        if isinstance(visitor, HTTPException):
            raise visitor
        return visitor

    return asgi_app(queue, HttpSettings(authorize=authorize, origins=origins, streams=False))


ReadPart = Callable[[], Awaitable[bytes]]


async def respond(app: AsgiApp, request: HostedRequest, read_part: ReadPart | None = None) -> HostedResponse:
    """Return the answer to a request. Its body is read in parts, as long as the app asks for more, by default in a
    thread.
    """
    start: Message = {}
    parts: list[bytes] = []
    is_read = False

    async def receive() -> Message:
        nonlocal is_read
        if is_read:
            return {"type": "http.disconnect"}
        part = await (asyncio.to_thread(request.read_body, PART_BYTES) if read_part is None else read_part())
        is_read = not part
        return {"type": "http.request", "body": part, "more_body": not is_read}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        else:
            parts.append(message.get("body", b""))

    await app(request.scope, receive, send)
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"]]
    return HostedResponse(start["status"], headers, b"".join(parts))


def respond_in_loop(app: AsgiApp, request: HostedRequest) -> HostedResponse:
    """Return the answer, made on the event loop of all hosted requests, which also counts jobs between them.

    The calling thread reads the body: threads that all requests share could all be kept by slow clients. The context
    there is empty: the caller's says that sync code belongs into the calling thread, which waits here.
    """
    asked: SimpleQueue[Future[bytes] | None] = SimpleQueue()

    async def read_part() -> bytes:
        part: Future[bytes] = Future()
        part.set_running_or_notify_cancel()  # it is read, also if the app has answered before
        asked.put(part)
        return await asyncio.wrap_future(part)

    answer = contextvars.Context().run(asyncio.run_coroutine_threadsafe, respond(app, request, read_part), _loop())
    answer.add_done_callback(lambda _: asked.put(None))
    while (part := asked.get()) is not None:
        try:
            part.set_result(request.read_body(PART_BYTES))
        except Exception as error:
            part.set_exception(error)
    return answer.result()


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="rowcall-dashboard", daemon=True).start()
    return loop


os.register_at_fork(after_in_child=_loop.cache_clear)
