"""The tasks that `rowcall bench` measures with."""

from __future__ import annotations

import os

from rowcall import Rowcall
from rowcall.base.clock import SystemClock

PREFIX, DEFAULT_PREFIX = "ROWCALL_BENCH_PREFIX", "rowcall_"


async def nothing(number: int) -> None:
    """An async handler with nothing to do."""


def nothing_in_thread(number: int) -> None:
    """A sync handler with nothing to do."""


def moment() -> float:
    """Return when the handler began, by a clock that all processes of one machine share."""
    return SystemClock.monotonic()


class Bench:
    def __init__(self, url: str | None, prefix: str) -> None:
        self.jobs = Rowcall(url, table_prefix=prefix)
        self.nothing = self.jobs.task(nothing)
        self.nothing_in_thread = self.jobs.task(nothing_in_thread)
        self.moment = self.jobs.task(queue="idle")(moment)


jobs = Bench(None, os.environ.get(PREFIX, DEFAULT_PREFIX)).jobs  # of the idle worker; $ROWCALL_URL names the database
