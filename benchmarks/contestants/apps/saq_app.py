"""SAQ on PostgreSQL: `saq app.settings`. It has no call for many jobs."""

from __future__ import annotations

import os

from saq import Queue

from benchmarks.contestants.apps.handlers import ahandle

queue = Queue.from_url(os.environ["FIELD_URL"])


async def work(context: object, *, what: str, number: int) -> None:
    await ahandle(what, number)


settings = {"queue": queue, "functions": [work]}


async def prepare() -> None:
    await queue.connect()


async def enqueue(what: str, number: int) -> None:
    await queue.enqueue("work", what=what, number=number)
