"""Streams of one app share the reading of the database."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from rowcall import Rowcall, RowcallError
from rowcall.app import queue_of
from rowcall.base.clock import SystemClock
from rowcall.domain.job import JobEvent
from rowcall.http import shared_events
from rowcall.store.results.readers import Look, Reader
from rowcall.store.statement import Plan
from tests.http.test_live import reading

T = TypeVar("T")


def test_streams_share_one_reading(filled: Rowcall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def registered() -> int:
        with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
            [(number,)] = connection.execute("select count(*) from rowcall_waiter")
        return int(number)

    readers: list[object] = []
    look = Reader.look

    def noted_look(self: Reader, *args: Any) -> Plan[Look[JobEvent]]:
        readers.append(self)
        return look(self, *args)

    monkeypatch.setattr(Reader, "look", noted_look)

    async def main() -> None:
        app = filled.asgi()
        filters = ["", "?queue=mail", "?kind=ENQUEUED", "?task=broken", "?queue=other"] * 3
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(reading(app, f"/api/events{one}")) for one in filters]
            for client in clients:
                await client.until("retry:")
            job = await filled.aenqueue("broken", {})
            for client, one in zip(clients, filters, strict=True):
                if one != "?queue=other":
                    await client.until(f'"job_id":{job.id}')
            assert len(set(map(id, readers))) == 1
            assert registered() == 1
            assert {client.text for client, one in zip(clients, filters, strict=True) if one == "?queue=other"} == {
                "retry: 2000\n\n"
            }
        assert registered() == 0
        number = len(readers)
        await filled.aenqueue("broken", {})
        assert len(readers) == number
        async with reading(app, "/api/events") as again:
            await again.until("retry:")
            await filled.aenqueue("broken", {})
            await again.until("ENQUEUED")

    asyncio.run(main())


def test_streams_of_one_job(filled: Rowcall) -> None:
    async def main() -> None:
        app = filled.asgi()
        job, other = await filled.aenqueue("greet", {"name": "Cid"}), await filled.aenqueue("greet", {"name": "Dan"})
        async with reading(app, f"/api/events?id={job.id}") as one, reading(app, f"/api/events?id={job.id}") as two:
            await one.until("retry:")
            await two.until("retry:")
            await filled.acancel(other)
            await filled.acancel(job)
            await one.until("CANCELLED")
            await two.until("CANCELLED")
            assert f'"job_id":{other.id}' not in one.text + two.text
            await filled.adelete(job)
            await asyncio.wait_for(one.ended.wait(), 20)
            await asyncio.wait_for(two.ended.wait(), 20)
            async with reading(app, f"/api/events?id={job.id}") as late:
                await late.until("}")
                assert late.status == 404

    asyncio.run(main())


def test_a_stream_that_falls_behind_is_told(filled: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_events, "MOST_KEPT", 5)
    monkeypatch.setattr(shared_events, "PAUSE_SECONDS", 0.0)

    async def main() -> None:
        app = filled.asgi()
        async with reading(app, "/api/events?kind=ENQUEUED") as slow, reading(app, "/api/events") as quick:
            await slow.until("retry:")
            await quick.until("retry:")
            slow.reads.clear()
            made = []
            for _ in range(7):  # one of them is on its way to the slow client
                made.append(await filled.aenqueue("broken", {}))
                await quick.until(f'"job_id":{made[-1].id}')
            slow.reads.set()
            await slow.until("the client was 6 events behind")
            assert '"event":"MISSED"' in slow.text
            assert f'"job_id":{made[-1].id}' not in slow.text
            assert "MISSED" not in quick.text
            job = await filled.aenqueue("broken", {})
            await slow.until(f'"job_id":{job.id}')

    asyncio.run(main())


def test_a_lost_cancellation_does_not_keep_a_reading(filled: Rowcall) -> None:
    waits = asyncio.Event()

    class LosingClock(SystemClock):
        async def within(self, awaitable: Awaitable[T], seconds: float | None) -> T:
            """Lose a cancellation, as Python 3.11 does if the future is done at the same moment."""
            is_of_reading = isinstance(awaitable, asyncio.Future)
            if is_of_reading:
                waits.set()
            try:
                return await super().within(awaitable, seconds)
            except asyncio.CancelledError:
                if not is_of_reading:
                    raise
                return None  # type: ignore[return-value]

    queue_of(filled).backend.clock = LosingClock()

    async def main() -> None:
        async with reading(filled.asgi(), "/api/events") as reader:
            await reader.until("retry:")
            await waits.wait()

    asyncio.run(main())


def test_a_reading_that_fails_ends_its_streams(filled: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Reader, *args: object) -> Plan[Look[JobEvent]]:
        raise RowcallError("a bug")

    async def main() -> None:
        app = filled.asgi()
        monkeypatch.setattr(Reader, "look", failing)
        stack = AsyncExitStack()
        reader = await stack.enter_async_context(reading(app, "/api/events"))
        await reader.until("retry:")
        await asyncio.wait_for(reader.ended.wait(), 20)
        with pytest.raises(RuntimeError, match="response already started"):
            await stack.aclose()
        monkeypatch.undo()
        async with reading(app, "/api/events") as again:
            await again.until("retry:")
            await filled.aenqueue("broken", {})
            await again.until("ENQUEUED")

    asyncio.run(main())
