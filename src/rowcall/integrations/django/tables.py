"""The tables of the queue, made by `manage.py migrate`. It does not matter whether Rowcall has made them before."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from rowcall.base.effects import drive
from rowcall.drivers.caller.django import Django
from rowcall.integrations.django.queue import jobs
from rowcall.integrations.django.site import alias, is_testing, options
from rowcall.store.dialect import Dialect
from rowcall.store.dialects import DIALECTS

_LOCAL = ("lock_timeout", "search_path")


def prefix() -> str:
    """Return what the names of the tables begin with."""
    return options().get("table_prefix", "rowcall_")


def make_tables(apps: object, editor: BaseDatabaseSchemaEditor) -> None:
    """Make or update the tables in the transaction of a migration, if this database has the queue."""
    connection = editor.connection
    if connection.alias != alias():
        return
    if connection.vendor != "postgresql":
        drive(_dialect(connection.vendor).migrate(), Django(connection).execute)
        return
    with connection.cursor() as cursor:
        cursor.execute(f"select {', '.join(f'current_setting({name!r})' for name in _LOCAL)}")
        before = cursor.fetchone()
        drive(_dialect(connection.vendor).migrate(), Django(connection).execute)
        for name, value in zip(_LOCAL, before, strict=True):  # what follows in this transaction has its own settings
            cursor.execute("select set_config(%s, %s, true)", [name, value])


def after_migrate(using: str, **_: Any) -> None:
    """Update the tables after each `manage.py migrate`: a new version of Rowcall needs no new migration of Django.

    Django's tests also call this when they empty the tables between tests, but not the tables of the queue.
    """
    if using != alias():
        return
    jobs.migrate()
    if is_testing():
        jobs.clear()


def _dialect(vendor: str) -> Dialect:
    return DIALECTS[vendor](prefix())
