"""The measurements of `rowcall bench`, in a temporary file or in temporary tables on a server."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import msgspec

from rowcall.app import Rowcall, queue_of
from rowcall.base.clock import SystemClock
from rowcall.cli.processes import working
from rowcall.cli.target import Target, url_of
from rowcall.domain.errors import StoreUnavailable
from rowcall.domain.job import Job, Status
from rowcall.operations.scratch_tables import drop_tables

SINGLE_SECONDS, BULK_SECONDS = 0.8, 0.8
MOST_SINGLE, BULK, MOST_BULK = 20_000, 1000, 20_000
MOST_DRAINED_IN_THREADS = 10_000
SAMPLES, SAMPLE_PAUSE_SECONDS = 100, 0.015
START_SECONDS = 10.0
CLOCK = SystemClock()
PREFIX, DEFAULT_PREFIX = "ROWCALL_BENCH_PREFIX", "rowcall_"


async def nothing(number: int) -> None:
    """An async handler with nothing to do."""


def nothing_in_thread(number: int) -> None:
    """A sync handler with nothing to do."""


def moment() -> float:
    """Return when the handler began, by a clock that all processes of one machine share."""
    return CLOCK.monotonic()


class Bench:
    def __init__(self, url: str | None, prefix: str) -> None:
        self.jobs = Rowcall(url, table_prefix=prefix)
        self.nothing = self.jobs.task(nothing)
        self.nothing_in_thread = self.jobs.task(nothing_in_thread)
        self.moment = self.jobs.task(queue="idle")(moment)


class Figures(msgspec.Struct, kw_only=True, frozen=True):
    """Durable figures: `durability="full"`, each commit on the disk before it counts."""

    enqueue_per_second: float
    enqueue_many_per_second: float
    drain_async_per_second: float
    drain_threads_per_second: float
    pick_up_p50_ms: float
    pick_up_p99_ms: float
    seconds: float


class Scratch(msgspec.Struct, frozen=True):
    """A temporary queue. `described` is printed with the figures."""

    url: str
    prefix: str
    described: str


@contextlib.contextmanager
def in_folder(folder: Path) -> Iterator[Scratch]:
    with tempfile.TemporaryDirectory(prefix="rowcall-bench-", dir=folder) as temporary:
        yield Scratch(
            url_of(Path(temporary, "bench.db")), DEFAULT_PREFIX, f"durable commits, on the disk of {folder.resolve()}"
        )


@contextlib.contextmanager
def on_server(url: str) -> Iterator[Scratch]:
    prefix = f"rowcall_bench_{secrets.token_hex(4)}_"
    with Rowcall(url, table_prefix=prefix) as jobs:
        queue = queue_of(jobs)
        if queue.config.server is None:
            raise click.UsageError("--url must name a server; use --folder to measure a disk")
        try:
            yield Scratch(url, prefix, f"commits as the server is configured, on {queue.database.name}")
        finally:
            drop_tables(queue)


def measure(scratch: Scratch) -> Figures:
    started_at = CLOCK.monotonic()
    bench = Bench(scratch.url, scratch.prefix)
    with bench.jobs as jobs:
        single = _rate(SINGLE_SECONDS, MOST_SINGLE, lambda: len([bench.nothing.enqueue(0)]))
        many = [{"number": number} for number in range(BULK)]
        bulk = _rate(BULK_SECONDS, MOST_BULK, lambda: len(bench.nothing.enqueue_many(many)))
        drain_async = _drained_per_second(jobs)
        bench.nothing_in_thread.enqueue_many({"number": number} for number in range(_one_second_of(drain_async)))
        drain_threads = _drained_per_second(jobs)
        names = {PREFIX: scratch.prefix}
        with working("rowcall.cli.bench.measure:jobs", scratch.url, "--log-level=error", environment=names) as process:
            _wait_for(lambda: _has_started(jobs, process), jobs, "the worker process did not start")
            pick_ups = _pick_ups_ms(bench)
    return Figures(
        enqueue_per_second=single,
        enqueue_many_per_second=bulk,
        drain_async_per_second=drain_async,
        drain_threads_per_second=drain_threads,
        pick_up_p50_ms=round(pick_ups[len(pick_ups) // 2], 2),
        pick_up_p99_ms=round(pick_ups[len(pick_ups) * 99 // 100], 2),
        seconds=round(CLOCK.monotonic() - started_at, 2),
    )


def _rate(limit_seconds: float, most: int, act: Callable[[], int]) -> float:
    """Return how many are done per second."""
    done, seconds, started_at = 0, 0.0, CLOCK.monotonic()
    while seconds < limit_seconds and done < most:
        done += act()
        seconds = CLOCK.monotonic() - started_at
    return round(done / seconds, 1)


def _drained_per_second(jobs: Rowcall) -> float:
    started_at = CLOCK.monotonic()
    summary = jobs.drain()
    return round(summary.succeeded / (CLOCK.monotonic() - started_at), 1)


def _one_second_of(per_second: float) -> int:
    """Return how many jobs take about a second if threads are half as fast."""
    return max(100, min(MOST_DRAINED_IN_THREADS, round(per_second / 2)))


def _has_started(jobs: Rowcall, process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        raise StoreUnavailable("the worker process ended", _advice(jobs))
    return bool(jobs.workers())


def _pick_ups_ms(bench: Bench) -> list[float]:
    """Return the times from the return of `enqueue` to the first line of the handler, in an idle worker process."""
    enqueued: dict[int, float] = {}
    for _ in range(SAMPLES):
        CLOCK.sleep(SAMPLE_PAUSE_SECONDS)
        job = bench.moment.enqueue()
        enqueued[job.id] = CLOCK.monotonic()

    def done() -> list[Job]:
        return bench.jobs.list(queue="idle", status=Status.SUCCEEDED, limit=SAMPLES).jobs

    _wait_for(lambda: len(done()) == SAMPLES, bench.jobs, f"not all of {SAMPLES} jobs were picked up in time")
    began = {job.id: job.result for job in done()}
    return sorted(max(0.0, (at - enqueued[job_id]) * 1000) for job_id, at in began.items() if isinstance(at, float))


def _wait_for(condition: Callable[[], bool], jobs: Rowcall, problem: str) -> None:
    deadline = CLOCK.monotonic() + START_SECONDS
    while not condition():
        if CLOCK.monotonic() > deadline:
            raise StoreUnavailable(problem, _advice(jobs))
        CLOCK.sleep(0.02)


def _advice(jobs: Rowcall) -> str:
    server = Target(jobs).queue.config.server
    return f"Run: {Target(jobs, url=None if server is None else server.url).command('doctor')}"


jobs = Bench(None, os.environ.get(PREFIX, DEFAULT_PREFIX)).jobs  # of the idle worker; $ROWCALL_URL names the database
