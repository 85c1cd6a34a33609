"""Blobs in a folder next to the database: `ab/abcdef…`, by their digests.

A file is written completely before it gets its name. `delete` first renames it, and then checks whether it was put
again in between: a `put` after the rename finds no file, and writes it again.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator

from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.domain.errors import StoreUnavailable
from rowcall.drivers.side_files import make_folder, open_file

READ_ATTEMPTS = 3
_UNFINISHED, _TAKEN = ".new", ".taken"
_NAME = re.compile(r"([0-9a-f]{64})(\.taken|-[0-9a-f]{16}\.new)?")


class BlobFolder:
    """`durable` is False where the database itself is only in memory."""

    def __init__(self, folder: str, database: str, *, durable: bool = True) -> None:
        self._folder = folder
        self._database = database
        self._durable = durable

    def put(self, digest: str, data: bytes) -> None:
        try:
            if not self._touch(digest, data):
                self._write(digest, data)
            self._sync(os.path.dirname(self._path(digest)))  # also for a file that another process has just put there
        except OSError as error:
            raise self._refused(error) from error

    def get(self, digest: str) -> bytes:
        path = self._path(digest)
        # a `delete` may be about to put it back
        for candidate in (path, path + _TAKEN) * READ_ATTEMPTS:
            with contextlib.suppress(FileNotFoundError), open(candidate, "rb") as file:
                return file.read()
        raise KeyError(digest)

    def digests(self, older_than_seconds: float) -> Iterator[str]:
        limit = SYSTEM_CLOCK.wall() - older_than_seconds
        for subfolder in _names(self._folder):
            for name in _names(os.path.join(self._folder, subfolder)):
                path = os.path.join(self._folder, subfolder, name)
                match = _NAME.fullmatch(name)
                if match is None:
                    continue  # not a blob
                if match[2] == _TAKEN:  # by a `delete` whose process died
                    self._put_back(path.removesuffix(_TAKEN))
                elif _is_older(path, limit):
                    if match[2]:
                        _unlink(path)
                    else:
                        yield name

    def delete(self, digest: str, older_than_seconds: float) -> None:
        path = self._path(digest)
        try:
            os.rename(path, path + _TAKEN)
        except FileNotFoundError:
            return
        if _is_older(path + _TAKEN, SYSTEM_CLOCK.wall() - older_than_seconds):
            _unlink(path + _TAKEN)
        else:
            self._put_back(path)

    def _touch(self, digest: str, data: bytes) -> bool:
        """Make it count as put now. Return False if it is missing, has other contents, or belongs to another user."""
        path = self._path(digest)
        try:
            os.utime(path)
            with open(path, "rb") as file:
                return file.read() == data
        except (FileNotFoundError, PermissionError):
            return False

    def _write(self, digest: str, data: bytes) -> None:
        subfolder = os.path.dirname(self._path(digest))
        created = [folder for folder in (self._folder, subfolder) if not os.path.isdir(folder)]
        for folder in created:
            make_folder(folder, self._database)
        unfinished = f"{self._path(digest)}-{secrets.token_hex(8)}{_UNFINISHED}"
        descriptor = open_file(unfinished, self._database, os.O_EXCL)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                if self._durable:
                    os.fsync(file.fileno())
            os.rename(unfinished, self._path(digest))
        except BaseException:
            _unlink(unfinished)
            raise
        for folder in created:
            self._sync(os.path.dirname(folder))

    def _put_back(self, path: str) -> None:
        """Make it count as put now: it may replace one that was."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(path + _TAKEN)
            os.rename(path + _TAKEN, path)

    def _sync(self, folder: str) -> None:
        """Make the names in the folder durable."""
        if self._durable:
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _path(self, digest: str) -> str:
        return os.path.join(self._folder, digest[:2], digest)

    def _refused(self, error: OSError) -> StoreUnavailable:
        return StoreUnavailable(
            f"a large payload cannot be written to {self._folder}: {error.strerror}",
            "Nothing was enqueued or settled. The folder is next to the database, and must be writable too",
        )


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_older(path: str, limit: float) -> bool:
    try:
        return os.stat(path).st_mtime < limit
    except FileNotFoundError:
        return False


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
