"""What surrounds the handlers of an app. It is compiled when it is declared, so that an attempt checks nothing."""

from __future__ import annotations

from collections.abc import Mapping

from rowcall.declare.declaration import Declaration
from rowcall.declare.middleware import Surroundings, checked_middleware


class Handlers:
    """Compiles the calls of all declared tasks again when something is added. If one is refused, nothing changes."""

    def __init__(self, tasks: Mapping[str, Declaration]) -> None:
        self._tasks = tasks
        self._surroundings = Surroundings()

    def compile(self, *tasks: Declaration) -> None:
        """Use what is declared so far, also for a task that is not among the others yet."""
        calls = [task.compiled(self._surroundings) for task in tasks]
        for task, call in zip(tasks, calls, strict=True):
            task.call, task.surroundings = call, self._surroundings

    def add_middleware(self, middleware: object) -> None:
        before = self._surroundings
        added = (*before.middleware, checked_middleware("middleware", middleware))
        self._surroundings = before._replace(middleware=added)
        try:
            self.compile(*self._tasks.values())
        except BaseException:
            self._surroundings = before
            raise
