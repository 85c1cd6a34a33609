"""`app.conf`: the settings of a Celery app that have an effect here."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping
from types import ModuleType

logger = logging.getLogger("rowcall.celery")

EFFECTIVE = ("beat_schedule", "broker_url", "task_routes", "timezone")


class Settings:
    """Set them as attributes or with `update`. A setting without an effect is logged once."""

    broker_url: str | None = None
    beat_schedule: Mapping[str, Mapping[str, object]] = {}
    task_routes: Mapping[str, Mapping[str, object]] = {}
    timezone: str = "UTC"

    def __init__(self, changed: Callable[[], None]) -> None:
        self.__dict__["_changed"] = changed

    def __setattr__(self, name: str, value: object) -> None:
        if name not in EFFECTIVE and name not in self.__dict__:
            logger.warning("the setting %s of Celery has no effect in Rowcall", name)
        before = dict(self.__dict__)
        self.__dict__[name] = value
        try:
            self.__dict__["_changed"]()
        except Exception:  # a wrong value must not stay
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def update(self, given: Mapping[str, object] | None = None, **more: object) -> None:
        for name, value in {**(given or {}), **more}.items():
            setattr(self, name, value)


def settings_in(obj: object, namespace: str | None = None) -> dict[str, object]:
    """Return the settings of an object, a mapping or a module, or of what has this name: `module`, `module:name`."""
    if isinstance(obj, str):
        module, _, attribute = obj.partition(":")
        obj = importlib.import_module(module)
        obj = getattr(obj, attribute) if attribute else obj
    given = obj if isinstance(obj, Mapping) else {name: getattr(obj, name) for name in dir(obj)}
    if namespace:
        prefix = f"{namespace}_"
        return {name[len(prefix) :].lower(): value for name, value in given.items() if name.startswith(prefix)}
    return {
        name: value
        for name, value in given.items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and not callable(value)
    }
