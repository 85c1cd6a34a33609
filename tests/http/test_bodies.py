from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from rowcall import Rowcall
from rowcall.http.bodies import LARGEST_ANONYMOUS, LARGEST_BODY, MOST_ANONYMOUS
from tests.http.client import client_of

TOKEN = "t" * 20


def test_a_slow_body_is_cut_off(filled: Rowcall) -> None:
    """The client sends a part of the body, and then nothing."""
    app = filled.asgi()
    sent: list[Message] = []

    async def ask() -> None:
        first = True

        async def receive() -> Message:
            nonlocal first
            if first:
                first = False
                return {"type": "http.request", "body": b"{", "more_body": True}
            raise TimeoutError

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/api/jobs", "query_string": b"", "root_path": ""}
        await app({**scope, "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1)}, receive, send)

    asyncio.run(ask())
    assert sent[0]["status"] == 408


@pytest.mark.parametrize("path", ["/login", "/healthz", "/static/rowcall.css"])
def test_paths_for_all_take_small_bodies(filled: Rowcall, path: str) -> None:
    with client_of(filled, token=TOKEN) as client:
        assert client.send("POST", path, b"x" * LARGEST_ANONYMOUS).status_code in (403, 405)
        assert client.send("POST", path, b"x" * (LARGEST_ANONYMOUS + 1)).status_code == 413


@pytest.mark.parametrize("length", [[], [(b"content-length", b"3145728")]])
def test_large_bodies_of_strangers_are_bounded_together(filled: Rowcall, length: list[tuple[bytes, bytes]]) -> None:
    """Callbacks of targets have their token in the body. Ten large ones come at once, with one small one between."""
    app = filled.asgi(token=TOKEN)
    large = b"x" * (3 * 1024 * 1024)

    async def ask(size: int, until: asyncio.Event, came: asyncio.Semaphore) -> int:
        sent: list[Message] = []
        parts = [{"type": "http.request", "body": large[:size], "more_body": True}]

        async def receive() -> Message:
            if parts:
                return parts.pop()
            came.release()
            await until.wait()
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/api/push/complete", "query_string": b"", "root_path": ""}
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), *(length if size > 1000 else [])]
        await app({**scope, "headers": headers, "client": ("10.0.0.7", 1)}, receive, send)
        return int(sent[0]["status"])

    async def storm() -> list[int]:
        until, came = asyncio.Event(), asyncio.Semaphore(0)
        fitting = MOST_ANONYMOUS // len(large)
        first = [asyncio.create_task(ask(len(large), until, came)) for _ in range(fitting)]
        for _ in first:
            await came.acquire()
        refused = [await ask(len(large), until, came) for _ in range(5)]
        small = asyncio.create_task(ask(1000, until, came))
        await came.acquire()
        until.set()
        answered = [await one for one in (*first, small)]
        assert await ask(len(large), until, came) == 400  # there is room again
        return [*answered, *refused]

    assert asyncio.run(storm()) == [400] * 6 + [503] * 5


def test_a_body_that_was_announced_takes_no_room_until_it_comes(filled: Rowcall) -> None:
    """Otherwise a few clients that send nothing would keep out the callbacks of all targets."""
    app, until = filled.asgi(token=TOKEN), asyncio.Event()

    async def ask(body: bytes, waiting: asyncio.Semaphore) -> int:
        sent: list[Message] = []

        async def receive() -> Message:
            if not body:
                waiting.release()
                await until.wait()
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/api/push/complete", "query_string": b"", "root_path": ""}
        length = str(LARGEST_BODY).encode()
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", length)]
        await app({**scope, "headers": headers, "client": ("10.0.0.7", 1)}, receive, send)
        return int(sent[0]["status"])

    async def run() -> int:
        waiting = asyncio.Semaphore(0)
        silent = [asyncio.create_task(ask(b"", waiting)) for _ in range(10)]
        for _ in silent:
            await waiting.acquire()
        status = await ask(b"x" * LARGEST_BODY, waiting)
        until.set()
        await asyncio.gather(*silent)
        return status

    assert asyncio.run(run()) == 400  # not 503
