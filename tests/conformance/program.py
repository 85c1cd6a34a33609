"""What the cases with several processes start: `python -m tests.conformance.program URL NOTES ROLE …`."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from rowcall import Backoff, Context, Fail, JobOutcome, Limit, Rowcall
from rowcall.task import AsyncContextTask, BatchTask, ContextTask
from rowcall.testing.deadline import eventually
from tests.conformance.graphs import declare_vertices
from tests.conformance.notes import Notes

LONGEST_HOLD_SECONDS = 60.0
SHORTEST_STOP_SECONDS = 0.5
JOURNEY = ("book", "pay", "pack", "go", "arrive")
"""The steps of the tasks `journey` and `journey_async`; after the fourth, they wait for a signal."""


class Declaration(NamedTuple):
    lasting: ContextTask[[float], None]
    many: BatchTask[None]
    journey: ContextTask[[], list[str]]
    journey_async: AsyncContextTask[[], list[str]]


Noted = Callable[[Context, Callable[[], object]], None]
"""Calls a function, and notes the start and the end of the attempt."""


def declare(jobs: Rowcall, notes: Notes) -> Declaration:
    """The tasks of the cases. Each notes the start and the end of every attempt."""

    def noted(ctx: Context, body: Callable[[], object]) -> None:
        notes.write("started", ctx.job.id, ctx.job.attempt)
        body()
        notes.write("ended", ctx.job.id, ctx.job.attempt)

    lasting = _declare_waiting(jobs, noted)
    _declare_deadly(jobs, noted)
    _declare_failing(jobs, notes)
    _declare_families(jobs)
    return Declaration(lasting, _declare_many(jobs, notes), *_declare_journeys(jobs, notes))


def _declare_waiting(jobs: Rowcall, noted: Noted) -> ContextTask[[float], None]:
    @jobs.task
    def quick(ctx: Context) -> None:
        noted(ctx, lambda: None)

    @jobs.task
    async def quick_async(ctx: Context) -> None:
        noted(ctx, lambda: None)

    @jobs.task
    def lasting(ctx: Context, seconds: float) -> None:
        noted(ctx, lambda: threading.Event().wait(seconds))

    @jobs.task
    def held(ctx: Context, until: str) -> None:
        """Runs until a file exists."""
        noted(ctx, lambda: eventually(lambda: os.path.exists(until), within=LONGEST_HOLD_SECONDS))

    @jobs.task
    def patient(ctx: Context) -> None:
        """Runs until it is cancelled."""
        noted(ctx, lambda: eventually(lambda: ctx.cancelled, within=LONGEST_HOLD_SECONDS))

    @jobs.task(limit=Limit("narrow", concurrency=3))
    def narrow(ctx: Context, until: str) -> None:
        """Runs until a file exists or it is cancelled."""
        noted(ctx, lambda: eventually(lambda: os.path.exists(until) or ctx.cancelled, within=LONGEST_HOLD_SECONDS))

    @jobs.task(limit=Limit("alone", concurrency=1, by="key"))
    def alone(ctx: Context, key: str) -> None:
        noted(ctx, lambda: threading.Event().wait(0.005))

    @jobs.task(limit=Limit("overdue", concurrency=1), timeout=0.1)
    def overdue(ctx: Context) -> None:
        """Runs on past its timeout."""
        noted(ctx, lambda: threading.Event().wait(LONGEST_HOLD_SECONDS))

    return lasting


def _declare_deadly(jobs: Rowcall, noted: Noted) -> None:
    @jobs.task
    def stopping(ctx: Context) -> None:
        """Stops the whole worker at the first attempt, until it is resumed."""

        def stop() -> None:
            if ctx.job.attempt == 1:
                threading.Event().wait(0.1)  # so that the worker has settled what ended, and is in no transaction
                before = time.monotonic()
                os.kill(os.getpid(), signal.SIGSTOP)
                # the signal takes a moment. The handler ends at once when the worker is resumed, before its heartbeat
                while time.monotonic() - before < SHORTEST_STOP_SECONDS:
                    pass

        noted(ctx, stop)

    @jobs.task
    def deadly(ctx: Context) -> None:
        noted(ctx, lambda: os.kill(os.getpid(), signal.SIGKILL))

    @jobs.task
    def deadly_going(ctx: Context) -> None:
        ctx.continue_with("quick")
        noted(ctx, lambda: os.kill(os.getpid(), signal.SIGKILL))

    @jobs.task
    def going(ctx: Context, left: int) -> int:
        """A chain that grows, step by step."""
        if left:
            ctx.continue_with(going, left=left - 1)
        return left


def _declare_failing(jobs: Rowcall, notes: Notes) -> None:
    @jobs.task(retry=Backoff.constant(0))
    def fragile(ctx: Context, number: int) -> None:
        """Fails if its number is odd. A follow-up follows each end."""
        threading.Event().wait(0.01)
        if number % 2:
            raise ValueError(number)

    @jobs.task
    def fragile_ended(job: JobOutcome) -> None: ...

    fragile.on_failure(fragile_ended)
    fragile.on_success(fragile_ended)

    @jobs.task(ordered_by="account", retry=Backoff.constant(0), max_attempts=50)
    def posted(ctx: Context, account: int, number: int) -> None:
        """Fails at some attempts, and some jobs fail for good."""
        notes.write("started", ctx.job.id, ctx.job.attempt)
        threading.Event().wait(0.002)
        if number % 7 == 5:
            raise Fail("NOT:LUCKY", "")
        if (number + ctx.job.attempt) % 5 == 0:
            raise ValueError(number)


def _declare_many(jobs: Rowcall, notes: Notes) -> BatchTask[None]:
    @jobs.task(batch=1000, batch_wait=0)
    def many(ctx: Context, items: list[int]) -> None:
        """Notes how many jobs it got, instead of an id, and runs until it is cancelled."""
        notes.write("started", len(items))
        eventually(lambda: ctx.cancelled, within=LONGEST_HOLD_SECONDS)

    return many


def _declare_journeys(
    jobs: Rowcall, notes: Notes
) -> tuple[ContextTask[[], list[str]], AsyncContextTask[[], list[str]]]:
    """Tasks made of steps, with a sleep and a signal between them."""

    def effect(ctx: Context, name: str) -> str:
        """What a step does: note a text that no other call returns."""
        token = os.urandom(4).hex()
        notes.write(f"ran:{name}:{token}", ctx.job.id, ctx.job.attempt, durable=True)
        for part in range(3):
            ctx.stream([name, token, part])
        return token

    def saw(ctx: Context, name: str, token: str) -> str:
        notes.write(f"saw:{name}:{token}", ctx.job.id, ctx.job.attempt)
        return token

    @jobs.task
    def journey(ctx: Context) -> list[str]:
        seen = [saw(ctx, name, ctx.step(name, effect, ctx, name)) for name in JOURNEY[:3]]
        ctx.sleep(0.02)
        seen.append(saw(ctx, JOURNEY[3], ctx.step(JOURNEY[3], effect, ctx, JOURNEY[3])))
        seen.append(ctx.wait_for("go", str, prompt="Go?"))
        return [*seen, saw(ctx, JOURNEY[4], ctx.step(JOURNEY[4], effect, ctx, JOURNEY[4]))]

    async def aeffect(ctx: Context, name: str) -> str:
        return effect(ctx, name)

    @jobs.task
    async def journey_async(ctx: Context) -> list[str]:
        first = await ctx.gather(*(ctx.step(name, aeffect, ctx, name) for name in JOURNEY[:3]))
        seen = [saw(ctx, name, token) for name, token in zip(JOURNEY, first, strict=False)]
        await ctx.sleep(0.02)
        seen.append(saw(ctx, JOURNEY[3], await ctx.step(JOURNEY[3], aeffect, ctx, JOURNEY[3])))
        seen.append(await ctx.wait_for("go", str, prompt="Go?"))
        return [*seen, saw(ctx, JOURNEY[4], await ctx.step(JOURNEY[4], aeffect, ctx, JOURNEY[4]))]

    return journey, journey_async


def _declare_families(jobs: Rowcall) -> None:
    @jobs.task
    def leaf(number: int) -> int:
        return number

    @jobs.task
    def family(ctx: Context) -> int:
        results = ctx.gather(*(partial(ctx.call, leaf, number) for number in range(4)))
        answer = ctx.wait_for("approval", choices=["approve", "reject"], prompt="Another one?")
        return sum(results) + (int(ctx.call(leaf, 10)) if answer == "approve" else 0)

    @jobs.task
    async def family_async(ctx: Context) -> int:
        results = await ctx.gather(*(ctx.call(leaf, number) for number in range(4)))
        answer = await ctx.wait_for("approval", choices=["approve", "reject"], prompt="Another one?")
        _, more = await ctx.first(ctx.call(leaf, 10), ctx.wait_for("never"))
        return sum(results) + (int(str(more)) if answer == "approve" else 0)


def claim_all(jobs: Rowcall, notes: Notes) -> None:
    """Claim by hand until nothing is left."""
    notes.write("ready")
    while claimed := jobs.claim(f"hand-{os.getpid()}", limit=3):
        for job in claimed:
            notes.write("started", job.id, job.attempt)
            jobs.complete(job)


def enqueue_keyed(url: str, notes: Notes, gate: str, threads: int) -> None:
    """Enqueue one key from several threads at once, each with a separate connection, when a file appears."""

    def enqueue_one() -> None:
        with Rowcall(url) as jobs:
            jobs.stats()
            notes.write("ready")
            eventually(lambda: os.path.exists(gate), within=LONGEST_HOLD_SECONDS)
            job = jobs.enqueue("quick", key="the only one")
            notes.write("duplicate" if job.duplicate else "written", job.id)

    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(enqueue_one) for _ in range(threads)]:
            future.result()


def hold(jobs: Rowcall, notes: Notes, lease: float) -> None:
    """Claim one job by hand, and do nothing with it."""
    job = eventually(lambda: jobs.dequeue(f"hand-{os.getpid()}", lease=lease))
    notes.write("started", job.id, job.attempt)
    signal.pause()


def stay_in_transaction(jobs: Rowcall, notes: Notes, count: int) -> None:
    """Enqueue in a block, and never come to its end."""
    with jobs.transaction():
        for _ in range(count):
            jobs.enqueue("quick")
        notes.write("ready")
        signal.pause()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("notes")
    roles = parser.add_subparsers(dest="role", required=True)
    roles.add_parser("enqueue").add_argument("count", type=int)
    keyed = roles.add_parser("keyed")
    keyed.add_argument("gate")
    keyed.add_argument("--threads", type=int, default=1)
    roles.add_parser("transaction").add_argument("count", type=int)
    roles.add_parser("claim")
    roles.add_parser("hold").add_argument("--lease", type=float)
    work = roles.add_parser("work")
    work.add_argument("--concurrency", type=int, default=4)
    work.add_argument("--queues", default=None)
    work.add_argument("--lease", type=float, default=15.0)
    given = parser.parse_args()

    notes = Notes(given.notes)
    with Rowcall(given.url) as jobs:
        declare(jobs, notes)
        declare_vertices(jobs, notes)
        match given.role:
            case "enqueue":
                for _ in range(given.count):
                    jobs.enqueue("quick")
            case "keyed":
                enqueue_keyed(given.url, notes, given.gate, given.threads)
            case "transaction":
                stay_in_transaction(jobs, notes, given.count)
            case "claim":
                claim_all(jobs, notes)
            case "hold":
                hold(jobs, notes, given.lease)
            case "work":
                logging.basicConfig(level=logging.INFO)
                jobs.work(concurrency=given.concurrency, queues=given.queues, lease=given.lease, log_jobs="failures")


if __name__ == "__main__":
    main()
