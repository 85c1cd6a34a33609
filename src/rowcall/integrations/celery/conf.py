"""`app.conf`: the settings of a Celery app that have an effect here."""

from __future__ import annotations

import fnmatch
import importlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import NamedTuple

from rowcall.domain.errors import InvalidOption

logger = logging.getLogger("rowcall.celery")

NEEDLESS = frozenset(
    {
        *("accept_content", "broker_connection_retry_on_startup", "enable_utc", "result_accept_content"),
        *("result_backend", "result_serializer", "task_acks_late", "task_reject_on_worker_lost", "task_serializer"),
        *("task_ignore_result", "task_track_started"),
    }
)
"""What is so anyway, or cannot matter without a broker: nothing is logged about these."""

OLD_NAMES = {
    "BROKER_URL": "broker_url",
    "CELERYBEAT_SCHEDULE": "beat_schedule",
    "CELERY_ALWAYS_EAGER": "task_always_eager",
    "CELERY_BROKER_URL": "broker_url",
    "CELERY_DEFAULT_QUEUE": "task_default_queue",
    "CELERY_EAGER_PROPAGATES": "task_eager_propagates",
    "CELERY_IMPORTS": "imports",
    "CELERY_ROUTES": "task_routes",
    "CELERY_TIMEZONE": "timezone",
}
"""The names of settings before Celery 4."""


class CelerySettings:
    """Set them as attributes, as items or with `update`. A setting without an effect is logged once."""

    beat_schedule: Mapping[str, Mapping[str, object]] = {}
    broker_url: str | None = None
    imports: Sequence[str] = ()
    include: Sequence[str] = ()
    task_always_eager: bool = False
    task_default_queue: str | None = None
    task_eager_propagates: bool = False
    task_routes: object = None
    task_time_limit: float | None = None
    timezone: str = "UTC"

    def __init__(self, changed: Callable[[], None]) -> None:
        self.__dict__["_changed"] = changed

    def __setattr__(self, name: str, value: object) -> None:
        self.update({name: value})

    def __setitem__(self, name: str, value: object) -> None:
        self.update({name: value})

    def __getitem__(self, name: str) -> object:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None

    def __contains__(self, name: str) -> bool:
        return hasattr(self, name)

    def get(self, name: str, default: object = None) -> object:
        return getattr(self, name, default)

    def update(self, given: Mapping[str, object] | None = None, **more: object) -> None:
        before = dict(self.__dict__)
        for old, value in {**(given or {}), **more}.items():
            name = OLD_NAMES.get(old, old)
            if not hasattr(CelerySettings, name) and name not in NEEDLESS and name not in self.__dict__:
                logger.warning("the setting %s of Celery has no effect in Rowcall", name)
            self.__dict__[name] = (
                getattr(CelerySettings, name) if value is None and hasattr(CelerySettings, name) else value
            )
        try:
            self.__dict__["_changed"]()
        except Exception:  # a wrong value must not stay
            self.__dict__.clear()
            self.__dict__.update(before)
            raise


def settings_in(obj: object, namespace: str | None = None) -> dict[str, object]:
    """Return the settings of an object, a mapping or a module, or of what has this name: `module`, `module:name`."""
    if isinstance(obj, str):
        module, _, attribute = obj.partition(":")
        obj = importlib.import_module(module)
        obj = getattr(obj, attribute) if attribute else obj
    values = obj if isinstance(obj, Mapping) else {name: getattr(obj, name) for name in dir(obj)}
    if namespace:
        prefix = f"{namespace}_"
        return {name[len(prefix) :].lower(): value for name, value in values.items() if name.startswith(prefix)}
    return {
        name: value
        for name, value in values.items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and not callable(value)
    }


class Route(NamedTuple):
    """The options of the tasks whose names match."""

    pattern: str | re.Pattern[str]
    options: Mapping[str, object]

    def matches(self, task: str) -> bool:
        if isinstance(self.pattern, str):
            return fnmatch.fnmatchcase(task, self.pattern)
        return self.pattern.match(task) is not None


def routes_of(routes: object) -> list[Route]:
    """Return `task_routes`: `{"mail.*": {"queue": "mail"}, "feed.update": "feeds"}`, or a list of such."""
    match routes:
        case None:
            return []
        case Mapping():
            return [_route(pattern, options) for pattern, options in routes.items()]
        case (str() | re.Pattern() as pattern, str() | Mapping() as options):
            return [_route(pattern, options)]
        case list() | tuple():
            return [route for one in routes for route in routes_of(one)]
    raise InvalidOption("task_routes", f"must be names of tasks with their queues or options, got {routes!r}")


def _route(pattern: object, options: object) -> Route:
    options = {"queue": options} if isinstance(options, str) else options
    if not isinstance(pattern, str | re.Pattern) or not isinstance(options, Mapping):
        raise InvalidOption("task_routes", f"must be names of tasks with their queues or options, got {pattern!r}")
    return Route(pattern, options)
