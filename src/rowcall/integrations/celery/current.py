"""The Celery app of this process, and its tasks as far as calls need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from rowcall.app import Rowcall
from rowcall.domain.errors import InvalidOption
from rowcall.operations.enqueue import Bound

Takes = Literal["one", "all"]
"""Whether a call gets the result of the call before it as its first argument, or all results of a group."""


class Callee(Protocol):
    """A task, as far as a call of it needs it."""

    name: str

    @property
    def jobs(self) -> Rowcall: ...
    def bound(
        self,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        options: Mapping[str, object],
        takes: Takes | None = None,
    ) -> Bound: ...
    def __call__(self, *args: object, **kwargs: object) -> object: ...


class App(Protocol):
    jobs: Rowcall

    @property
    def tasks(self) -> Mapping[str, Callee]: ...

    def route(self, task: str) -> Mapping[str, object]:
        """Return the options that `task_routes` has for a task."""


_apps: list[App] = []


def set_current(app: App) -> None:
    _apps[:] = [app]


def current_app() -> App:
    """Return the app that was created last."""
    if not _apps:
        raise InvalidOption("app", "is missing; create one with Celery(…)")
    return _apps[0]
