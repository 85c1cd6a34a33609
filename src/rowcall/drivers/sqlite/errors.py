"""Explain SQLite's errors: what is wrong, and what to do."""

from __future__ import annotations

import os
import sqlite3

from rowcall.domain.errors import MISSING_ADVICE, DataRefused, RowcallError, SchemaMismatch, StoreUnavailable

_PROBLEMS = {
    "SQLITE_BUSY_SNAPSHOT": (
        "{path}: another connection wrote after this transaction had read, so SQLite refuses its write",
        "Begin the transaction with BEGIN IMMEDIATE (Django: OPTIONS transaction_mode IMMEDIATE), or enqueue first",
    ),
    "SQLITE_NOTADB": ("{path} is not a SQLite database", "Check the path; nothing was changed"),
    "SQLITE_READONLY": (
        "{path} is read-only for this user",
        "The file and its folder must both be writable: SQLite keeps files beside it",
    ),
    "SQLITE_FULL": ("{path}: the disk is full", "Nothing of this call was written; free some space and call again"),
    "SQLITE_IOERR": (
        "{path}: reading or writing failed ({error})",
        "Check the disk, its space and quotas (rowcall doctor helps)",
    ),
    "SQLITE_CORRUPT": ("{path} is damaged ({error})", "Run: sqlite3 FILE 'pragma integrity_check'"),
}
"""By the beginning of SQLite's name for the error."""


def explained(error: sqlite3.Error, path: str) -> RowcallError:
    """Return Rowcall's error for an error of SQLite."""
    name = getattr(error, "sqlite_errorname", None) or ""
    for beginning, (problem, advice) in _PROBLEMS.items():
        if name.startswith(beginning):
            return StoreUnavailable(problem.format(path=path, error=error), advice)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return _locked(path)
    if name.startswith("SQLITE_CANTOPEN"):
        return _cannot_open(path)
    if "unsafe use of" in str(error):
        return StoreUnavailable(
            f"{path}: pragma trusted_schema is off on this connection ({error})",
            "Turn it on there, enqueue without connection=, or use SQLite 3.42 or newer",
        )
    if "no such table" in str(error) or "no such index" in str(error):
        return SchemaMismatch(0, 1, f"{error}; {MISSING_ADVICE}", f"{path} does not have the expected tables")
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


def lock_holders(path: str) -> set[int]:
    """Return the processes that hold SQLite's write lock, where the kernel says so (Linux)."""
    # never open and close the file itself: that would drop this process's own POSIX locks on it
    try:
        inode = os.stat(f"{path}-shm").st_ino
        with open("/proc/locks") as table:
            lines = [line.split() for line in table]
    except OSError:
        return set()
    return {
        int(fields[4])
        for fields in lines
        if fields[1] == "POSIX" and fields[3] == "WRITE" and fields[5].endswith(f":{inode}") and fields[6] == "120"
    }


def _name_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm") as comm:
            return comm.read().strip()
    except OSError:
        return "unknown"
