"""The app of a Django project: found by its settings, and its tasks in the `tasks` modules of all installed apps."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from rowcall.base.django_setup import SETTINGS, set_up_django

APP = "rowcall.django:jobs"
_PACKAGE = "rowcall.integrations.django"


def django_app() -> str | None:
    """Return the app of the Django project that this process belongs to, if Rowcall is installed in it."""
    if os.environ.get("ROWCALL_URL") or not is_django_set_up():
        return None
    from django.apps import apps

    return str(_setting().get("APP", APP)) if apps.is_installed(_PACKAGE) else None


def task_modules() -> list[str]:
    """Return the modules that declare tasks: `tasks` of each installed app, and `ROWCALL["IMPORTS"]`."""
    if not is_django_set_up():
        return []
    from django.apps import apps
    from django.utils.module_loading import module_has_submodule

    found = [f"{one.name}.tasks" for one in apps.get_app_configs() if module_has_submodule(one.module, "tasks")]
    return [*found, *_setting().get("IMPORTS", ())]


def is_django_set_up() -> bool:
    """Set Django up if there are settings, and return whether there are."""
    try:
        return set_up_django()
    except Exception as error:
        settings = os.environ.get(SETTINGS)
        raise click.UsageError(
            f"could not set up Django ({SETTINGS}={settings}): {type(error).__name__}: {error}"
        ) from error


def _setting() -> Mapping[str, Any]:
    from django.conf import settings

    found: Mapping[str, Any] = getattr(settings, "ROWCALL", {})
    return found
