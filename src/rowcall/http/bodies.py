"""Bodies of requests: read whole, within limits of size, of time and of memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.types import Message, Receive

from rowcall.base.clock import Clock
from rowcall.http.problems import Problem

LARGEST_BODY = 4 * 1024 * 1024
LARGEST_ANONYMOUS = 16 * 1024
"""Enough for the form to sign in, and for most callbacks of targets."""
MOST_ANONYMOUS = 16 * 1024 * 1024
"""How much all larger bodies of clients that have not signed in may take at a time."""
BODY_SECONDS = 10.0


class Bodies:
    """What clients that have not signed in send is bounded for all of them together."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._anonymous = 0

    @asynccontextmanager
    async def read(
        self, request: Request, receive: Receive, largest: int, *, anonymous: bool
    ) -> AsyncIterator[Receive]:
        """Read the body, and yield a function that returns it, to be used in place of `receive`."""
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            if size > largest:
                raise Problem(413, "Content too large", f"at most {largest:,} bytes of body")
            if anonymous and size > max(taken, LARGEST_ANONYMOUS):
                self._anonymous += size - taken
                taken = size
                if self._anonymous > MOST_ANONYMOUS:
                    detail, later = "too many large bodies at a time; try again later", {"retry-after": "5"}
                    raise Problem(503, "Busy", detail, headers=later)

        length = request.headers.get("content-length") or "0"  # some servers for WSGI send an empty one
        try:
            take(int(length) if length.isdecimal() else largest + 1)
            try:
                body = await self._clock.within(_read(receive, take), BODY_SECONDS)
            except TimeoutError:
                raise Problem(408, "Request timeout", f"the body took longer than {BODY_SECONDS:g} s") from None
            yield _replay(body, receive)
        finally:
            self._anonymous -= taken


async def _read(receive: Receive, take: Callable[[int], None]) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "Bad request", "the client went away")
        body += message.get("body", b"")
        take(len(body))
        if not message.get("more_body", False):
            return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
