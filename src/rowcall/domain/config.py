"""The configuration of a queue, checked. `InvalidOption` lists all problems."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, TypedDict, TypeGuard, Unpack
from urllib.parse import quote, unquote

import msgspec

from rowcall.base.clock import Clock
from rowcall.base.urls import looks_secret
from rowcall.base.urls import shown as shown
from rowcall.domain import checks
from rowcall.domain.alerts import Alerts
from rowcall.domain.blobs import BlobStore
from rowcall.domain.defaults import TaskDefaults
from rowcall.domain.encryption import Encryption
from rowcall.domain.errors import InvalidOption, seconds_of
from rowcall.domain.failure import DEFAULT_TRACEBACK_LIMIT, Scrub
from rowcall.domain.job_log import JobLog
from rowcall.domain.push import PushOptions
from rowcall.domain.retention import Retention

VERSION = "0.1.0"

Durability = Literal["full", "normal"]
ServerKind = Literal["postgresql", "mysql"]

_KINDS: Mapping[str, ServerKind] = MappingProxyType(
    {"postgresql": "postgresql", "postgres": "postgresql", "mysql": "mysql", "mariadb": "mysql"}
)
"""The kinds of servers, by the schemes of their URLs. MariaDB and MySQL are one kind."""
URL_FORMS = "sqlite:///app.db, postgresql://user@host/database or mysql://user@host/database"
_FILE = re.compile(r"(?:[A-Za-z]:(?=[\\/]))?[^:@=?#]*")
_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,39}")
PATH_ADVICE = " or pass a pathlib.Path"

DEFAULT_POOL_SIZE = 4
DEFAULT_JOB_LOG = JobLog()
DEFAULT_MISMATCH_GRACE_SECONDS = 600.0
SHORTEST_GRACE_SECONDS = 60.0
MOST_POOLED = 100
DEFAULT_BLOB_THRESHOLD = 256 * 1024
DEFAULT_PAYLOAD_LIMIT = 64 * 1024 * 1024
LEAST_BYTES, MOST_BYTES = 1024, 512 * 1024 * 1024  # what PostgreSQL can hold in one value, with some to spare


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A database on a server. `listen_url` is the same PostgreSQL database without a pooler in between."""

    url: str
    listen_url: str | None = None
    pool_size: int = DEFAULT_POOL_SIZE

    @property
    def kind(self) -> ServerKind:
        return _KINDS[self.url.partition("://")[0]]

    def __repr__(self) -> str:
        return f"Server({shown(self.url)!r})"


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a queue. `path` is a SQLite file, unless there is a `server`."""

    path: str = ""
    server: Server | None = None
    table_prefix: str = "rowcall_"
    durability: Durability = "full"
    default_queue: str = "default"
    auto_migrate: bool = True
    busy_timeout_seconds: float = 5.0
    retention: Retention | None = None
    gate_seconds: float = 2.0
    scrub: Scrub | None = None
    traceback_limit: int = DEFAULT_TRACEBACK_LIMIT
    blobs: BlobStore | None = None
    blob_threshold: int = DEFAULT_BLOB_THRESHOLD
    payload_limit: int = DEFAULT_PAYLOAD_LIMIT
    mismatch_grace_seconds: float = DEFAULT_MISMATCH_GRACE_SECONDS
    defaults: TaskDefaults | None = None
    push: PushOptions | None = None
    encrypt: Encryption | None = None
    alerts: Alerts | None = None
    job_log: JobLog | None = DEFAULT_JOB_LOG
    moves_to: str | None = None

    @property
    def unknown_task_seconds(self) -> float:
        """Return how long a job waits for a worker that knows its task, before it fails."""
        return max(self.mismatch_grace_seconds, SHORTEST_GRACE_SECONDS)

    @property
    def in_memory(self) -> bool:
        return self.path == ":memory:"


class QueueOptions(TypedDict, total=False):
    """The options of `Rowcall(...)`, which its docstring explains."""

    table_prefix: Annotated[str, _prefix]
    durability: Annotated[str, checks.one_of("full", "normal")]
    default_queue: Annotated[str, checks.queue]
    auto_migrate: Annotated[bool, checks.anything]
    busy_timeout: Annotated[float, _busy_timeout, "busy_timeout_seconds"]
    listen_url: str | None
    pool_size: int | None
    retention: Annotated[Retention | None, _retention]
    scrub: Annotated[Scrub | None, _scrub]
    traceback_limit: Annotated[int | None, _traceback_limit]
    blobs: Annotated[BlobStore | None, _blob_store]
    blob_threshold: Annotated[int, _BYTES]
    payload_limit: Annotated[int, _BYTES]
    mismatch_grace: Annotated[float | timedelta, seconds_of, "mismatch_grace_seconds"]
    defaults: Annotated[TaskDefaults | None, _instance(TaskDefaults, "a TaskDefaults")]
    push: Annotated[PushOptions | None, _instance(PushOptions, "a PushOptions")]
    encrypt: Annotated[Encryption | None, _instance(Encryption, "an Encryption(keys=[…])")]
    alerts: Annotated[Alerts | None, _instance(Alerts, "an Alerts(url=…)")]
    job_log: Annotated[JobLog | None, _instance(JobLog, "a JobLog, or None")]
    moves_to: Annotated[str | Path | None, _moves_to]
    clock: Clock | None
    tracing: bool


def configure(url: str | Path | None, *, without_url: bool = False, **options: Unpack[QueueOptions]) -> Config:
    """Return the configuration, or raise one `InvalidOption` with all problems.

    `without_url` checks the other options only: the URL is not known yet.
    """
    fields, problems = checks.all_checked(_OPTIONS, options)
    try:
        fields |= {} if without_url else _database(url, options)
    except InvalidOption as error:
        problems.insert(0, error)
    checks.refuse_all("Rowcall", problems)
    return Config(**fields)  # type: ignore[arg-type]


def _database(url: str | Path | None, values: Mapping[str, object]) -> dict[str, object]:
    """Return the fields that depend on the database."""
    database = database_of(url)
    if isinstance(database, str):
        for option in ("listen_url", "pool_size"):
            if values.get(option) is not None:
                raise InvalidOption(option, "is an option for servers; remove it for a SQLite file")
        return {"path": database}
    listen_url, size = values.get("listen_url"), values.get("pool_size")
    if listen_url is not None and database.kind != "postgresql":
        raise InvalidOption("listen_url", "is an option for PostgreSQL; remove it for MariaDB or MySQL")
    if listen_url is not None and (not _is_server_url(listen_url) or Server(url=listen_url).kind != "postgresql"):
        raise InvalidOption("listen_url", "must be a postgresql:// URL that does not go through a pooler")
    pool_size = DEFAULT_POOL_SIZE if size is None else checks.whole(1, MOST_POOLED)("pool_size", size)
    return {"server": msgspec.structs.replace(database, listen_url=listen_url, pool_size=pool_size)}


def _prefix(option: str, value: object) -> str:
    if not isinstance(value, str) or not _PREFIX.fullmatch(value.lower()):
        raise InvalidOption(
            option, f"must be 1 to 40 letters from a to z, digits and _, and not begin with a digit, got {value!r}"
        )
    if value != value.lower():
        raise InvalidOption(option, f"must be lower case: use {value.lower()!r}, got {value!r}")
    if value.startswith("sqlite_"):
        raise InvalidOption(option, f"must not begin with sqlite_, which is reserved by SQLite, got {value!r}")
    return value


def _busy_timeout(option: str, value: object) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= 3600:
        raise InvalidOption(option, f"must be seconds from 0 to 3600, got {value!r}")
    return float(value)


def _retention(option: str, value: object) -> Retention | None:
    if value is not None and not isinstance(value, Retention):
        raise InvalidOption(option, f"must be a Retention, got {value!r}")
    return value


def _scrub(option: str, value: object) -> object:
    if value is not None and (not callable(value) or inspect.iscoroutinefunction(value)):
        raise InvalidOption(option, f"must be a function from str to str, got {value!r}")
    return value


def _traceback_limit(option: str, value: object) -> int:
    return 0 if value is None or (value == 0 and value is not False) else _CHARACTERS(option, value)


def _blob_store(option: str, value: object) -> object:
    missing = [name for name in ("put", "get", "digests", "delete") if not callable(getattr(value, name, None))]
    if value is not None and (missing or isinstance(value, type)):
        problem = f"{type(value).__name__} has no {', '.join(missing)}" if missing else "got its class"
        raise InvalidOption(option, f"must be a BlobStore: {problem}")
    return value


def _moves_to(option: str, value: object) -> str | None:
    """Return a URL: what else leads to a database depends on the environment or the current folder."""
    if value is None:
        return None
    try:
        database = database_of(value) if isinstance(value, str | Path) else None
    except InvalidOption as error:
        raise InvalidOption(option, error.problem) from None
    if database is None:
        raise InvalidOption(option, f"must be a URL or a pathlib.Path, got {type(value).__name__}")
    return str(value) if isinstance(value, str) else f"sqlite:///{quote(str(value))}"


def _instance(kind: type, form: str) -> checks.Check:
    def check(option: str, value: object) -> object:
        if value is not None and not isinstance(value, kind):  # it may be a secret
            raise InvalidOption(option, f"must be {form}, got {type(value).__name__}")
        return value

    return check


_CHARACTERS = checks.whole(100, 1_000_000, "0 for none, or a number of characters")
_BYTES = checks.whole(LEAST_BYTES, MOST_BYTES, "a number of bytes")
_OPTIONS = checks.options_of(QueueOptions)


def _is_server_url(url: object) -> TypeGuard[str]:
    if not isinstance(url, str) or "\0" in url:
        return False
    scheme, mark, _ = url.partition("://")
    return bool(mark) and scheme in _KINDS


def database_of(url: str | Path | None) -> str | Server:
    """Return the SQLite file or the server of a URL, a path or `$ROWCALL_URL`.

    >>> database_of("sqlite:///app.db"), database_of("sqlite:////srv/app.db")
    ('app.db', '/srv/app.db')
    >>> database_of("postgresql://ann@db-1/shop").url
    'postgresql://ann@db-1/shop'
    """
    if url is None:
        url = os.environ.get("ROWCALL_URL") or "sqlite:///rowcall.db"
    if isinstance(url, Path):
        return str(url)
    if not isinstance(url, str):
        raise InvalidOption("url", f"must be a URL or a pathlib.Path, got {type(url).__name__}")
    if url.startswith("sqlite:///"):
        quoted = url.removeprefix("sqlite:///")
        if looks_secret(quoted):
            raise InvalidOption(
                "url", "a SQLite URL has no user and password (in a file name, write : as %3A and @ as %40)"
            )
        if "?" in quoted or "#" in quoted:
            raise InvalidOption(
                "url", f"{shown(url)!r} has parameters, and SQLite URLs have none (in a file name, write ? as %3F)"
            )
        path = unquote(quoted)
        if path and "\0" not in path:
            return path
        raise InvalidOption("url", f"{shown(url)!r} does not name a file; write sqlite:///app.db")
    if _is_server_url(url):
        return Server(url=url)
    scheme, mark, _ = url.partition("://")
    if mark:
        scheme = shown(url).partition("://")[0]
    dialect, plus, _ = scheme.partition("+")
    if plus and dialect in _KINDS:
        raise InvalidOption("url", f"{scheme}:// names a driver, as in SQLAlchemy; write {dialect}://")
    if mark:
        if scheme == "sqlite":
            raise InvalidOption("url", "must have three slashes after sqlite:, such as sqlite:///app.db")
        raise InvalidOption("url", f"unknown database {scheme}://; write {URL_FORMS}")
    if not _FILE.fullmatch(url):  # perhaps a server's with a password, so it is not shown
        raise InvalidOption("url", f"is not a URL; write {URL_FORMS}")
    raise InvalidOption("url", f"{url!r} is not a URL; for a file write sqlite:///{url}{PATH_ADVICE}")
