"""What Django's settings say about the queue: `ROWCALL`, and the database in `DATABASES`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import quote, urlencode

from django.conf import settings
from django.core import mail
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from rowcall.domain.config import QueueOptions
from rowcall.domain.errors import InvalidOption, refuse_unknown

DEFAULTS: Mapping[str, Any] = {
    "DATABASE": "default",
    "APP": "rowcall.django:jobs",
    "IMPORTS": (),
    "OPTIONS": {},
}
_HOST = re.compile(r"[\w.-]+")
_OF_PSYCOPG = {"autocommit", "client_encoding", "connection_factory", "context", "cursor_factory", "prepare_threshold"}


def setting(name: str) -> Any:
    """Return one of the settings in `ROWCALL`, or its default."""
    given = getattr(settings, "ROWCALL", {})
    refuse_unknown(given, DEFAULTS)
    return given.get(name, DEFAULTS[name])


def is_testing() -> bool:
    """Return whether Django's test environment is set up: it has an outbox instead of mail."""
    return hasattr(mail, "outbox")


def alias() -> str:
    """Return which of `DATABASES` has the queue."""
    return str(setting("DATABASE"))


def options() -> QueueOptions:
    """Return the options of `Rowcall(...)` from the settings."""
    return cast(QueueOptions, dict(setting("OPTIONS")))


def local(time: datetime | None) -> datetime | None:
    """Return a time as Django's settings have them: aware, or naive in the current time zone."""
    return time if time is None or settings.USE_TZ else timezone.make_naive(time)


def aware(time: datetime) -> datetime:
    """Return a time of the app in UTC."""
    return (timezone.make_aware(time) if timezone.is_naive(time) else time).astimezone(UTC)


def queue_url() -> str | Path:
    """Return where the queue is, for Rowcall's own connections."""
    connection = connections[alias()]
    if connection.vendor not in _LOCATIONS:
        known = "SQLite, PostgreSQL, MariaDB or MySQL"
        raise InvalidOption("DATABASE", f"must be {known}, but DATABASES[{alias()!r}] is {connection.vendor}")
    return _LOCATIONS[connection.vendor](connection)


def _file(connection: BaseDatabaseWrapper) -> Path:
    name = str(connection.settings_dict["NAME"])
    if not is_testing() and (connection.is_in_memory_db() or name.startswith("file:")):
        raise InvalidOption("DATABASE", f"must name a file, but DATABASES[{alias()!r}] has {name!r}")
    return Path(name)


def _postgres_url(connection: BaseDatabaseWrapper) -> str:
    parameters = {
        name: value
        for name, value in connection.get_connection_params().items()
        if name not in _OF_PSYCOPG and value not in (None, "")
    }
    if role := connection.settings_dict["OPTIONS"].get("assume_role"):
        parameters["options"] = f"{parameters.get('options', '')} -c role={role}".strip()
    user, password = parameters.pop("user", ""), parameters.pop("password", "")
    name = parameters.pop("dbname", parameters.pop("database", ""))
    host, port = str(parameters.pop("host", "")), parameters.pop("port", "")
    if not _HOST.fullmatch(host):  # a socket, or several hosts
        parameters |= {"host": host} if host else {}
        host = ""
    if port and not host:
        parameters["port"] = port
    return _url("postgresql", user, password, f"{host}:{port}" if host and port else host, name, parameters)


def _mysql_url(connection: BaseDatabaseWrapper) -> str:
    parts = connection.get_connection_params()
    name, host, port = parts.get("database", parts.get("db", "")), parts.get("host", ""), parts.get("port", "")
    files: Mapping[str, str] = parts.get("ssl") or {}
    parameters = {f"ssl_{part}": files[part] for part in ("ca", "cert", "key") if part in files}
    if "unix_socket" in parts:
        parameters["unix_socket"] = parts["unix_socket"]
    where = f"{host or 'localhost'}:{port}" if port else host
    return _url("mysql", parts.get("user", ""), parts.get("password", ""), where, name, parameters)


def _url(
    scheme: str, user: object, password: object, where: str, name: object, parameters: Mapping[str, object]
) -> str:
    who = f"{quote(str(user), safe='')}{':' if password else ''}{quote(str(password), safe='')}@" if user else ""
    query = f"?{urlencode(parameters, quote_via=quote)}" if parameters else ""
    return f"{scheme}://{who}{where}/{quote(str(name), safe='')}{query}"


_LOCATIONS: Mapping[str, Callable[[BaseDatabaseWrapper], str | Path]] = MappingProxyType(
    {"sqlite": _file, "postgresql": _postgres_url, "mysql": _mysql_url}
)
