"""The app of all worlds: a task for each feature, whose handlers do what the seed says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from rowcall import (
    Backoff,
    BatchInfo,
    Breaker,
    Cancel,
    Context,
    Fail,
    Job,
    JobCancelled,
    JobFailed,
    JobOutcome,
    Limit,
    Retry,
    Rowcall,
    SignalTimeout,
    Snooze,
)
from rowcall.app import queue_of
from rowcall.queue import Backend, Queue
from tests.conformance.notes import Note
from tests.crash.storm import terms
from tests.crash.storm.terms import MAX_ATTEMPTS, Ticking
from tests.simulation.primitives import own_process, running_process, scheduler

AGAIN = Backoff.constant(0.5)
SCHEDULES = (Ticking("tick_all", 4000, "all"), Ticking("tick_one", 3000, "one"), Ticking("tick_skip", 5000, "skip"))
LEASES_UNTIL_CALM = 12
"""From this lease on, a handler succeeds at once: every job ends."""
MOST_LATE = 500
"""The number of the fifth operation."""
FUSED = Limit("fused", concurrency=3, breaker=Breaker(failures=0.5, of=2, pause=1))
METERED = Limit("metered", rate=6, per=0.5, units="units")
VALUES = 4
"""How many values a stream has."""


class Witness:
    """What handlers and producers note outside of the database, in the order in which it happened."""

    def __init__(self) -> None:
        self.seed = ""
        self.notes: list[Note] = []
        self.is_recovered: Callable[[int, int], bool] = lambda job_id, lease: False

    def write(self, event: str, job_id: int = 0, lease: int = 0) -> None:
        if not scheduler().is_closing:
            self.notes.append(Note(event, job_id, lease, own_process().pid))
            scheduler().note(f"{event} {job_id} {lease}")


class SharedQueue(Queue):
    """One object for all processes, as tasks belong to it: each process sees its own backend."""

    @property
    def backend(self) -> Backend:
        return self.own_backend if (process := running_process()) is None else process.backend

    @backend.setter
    def backend(self, backend: Backend) -> None:
        raise AssertionError("worlds do not swap backends")


witness = Witness()
jobs = Rowcall("sqlite:///never-opened.db")
queue_of(jobs).__class__ = SharedQueue


@contextmanager
def noted(*running: Job, under: str = "", at_once: bool = True) -> Iterator[None]:
    """Note `begin` and `end`. `at_once`: whether the handler has not waited for anything before."""
    for job in running:
        witness.write(f"begin{under}", job.id, job.lease)
        if at_once and witness.is_recovered(job.id, job.lease):
            # the worker must have noticed that its lease is in doubt
            scheduler().stop(f"a handler begins after its attempt was recovered: lease {job.lease} of job {job.id}")
    try:
        yield
    finally:
        for job in running:
            witness.write("end", job.id, job.lease)


def chance_of(job: Job, number: int) -> random.Random:
    return random.Random(f"{witness.seed} {number} {job.lease}")


def how_it_ends(job: Job, chance: random.Random) -> Exception | None:
    if job.lease >= LEASES_UNTIL_CALM:
        return None
    endings: list[Exception | None] = [
        None,
        LookupError("as it happens"),
        Retry(0.5),
        Snooze(0.5),
        Fail("STORM:FAILED"),
        Cancel("not needed"),
    ]
    return chance.choices(endings, (70, 12, 5, 7, 3, 3))[0]


def lasts(job: Job, chance: random.Random) -> float:
    if job.lease >= LEASES_UNTIL_CALM:
        return 0.0
    return chance.choices((0.0, 0.01, 0.3, 2.5), (50, 25, 20, 5))[0]


def act(ctx: Context, number: int, under: str = "", *, at_once: bool = True) -> object:
    chance = chance_of(ctx.job, number)
    with noted(ctx.job, under=under, at_once=at_once):
        _wait(ctx, lasts(ctx.job, chance))
        if error := how_it_ends(ctx.job, chance):
            raise error
        return ctx.job.id


def _wait(ctx: Context, seconds: float) -> None:
    until = scheduler().now + seconds
    while scheduler().now < until and not ctx.cancelled:
        scheduler().sleep(min(0.25, until - scheduler().now))


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def plain(ctx: Context, number: int) -> object:
    ctx.log.info("%d", number)
    return act(ctx, number)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
async def plain_async(ctx: Context, number: int) -> object:
    chance = chance_of(ctx.job, number)
    with noted(ctx.job):
        await asyncio.sleep(lasts(ctx.job, chance))
        if error := how_it_ends(ctx.job, chance):
            raise error
        return ctx.job.id


@jobs.task(max_attempts=1)
def once(ctx: Context, number: int) -> object:
    return act(ctx, number)


@jobs.task(name=terms.FOLLOW_UP, max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def followed(ctx: Context, job: JobOutcome) -> object:
    return act(ctx, job.id)


once.on_failure(cancelled=True)(followed)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, expires_in=2)
def expiring(ctx: Context, number: int) -> object:
    return act(ctx, number)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, limit=terms.SPOTS)
def spot(ctx: Context, number: int, spot: int) -> object:
    return act(ctx, number, f":spots:{spot}")


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, timeout=1, limit=terms.LATE)
def late(ctx: Context, number: int) -> None:
    """Looks at no flag, and its first attempt may run on past its timeout.

    Only a few jobs do: a worker whose slots are all lost is replaced after up to 30 s.
    """
    with noted(ctx.job, under=":late"):
        may_be_late = ctx.job.lease == 1 and number < MOST_LATE
        scheduler().sleep(chance_of(ctx.job, number).choice((0, 0.1, 3)) if may_be_late else 0.0)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, limit=terms.PACED)
def paced(ctx: Context, number: int, lane: int) -> object:
    return act(ctx, number)


@jobs.task(batch=3, batch_wait=0.2, max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def batch(ctx: Context, items: list[int]) -> list[object]:
    with noted(*ctx.jobs):
        return [how_it_ends(job, chance_of(job, n)) or n for job, n in zip(ctx.jobs, items, strict=True)]


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def finished(ctx: Context, batch: BatchInfo) -> object:
    if batch.sealed_at is None:
        witness.write("wrong", ctx.job.id, ctx.job.lease)
    return act(ctx, ctx.job.id)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def step(ctx: Context, number: int, more: int = 0) -> object:
    if more:
        ctx.continue_with(step.using(max_attempts=MAX_ATTEMPTS), number=number + 1, more=more - 1)
    return act(ctx, number)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def join(ctx: Context, number: int, blockers: int) -> object:
    if len(ctx.blockers) != blockers:
        witness.write("wrong", ctx.job.id, ctx.job.lease)
    return act(ctx, number, at_once=False)  # it has read its blockers


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, key=lambda name: name)
def keyed(ctx: Context, number: int, name: str) -> object:
    return act(ctx, number)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, key=lambda name: name, on_duplicate="replace", delay=0.5)
def keyed_or_replace(ctx: Context, number: int, name: str) -> object:
    return act(ctx, number)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, ordered_by="account")
def in_order(ctx: Context, number: int, account: str) -> object:
    return act(ctx, number)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def durable(ctx: Context, number: int) -> object:
    """Counts how often each step runs: one that is recorded never runs again."""

    def taken(name: str) -> int:
        witness.write(f"step:{name}", ctx.job.id, ctx.job.lease)
        return ctx.job.lease

    first = ctx.step("first", taken, "first")
    witness.write("recorded:first", ctx.job.id, ctx.job.lease)
    if not ctx.patched("sleeps"):
        witness.write("wrong", ctx.job.id, ctx.job.lease)
    ctx.sleep(0.5)
    second = ctx.step("second", taken, "second")
    witness.write("recorded:second", ctx.job.id, ctx.job.lease)
    # one that was stopped until it was recovered may read what the next attempt has recorded
    if not first <= second <= ctx.job.lease and not witness.is_recovered(ctx.job.id, ctx.job.lease):
        witness.write("wrong", ctx.job.id, ctx.job.lease)
    return act(ctx, number, at_once=False)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def waiting(ctx: Context, number: int) -> object:
    with suppress(SignalTimeout):
        if ctx.wait_for("go", int, timeout=2, prompt="Go?") != number:
            witness.write("wrong", ctx.job.id, ctx.job.lease)
    return act(ctx, number, at_once=False)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def waiting_twice(ctx: Context, number: int) -> object:
    """A signal with a key is received once, however often it is sent."""
    with suppress(SignalTimeout):
        ctx.wait_for("go", int, timeout=2)
        ctx.wait_for("go", int, timeout=0.5)
        witness.write("wrong", ctx.job.id, ctx.job.lease)
    return act(ctx, number, at_once=False)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def asking(ctx: Context, number: int) -> object:
    with suppress(SignalTimeout):
        answer = ctx.wait_for("answer", timeout=2, prompt="Continue?", choices=["yes", "no"])
        witness.write(f"answered:{answer}", ctx.job.id, ctx.job.lease)
    return act(ctx, number, at_once=False)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, limit=FUSED)
def fused(ctx: Context, number: int) -> object:
    with noted(ctx.job):
        if ctx.job.lease < LEASES_UNTIL_CALM and chance_of(ctx.job, number).random() < 0.5:
            raise ConnectionError("down")
    return number


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, limit=METERED)
def metered(ctx: Context, number: int, units: int) -> object:
    if number % 2:
        ctx.used("metered", chance_of(ctx.job, number).randint(0, units))
    return act(ctx, number)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def streaming(ctx: Context, number: int) -> object:
    with noted(ctx.job):
        chance = chance_of(ctx.job, number)
        error = how_it_ends(ctx.job, chance)
        if isinstance(error, Snooze):  # begins no part
            raise error
        for value in range(VALUES):
            if error is not None and value > chance.random() * VALUES:
                raise error
            ctx.stream(value)
            scheduler().sleep(chance.choice((0.0, 0.0, 0.05, 0.5)))
        return number


@jobs.task(max_attempts=2, retry=AGAIN)
def child(ctx: Context, number: int) -> object:
    act(ctx, number)
    return number


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def parent(ctx: Context, number: int) -> object:
    """Calls one child, some, or whichever comes first; a child that has not succeeded raises."""
    numbers = [10 * number + n for n in range(number % 3 + 1)]
    calls = [partial(ctx.call, child.using(detach=number % 2 == 1), one) for one in numbers]
    with suppress(JobFailed, JobCancelled):
        results = [calls[0]()] if len(calls) == 1 else ctx.gather(*calls)
        if list(results) != numbers:
            witness.write("wrong", ctx.job.id, ctx.job.lease)
    return act(ctx, number, at_once=False)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
async def parent_async(ctx: Context, number: int) -> object:
    with suppress(JobFailed, JobCancelled, SignalTimeout):
        waits = ctx.wait_for("go", int, timeout=3), ctx.sleep(1.0), ctx.call(child, 10 * number)
        index, value = await ctx.first(*waits)
        if value != (number, None, 10 * number)[index]:
            witness.write("wrong", ctx.job.id, ctx.job.lease)
    with noted(ctx.job, at_once=False):
        if error := how_it_ends(ctx.job, chance_of(ctx.job, number)):
            raise error
        return number


def _declare_ticking(task: str, every_ms: int, catch_up: str) -> None:
    def tick(ctx: Context) -> object:
        return act(ctx, ctx.job.id)

    declared = jobs.task(name=task, max_attempts=MAX_ATTEMPTS, retry=AGAIN)(tick)
    jobs.schedule(every=every_ms / 1000, catch_up=catch_up, name=task)(declared)  # type: ignore[arg-type]


for _ticking in SCHEDULES:
    _declare_ticking(*_ticking)
