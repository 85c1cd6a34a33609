"""What path operations depend on, in an app that is called over HTTP. FastAPI reads the annotations."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, NamedTuple

import pytest
from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from starlette.background import BackgroundTasks

from rowcall import Binding, Rowcall, Status
from rowcall.fastapi import RowcallTasks, jobs_in
from rowcall.task import Task
from tests.integrations.alchemy import ASYNC, alchemy
from tests.integrations.serving import serving


class Site(NamedTuple):
    jobs: Rowcall
    double: Task[[int], int]
    app: FastAPI


@pytest.fixture
def site(url: str) -> Iterator[Site]:
    with Rowcall(url) as jobs:

        @jobs.task
        def double(number: int) -> int:
            return 2 * number

        yield Site(jobs, double, FastAPI(lifespan=jobs.lifespan_for_app()))


def in_session(site: Site, get_session: Callable[..., object], *, is_async: bool) -> None:
    """Enqueue in the session, then commit or not."""
    jobs, double, app = site

    async def commit(
        number: int,
        session: Annotated[AsyncSession, Depends(get_session)],
        bound: Annotated[Binding, Depends(jobs_in(jobs, get_session))],
    ) -> int:
        job = await bound(double).aenqueue(number)
        if number < 0:
            raise HTTPException(400, "negative")
        await session.commit()
        return job.id

    def commit_now(
        number: int,
        session: Annotated[Session, Depends(get_session)],
        bound: Annotated[Binding, Depends(jobs_in(jobs, get_session))],
    ) -> int:
        job = bound(double).enqueue(number)
        if number < 0:
            raise HTTPException(400, "negative")
        session.commit()
        return job.id

    app.post("/")(commit if is_async else commit_now)
    with serving(app) as client:
        assert client.post("/?number=-1").status_code == 400
        answer = client.post("/?number=21")
        assert [job.id for job in jobs.list()] == [answer.json()]


def test_an_async_session(site: Site, url: str) -> None:
    async def get_session() -> AsyncIterator[AsyncSession]:
        engine = create_async_engine(alchemy(url, ASYNC))
        try:
            async with AsyncSession(engine) as session:
                yield session
        finally:
            await engine.dispose()

    in_session(site, get_session, is_async=True)


def test_a_sync_session(site: Site, url: str) -> None:
    # a sync dependency and a sync path operation may run in two threads
    same_thread = {"check_same_thread": False} if url.startswith("sqlite") else {}
    engine = create_engine(alchemy(url), connect_args=same_thread)

    def get_session() -> Iterator[Session]:
        with Session(engine) as session:
            yield session

    in_session(site, get_session, is_async=False)
    engine.dispose()


def test_background_tasks_are_written_before_the_response_is_sent(site: Site) -> None:
    jobs, double, app = site
    before: list[int] = []

    @app.post("/async")
    async def sign_up(number: int, background: RowcallTasks, others: BackgroundTasks) -> int:
        background.add_task(double, number)
        background.add_task(double.using(queue="mail"), number)
        others.add_task(lambda: before.append(len(jobs.list())))  # runs after the response
        if number < 0:
            raise HTTPException(400, "negative")
        return len(await jobs.alist())

    @app.post("/sync")
    def sign_up_now(number: int, background: RowcallTasks) -> int:
        background.add_task(double, number)
        return len(jobs.list())

    with serving(app) as client:
        assert client.post("/async?number=-1").status_code == 400
        assert client.post("/async?number=1").json() == 0
        assert before == [2]
        assert client.post("/sync?number=2").json() == 2
        assert [job.status for job in jobs.list()] == [Status.PENDING] * 3
        assert "background" not in client.get("/openapi.json").text


def test_a_worker_next_to_the_app_runs_them(site: Site) -> None:
    jobs, double, _ = site
    app = FastAPI(lifespan=jobs.lifespan_for_app(worker=True, concurrency=2))

    @app.post("/")
    async def sign_up(number: int, background: RowcallTasks) -> None:
        background.add_task(double, number)

    with serving(app) as client:
        client.post("/?number=21")
        (job,) = jobs.list()
        assert jobs.result(job, timeout=20) == 42
    assert jobs.workers() == []
