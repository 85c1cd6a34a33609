"""`app.conf`: the settings of a Celery app that have an effect here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

logger = logging.getLogger("rowcall.celery")

EFFECTIVE = ("beat_schedule", "task_routes", "timezone")


class Settings:
    """Set them as attributes or with `update`. A setting without an effect is logged once."""

    beat_schedule: Mapping[str, Mapping[str, object]] = {}
    task_routes: Mapping[str, Mapping[str, object]] = {}
    timezone: str = "UTC"

    def __init__(self, changed: Callable[[], None]) -> None:
        self.__dict__["_changed"] = changed

    def __setattr__(self, name: str, value: object) -> None:
        if name not in EFFECTIVE and name not in self.__dict__:
            logger.warning("the setting %s of Celery has no effect in Rowcall", name)
        self.__dict__[name] = value
        self.__dict__["_changed"]()

    def update(self, given: Mapping[str, object] | None = None, **more: object) -> None:
        for name, value in {**(given or {}), **more}.items():
            setattr(self, name, value)
