"""The tasks of `rowcall demo`, and the jobs that it enqueues."""

from __future__ import annotations

from rowcall import Backoff, Context, Rowcall
from rowcall.base.clock import SystemClock

QUICK, SLOW, FLAKY, DELAYED = 3100, 300, 300, 300
CLOCK = SystemClock()
DELAYS_SECONDS = [0.2 * number for number in range(1, 21)]


async def quick(number: int) -> int:
    """Do next to nothing."""
    await CLOCK.asleep(0.002)
    return number * number


def slow(seconds: float) -> None:
    """Keep a thread busy for a while."""
    CLOCK.sleep(seconds)


def flaky(ctx: Context, failures: int) -> str:
    """Fail this many times, then succeed."""
    if ctx.job.attempt <= failures:
        raise ConnectionError(f"no answer in attempt {ctx.job.attempt}")
    return f"succeeded in attempt {ctx.job.attempt}"


async def delayed(number: int) -> None:
    """Run some seconds after it was enqueued."""


class Demo:
    """A queue with four tasks."""

    def __init__(self, url: str | None = None) -> None:
        self.jobs = Rowcall(url)
        self.quick = self.jobs.task(queue="quick")(quick)
        self.slow = self.jobs.task(queue="slow", max_attempts=10)(slow)
        self.flaky = self.jobs.task(queue="flaky", max_attempts=10, retry=Backoff.constant(0.3))(flaky)
        self.delayed = self.jobs.task(queue="delayed")(delayed)

    def enqueue(self) -> dict[str, int]:
        """Enqueue some jobs of each task; return how many."""
        self.quick.enqueue_many({"number": number} for number in range(QUICK))
        self.slow.enqueue_many({"seconds": 0.2 + 0.02 * (number % 16)} for number in range(SLOW))
        self.flaky.enqueue_many({"failures": 1 + number % 3} for number in range(FLAKY))
        for delay in DELAYS_SECONDS:
            later = self.delayed.using(delay=delay)
            later.enqueue_many({"number": number} for number in range(DELAYED // len(DELAYS_SECONDS)))
        return {"quick": QUICK, "slow": SLOW, "flaky": FLAKY, "delayed": DELAYED}


jobs = Demo().jobs  # of the worker processes; $ROWCALL_URL names the database
