"""Checks of the content of a SQLite file: integrity, settings, locks, tables, workers."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator

from rowcall.cli.doctor import queue_checks
from rowcall.cli.doctor.finding import CheckResult, Level, ok, problem, unavailable, warn
from rowcall.cli.doctor.queue_checks import MOST_SHOWN
from rowcall.cli.doctor.schema_version import open_read_only, version_in
from rowcall.cli.target import Target
from rowcall.drivers.sqlite.errors import explained, is_wal_missing, lock_holders, users_without_lock, wal_deleted
from rowcall.observe.health import OVERSIZED_WAL_BYTES
from rowcall.overview.formats import size
from rowcall.store.schema import TABLES
from rowcall.store.sqlite.schema import NEWEST_VERSION
from rowcall.store.sqlite.words import render


def check_tables(path: str, prefix: str, target: Target) -> Iterator[CheckResult]:
    """Check an existing file, without changing it."""
    if is_wal_missing(path):  # another connection would begin another WAL
        yield unavailable("wal", wal_deleted(path))
        return
    try:
        with open_read_only(path) as raw:
            raw.execute("select count(*) from sqlite_master").fetchone()
            yield from _checks(raw, path, prefix, target)
    except sqlite3.Error as error:
        yield unavailable("database", explained(error, path))


def _checks(raw: sqlite3.Connection, path: str, prefix: str, target: Target) -> Iterator[CheckResult]:
    yield _integrity(raw)
    if version_in(raw, prefix).found:  # the first use switches it to WAL
        yield _journal(raw)
    if raw.execute("pragma page_count").fetchone()[0]:  # set with the first table of an empty file
        yield _vacuum(raw)
    yield _wal(path)
    yield _lock(path)
    yield from _lost_locks(path)
    schema = _schema(raw, prefix, target)
    yield schema
    if schema.level == Level.OK:
        yield _foreign_keys(raw, prefix)
        yield from queue_checks.check_queue(
            lambda sql: raw.execute(render(sql, prefix)).fetchall(),
            lambda one: raw.execute(one.sql, one.parameters).fetchall(),
            target,
        )


def _integrity(raw: sqlite3.Connection) -> CheckResult:
    complaints = [str(row[0]) for row in raw.execute(f"pragma quick_check({MOST_SHOWN})")]
    if complaints == ["ok"]:
        return ok("integrity", "the file is intact")
    return problem(
        "integrity",
        f"the file is damaged: {'; '.join(complaints)}",
        "Stop every process that uses it, keep a copy, then save what is readable: sqlite3 FILE .recover | sqlite3 NEW",
    )


def _foreign_keys(raw: sqlite3.Connection, prefix: str) -> CheckResult:
    orphans = {table: len(raw.execute(f"pragma foreign_key_check({prefix}{table})").fetchall()) for table in TABLES}
    counts = ", ".join(f"{count} in {prefix}{table}" for table, count in orphans.items() if count)
    if not counts:
        return ok("foreign keys", "no row refers to a missing row")
    what = f"rows refer to missing jobs: {counts}"
    advice = "Jobs were deleted without `pragma foreign_keys = on`; delete these rows (pragma foreign_key_check)"
    return problem("foreign keys", what, advice)


def _journal(raw: sqlite3.Connection) -> CheckResult:
    mode: str = raw.execute("pragma journal_mode").fetchone()[0]
    if mode == "wal":
        return ok("journal", "write-ahead log")
    what = f"the journal mode is {mode}, not wal"
    return warn("journal", what, "Rowcall sets it when it opens the file; if it fails, check the file system")


def _vacuum(raw: sqlite3.Connection) -> CheckResult:
    if raw.execute("pragma auto_vacuum").fetchone()[0] == 2:
        return ok("vacuum", "space of deleted jobs returns to the disk (incremental)")
    free, pages = (raw.execute(f"pragma {name}").fetchone()[0] for name in ("freelist_count", "page_count"))
    what = f"auto_vacuum is not incremental, so the file never shrinks ({free} of {pages} pages are free)"
    advice = "Stop every process that uses the file, then run: sqlite3 FILE 'pragma auto_vacuum = incremental; vacuum'"
    return warn("vacuum", what, advice)


def _wal(path: str) -> CheckResult:
    try:
        length = os.path.getsize(f"{path}-wal")
    except FileNotFoundError:
        return ok("wal", "empty")
    summary = f"the write-ahead log is {size(length)}"
    if length <= OVERSIZED_WAL_BYTES:
        return ok("wal", summary)
    return warn("wal", summary, "Find and end the read transaction that has been open for long; then the log shrinks")


def _lock(path: str) -> CheckResult:
    holders = sorted(lock_holders(path))
    if not holders:
        return ok("write lock", "free")
    said = ", ".join(str(pid) for pid in holders)
    what = f"held by process {said}"
    return warn("write lock", what, "If the same process keeps it, end its transaction or the process")


def _lost_locks(path: str) -> Iterator[CheckResult]:
    lost = sorted(users_without_lock(path))
    if lost:
        what = f"SQLite's locks of process {', '.join(map(str, lost))} are lost: it opened and closed {path} directly"
        advice = "Restart it soon, and let it use the file through SQLite only (docs: SQLite, the file itself)"
        yield problem("locks", what, advice)


def _schema(raw: sqlite3.Connection, prefix: str, target: Target) -> CheckResult:
    version = version_in(raw, prefix)
    hint = ""
    if version.found == 0:
        others = [row[0].removesuffix("migration") for row in raw.execute(_OTHER_PREFIXES)]
        hint = queue_checks.prefix_hint(others, target)
    return queue_checks.check_version(version, NEWEST_VERSION, prefix, target, hint=hint)


_OTHER_PREFIXES = r"""
select name from sqlite_master as one
where type = 'table' and name like '%migration'
  and exists (select 1 from sqlite_master where name = substr(one.name, 1, length(one.name) - 9) || 'job_tag')
"""
