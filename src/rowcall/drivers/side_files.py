"""Files beside the database, for whoever may use the database itself: SQLite gives its own the same mode."""

from __future__ import annotations

import contextlib
import errno
import os
import stat


def make_folder(folder: str, database: str) -> None:
    """Make the folder, with the database's permissions; one that is there is left as it is."""
    try:
        os.mkdir(folder)
    except FileExistsError:
        if not database:
            _check_private(folder)
        return
    mode = _mode_of(database)
    searchable = mode | ((mode & 0o444) >> 2)
    with contextlib.suppress(OSError):  # a file system without permissions
        os.chmod(folder, searchable | (os.stat(folder).st_mode & stat.S_ISGID))


def _check_private(folder: str) -> None:
    """In a place where everybody may make folders, take none that somebody else has made or can change."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(errno.EPERM, "it is not this user's own folder", folder)


def open_file(path: str, database: str, flags: int = 0) -> int:
    """Open for reading and writing; a file that is made now gets the database's permissions."""
    existed = os.path.exists(path)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, 0o666)
    if not existed:
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, _mode_of(database))
    return descriptor


def advice_on_rights(path: str) -> str:
    """What lets this user write there: nobody but the owner, or root, can change that."""
    status = os.stat(path)
    is_folder = stat.S_ISDIR(status.st_mode)
    mode, wanted = status.st_mode & 0o777, 0o700 if is_folder else 0o600
    whose = f"It belongs to user {status.st_uid}, mode {mode:o}"
    if status.st_uid != os.getuid():
        return f"{whose}, and this is user {os.getuid()}: run as that user, or let it or root chown or chmod it"
    if mode & wanted == wanted:
        return f"{whose}, as it should be: is its file system read-only?"
    return f"{whose}: chmod u+{'rwx' if is_folder else 'rw'} {path}"


def _mode_of(database: str) -> int:
    try:
        return os.stat(database).st_mode & 0o666
    except OSError:
        return 0o600
