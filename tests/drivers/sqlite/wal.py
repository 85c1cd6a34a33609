"""How many transactions were committed to a file, read from the write-ahead log itself."""

from __future__ import annotations

import os
import struct

_HEADER_BYTES = 32
_FRAME_HEADER = struct.Struct(">IIIIII")


def commits_in(path: str | os.PathLike[str]) -> int:
    """The commits since the log was last restarted: the last frame of each carries the size of the database."""
    with open(f"{os.fspath(path)}-wal", "rb") as file:
        log = file.read()
    if not log:
        return 0
    page_bytes, _, salt_1, salt_2 = struct.unpack_from(">IIII", log, 8)
    commits = 0
    for at in range(_HEADER_BYTES, len(log) - _FRAME_HEADER.size, _FRAME_HEADER.size + page_bytes):
        _, size_after_commit, frame_salt_1, frame_salt_2, _, _ = _FRAME_HEADER.unpack_from(log, at)
        if (frame_salt_1, frame_salt_2) == (salt_1, salt_2) and size_after_commit > 0:
            commits += 1
    return commits
