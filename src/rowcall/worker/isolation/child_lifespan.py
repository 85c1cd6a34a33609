"""The lifespan of the app, and dependencies of the worker, in a child process: entered before its first call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager, suppress
from functools import partial
from typing import NamedTuple

from rowcall.context import NO_LIFESPAN
from rowcall.declare.dependencies import Function, WorkerDependency
from rowcall.declare.lifespan import LifespanFunction, Manager, failed, manager_of

Run = Callable[[Coroutine[object, object, object]], object]
"""Runs an async handler."""


class ChildLifespan(NamedTuple):
    resources: object = NO_LIFESPAN
    run: Run = asyncio.run
    is_entered: bool = False
    values: Mapping[Function, object] = {}


@contextmanager
def entered(lifespan: LifespanFunction | None, dependencies: Sequence[WorkerDependency]) -> Iterator[ChildLifespan]:
    """Enter all of them here, and leave them. If one is async, async handlers run on its event loop."""
    with ExitStack() as stack:
        loop: asyncio.AbstractEventLoop | None = None

        def enter(manager: Manager) -> object:
            nonlocal loop
            if not isinstance(manager, AbstractAsyncContextManager):
                return stack.enter_context(manager)
            loop = loop or stack.enter_context(asyncio.Runner()).get_loop()
            return stack.enter_context(_entered_on(loop, manager))

        resources = NO_LIFESPAN if lifespan is None else enter(manager_of(lifespan))
        values: dict[Function, object] = {}
        for held in dependencies:
            try:
                values[held.node.function] = enter(held.manager(values))
            except Exception as error:
                raise failed(held.node.name, error) from error
        run = asyncio.run if loop is None else partial(_run, loop)
        yield ChildLifespan(resources, run, is_entered=True, values=values)


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
