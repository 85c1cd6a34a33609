"""A call that meets faults."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from rowcall import Job
from rowcall.drivers.uncancellable import finish_in_thread
from tests.faults.world import App


class Threads(enum.Enum):
    """Whose statements may fail."""

    ALL = "all"
    OWN = "own"
    """Those of the thread that makes the call."""
    OTHERS = "others"


def nothing(app: App) -> list[Job]:
    return []


class Call(NamedTuple):
    """A call by name. `make` returns it for sync code, `amake` for async code.

    `prepare` runs before without faults, and returns what it has enqueued. `is_steady`: whether the call sends the same
    statements each time. Threads of a worker do not: they take what is there when their turn comes.
    """

    name: str
    make: Callable[[App], object]
    amake: Callable[[App], Awaitable[object]]
    prepare: Callable[[App], list[Job]] = nothing
    threads: Threads = Threads.ALL
    is_steady: bool = True


def in_thread(
    name: str,
    make: Callable[[App], object],
    prepare: Callable[[App], list[Job]] = nothing,
    threads: Threads = Threads.ALL,
    *,
    is_steady: bool = True,
) -> Call:
    """Return a call whose async twin is the same in a thread."""

    async def amake(app: App) -> object:
        return await finish_in_thread(lambda: make(app))

    return Call(name, make, amake, prepare, threads, is_steady)
