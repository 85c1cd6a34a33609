"""What went wrong with a SQLite file, in words a tired person can act on."""

from __future__ import annotations

import os
import sqlite3

from rowcall.domain.errors import MISSING_ADVICE, DataRefused, RowcallError, SchemaMismatch, StoreUnavailable


def explained(error: sqlite3.Error, path: str) -> RowcallError:
    """The error of ours for an error of SQLite's."""
    name = getattr(error, "sqlite_errorname", None) or ""
    if name == "SQLITE_BUSY_SNAPSHOT":
        return StoreUnavailable(
            f"{path}: somebody else wrote after this transaction had read, so SQLite refuses its write",
            "Begin the transaction with BEGIN IMMEDIATE (Django: OPTIONS transaction_mode IMMEDIATE), or enqueue first",
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreUnavailable(f"{path} is locked by somebody else", f"{_holders(path)} {_LOCK_ADVICE}")
    if name == "SQLITE_NOTADB":
        return StoreUnavailable(f"{path} is not a SQLite database", "Check the path; nothing was changed")
    if name.startswith("SQLITE_CANTOPEN"):
        return _cannot_open(path)
    if name.startswith("SQLITE_READONLY"):
        return StoreUnavailable(
            f"{path} is read-only for this user",
            "The file and its folder must both be writable: SQLite keeps files beside it",
        )
    if name == "SQLITE_FULL":
        return StoreUnavailable(
            f"{path}: the disk is full", "Nothing of this call was written; free some space and call again"
        )
    if name.startswith("SQLITE_IOERR"):
        return StoreUnavailable(
            f"{path}: reading or writing failed ({error})",
            "Check the disk, its space and quotas (rowcall doctor helps)",
        )
    if "unsafe use of" in str(error):
        return StoreUnavailable(
            f"{path}: pragma trusted_schema is off on this connection ({error})",
            "Turn it on there, enqueue without connection=, or use SQLite 3.42 or newer",
        )
    if name.startswith("SQLITE_CORRUPT"):
        return StoreUnavailable(f"{path} is damaged ({error})", "Run: sqlite3 FILE 'pragma integrity_check'")
    if "no such table" in str(error) or "no such index" in str(error):
        return SchemaMismatch(0, 1, f"{error}; {MISSING_ADVICE}", f"{path} is not as this code needs it")
    if isinstance(error, sqlite3.DataError | sqlite3.IntegrityError):
        return DataRefused(f"{path} refuses the values: {error}")
    return RowcallError(f"{path}: {error}" + (f" ({name})" if name else ""))


_LOCK_ADVICE = (
    "End its transaction (kill it if it hangs), or raise busy_timeout; if this very thread has begun one on this file,"
    " pass that connection with connection=. Nothing was written"
)


def _cannot_open(path: str) -> StoreUnavailable:
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        return StoreUnavailable(f"the folder {folder} does not exist", "Make it first, or check the path")
    if os.path.isdir(path):
        return StoreUnavailable(f"{path} is a folder, not a file", "Name a file in it")
    if not os.access(folder, os.W_OK) or (os.path.exists(path) and not os.access(path, os.W_OK | os.R_OK)):
        return StoreUnavailable(
            f"{path} cannot be opened: no permission", "This user must be able to write the file and its folder"
        )
    return StoreUnavailable(f"{path} cannot be opened", "Check its permissions and the number of open files")


def _holders(path: str) -> str:
    holders = lock_holders(path)
    if not holders:
        return "Whoever has an open write transaction on the file holds it."
    names = [
        "this very process" if pid == os.getpid() else f"process {pid} ({_name_of(pid)})" for pid in sorted(holders)
    ]
    return f"It is held by {', '.join(names)}."


def lock_holders(path: str) -> set[int]:
    """The processes that hold SQLite's write lock, where the kernel tells (Linux)."""
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
