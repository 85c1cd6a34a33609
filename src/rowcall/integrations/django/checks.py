"""System checks: what would go wrong later, found by `manage.py check`."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from django.core.checks import CheckMessage, Error, Warning
from django.db import connections

from rowcall.app import Rowcall
from rowcall.domain.config import configure
from rowcall.domain.errors import RowcallError
from rowcall.integrations.django.site import alias, is_testing, options, queue_url, setting


def check_rowcall(**_: Any) -> list[CheckMessage]:
    return list(_problems())


def _problems() -> Iterator[CheckMessage]:
    try:
        name = alias()
        if name not in connections:
            known = ", ".join(connections)
            yield Error(f"ROWCALL['DATABASE'] is {name!r}, which is not in DATABASES ({known}).", id="rowcall.E002")
            return
        given = {option: value for option, value in options().items() if option not in ("clock", "tracing")}
        configure("sqlite:///test.db" if is_testing() else queue_url(), **given)  # type: ignore[arg-type]
    except RowcallError as error:
        yield Error(f"The settings of Rowcall are wrong: {error}.", id="rowcall.E003")
        return
    yield from _problems_of_app(str(setting("APP")))
    connection = connections[name]
    if connection.vendor == "sqlite":
        yield from _problems_of_file(name, connection.settings_dict)
    else:
        yield from _problems_of_server(name, connection.settings_dict)


def _problems_of_app(app: str) -> Iterator[CheckMessage]:
    """Import what `manage.py rowcall work` would work on."""
    module, _, name = app.partition(":")
    try:
        value = getattr(import_module(module), name)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        yield Error(f"ROWCALL['APP'] is {app!r}, which cannot be imported ({said}).", id="rowcall.E004")
        return
    if not isinstance(value, Rowcall):
        hint = "Write module:name of a Rowcall, such as shop.tasks:jobs."
        yield Error(f"ROWCALL['APP'] is {app!r}, which is not a Rowcall.", hint=hint, id="rowcall.E004")


def _problems_of_file(name: str, settings: Mapping[str, Any]) -> Iterator[CheckMessage]:
    if str(settings["OPTIONS"].get("transaction_mode", "")).upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        yield Warning(
            f"DATABASES[{name!r}] is SQLite without transaction_mode: a view that reads before it enqueues may fail.",
            hint='Set "OPTIONS": {"transaction_mode": "IMMEDIATE"}.',
            id="rowcall.W001",
        )


def _problems_of_server(name: str, settings: Mapping[str, Any]) -> Iterator[CheckMessage]:
    for module in ("psycopg", "psycopg_pool"):
        if importlib.util.find_spec(module) is None:
            yield Error(
                f"Rowcall's own connections need {module}.", hint="pip install 'rowcall[postgres]'", id="rowcall.E005"
            )
    if settings["CONN_MAX_AGE"] != 0 and not settings["CONN_HEALTH_CHECKS"]:
        yield Warning(
            f"DATABASES[{name!r}] keeps connections (CONN_MAX_AGE) without CONN_HEALTH_CHECKS: after a restart of the"
            " server, the next request in each thread of the web server fails. Workers check their connections.",
            hint='Set "CONN_HEALTH_CHECKS": True, or "CONN_MAX_AGE": 0.',
            id="rowcall.W002",
        )
