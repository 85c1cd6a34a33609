"""Drain a job that calls many children, next to as many plain jobs: `python -m benchmarks.fan_out [URL]`."""

from __future__ import annotations

import sys
import tempfile
import time

from rowcall import Context, Rowcall

CHILDREN = 10_000
ROUNDS = 3


def measure(url: str) -> None:
    """Print jobs per second of both, in turns, and their ratio."""
    with Rowcall(url) as jobs:

        @jobs.task
        async def child(number: int) -> int:
            return number

        @jobs.task
        async def parent(ctx: Context) -> int:
            return len(await ctx.gather(*(ctx.call(child, number) for number in range(CHILDREN))))

        for _ in range(ROUNDS):
            child.enqueue_many([{"number": number} for number in range(CHILDREN)])
            plain = _drained(jobs)
            job = parent.enqueue()
            called = _drained(jobs)
            assert jobs.get(job).result == CHILDREN
            print(f"plain {plain:,.0f} jobs/s, fan-out {called:,.0f} children/s, ratio {called / plain:.2f}")


def _drained(jobs: Rowcall) -> float:
    began = time.perf_counter()
    jobs.drain()
    return CHILDREN / (time.perf_counter() - began)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        measure(sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{folder}/queue.db")
