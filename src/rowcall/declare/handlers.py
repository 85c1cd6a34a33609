"""What surrounds the handlers of an app. It is put together when it is declared, so that an attempt checks nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType

from rowcall.declare.declaration import Declaration, Lane, Surroundings
from rowcall.declare.dependencies import Function, WorkerDependency, held_by_worker
from rowcall.declare.lifespan import name_of
from rowcall.declare.middleware import checked_middleware
from rowcall.domain.errors import InvalidOption


class Handlers:
    """Puts the calls of all declared tasks together again after a change. If one is refused, nothing changes."""

    def __init__(self, tasks: Mapping[str, Declaration]) -> None:
        self._tasks = tasks
        self._surroundings = Surroundings()

    def surround(self, task: Declaration) -> None:
        """Use what is declared so far for a new task."""
        task.use(task.within(self._surroundings))

    def add_middleware(self, middleware: object) -> None:
        checked = checked_middleware("middleware", middleware)
        self._change(self._surroundings._replace(middleware=(*self._surroundings.middleware, checked)))

    def override(self, function: Function, replacement: Function) -> Override:
        if not callable(replacement):
            raise InvalidOption(
                "override", f"must be a function to call instead of {name_of(function)}, got {replacement!r}"
            )
        former = self._surroundings.overrides.get(function, function)
        self._replace(function, replacement)
        return Override(partial(self._replace, function, former))

    def _replace(self, function: Function, replacement: Function) -> None:
        others = {one: other for one, other in self._surroundings.overrides.items() if one != function}
        added = {} if replacement is function else {function: replacement}
        self._change(self._surroundings._replace(overrides=others | added))

    def _change(self, surroundings: Surroundings) -> None:
        surrounded = [(task, task.within(surroundings)) for task in self._tasks.values()]
        self._surroundings = surroundings
        for task, one in surrounded:
            task.use(one)

    def held_by_worker(self, *, isolated: bool = False) -> list[WorkerDependency]:
        """Return what a worker opens once for its handlers, in that order. Child processes open their own."""
        tasks = [task for task in self._tasks.values() if isolated or task.lane is not Lane.PROCESS]
        return held_by_worker(task.dependencies for task in tasks)


class Override:
    """What `jobs.override(...)` returns. At the end of its `with` block, the former function is used again."""

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo = undo

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo()
