"""The lifespan of the app in a child process: entered before its first call, left at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial
from typing import NamedTuple

from rowcall.context import NO_LIFESPAN
from rowcall.declare.lifespan import LifespanFunction, manager_of

Run = Callable[[Coroutine[object, object, object]], object]
"""Runs an async handler."""


class ChildLifespan(NamedTuple):
    resources: object = NO_LIFESPAN
    run: Run = asyncio.run
    is_entered: bool = False


@contextmanager
def entered(function: LifespanFunction) -> Iterator[ChildLifespan]:
    """Enter the lifespan here, and leave it. Async handlers then run on the event loop of an async one."""
    manager = manager_of(function)
    if isinstance(manager, AbstractAsyncContextManager):
        with asyncio.Runner() as runner, _entered_on(runner.get_loop(), manager) as resources:
            yield ChildLifespan(resources, partial(_run, runner.get_loop()), is_entered=True)
    else:
        with manager as resources:
            yield ChildLifespan(resources, is_entered=True)


@contextmanager
def _entered_on(loop: asyncio.AbstractEventLoop, manager: AbstractAsyncContextManager[object]) -> Iterator[object]:
    """Enter and leave it in one task, as cancel scopes need it. The event loop runs only while something waits."""
    ready: asyncio.Future[None] = loop.create_future()
    leaving = asyncio.Event()
    resources: object = None

    async def hold() -> None:
        nonlocal resources
        async with manager as resources:
            ready.set_result(None)
            await leaving.wait()

    holder = loop.create_task(hold())
    holder.add_done_callback(lambda _: ready.cancel())  # does nothing if it is entered
    with suppress(asyncio.CancelledError):
        loop.run_until_complete(ready)
    if holder.done():
        holder.result()
    try:
        yield resources
    finally:
        leaving.set()
        loop.run_until_complete(holder)


def _run(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[object, object, object]) -> object:
    task = loop.create_task(coroutine)
    try:
        return loop.run_until_complete(task)
    finally:
        if not task.done():  # interrupted by a signal: the handler may clean up
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
