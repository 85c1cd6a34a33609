"""Rowcall, on SQLite or PostgreSQL: `rowcall work app:jobs`."""

from __future__ import annotations

import os
from collections.abc import Iterable

from benchmarks.contestants.apps.handlers import handle
from rowcall import Rowcall

jobs = Rowcall(os.environ["FIELD_URL"])


@jobs.task
def work(what: str, number: int) -> None:
    handle(what, number)


def prepare() -> None:
    jobs.migrate()


def enqueue(what: str, number: int) -> None:
    work.enqueue(what, number)


def enqueue_many(what: str, numbers: Iterable[int]) -> None:
    work.enqueue_many([{"what": what, "number": number} for number in numbers])
