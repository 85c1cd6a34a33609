"""A small file system in memory, which can be filled to the last byte. Only root can make one."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

SIZE = "96m"
BLOCKS = (1024 * 1024, 4096, 512)
_NEW_MOUNTS, _RECURSIVE, _PRIVATE, _DETACH = 0x20000, 0x4000, 0x40000, 2


def why_not() -> str | None:
    """Return why there can be none, or None if it can be tried."""
    if not sys.platform.startswith("linux"):
        return "needs Linux"
    return None if os.geteuid() == 0 else "needs root"


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[bool]:
    """Mount one on the folder, for this process and its children: it ends with them. Yield whether it is there."""
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    is_there = (
        libc.unshare(_NEW_MOUNTS) == 0
        and libc.mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None) == 0
        and libc.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, f"size={SIZE}".encode()) == 0
    )
    try:
        yield is_there
    finally:
        if is_there:
            libc.umount2(bytes(folder), _DETACH)


def fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as filler:
        for block in BLOCKS:
            with contextlib.suppress(OSError):
                while True:
                    filler.write(bytes(block))


def make_room(folder: Path) -> None:
    (folder / "filler").unlink(missing_ok=True)
