"""The Celery app of this process, the task that runs, and as much of both as calls need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from rowcall.app import Rowcall
from rowcall.domain.errors import InvalidOption
from rowcall.integrations.celery.eager import EagerResult, FailedCall, Request
from rowcall.operations.enqueue import Bound

T = TypeVar("T")

Takes = Literal["one", "all", "map", "starmap", "error", "failure"]
"""What a job passes to its function in addition to its arguments.

`one` and `all`: the result of the call before it, or all results of a group. `map` and `starmap`: there is one call for
each item. `error`: the request, the error and the traceback of a call that failed. `failure`: nothing; it, too, runs
only after a failure.
"""


class Callee(Protocol):
    """A task, as far as a call of it needs it."""

    name: str

    @property
    def app(self) -> App: ...
    def bound(
        self,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        options: Mapping[str, object],
        takes: Takes | None = None,
    ) -> Bound: ...
    def run_eagerly(
        self,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        takes: Takes | None = None,
        failed: FailedCall | None = None,
    ) -> EagerResult: ...
    def __call__(self, *args: object, **kwargs: object) -> object: ...


class Conf(Protocol):
    task_always_eager: bool
    task_eager_propagates: bool
    task_default_queue: str | None
    task_time_limit: float | None


class App(Protocol):
    jobs: Rowcall

    @property
    def conf(self) -> Conf: ...
    @property
    def tasks(self) -> Mapping[str, Callee]: ...

    def check_options(self) -> None:
        """Raise `InvalidOption` if options of the app are refused."""

    def route(self, task: str) -> Mapping[str, object]:
        """Return the options that `task_routes` has for a task."""


class RunningCall(msgspec.Struct):
    """The call that runs here. `request` is None in a worker: it is made of the job when it is asked for."""

    task: object
    request: Request | None = None
    state: tuple[str, object] | None = None
    """What `update_state` said last."""


running: ContextVar[RunningCall | None] = ContextVar("rowcall_celery", default=None)
_apps: list[App] = []


def set_current(app: App) -> None:
    _apps[:] = [app]


def current_app() -> App:
    """Return the app that was created last."""
    if not _apps:
        raise InvalidOption("app", "is missing; create one with Celery(…)")
    return _apps[0]


def current_task() -> object:
    """Return the task that runs here."""
    if (found := running.get()) is None:
        raise AttributeError("current_task: no task is running here")
    return found.task


class Proxy(Generic[T]):
    """Forwards to what a function returns now. It is false while there is nothing."""

    def __init__(self, find: Callable[[], T]) -> None:
        self.__dict__["_find"] = find

    def __getattr__(self, name: str) -> Any:
        try:
            target = self.__dict__["_find"]()
        except InvalidOption as error:
            raise AttributeError(str(error)) from error  # for hasattr
        return getattr(target, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self.__dict__["_find"](), name, value)

    def __bool__(self) -> bool:
        try:
            self.__dict__["_find"]()
        except (AttributeError, InvalidOption):
            return False
        return True

    def __repr__(self) -> str:
        return repr(self.__dict__["_find"]()) if self else "<nothing yet>"
