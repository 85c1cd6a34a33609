"""What the jobs do. A witnessed job appends a line to a file, in one write that no kill can split."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator

SHORT_SECONDS, KILLED_SECONDS, HELD_SECONDS = 0.005, 0.05, 3600.0


def handle(what: str, number: int) -> None:
    for seconds in _steps(what, number):
        time.sleep(seconds)


async def ahandle(what: str, number: int) -> None:
    for seconds in _steps(what, number):
        await asyncio.sleep(seconds)


def _steps(what: str, number: int) -> Iterator[float]:
    """Do the job, and yield how long to sleep in between."""
    if what == "slow":
        yield SHORT_SECONDS
    elif what == "stamp":
        _witness(what, number)
    elif what == "killed":
        yield KILLED_SECONDS
        _witness(what, number)
    elif what == "held":
        begun_before = f"held {number} " in _witnessed()
        _witness(what, number)
        if not begun_before:
            yield HELD_SECONDS
    elif what != "noop":
        raise ValueError(f"unknown job {what!r}")


def _witness(what: str, number: int) -> None:
    descriptor = os.open(os.environ["FIELD_WITNESS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(descriptor, f"{what} {number} {time.monotonic_ns()}\n".encode())
    os.close(descriptor)


def _witnessed() -> str:
    path = os.environ["FIELD_WITNESS"]
    if not os.path.exists(path):
        return ""
    with open(path, encoding="ascii") as file:
        return file.read()
