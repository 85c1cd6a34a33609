"""PgQueuer as its own benchmark runs it (asyncpg, uvloop, drain mode), with what made it fastest here: groups of 1,000.

Its tables are logged (`durable`, as it installs them) and have the autovacuum settings that it recommends. Two or five
managers in one process (that benchmark has five) were no quicker than one, with any size of group.
"""

from __future__ import annotations

import json

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from benchmarks.contestants import Begin, Count
from benchmarks.noop import ARGUMENTS, MANY

GROUP = 1_000
PAYLOAD = json.dumps(ARGUMENTS).encode()
LEFT = "select count(*) from pgqueuer"


async def fill(url: str, jobs: int) -> None:
    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    await queries.optimize_autovacuum()
    for start in range(0, jobs, MANY):
        size = min(MANY, jobs - start)
        await queries.enqueue(["noop"] * size, [PAYLOAD] * size, [0] * size)
    await connection.close()


async def drain(url: str, begin: Begin, count: Count) -> None:
    async def noop(job: object) -> None:
        count(1)

    queue = PgQueuer.from_asyncpg_connection(await asyncpg.connect(url))
    queue.entrypoint("noop")(noop)
    begin()
    await queue.run(batch_size=GROUP, mode=QueueExecutionMode.drain)
