"""Set Django up where `$DJANGO_SETTINGS_MODULE` names the settings of a project."""

from __future__ import annotations

import os
import sys

SETTINGS = "DJANGO_SETTINGS_MODULE"


def set_up_django() -> bool:
    """Set Django up, unless it is, and return whether this process belongs to a Django project.

    The settings are imported from the current folder first. `rowcall work` does this before it imports the app, and a
    child process before it imports the module of its task.
    """
    if not os.environ.get(SETTINGS):
        return False
    try:
        import django
        from django.apps import apps
    except ModuleNotFoundError as error:
        if error.name != "django":
            raise
        return False  # the variable is of another program
    if not apps.ready:
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        django.setup()
    return True
