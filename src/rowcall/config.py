"""One frozen, checked configuration; a wrong one says everything that is wrong with it at once."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

import msgspec

from rowcall.errors import InvalidOption

VERSION = "0.1.0"  # pyproject.toml has it too, and a test compares them

Durability = Literal["full", "normal"]

_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_NAME_LENGTH = 200


class Config(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    table_prefix: str = "rowcall_"
    durability: Durability = "full"
    default_queue: str = "default"
    auto_migrate: bool = True
    busy_timeout_seconds: float = 5.0
    gate_seconds: float = 2.0

    @property
    def in_memory(self) -> bool:
        return self.path == ":memory:"


def configure(
    url: str | Path | None,
    *,
    table_prefix: str,
    durability: str,
    default_queue: str,
    auto_migrate: bool,
    busy_timeout: float,
) -> Config:
    problems = []
    path = ""
    try:
        path = path_of(url)
    except InvalidOption as error:
        problems.append(error)
    if isinstance(table_prefix, str) and table_prefix.lower().startswith("sqlite_"):
        problems.append(InvalidOption("table_prefix", "names that begin with sqlite_ belong to SQLite"))
    elif not isinstance(table_prefix, str) or not _PREFIX.fullmatch(table_prefix):
        problems.append(InvalidOption("table_prefix", f"wants letters, digits and _, 40 at most, not {table_prefix!r}"))
    if durability not in ("full", "normal"):
        problems.append(InvalidOption("durability", f'wants "full" or "normal", not {durability!r}'))
    if complaint := name_complaint(default_queue):
        problems.append(InvalidOption("default_queue", complaint))
    if not isinstance(busy_timeout, int | float) or not 0 <= busy_timeout <= 3600:
        problems.append(InvalidOption("busy_timeout", f"wants seconds from 0 to 3600, not {busy_timeout!r}"))
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise InvalidOption("Rowcall", "; ".join(str(problem) for problem in problems))
    return Config(
        path=path,
        table_prefix=table_prefix,
        durability="full" if durability == "full" else "normal",
        default_queue=default_queue,
        auto_migrate=auto_migrate,
        busy_timeout_seconds=float(busy_timeout),
    )


def path_of(url: str | Path | None) -> str:
    """The SQLite file that a URL, a path or `$ROWCALL_URL` names.

    >>> path_of("sqlite:///app.db"), path_of("sqlite:////srv/app.db")
    ('app.db', '/srv/app.db')
    """
    if url is None:
        url = os.environ.get("ROWCALL_URL") or "sqlite:///rowcall.db"
    if isinstance(url, Path):
        return str(url)
    if not isinstance(url, str):
        raise InvalidOption("url", f"wants a URL or a pathlib.Path, not {type(url).__name__}")
    if url.startswith("sqlite:///"):
        rest = url.removeprefix("sqlite:///")
        if "?" in rest or "#" in rest:
            raise InvalidOption(
                "url", f"{url!r} has options, and SQLite URLs here take none (in a file name, ? is %3F)"
            )
        path = unquote(rest)
        if path and "\0" not in path:
            return path
        raise InvalidOption("url", f"{url!r} names no file; write sqlite:///app.db")
    scheme, mark, _ = url.partition("://")
    if mark and scheme in ("postgresql", "postgres"):
        raise InvalidOption("url", "PostgreSQL is not supported by this version; use sqlite:///app.db")
    if mark:
        advice = "sqlite URLs have three slashes" if scheme == "sqlite" else "known is sqlite"
        raise InvalidOption("url", f"{scheme}:// is not a kind of database known here ({advice}): sqlite:///app.db")
    raise InvalidOption("url", f"{url!r} is not a URL; for a file write sqlite:///{url} or pass a pathlib.Path")


def name_complaint(name: object) -> str | None:
    """What is wrong with the name of a queue or a task, if anything."""
    if not isinstance(name, str):
        return f"wants a text, not {type(name).__name__}"
    if not name or len(name) > _NAME_LENGTH:
        return f"wants 1 to {_NAME_LENGTH} characters, not {len(name)}"
    if "\0" in name:
        return "cannot hold a NUL character"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "holds half of a surrogate pair"
    return None
