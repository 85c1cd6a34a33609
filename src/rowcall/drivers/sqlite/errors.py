"""Explain SQLite's errors: what is wrong, and what to do."""

from __future__ import annotations

import os
import sqlite3

from rowcall.domain.errors import (
    MISSING_ADVICE,
    MOVED,
    DataRefused,
    FileReplaced,
    MovedTo,
    RowcallError,
    SchemaMismatch,
    StoreUnavailable,
)
from rowcall.drivers.group_commit import OutcomeUnknown

_IO_ERROR = "SQLITE_IOERR"
_PROBLEMS = {
    "SQLITE_BUSY_SNAPSHOT": (
        "{path}: another connection wrote after this transaction had read, so SQLite refuses its write",
        "Begin the transaction with BEGIN IMMEDIATE (Django: OPTIONS transaction_mode IMMEDIATE), or enqueue first",
    ),
    "SQLITE_NOTADB": ("{path} is not a SQLite database", "Check the path; nothing was changed"),
    "SQLITE_READONLY": (
        "{path} is read-only for this user",
        "The file and its folder must both be writable: SQLite keeps files next to it",
    ),
    _IO_ERROR: (
        "{path}: reading or writing failed ({error})",
        "Check the disk, its space and quotas (rowcall doctor helps)",
    ),
    "SQLITE_CORRUPT": ("{path} is damaged ({error})", "Run: sqlite3 FILE 'pragma integrity_check'"),
}
"""By the beginning of SQLite's name for the error."""


class DiskFull(StoreUnavailable):
    """There was no room for the WAL, or for the file. `made_room`: afterwards the WAL could be emptied."""

    made_room = False


def explained(error: sqlite3.Error, path: str) -> RowcallError:
    """Return Rowcall's error for an error of SQLite."""
    name = getattr(error, "sqlite_errorname", None) or ""
    for beginning, (problem, advice) in _PROBLEMS.items():
        if name.startswith(beginning):
            kind = OutcomeUnknown if beginning == _IO_ERROR else StoreUnavailable
            return kind(problem.format(path=path, error=error), advice)
    if name == "SQLITE_FULL":
        advice = "Nothing of this call was written; free some space and call again"
        return DiskFull(f"{path}: the disk is full", advice)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return _locked(path)
    if name.startswith("SQLITE_CANTOPEN"):
        return _cannot_open(path)
    if "unsafe use of" in str(error):
        return StoreUnavailable(
            f"{path}: pragma trusted_schema is off on this connection ({error})",
            "Turn it on there, enqueue without connection=, or use SQLite 3.42 or newer",
        )
    if any(said in str(error) for said in ("no such table", "no such index", "no such column", "has no column named")):
        return SchemaMismatch(0, 1, f"{error}; {MISSING_ADVICE}", f"{path} does not have the expected tables")
    if MOVED in str(error):
        return MovedTo(path)
    if isinstance(error, sqlite3.DataError | sqlite3.IntegrityError):
        return DataRefused(f"{path} refuses the values: {error}")
    return RowcallError(f"{path}: {error}" + (f" ({name})" if name else ""))


def _locked(path: str) -> StoreUnavailable:
    holders = lock_holders(path)
    if os.getpid() in holders:
        return StoreUnavailable(
            f"{path} is locked by a transaction of this process",
            "If this thread began it (Django's atomic(), a SQLAlchemy session), pass that connection with"
            " connection=…; otherwise end it sooner. Nothing was written",
        )
    names = ", ".join(f"process {pid} ({_name_of(pid)})" for pid in sorted(holders))
    return StoreUnavailable(
        f"{path} is locked by {names or 'another transaction'}",
        "End that transaction (kill its process if it hangs), or raise busy_timeout. Nothing was written",
    )


def _cannot_open(path: str) -> StoreUnavailable:
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        return StoreUnavailable(f"the folder {folder} does not exist", "Create it first, or check the path")
    if os.path.isdir(path):
        return StoreUnavailable(f"{path} is a folder, not a file", "Name a file in it")
    if not os.access(folder, os.W_OK) or (os.path.exists(path) and not os.access(path, os.W_OK | os.R_OK)):
        return StoreUnavailable(
            f"{path} cannot be opened: no permission", "This user must be able to write the file and its folder"
        )
    return StoreUnavailable(f"{path} cannot be opened", "Check its permissions and the number of open files")


def wal_deleted(path: str) -> FileReplaced:
    """Return the error for a WAL that is gone: only processes that have it open still see its commits."""
    return FileReplaced(
        f"{path}-wal was deleted or replaced while it was open",
        "End all processes that use the file, without killing them: the last one copies the commits of the WAL back."
        " Then start them again",
    )


def lock_holders(path: str) -> set[int]:
    """Return the processes that hold SQLite's write lock, where the kernel says so (Linux)."""
    return {pid for pid, kind, first_byte in _locks_on(f"{path}-shm") if (kind, first_byte) == ("WRITE", "120")}


def users_of_wal(path: str) -> set[int]:
    """Return the processes that have the file open in WAL mode, where the kernel says so."""
    return {pid for pid, _, _ in _locks_on(f"{path}-shm")}


def users_without_lock(path: str) -> set[int]:
    """Return the processes whose lock on the file itself is lost, which SQLite keeps as long as it is open."""
    return users_of_wal(path) - {pid for pid, _, _ in _locks_on(path)}


def is_wal_missing(path: str) -> bool:
    """Return whether processes use a WAL that was deleted. The second look is for one who has just opened it."""
    wal = f"{path}-wal"
    return not os.path.exists(wal) and bool(users_of_wal(path)) and not os.path.exists(wal)


def _locks_on(file: str) -> list[tuple[int, str, str]]:
    """Return process, kind and first byte of each lock."""
    # never open and close the file itself: that would drop this process's own POSIX locks on it
    try:
        inode = os.stat(file).st_ino
        with open("/proc/locks") as table:
            lines = [line.split() for line in table]
    except OSError:
        return []
    return [
        (int(fields[4]), fields[3], fields[6])
        for fields in lines
        if fields[1] == "POSIX" and fields[5].endswith(f":{inode}")
    ]


def _name_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm") as comm:
            return comm.read().strip()
    except OSError:
        return "unknown"
