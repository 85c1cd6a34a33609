"""The configuration of a queue, checked. `InvalidOption` lists all problems."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Literal, TypedDict
from urllib.parse import unquote

import msgspec

from rowcall.base.clock import Clock
from rowcall.base.urls import looks_secret
from rowcall.base.urls import shown as shown
from rowcall.domain.blobs import BlobStore
from rowcall.domain.errors import InvalidOption, seconds_of
from rowcall.domain.failure import DEFAULT_TRACEBACK_LIMIT, Scrub
from rowcall.domain.names import queue_problem
from rowcall.domain.retention import Retention

VERSION = "0.1.0"  # pyproject.toml has it too, and a test compares them

Durability = Literal["full", "normal"]

_FILE = re.compile(r"(?:[A-Za-z]:(?=[\\/]))?[^:@=?#]*")
_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_LIMITS = (100, 1_000_000)
PATH_ADVICE = " or pass a pathlib.Path"

DEFAULT_POOL_SIZE = 4
DEFAULT_MISMATCH_GRACE_SECONDS = 600.0
MOST_POOLED = 100
DEFAULT_BLOB_THRESHOLD = 256 * 1024
DEFAULT_PAYLOAD_LIMIT = 64 * 1024 * 1024
LEAST_BYTES, MOST_BYTES = 1024, 512 * 1024 * 1024  # what PostgreSQL can hold in one value, with some to spare


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A database on a PostgreSQL server. `listen_url` is the same database without a pooler in between."""

    url: str
    listen_url: str | None = None
    pool_size: int = DEFAULT_POOL_SIZE

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

    @property
    def in_memory(self) -> bool:
        return self.path == ":memory:"


class QueueOptions(TypedDict, total=False):
    """The options of `Rowcall(...)`, which its docstring explains."""

    table_prefix: str
    durability: str
    default_queue: str
    auto_migrate: bool
    busy_timeout: float
    listen_url: str | None
    pool_size: int | None
    retention: Retention | None
    scrub: Scrub | None
    traceback_limit: int | None
    blobs: BlobStore | None
    blob_threshold: int
    payload_limit: int
    mismatch_grace: float | timedelta
    clock: Clock | None
    tracing: bool


def configure(
    url: str | Path | None,
    *,
    table_prefix: str = "rowcall_",
    durability: str = "full",
    default_queue: str = "default",
    auto_migrate: bool = True,
    busy_timeout: float = 5.0,
    listen_url: str | None = None,
    pool_size: int | None = None,
    retention: Retention | None = None,
    scrub: Scrub | None = None,
    traceback_limit: int | None = DEFAULT_TRACEBACK_LIMIT,
    blobs: BlobStore | None = None,
    blob_threshold: int = DEFAULT_BLOB_THRESHOLD,
    payload_limit: int = DEFAULT_PAYLOAD_LIMIT,
    mismatch_grace: float | timedelta = DEFAULT_MISMATCH_GRACE_SECONDS,
    without_url: bool = False,
) -> Config:
    """Return the configuration, or raise an error that names all that is wrong.

    `without_url` checks the other options only: the URL is not known yet.
    """
    problems: list[InvalidOption] = []
    place: str | Server = ""
    try:
        if not without_url:
            place = _with_options(place_of(url), listen_url, pool_size, problems)
    except InvalidOption as error:
        problems.append(error)
    if isinstance(table_prefix, str) and table_prefix.lower().startswith("sqlite_"):
        problems.append(InvalidOption("table_prefix", "must not begin with sqlite_, which is reserved by SQLite"))
    elif not isinstance(table_prefix, str) or not _PREFIX.fullmatch(table_prefix):
        problems.append(InvalidOption("table_prefix", _prefix_problem(table_prefix)))
    if durability not in ("full", "normal"):
        problems.append(InvalidOption("durability", f'must be "full" or "normal", got {durability!r}'))
    if problem := queue_problem(default_queue):
        problems.append(InvalidOption("default_queue", problem))
    if not isinstance(busy_timeout, int | float) or not 0 <= busy_timeout <= 3600:
        problems.append(InvalidOption("busy_timeout", f"must be seconds from 0 to 3600, got {busy_timeout!r}"))
    if retention is not None and not isinstance(retention, Retention):
        problems.append(InvalidOption("retention", f"must be a Retention, got {retention!r}"))
    if scrub is not None and (not callable(scrub) or inspect.iscoroutinefunction(scrub)):
        problems.append(InvalidOption("scrub", f"must be a function from str to str, got {scrub!r}"))
    if traceback_limit is not None and not _is_limit(traceback_limit):
        problem = f"must be {_LIMITS[0]} to {_LIMITS[1]:,} characters, or 0 for none, got {traceback_limit!r}"
        problems.append(InvalidOption("traceback_limit", problem))
    problems += _blob_problems(blobs, blob_threshold, payload_limit)
    mismatch_grace_seconds = 0.0
    try:
        mismatch_grace_seconds = seconds_of("mismatch_grace", mismatch_grace)
    except InvalidOption as error:
        problems.append(error)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise InvalidOption("Rowcall", "; ".join(str(problem) for problem in problems))
    return Config(
        path=place if isinstance(place, str) else "",
        server=place if isinstance(place, Server) else None,
        table_prefix=table_prefix,
        durability="full" if durability == "full" else "normal",
        default_queue=default_queue,
        auto_migrate=auto_migrate,
        busy_timeout_seconds=float(busy_timeout),
        retention=retention,
        scrub=scrub,
        traceback_limit=traceback_limit or 0,
        blobs=blobs,
        blob_threshold=blob_threshold,
        payload_limit=payload_limit,
        mismatch_grace_seconds=mismatch_grace_seconds,
    )


def _blob_problems(blobs: object, blob_threshold: object, payload_limit: object) -> Iterator[InvalidOption]:
    if blobs is not None:
        wanted = ("put", "get", "digests", "delete")
        missing = [name for name in wanted if not callable(getattr(blobs, name, None))]
        if missing or isinstance(blobs, type):
            problem = f"{type(blobs).__name__} has no {', '.join(missing)}" if missing else "got its class"
            yield InvalidOption("blobs", f"must be a BlobStore: {problem}")
    for option, size in (("blob_threshold", blob_threshold), ("payload_limit", payload_limit)):
        if isinstance(size, bool) or not isinstance(size, int) or not LEAST_BYTES <= size <= MOST_BYTES:
            yield InvalidOption(option, f"must be a number of bytes from {LEAST_BYTES} to {MOST_BYTES}, got {size!r}")


def _is_limit(limit: object) -> bool:
    is_whole = isinstance(limit, int) and not isinstance(limit, bool)
    return is_whole and (limit == 0 or _LIMITS[0] <= limit <= _LIMITS[1])  # type: ignore[operator]


def _with_options(
    place: str | Server, listen_url: str | None, pool_size: int | None, problems: list[InvalidOption]
) -> str | Server:
    """Return the place with the options that only a server has."""
    if isinstance(place, str):
        for option, value in (("listen_url", listen_url), ("pool_size", pool_size)):
            if value is not None:
                problems.append(InvalidOption(option, "is an option for PostgreSQL; remove it for a SQLite file"))
        return place
    if listen_url is not None and not _is_server_url(listen_url):
        problems.append(InvalidOption("listen_url", "must be a postgresql:// URL that does not go through a pooler"))
    size = DEFAULT_POOL_SIZE if pool_size is None else pool_size
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MOST_POOLED:
        problems.append(
            InvalidOption("pool_size", f"must be a whole number from 1 to {MOST_POOLED}, got {pool_size!r}")
        )
    return Server(url=place.url, listen_url=listen_url, pool_size=size)


def _is_server_url(url: object) -> bool:
    return isinstance(url, str) and url.startswith(("postgresql://", "postgres://")) and "\0" not in url


def place_of(url: str | Path | None) -> str | Server:
    """Return the SQLite file or the server of a URL, a path or `$ROWCALL_URL`.

    >>> place_of("sqlite:///app.db"), place_of("sqlite:////srv/app.db")
    ('app.db', '/srv/app.db')
    >>> place_of("postgresql://ann@db-1/shop").url
    'postgresql://ann@db-1/shop'
    """
    if url is None:
        url = os.environ.get("ROWCALL_URL") or "sqlite:///rowcall.db"
    if isinstance(url, Path):
        return str(url)
    if not isinstance(url, str):
        raise InvalidOption("url", f"must be a URL or a pathlib.Path, got {type(url).__name__}")
    if url.startswith("sqlite:///"):
        rest = url.removeprefix("sqlite:///")
        if looks_secret(rest):
            raise InvalidOption(
                "url", "a SQLite URL has no user and password (in a file name, write : as %3A and @ as %40)"
            )
        if "?" in rest or "#" in rest:
            raise InvalidOption(
                "url", f"{shown(url)!r} has parameters, and SQLite URLs have none (in a file name, write ? as %3F)"
            )
        path = unquote(rest)
        if path and "\0" not in path:
            return path
        raise InvalidOption("url", f"{shown(url)!r} does not name a file; write sqlite:///app.db")
    if _is_server_url(url):
        return Server(url=url)
    scheme, mark, _ = url.partition("://")
    if mark:
        scheme = shown(url).partition("://")[0]
    if mark and scheme.startswith(("postgresql+", "postgres+")):
        raise InvalidOption("url", f"{scheme}:// names a driver, as in SQLAlchemy; write postgresql://")
    if mark:
        advice = "sqlite URLs have three slashes" if scheme == "sqlite" else "use sqlite or postgresql"
        raise InvalidOption("url", f"unknown database {scheme}:// ({advice}), such as sqlite:///app.db")
    if not _FILE.fullmatch(url):  # perhaps a server's with a password, so it is not shown
        raise InvalidOption("url", "is not a URL; for a server write postgresql://user@host/database")
    raise InvalidOption("url", f"{url!r} is not a URL; for a file write sqlite:///{url}{PATH_ADVICE}")


def _prefix_problem(prefix: object) -> str:
    if isinstance(prefix, str) and _PREFIX.fullmatch(prefix.lower()):
        return f"must be lower case: use {prefix.lower()!r}, got {prefix!r}"
    return f"must be 1 to 40 letters from a to z, digits and _, and not begin with a digit, got {prefix!r}"
