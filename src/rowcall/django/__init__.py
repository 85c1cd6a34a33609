"""Rowcall in Django: `INSTALLED_APPS = ["rowcall.django"]`, and `from rowcall.django import jobs`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rowcall.integrations.django.queue import jobs

if TYPE_CHECKING:
    from rowcall.integrations.django.backend import RowcallBackend
    from rowcall.integrations.django.testing import immediate, run_jobs

__all__ = ["RowcallBackend", "immediate", "jobs", "run_jobs"]

_LATER = {"RowcallBackend": "backend", "immediate": "testing", "run_jobs": "testing"}
"""What needs more than Django's settings: it is imported when it is used."""


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(import_module(f"rowcall.integrations.django.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
