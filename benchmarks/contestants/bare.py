"""The bare ceiling; in two processes, the same on two connections at once."""

from __future__ import annotations

from benchmarks.bare.postgres import BarePostgres
from benchmarks.contestants import Begin, Count

LEFT = "select count(*) from bare_job where status <> 'succeeded'"


async def fill(url: str, jobs: int) -> None:
    queue = BarePostgres(url)
    queue.create()
    queue.insert_many(jobs)
    queue.close()


async def drain(url: str, begin: Begin, count: Count) -> None:
    queue = BarePostgres(url)
    begin()
    queue.drain(count)
