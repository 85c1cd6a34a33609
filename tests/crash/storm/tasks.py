"""The tasks of a storm, one for each feature. Each notes outside of the database when its handler begins and ends.

They return any object: the storm completes their jobs by hand, with texts.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import threading
from collections.abc import Iterator

from rowcall import Backoff, BatchInfo, Cancel, Context, Fail, Job, JobOutcome, Retention, Retry, Rowcall, Snooze
from tests.conformance.notes import Notes
from tests.crash.storm import terms
from tests.crash.storm.terms import MAX_ATTEMPTS

SEED = os.environ.get("STORM_SEED", "0")
CALM = "STORM_CALM" in os.environ
LONGEST_SECONDS = 0.4

notes = Notes(os.environ.get("STORM_NOTES", os.devnull))
jobs = Rowcall(
    os.environ.get("STORM_URL"),
    blob_threshold=terms.BLOB_THRESHOLD,
    retention=Retention(succeeded=1.5, failed=3, cancelled=2),
)
AGAIN = Backoff.constant(0.03)


@contextlib.contextmanager
def noted(*running: Job, under: str = "") -> Iterator[None]:
    """`begin` and `end`, with the lease instead of the attempt. `under` is the key of a limit."""
    for job in running:
        notes.write(f"begin{under}", job.id, job.lease)
    try:
        yield
    finally:
        for job in running:
            notes.write("end", job.id, job.lease)


def chance_of(job: Job) -> random.Random:
    return random.Random(f"{SEED} {job.id} {job.lease}")


def how_it_ends(chance: random.Random) -> Exception | None:
    if CALM:
        return None
    endings: list[Exception | None] = [
        None,
        LookupError("as it happens"),
        Retry(0.03),
        Snooze(0.03),
        Fail("STORM:FAILED"),
        Cancel("not needed"),
    ]
    return chance.choices(endings, (70, 14, 5, 5, 3, 3))[0]


def lasts(chance: random.Random) -> float:
    """Seconds; some handlers look whether they are cancelled, for as long."""
    return 0.0 if CALM else chance.choices((0.0, 0.01, LONGEST_SECONDS), (50, 45, 5))[0]


def act(ctx: Context, under: str = "") -> object:
    chance = chance_of(ctx.job)
    with noted(ctx.job, under=under):
        _wait(ctx, lasts(chance))
        if error := how_it_ends(chance):
            raise error
        return ctx.job.id


def _wait(ctx: Context, seconds: float) -> None:
    pause = threading.Event()
    for _ in range(round(seconds / 0.01)):
        if ctx.cancelled:
            return
        pause.wait(0.01)


async def act_async(ctx: Context) -> object:
    chance = chance_of(ctx.job)
    with noted(ctx.job):
        await asyncio.sleep(lasts(chance))
        if error := how_it_ends(chance):
            raise error
        return ctx.job.id


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def plain(ctx: Context) -> object:
    return act(ctx)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
async def plain_async(ctx: Context) -> object:
    return await act_async(ctx)


@jobs.task(max_attempts=1)
def once(ctx: Context) -> object:
    return act(ctx)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, expires_in=0.3)
def expiring(ctx: Context) -> object:
    return act(ctx)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def large(ctx: Context, text: str, length: int) -> str:
    if len(text) != length:
        notes.write("wrong", ctx.job.id, ctx.job.lease)
    act(ctx)
    return text.upper()


@jobs.task(name=terms.FOLLOW_UP, max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def followed(ctx: Context, job: JobOutcome) -> object:
    if job.type == "large" and job.result != str(job.arguments["text"]).upper():
        notes.write("wrong", ctx.job.id, ctx.job.lease)
    return act(ctx)


once.on_failure(cancelled=True)(followed)
large.on_success(followed)


def isolated(ctx: Context) -> object:
    with noted(ctx.job, under=":cells"):
        _wait(ctx, lasts(chance_of(ctx.job)))
        return ctx.job.id


def dying(ctx: Context) -> object:
    """Ends its own process half of the time."""
    if not CALM and chance_of(ctx.job).random() < 0.5:
        os._exit(7)
    return act(ctx)


if "STORM_ISOLATION" in os.environ:  # other workers leave these jobs alone
    jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, isolation="process", limit=terms.CELLS)(isolated)
    jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, isolation="process")(dying)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, limit=terms.SPOTS)
def spot(ctx: Context, spot: int) -> object:
    return act(ctx, f":spots:{spot}")


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, timeout=0.05, limit=terms.LATE)
def late(ctx: Context) -> None:
    """Looks at no flag, and often runs on past its timeout."""
    with noted(ctx.job, under=":late"):
        threading.Event().wait(0.0 if CALM else chance_of(ctx.job).choice((0.0, 0.01, 0.5)))


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, limit=terms.PACED)
def paced(ctx: Context, lane: int) -> object:
    return act(ctx)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, limit=terms.WEIGHED)
def weighed(ctx: Context, lane: int, size: int) -> object:
    """Uses what it has reserved, or more."""
    ctx.used(terms.WEIGHED.name, size + chance_of(ctx.job).choice((0, 0, 4)))
    return act(ctx)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, limit=terms.GUARDED)
def guarded(ctx: Context) -> object:
    """Fails half of the time, and then holds its limit at times."""
    with noted(ctx.job, under=":guarded"):
        chance = chance_of(ctx.job)
        _wait(ctx, lasts(chance))
        if not CALM and chance.random() < 0.5:
            raise Retry(0.03, hold=terms.GUARDED.name) if chance.random() < 0.2 else LookupError("down")
        return ctx.job.id


@jobs.task(batch=5, batch_wait=0.02, max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def batch(ctx: Context, items: list[int]) -> list[object]:
    with noted(*ctx.jobs):
        return [how_it_ends(chance_of(job)) or item for job, item in zip(ctx.jobs, items, strict=True)]


@jobs.task(name=terms.BATCH_OVER, max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def batch_over(ctx: Context, batch: BatchInfo) -> object:
    if batch.total != batch.ended or ctx.batch is not None:
        notes.write("wrong", ctx.job.id, ctx.job.lease)
    notes.write("over", batch.id, ctx.job.id)
    return act(ctx)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def step(ctx: Context, more: int = 0) -> object:
    if more:
        ctx.continue_with(step.using(max_attempts=MAX_ATTEMPTS), more=more - 1)
    return act(ctx)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def join(ctx: Context, blockers: int) -> object:
    if len(ctx.blockers) != blockers:
        notes.write("wrong", ctx.job.id, ctx.job.lease)
    return act(ctx)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, key=lambda name: name)
def keyed(ctx: Context, name: str) -> object:
    return act(ctx)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, key=lambda name: name, on_duplicate="raise")
def keyed_or_raise(ctx: Context, name: str) -> object:
    return act(ctx)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, key=lambda name: name, on_duplicate="replace", delay=0.05)
def keyed_or_replace(ctx: Context, name: str) -> object:
    return act(ctx)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN, key=lambda name: name, key_scope="any")
def keyed_for_good(ctx: Context, name: str) -> object:
    return act(ctx)


@jobs.task(
    max_attempts=MAX_ATTEMPTS,
    retry=AGAIN,
    key=lambda name: name,
    key_scope="any",
    key_window=terms.KEY_WINDOW_SECONDS,
)
def keyed_for_a_while(ctx: Context, name: str) -> object:
    return act(ctx)


@jobs.task(name=terms.NEVER)
def never(ctx: Context) -> None:
    notes.write("wrong", ctx.job.id, ctx.job.lease)


def _declare_ticking(task: str, every_ms: int, catch_up: str) -> None:
    def tick(ctx: Context) -> object:
        return act(ctx)

    declared = jobs.task(name=task, max_attempts=MAX_ATTEMPTS, retry=AGAIN)(tick)
    jobs.schedule(every=every_ms / 1000, catch_up=catch_up, name=task)(declared)  # type: ignore[arg-type]


for _ticking in terms.SCHEDULES:
    _declare_ticking(*_ticking)
