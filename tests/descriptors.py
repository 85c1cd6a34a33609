"""What this process has open."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

ABOVE_SELECT = 1024


def open_descriptors() -> set[str]:
    """Number and file of each."""
    return {
        f"{name} {os.readlink(f'/proc/self/fd/{name}')}"
        for name in os.listdir("/proc/self/fd")
        if os.path.lexists(f"/proc/self/fd/{name}")
    }


@contextmanager
def many_descriptors() -> Iterator[None]:
    """As in a server with many clients: whatever is opened now has a number that select(2) does not know."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4 * ABOVE_SELECT, hard), hard))
    taken: list[int] = []
    try:
        while not taken or taken[-1] < ABOVE_SELECT:
            taken.append(os.dup(0))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
