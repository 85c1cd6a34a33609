"""Enqueueing next to bare inserts, taking turns: enqueue URL BARE_URL SINGLE GATHERED BULK."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from benchmarks.app import App, open_app
from benchmarks.bare import new_bare_queue
from benchmarks.noop import ARGUMENTS, MANY, NUMBER, TO

TURNS = 10
TASKS_AT_ONCE = 100


def main() -> None:
    url, bare_url, (single, gathered, bulk) = sys.argv[1], sys.argv[2], map(int, sys.argv[3:6])
    if single % TURNS or gathered % (TURNS * TASKS_AT_ONCE) or bulk % MANY:
        sys.exit(f"must be multiples of {TURNS}, {TURNS * TASKS_AT_ONCE} and {MANY}")
    app, bare = open_app(url), new_bare_queue(bare_url)
    app.noop_sync.enqueue(NUMBER, TO)
    seconds = dict.fromkeys(("bare_single", "single", "gathered", "bare_bulk", "bulk"), 0.0)
    with asyncio.Runner() as runner:
        runner.run(gather(app, TASKS_AT_ONCE))
        for _ in range(TURNS):
            seconds["bare_single"] += bare.insert_singly(single // TURNS)
            seconds["single"] += enqueue_singly(app, single // TURNS)
            seconds["gathered"] += runner.run(gather(app, gathered // TURNS))
        for _ in range(bulk // MANY):
            seconds["bare_bulk"] += bare.insert_many(MANY)
            seconds["bulk"] += enqueue_many(app)
    counts = {"bare_single": single, "single": single, "gathered": gathered, "bare_bulk": bulk, "bulk": bulk}
    print(json.dumps({name: counts[name] / taken for name, taken in seconds.items()}))
    app.jobs.close()
    bare.close()


def enqueue_singly(app: App, count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        app.noop_sync.enqueue(NUMBER, TO)
    return time.perf_counter() - began


async def gather(app: App, count: int) -> float:
    """100 tasks, each enqueueing one job after the other."""

    async def enqueue_some() -> None:
        for _ in range(count // TASKS_AT_ONCE):
            await app.noop_sync.aenqueue(NUMBER, TO)

    began = time.perf_counter()
    await asyncio.gather(*(enqueue_some() for _ in range(TASKS_AT_ONCE)))
    return time.perf_counter() - began


def enqueue_many(app: App) -> float:
    rows = [ARGUMENTS] * MANY
    began = time.perf_counter()
    app.noop_sync.enqueue_many(rows)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
