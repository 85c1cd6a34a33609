"""The lifespan of a web app."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rowcall import InvalidOption, Rowcall


def test_it_makes_the_tables_runs_a_worker_and_closes_the_queue(tmp_path: Path) -> None:
    jobs, seen = Rowcall(tmp_path / "app.db"), list[object]()

    @jobs.task
    async def double(number: int) -> int:
        seen.append(asyncio.get_running_loop())
        return 2 * number

    @asynccontextmanager
    async def resources(app: object) -> AsyncIterator[dict[str, object]]:
        seen.append(app)
        assert jobs.workers() == []
        yield {"name": "state"}
        assert jobs.workers() == []
        seen.append("left")

    async def serve() -> None:
        lifespan = jobs.lifespan_for_app(worker=True, concurrency=2, lifespan=resources)
        async with lifespan("the app") as state:
            assert repr(state) == "{'name': 'state'}"  # Starlette passes it to the requests
            assert [one.concurrency for one in jobs.workers()] == [2]
            assert await jobs.aresult(await double.aenqueue(21), timeout=20) == 42
        assert seen == ["the app", asyncio.get_running_loop(), "left"]

    asyncio.run(serve())
    assert not (tmp_path / "app.db-wal").exists()  # the last connection was closed


def test_without_a_worker_only_the_tables_are_made(tmp_path: Path) -> None:
    jobs = Rowcall(tmp_path / "app.db")

    async def serve() -> None:
        async with jobs.lifespan_for_app()(None) as state:
            assert (state, jobs.workers()) == (None, [])

    asyncio.run(serve())
    with Rowcall(tmp_path / "app.db", auto_migrate=False) as again:
        again.enqueue("anything")


def test_the_queue_is_closed_when_the_app_fails_to_start(tmp_path: Path) -> None:
    jobs = Rowcall(tmp_path / "app.db")

    @asynccontextmanager
    async def broken(app: object) -> AsyncIterator[None]:
        jobs.enqueue("anything")
        raise ZeroDivisionError
        yield

    async def serve() -> None:
        async with jobs.lifespan_for_app(worker=True, lifespan=broken)(None):
            pass

    with pytest.raises(ZeroDivisionError):
        asyncio.run(serve())
    assert not (tmp_path / "app.db-wal").exists()


def test_wrong_options_are_refused_where_they_are_given(tmp_path: Path) -> None:
    jobs = Rowcall(tmp_path / "app.db")
    with pytest.raises(InvalidOption, match="must be true for options of a worker: concurrency"):
        jobs.lifespan_for_app(concurrency=3)
    with pytest.raises(InvalidOption, match="concurrency"):
        jobs.lifespan_for_app(worker=True, concurrency=0)
    with pytest.raises(InvalidOption, match="must be a function with @asynccontextmanager"):
        jobs.lifespan_for_app(lifespan=3)  # type: ignore[arg-type]
    assert not (tmp_path / "app.db").exists()
