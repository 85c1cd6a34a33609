"""Other queues that drain a PostgreSQL queue next to Rowcall. `processes.contest` runs each of them in the same way."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Protocol, cast

CONTESTANTS = ("bare", "graphile", "pgqueuer", "procrastinate", "saq")

Begin = Callable[[], object]
"""Waits until all processes of the contest are ready."""

Count = Callable[[int], None]
"""Called with the number of jobs that were handled."""


class Contestant(Protocol):
    """What a module of this package has."""

    @property
    def LEFT(self) -> str:  # noqa: N802
        """A query for how many jobs are not settled yet."""

    @staticmethod
    async def fill(url: str, jobs: int) -> None:
        """Make the tables, and enqueue that many no-ops."""

    @staticmethod
    async def drain(url: str, begin: Begin, count: Count) -> None:
        """Connect, begin, and handle jobs until there are none. It may then wait for more."""


def contestant(name: str) -> Contestant:
    if name not in CONTESTANTS:
        raise ValueError(f"unknown queue {name!r}; known: {', '.join(CONTESTANTS)}")
    return cast(Contestant, import_module(f"benchmarks.contestants.{name}"))
