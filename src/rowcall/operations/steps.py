"""What operations yield to be done: `Queue.run` does it at once, `Queue.arun` without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from rowcall.drivers.uncancellable import finish
from rowcall.queue import Operation, Queue, Step
from rowcall.store.statement import Plan

T = TypeVar("T")
P = ParamSpec("P")


class EnsureSchema(Step[None]):
    """Make or check the tables, once per process."""

    __slots__ = ()

    def run(self, queue: Queue) -> None:
        queue.ensure_schema()

    async def arun(self, queue: Queue) -> None:
        await queue.aensure_schema()


class Read(Step[T]):
    """Run a plan that only reads. With `snapshot`, all its statements see the same moment."""

    __slots__ = ("_plan", "_snapshot")

    def __init__(self, plan: Plan[T], *, snapshot: bool = False) -> None:
        self._plan = plan
        self._snapshot = snapshot

    def run(self, queue: Queue) -> T:
        queue.ensure_schema()
        return queue.database.read(self._plan, snapshot=self._snapshot)

    async def arun(self, queue: Queue) -> T:
        await queue.aensure_schema()
        return await queue.database.aread(self._plan, snapshot=self._snapshot)


class Write(Step[T]):
    """Run a plan in a transaction. The plan is made by a function: after a conflict, another one is made."""

    __slots__ = ("_make_plan",)

    def __init__(self, make_plan: Callable[P, Plan[T]], *args: P.args, **kwargs: P.kwargs) -> None:
        self._make_plan = partial(make_plan, *args, **kwargs)

    def run(self, queue: Queue) -> T:
        queue.check_outside_block()
        queue.ensure_schema()
        return queue.database.write(self._make_plan)

    async def arun(self, queue: Queue) -> T:
        queue.check_outside_block()
        await queue.aensure_schema()
        return await queue.database.awrite(self._make_plan)


class Blocking(Step[T]):
    """Call a function that may block; in async code, in a thread."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> None:
        self._function = partial(function, *args, **kwargs)

    def run(self, queue: Queue) -> T:
        return self._function()

    async def arun(self, queue: Queue) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, self._function)


class Sleep(Step[None]):
    __slots__ = ("_seconds",)

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def run(self, queue: Queue) -> None:
        queue.clock.sleep(self._seconds)

    async def arun(self, queue: Queue) -> None:
        await queue.clock.asleep(self._seconds)


class Uninterrupted(Step[T]):
    """Run an operation to its end, even if the task is cancelled meanwhile; then raise the cancellation."""

    __slots__ = ("_operation",)

    def __init__(self, operation: Operation[T]) -> None:
        self._operation = operation

    def run(self, queue: Queue) -> T:
        return queue.run(self._operation)

    async def arun(self, queue: Queue) -> T:
        return await finish(queue.arun(self._operation))
