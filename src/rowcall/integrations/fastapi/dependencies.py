"""What a path operation of FastAPI can depend on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated

from fastapi import Depends

from rowcall.app import Rowcall
from rowcall.integrations.asgi.background_tasks import Tasks
from rowcall.task import Binding


def jobs_in(jobs: Rowcall, get_session: Callable[..., object]) -> Callable[..., Awaitable[Binding]]:
    """Return a dependency that enqueues in the session of the request, which `get_session` provides.

        SessionJobs = Annotated[Binding, Depends(jobs_in(jobs, get_session))]

        @app.post("/orders")
        async def order(session: Annotated[AsyncSession, Depends(get_session)], bound: SessionJobs) -> int:
            session.add(Order(...))
            job = await bound(send_receipt).aenqueue(7)
            await session.commit()
            return job.id

    FastAPI calls `get_session` once per request, so both get the same session.
    """

    async def bound(session: object = Depends(get_session)) -> Binding:
        return jobs.bind(session)

    return bound


async def _tasks() -> AsyncIterator[Tasks]:
    async with Tasks() as tasks:
        yield tasks


# "function": the jobs are written after the path operation, and before the response is sent
RowcallTasks = Annotated[Tasks, Depends(_tasks, scope="function")]
"""`background: RowcallTasks` instead of `background: BackgroundTasks`: see `Tasks`."""
