"""Open a SQLite file with the settings that Rowcall needs."""

from __future__ import annotations

import os
import sqlite3

from rowcall.domain.config import Config
from rowcall.domain.errors import StoreUnavailable

OLDEST_SQLITE = (3, 35, 0)
CACHE_KIB = 8192
CHECKPOINT_PAGES = 1000
WAL_LIMIT_BYTES = 32 * 1024 * 1024


def open_file(path: str, config: Config) -> sqlite3.Connection:
    """Return a connection in autocommit mode that never waits for a lock, or raise `sqlite3.Error`."""
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        error = sqlite3.OperationalError("unable to open database file")
        error.sqlite_errorname = "SQLITE_CANTOPEN"
        raise error
    raw = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256)
    try:
        _prepare(raw, config)
    except BaseException:
        raw.close()
        raise
    return raw


def check_version() -> None:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreUnavailable(
            f"SQLite {sqlite3.sqlite_version} is too old; 3.35 or newer is required",
            "Use a newer Python or system SQLite",
        )


def _prepare(raw: sqlite3.Connection, config: Config) -> None:
    # plain SQL may have stored bytes that are not UTF-8: show them, rather than fail a whole group for one row
    raw.text_factory = _lenient_text
    if raw.execute("pragma page_count").fetchone() == (0,):
        raw.execute("pragma auto_vacuum = incremental")
    _switch_to_wal(raw)
    synchronous = "off" if config.in_memory else config.durability
    for setting in (
        f"synchronous = {synchronous}",
        "foreign_keys = on",
        "temp_store = memory",
        f"cache_size = -{CACHE_KIB}",
        "cache_spill = off",  # see fork_hooks
        f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
        f"journal_size_limit = {WAL_LIMIT_BYTES}",
    ):
        raw.execute(f"pragma {setting}")
    if raw.execute("pragma foreign_keys").fetchone() != (1,):
        raise StoreUnavailable(
            "this build of SQLite has no foreign keys",
            "Use a Python whose sqlite3 module has them: history relies on them",
        )


def _switch_to_wal(raw: sqlite3.Connection) -> None:
    mode = raw.execute("pragma journal_mode").fetchone()[0]
    if mode != "wal":
        mode = raw.execute("pragma journal_mode = wal").fetchone()[0]
    if mode != "wal":
        raise StoreUnavailable(
            f"the file cannot be switched to write-ahead logging (it stays in mode {mode})",
            "A network or read-only file system is the usual cause: keep the file on a local disk",
        )


def _lenient_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
