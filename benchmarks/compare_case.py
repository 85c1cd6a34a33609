"""One case of `benchmarks.compare`, run in a separate process: print the CPU microseconds that one job takes."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

from rowcall import Limit, Rowcall

GATHERED = 200


def main(case: str, url: str) -> None:
    jobs = Rowcall(url)
    jobs.migrate()
    print(CASES[case](jobs))
    jobs.close()


def timed(action: Callable[[], object], count: int) -> float:
    start = time.process_time()
    action()
    return (time.process_time() - start) / count * 1e6


def enqueue(jobs: Rowcall) -> float:
    add = jobs.task(double)
    for number in range(100):
        add.enqueue(number)
    return timed(lambda: [add.enqueue(number) for number in range(1_500)], 1_500)


def enqueue_many(jobs: Rowcall) -> float:
    add = jobs.task(double)
    add.enqueue_many([{"number": 1}] * 100)
    return timed(lambda: add.enqueue_many([{"number": number} for number in range(20_000)]), 20_000)


def aenqueue(jobs: Rowcall) -> float:
    add = jobs.task(double)

    async def enqueue_gathered(count: int) -> None:
        for _ in range(0, count, GATHERED):
            await asyncio.gather(*(add.aenqueue(number) for number in range(GATHERED)))

    async def measure() -> float:
        await enqueue_gathered(GATHERED)
        start = time.process_time()
        await enqueue_gathered(6_000)
        return (time.process_time() - start) / 6_000 * 1e6

    return asyncio.run(measure())


def drain(jobs: Rowcall) -> float:
    jobs.task(nothing).enqueue_many([{}] * 30_000)
    return timed(jobs.drain, 30_000)


def drain_results(jobs: Rowcall) -> float:
    jobs.task(double).enqueue_many([{"number": number} for number in range(15_000)])
    return timed(jobs.drain, 15_000)


def limit(jobs: Rowcall) -> float:
    serve = jobs.task(limit=Limit("customer", concurrency=1, by="customer"))(serve_customer)
    serve.enqueue_many([{"customer": number % 1_000} for number in range(5_000)])
    return timed(jobs.drain, 5_000)


def chain(jobs: Rowcall) -> float:
    step = jobs.task(nothing)
    for _ in range(2_000):
        jobs.start_chain([step.bind(), step.bind(), step.bind()])
    return timed(jobs.drain, 6_000)


def flow(jobs: Rowcall) -> float:
    step = jobs.task(nothing)
    with jobs.flow() as graph:
        nodes = [graph.add(step.bind()) for _ in range(5_000)]
        graph.add(step.bind(), after=nodes)
    return timed(jobs.drain, 5_001)


async def nothing() -> None: ...


async def double(number: int) -> int:
    return number * 2


async def serve_customer(customer: int) -> None: ...


CASES: dict[str, Callable[[Rowcall], float]] = {
    case.__name__: case for case in (enqueue, enqueue_many, aenqueue, drain, drain_results, limit, chain, flow)
}

if __name__ == "__main__":
    main(*sys.argv[1:])
