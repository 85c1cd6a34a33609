"""SAQ on PostgreSQL with what made it fastest here: 100 jobs at once, uvloop, jobs not kept (`ttl=-1`), nothing logged.

Its pool has as many connections as it takes on its own, four to twenty; more jobs at once were no quicker.
"""

from __future__ import annotations

import asyncio
import logging

from saq import Job, Queue, Worker

from benchmarks.contestants import Begin, Count
from benchmarks.noop import ARGUMENTS

AT_ONCE = 100
ENQUEUEING_AT_ONCE = 20
LEFT = "select count(*) from saq_jobs"


async def fill(url: str, jobs: int) -> None:
    queue = _queue(url)
    await queue.connect()

    async def enqueue_some(first: int) -> None:
        for _ in range(first, jobs, ENQUEUEING_AT_ONCE):
            await queue.enqueue(Job("noop", kwargs=dict(ARGUMENTS), ttl=-1))

    await asyncio.gather(*(enqueue_some(first) for first in range(ENQUEUEING_AT_ONCE)))
    await queue.disconnect()


async def drain(url: str, begin: Begin, count: Count) -> None:
    async def noop(context: object, *, n: int, to: str) -> None:
        count(1)

    queue = _queue(url)
    await queue.connect()
    worker = Worker(queue, [("noop", noop)], concurrency=AT_ONCE)
    begin()
    await worker.start()


def _queue(url: str) -> Queue:
    logging.getLogger("saq").setLevel(logging.ERROR)
    return Queue.from_url(url)
