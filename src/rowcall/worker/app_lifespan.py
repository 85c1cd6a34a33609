"""The lifespan of a web app: tables, a worker in its process, and the end of both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from rowcall.domain.errors import InvalidOption
from rowcall.operations.effects import EnsureSchema
from rowcall.queue import Queue
from rowcall.worker.worker import Worker

AppLifespan = Callable[..., AbstractAsyncContextManager[object]]
"""The lifespan that an app already has: a function of the app that returns an async context manager."""


def app_lifespan(
    queue: Queue, make_worker: Callable[[], Worker] | None, lifespan: AppLifespan | None
) -> Callable[[object], AbstractAsyncContextManager[None]]:
    """Return a lifespan for Starlette, FastAPI and Litestar. `lifespan` is entered first, and left last."""
    if lifespan is not None and not callable(lifespan):
        raise InvalidOption("lifespan", f"must be a function with @asynccontextmanager, got {lifespan!r}")

    @asynccontextmanager
    async def entered(app: object) -> AsyncIterator[None]:
        try:
            async with AsyncExitStack() as stack:
                state = await stack.enter_async_context(lifespan(app)) if lifespan is not None else None
                await queue.arun(EnsureSchema())  # not in the transaction of the first request
                if make_worker is not None:
                    await stack.enter_async_context(make_worker())
                yield state  # type: ignore[misc]  # what Starlette adds to each request
        finally:
            queue.close()

    return entered
