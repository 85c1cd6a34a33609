"""Checks around a SQLite database: SQLite itself, the clock, the file, its folder, its file system, its disk."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime

from rowcall.base.clock import Clock
from rowcall.cli.doctor.finding import CheckResult, ok, problem, warn
from rowcall.cli.doctor.mounts import file_system_of, is_network
from rowcall.drivers.side_files import advice_on_rights
from rowcall.drivers.sqlite.connection import OLDEST_SQLITE
from rowcall.observe.health import LITTLE_SPACE_BYTES
from rowcall.overview.formats import size

NO_SPACE_BYTES = 32 * 1024**2
_EARLIEST_YEAR = 2025


def check_sqlite() -> CheckResult:
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        return problem("sqlite", f"SQLite {version} is too old; 3.35 or newer is required", "Use a newer Python")
    if sqlite3.threadsafety == 0:
        return problem("sqlite", f"SQLite {version} was built without threads", "Use another build of Python")
    return ok("sqlite", f"SQLite {version}")


def check_clock(clock: Clock) -> CheckResult:
    """Check the clock that decides when jobs are due: SQLite's."""
    raw = sqlite3.connect(":memory:")
    try:
        seconds: float = raw.execute("select (julianday('now') - 2440587.5) * 86400").fetchone()[0]
    finally:
        raw.close()
    now = datetime.fromtimestamp(seconds, UTC)
    if now.year < _EARLIEST_YEAR:
        return problem("clock", f"the clock says {now:%Y-%m-%d %H:%M} UTC", "Set the clock (NTP)")
    if abs(seconds - clock.wall()) > 2:
        return warn("clock", "SQLite's clock and Python's differ", "Check for a tool that fakes the time (LD_PRELOAD)")
    return ok("clock", f"{now:%Y-%m-%d %H:%M:%S} UTC")


def check_file(path: str, migrate: str) -> CheckResult:
    """`migrate` is the command that creates the file."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        return problem("file", f"the folder {folder} does not exist", "Create it, or correct the path")
    if os.path.isdir(path):
        return problem("file", f"{path} is a folder", "Give the path of a file")
    if not os.path.exists(path):
        return problem("file", f"there is no file {path}", f"Correct the path, or create it with: {migrate}")
    if not os.access(path, os.R_OK):
        return problem("file", f"{path} cannot be read by this user", advice_on_rights(path))
    if not os.access(path, os.W_OK):
        return problem("file", f"{path} cannot be written by this user", advice_on_rights(path))
    return ok("file", f"{path}, {size(os.path.getsize(path))}")


def check_folder(path: str) -> CheckResult:
    folder = os.path.dirname(path)
    if not os.access(folder, os.W_OK | os.X_OK):
        what = f"{folder} cannot be written by this user, and SQLite keeps files next to the database"
        return problem("folder", what, f"{advice_on_rights(folder)}; or move the database to another folder")
    return ok("folder", f"{folder} can be written")


def check_side_folder(side: str) -> Iterator[CheckResult]:
    """Check the folder of the liveness files, if it exists. The first worker creates it."""
    if not os.path.exists(side):
        return
    if not os.path.isdir(side):
        what = f"{side} is not a folder, and workers keep their files in it"
        yield problem("worker files", what, "Move it away: Rowcall creates the folder")
    elif not os.access(side, os.R_OK | os.W_OK | os.X_OK):
        what = f"{side} cannot be written by this user, so no worker of this user starts"
        yield problem("worker files", what, advice_on_rights(side))
    else:
        yield ok("worker files", f"{side} can be written")


def check_file_system(path: str) -> CheckResult:
    kind = file_system_of(os.path.dirname(path))
    if kind is None:
        return ok("file system", "its type is unknown on this system")
    if is_network(kind):
        what = f"the file is on a network or shared file system ({kind}), where locks and WAL are not reliable"
        return problem("file system", what, "Move the file to a local disk; for several hosts use a database server")
    if kind in ("tmpfs", "ramfs"):
        return warn("file system", f"the file is in memory ({kind})", "A restart deletes it; use a disk")
    return ok("file system", kind)


def check_space(path: str) -> CheckResult:
    free = shutil.disk_usage(os.path.dirname(path)).free
    summary = f"{free / 1024**2:,.0f} MB free"
    if free < NO_SPACE_BYTES:
        return problem("disk", summary, "Free some space: enqueueing fails when the disk is full")
    if free < LITTLE_SPACE_BYTES:
        return warn("disk", summary, "Free some space before it runs out")
    return ok("disk", summary)


def check_file_and_disk(path: str, side_folder: str, migrate: str, clock: Clock) -> Iterator[CheckResult]:
    yield check_sqlite()
    yield check_clock(clock)
    yield check_file(path, migrate)
    if os.path.isdir(os.path.dirname(path)):
        yield check_folder(path)
        yield from check_side_folder(side_folder)
        yield check_file_system(path)
        yield check_space(path)
