"""Files next to the database, with the database's permissions, as SQLite does with its own."""

from __future__ import annotations

import contextlib
import errno
import os
import stat


def make_folder(folder: str, database: str) -> None:
    """Create the folder with the database's permissions. Leave an existing one unchanged."""
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
    """Where every user may create folders, refuse one that another user created or can change."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(errno.EPERM, "the folder belongs to another user, or others can change it", folder)


def open_file(path: str, database: str, flags: int = 0) -> int:
    """Open for reading and writing. A new file gets the database's permissions."""
    existed = os.path.exists(path)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, 0o666)
    if not existed:
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, _mode_of(database))
    return descriptor


def advice_on_rights(path: str) -> str:
    """Say how this user can be allowed to write there. Only the owner, or root, can change that."""
    status = os.stat(path)
    is_folder = stat.S_ISDIR(status.st_mode)
    mode, needed = status.st_mode & 0o777, 0o700 if is_folder else 0o600
    owner = f"It belongs to user {status.st_uid}, mode {mode:o}"
    if status.st_uid != os.getuid():
        return f"{owner}, and this is user {os.getuid()}: run as that user, or let it or root chown or chmod it"
    if mode & needed == needed:
        return f"{owner}, which is right: is its file system read-only?"
    return f"{owner}: chmod u+{'rwx' if is_folder else 'rw'} {path}"


def _mode_of(database: str) -> int:
    try:
        return os.stat(database).st_mode & 0o666
    except OSError:
        return 0o600
