"""The Celery app of this process, for results and shared tasks that do not name one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from rowcall.app import Rowcall
from rowcall.domain.errors import InvalidOption


class App(Protocol):
    jobs: Rowcall

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
