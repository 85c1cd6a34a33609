"""PgQueuer: `pgq run app:main`."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.contestants.apps.handlers import ahandle

URL = os.environ["FIELD_URL"]


@asynccontextmanager
async def main() -> AsyncIterator[PgQueuer]:
    connection = await asyncpg.connect(URL)
    queue = PgQueuer(AsyncpgDriver(connection))

    @queue.entrypoint("work")
    async def work(job: Job) -> None:
        assert job.payload is not None
        await ahandle(*json.loads(job.payload))

    yield queue
    await connection.close()


class _Producer:
    queries: Queries


async def prepare() -> None:
    _Producer.queries = Queries(AsyncpgDriver(await asyncpg.connect(URL)))
    await _Producer.queries.install()


async def enqueue(what: str, number: int) -> None:
    await _Producer.queries.enqueue("work", json.dumps([what, number]).encode())


async def enqueue_many(what: str, numbers: Sequence[int]) -> None:
    payloads = [json.dumps([what, number]).encode() for number in numbers]
    await _Producer.queries.enqueue(["work"] * len(payloads), payloads, [0] * len(payloads))
