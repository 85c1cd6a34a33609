"""Server-sent events, read as a server would: message by message."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.types import Message

from rowcall import Backoff, Context, Rowcall
from rowcall.http import live
from rowcall.http.server_options import AsgiApp


class Reader:
    """A client of one stream."""

    def __init__(self) -> None:
        self.status = 0
        self.text = ""
        self.gone = asyncio.Event()
        self.ended = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        self._arrived = asyncio.Event()
        self._asked = False

    async def receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await self.reads.wait()
        self.status = message.get("status", self.status)
        self.text += message.get("body", b"").decode()
        self._arrived.set()

    async def until(self, text: str) -> None:
        while text not in self.text:
            self._arrived.clear()
            await asyncio.wait_for(self._arrived.wait(), 20)


@asynccontextmanager
async def reading(app: AsgiApp, path: str, method: str = "GET") -> AsyncIterator[Reader]:
    reader, (path, _, query) = Reader(), path.partition("?")
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "query_string": query.encode()}
    scope |= {"root_path": "", "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1)}
    scope |= {"asgi": {"spec_version": "2.4"}}
    task = asyncio.ensure_future(app(scope, reader.receive, reader.send))
    task.add_done_callback(lambda _: reader.ended.set())
    yield reader
    reader.gone.set()
    await asyncio.wait_for(task, live.QUIET_SECONDS / 2)  # at once, not with the next text


def test_events_of_jobs_arrive_as_they_happen(filled: Rowcall) -> None:
    async def main() -> None:
        async with reading(filled.asgi(), "/api/events?queue=mail&kind=ENQUEUED") as reader:
            await reader.until("retry:")
            await filled.aenqueue("greet", {"name": "Cid"})
            job = await filled.aenqueue("broken", {})
            await reader.until(f'"job_id":{job.id}')
            assert '"event":"ENQUEUED"' in reader.text
            assert '"type":"greet"' not in reader.text

    asyncio.run(main())


def test_pages_get_a_hint(filled: Rowcall) -> None:
    async def main() -> None:
        app = filled.asgi()
        async with reading(app, "/live") as one, reading(app, "/live") as other:
            await one.until("retry:")
            await other.until("retry:")
            await one.until("changed")  # the stream is connected
            await other.until("changed")
            await filled.aenqueue("greet", {"name": "Cid"})
            await one.until("changed\n\ndata: changed")
            # another hint after the pause: something may have happened during it
            await other.until("changed\n\ndata: changed\n\ndata: changed")
        async with reading(app, "/live") as again:
            await again.until("retry:")

    asyncio.run(main())


def test_the_number_of_streams_is_bounded(filled: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_STREAMS", 1)

    async def main() -> None:
        app = filled.asgi()
        async with reading(app, "/live") as one:
            await one.until("retry:")
            async with reading(app, "/api/events") as other:
                await other.until("Too many streams")
                assert other.status == 503
        async with reading(app, "/api/events") as again:
            await again.until("retry:")

    asyncio.run(main())


@pytest.mark.parametrize("path", ["/api/events", "/live"])
def test_a_request_for_the_head_of_a_stream_ends(filled: Rowcall, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client would use the connection again, and wait there for the end of the stream."""
    monkeypatch.setattr(live, "MOST_STREAMS", 1)

    async def main() -> None:
        app = filled.asgi()
        async with reading(app, path, "HEAD") as head:
            await asyncio.wait_for(head.ended.wait(), 20)
            assert (head.status, head.text) == (200, "")
        async with reading(app, path) as one:
            await one.until("retry:")

    asyncio.run(main())


def test_a_client_that_does_not_read_is_cut_off(filled: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "SEND_SECONDS", 0.01)

    async def main() -> None:
        app, reader = filled.asgi(), Reader()

        async def never(message: Message) -> None:
            await reader.gone.wait()

        scope = {"type": "http", "method": "GET", "path": "/live", "query_string": b"", "root_path": ""}
        scope |= {"headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1)}
        await app(scope, reader.receive, never)

    asyncio.run(main())


def test_a_client_that_leaves_at_once_leaves_room(filled: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_STREAMS", 1)

    async def main() -> None:
        app = filled.asgi()
        for path in ("/api/events", "/live", "/api/events?id=99999"):
            async with reading(app, path) as gone:
                gone.gone.set()
        async with reading(app, "/api/events") as reader:
            await reader.until("retry:")

    asyncio.run(main())


def test_values_of_a_stream_arrive_until_the_job_ends(filled: Rowcall) -> None:
    go = threading.Event()

    @filled.task(retry=Backoff.constant(0))
    def write(ctx: Context) -> None:
        ctx.stream({"a": "1\n2"})
        assert go.wait(30)
        ctx.stream("other", name="of/more")
        if ctx.job.attempt == 1:
            raise ValueError("again")

    async def main() -> None:
        app, job = filled.asgi(), write.enqueue()
        async with reading(app, f"/api/jobs/{job.id}/streams/out") as reader:
            async with filled.worker():
                await reader.until(f'id: {job.id}-1-1\ndata: {{"a":"1\\n2"}}\n\n')
                go.set()
                await reader.until("event: end\ndata:\n\n")
            await asyncio.wait_for(reader.ended.wait(), 20)
            assert f"event: part\ndata: 2\n\nid: {job.id}-2-3\n" in reader.text
        async with reading(app, f"/api/jobs/{job.id}/streams/of/more?after={job.id}-1-2") as reader:
            await reader.until("end")
            assert reader.text.count("data: ") == 2  # the part and the value
        for wrong, status in {
            "x/streams/out": 404,
            "99/streams/out": 404,
            f"{job.id}/streams/out?after=1-1-1": 422,
        }.items():
            async with reading(app, f"/api/jobs/{wrong}") as reader:
                await reader.until("}")
                assert reader.status == status

    asyncio.run(main())


def test_wrong_filters(filled: Rowcall) -> None:
    async def main() -> None:
        for query, status in {"kind=EXPLODED": 422, "id=x": 422, "id=0": 404, "colour=red": 422}.items():
            async with reading(filled.asgi(), f"/api/events?{query}") as reader:
                await reader.until("}")
                assert reader.status == status

    asyncio.run(main())
