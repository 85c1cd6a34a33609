"""The tasks that `rowcall demo` runs, and the jobs it makes of them."""

from __future__ import annotations

import asyncio
import time

from rowcall import Backoff, Context, Rowcall

QUICK, SLOW, FLAKY, DELAYED = 3100, 300, 300, 300
DELAYS_SECONDS = [0.2 * number for number in range(1, 21)]


async def quick(number: int) -> int:
    """Next to nothing to do."""
    await asyncio.sleep(0.002)
    return number * number


def slow(seconds: float) -> None:
    """Holds a thread for a while."""
    time.sleep(seconds)


def flaky(ctx: Context, failures: int) -> str:
    """Fails so many times, then works."""
    if ctx.job.attempt <= failures:
        raise ConnectionError(f"no answer at try {ctx.job.attempt}")
    return f"worked at try {ctx.job.attempt}"


async def delayed(number: int) -> None:
    """Enqueued now, to run some seconds later."""


class Demo:
    """A queue with a task of each kind."""

    def __init__(self, url: str | None = None) -> None:
        self.jobs = Rowcall(url)
        self.quick = self.jobs.task(queue="quick")(quick)
        self.slow = self.jobs.task(queue="slow", max_attempts=10)(slow)
        self.flaky = self.jobs.task(queue="flaky", max_attempts=10, retry=Backoff.constant(0.3))(flaky)
        self.delayed = self.jobs.task(queue="delayed")(delayed)

    def enqueue(self) -> dict[str, int]:
        """Some of each kind; gives how many."""
        self.quick.enqueue_many({"number": number} for number in range(QUICK))
        self.slow.enqueue_many({"seconds": 0.2 + 0.02 * (number % 16)} for number in range(SLOW))
        self.flaky.enqueue_many({"failures": 1 + number % 3} for number in range(FLAKY))
        for delay in DELAYS_SECONDS:
            later = self.delayed.using(delay=delay)
            later.enqueue_many({"number": number} for number in range(DELAYED // len(DELAYS_SECONDS)))
        return {"quick": QUICK, "slow": SLOW, "flaky": FLAKY, "delayed": DELAYED}
