"""What a worker enters before its first claim, and leaves after it has settled its last job."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, suppress
from functools import partial

from rowcall.context import NO_LIFESPAN, logger
from rowcall.declare.dependencies import Function, WorkerDependency
from rowcall.declare.lifespan import LifespanFunction, Manager, failed, manager_of, name_of
from rowcall.domain.errors import LifespanFailed


class Lifespans:
    """The lifespan of the app, and dependencies with `scope="worker"`, in one worker."""

    def __init__(self) -> None:
        self.resources: object = NO_LIFESPAN
        self.values: dict[Function, object] = {}
        self._all: list[Lifespan] = []

    def enter(
        self,
        lifespan: LifespanFunction | None,
        dependencies: Sequence[WorkerDependency],
        event_loop: Callable[[], asyncio.AbstractEventLoop],
    ) -> None:
        """Wait until all are entered, or raise `LifespanFailed`."""
        if lifespan is not None:
            self.resources = self._enter(name_of(lifespan), partial(manager_of, lifespan), event_loop)
        for held in dependencies:
            make = partial(held.manager, self.values)
            self.values[held.node.function] = self._enter(held.node.name, make, event_loop)

    def _enter(
        self, name: str, make: Callable[[], Manager], event_loop: Callable[[], asyncio.AbstractEventLoop]
    ) -> object:
        lifespan = Lifespan(name, make)
        self._all.append(lifespan)
        lifespan.enter(event_loop)
        return lifespan.resources

    def leave(self) -> LifespanFailed | None:
        """Wait until all are left, the last one first. Return what went wrong first."""
        failures = [one.leave() for one in reversed(self._all)]
        return next((failure for failure in failures if failure is not None), None)

    def leave_later(self) -> None:
        """Called before the worker stops. If this thread runs the event loop, nothing can wait for a task of it."""
        for one in reversed(self._all):
            one.leave_later()


class Lifespan:
    """One thread, or one task of the event loop, enters it, waits and leaves it.

    Many resources must be closed where they were opened: cancel scopes, connections that belong to a thread.
    """

    def __init__(self, name: str, make: Callable[[], Manager]) -> None:
        self.name = name
        self.resources: object = None
        self._make = make
        self._entered = threading.Event()
        self._left = threading.Event()
        self._error: BaseException | None = None
        self._ask_to_leave: Callable[[], object] = lambda: None
        self._thread_id = 0
        self._task: Future[None] | None = None  # an event loop does not keep its tasks alive

    def enter(self, event_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        """Wait until it is entered, or raise `LifespanFailed`."""
        with self._noting_errors():
            manager = self._make()
            if isinstance(manager, AbstractAsyncContextManager):
                self._start_task(manager, event_loop())
            else:
                self._start_thread(manager)
        self._entered.wait()
        if self._error is not None:
            logger.error("lifespan %s failed; no job is claimed", self.name, exc_info=self._error)
            raise failed(self.name, self._error) from self._error

    def leave(self) -> LifespanFailed | None:
        """Wait until it is left. Return what went wrong."""
        if self._left.is_set():
            return None
        try:
            self._ask_to_leave()
        except RuntimeError:
            logger.error("lifespan %s was not left: its event loop is closed", self.name)
            return None
        self._left.wait()
        if self._error is None:
            return None
        logger.error("lifespan %s failed when it was left", self.name, exc_info=self._error)
        return failed(self.name, self._error)

    def leave_later(self) -> None:
        if threading.get_ident() == self._thread_id:
            with suppress(RuntimeError):  # closed
                self._ask_to_leave()
            self._left.set()

    def _start_thread(self, manager: AbstractContextManager[object]) -> None:
        leaving = threading.Event()
        self._ask_to_leave = leaving.set

        def hold() -> None:
            with self._noting_errors(), manager as self.resources:
                self._entered.set()
                leaving.wait()
            self._left.set()

        threading.Thread(target=hold, name="rowcall-lifespan", daemon=True).start()

    def _start_task(self, manager: AbstractAsyncContextManager[object], loop: asyncio.AbstractEventLoop) -> None:
        leaving = asyncio.Event()
        self._ask_to_leave = lambda: loop.call_soon_threadsafe(leaving.set)

        async def hold() -> None:
            self._thread_id = threading.get_ident()
            with self._noting_errors():
                async with manager as self.resources:
                    self._entered.set()
                    await leaving.wait()
            self._left.set()

        self._task = asyncio.run_coroutine_threadsafe(hold(), loop)

    @contextmanager
    def _noting_errors(self) -> Iterator[None]:
        """Keep what is raised, for the thread that waits. SystemExit would also end an event loop."""
        try:
            yield
        except BaseException as error:
            self._error = error
            self._left.set()
            self._entered.set()
