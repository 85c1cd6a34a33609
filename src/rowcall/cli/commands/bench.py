"""`rowcall bench`: what this machine and its disk, or a server, can do, measured in a few seconds."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from rowcall.app import Rowcall
from rowcall.cli.bench.place import Place, in_folder, on_server
from rowcall.cli.bench.tasks import PREFIX, Bench
from rowcall.cli.child_workers import interruptible, working
from rowcall.cli.present.output import console, print_json, table
from rowcall.cli.target import command_for, json_option, queue_of
from rowcall.domain.errors import StoreUnavailable
from rowcall.domain.job import Job, Status

SINGLE_SECONDS, BULK_SECONDS = 0.8, 0.8
MOST_SINGLE, BULK, MOST_BULK = 20_000, 1000, 20_000
MOST_DRAINED_IN_THREADS = 10_000
SAMPLES, SAMPLE_PAUSE_SECONDS = 100, 0.015
START_SECONDS = 10.0


class Figures(msgspec.Struct, kw_only=True, frozen=True):
    """Durable figures: `durability="full"`, each commit on the disk before it counts."""

    enqueue_per_second: float
    enqueue_many_per_second: float
    drain_async_per_second: float
    drain_threads_per_second: float
    pick_up_p50_ms: float
    pick_up_p99_ms: float
    seconds: float


@click.command("bench", short_help="Measure Rowcall on this machine and disk, or on a server.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    help="Measure on the disk that holds this folder (the current one).",
)
@click.option("--url", metavar="URL", help="Measure on this server: postgresql://user@host/database.")
@json_option
def bench_command(folder: Path | None, url: str | None, as_json: bool) -> None:
    """Measure Rowcall on this machine and disk, or on a server. Takes a few seconds.

    It works in a temporary file, or in tables of its own, which are removed again.

    With --json: {"enqueue_per_second", "enqueue_many_per_second", "drain_async_per_second", "drain_threads_per_second",
    "pick_up_p50_ms", "pick_up_p99_ms", "seconds"}.
    """
    if folder is not None and url is not None:
        raise click.UsageError("give --folder or --url, not both")
    with interruptible(), in_folder(folder or Path()) if url is None else on_server(url) as place:
        figures = measure(place)
    if as_json:
        print_json(figures)
    else:
        _print(figures, place.described)


def measure(place: Place) -> Figures:
    started_at = time.monotonic()
    bench = Bench(place.url, place.prefix)
    with bench.jobs as jobs:
        single = _rate(SINGLE_SECONDS, MOST_SINGLE, lambda: _enqueue_one(bench))
        bulk = _rate(BULK_SECONDS, MOST_BULK, lambda: _enqueue_some(bench))
        drain_async = _drained_per_second(jobs)
        bench.nothing_in_thread.enqueue_many({"number": n} for n in range(_affordable(drain_async)))
        drain_threads = _drained_per_second(jobs)
        names = {PREFIX: place.prefix}
        with working("rowcall.cli.bench.app:jobs", place.url, "--log-level=error", environment=names) as process:
            _await_worker(jobs, process)
            pick_ups = _pick_ups_ms(bench)
    return Figures(
        enqueue_per_second=single,
        enqueue_many_per_second=bulk,
        drain_async_per_second=drain_async,
        drain_threads_per_second=drain_threads,
        pick_up_p50_ms=round(pick_ups[len(pick_ups) // 2], 2),
        pick_up_p99_ms=round(pick_ups[len(pick_ups) * 99 // 100], 2),
        seconds=round(time.monotonic() - started_at, 2),
    )


def _enqueue_one(bench: Bench) -> int:
    bench.nothing.enqueue(0)
    return 1


def _enqueue_some(bench: Bench) -> int:
    return len(bench.nothing.enqueue_many({"number": number} for number in range(BULK)))


def _rate(limit_seconds: float, most: int, act: Callable[[], int]) -> float:
    """How many of them happen in a second."""
    done, seconds, started_at = 0, 0.0, time.perf_counter()
    while seconds < limit_seconds and done < most:
        done += act()
        seconds = time.perf_counter() - started_at
    return round(done / seconds, 1)


def _drained_per_second(jobs: Rowcall) -> float:
    started_at = time.perf_counter()
    summary = jobs.drain()
    return round(summary.succeeded / (time.perf_counter() - started_at), 1)


def _affordable(per_second: float) -> int:
    """What takes about a second where threads are half as fast."""
    return max(100, min(MOST_DRAINED_IN_THREADS, round(per_second / 2)))


def _await_worker(jobs: Rowcall, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not jobs.workers():
        if process.poll() is not None or time.monotonic() > deadline:
            raise StoreUnavailable("the worker process did not start", _advice(jobs))
        time.sleep(0.02)


def _pick_ups_ms(bench: Bench) -> list[float]:
    """From the return of `enqueue` to the first line of the handler, in another process that had nothing to do."""
    enqueued: dict[int, int] = {}
    for _ in range(SAMPLES):
        time.sleep(SAMPLE_PAUSE_SECONDS)
        job = bench.moment.enqueue()
        enqueued[job.id] = time.monotonic_ns()
    began = {job.id: job.result for job in _when_done(bench.jobs)}
    return sorted(max(0.0, (at - enqueued[job_id]) / 1e6) for job_id, at in began.items() if isinstance(at, int))


def _when_done(jobs: Rowcall) -> list[Job]:
    deadline = time.monotonic() + START_SECONDS
    while True:
        done = jobs.list(queue="idle", status=Status.SUCCEEDED, limit=SAMPLES).jobs
        if len(done) == SAMPLES:
            return done
        if time.monotonic() > deadline:
            raise StoreUnavailable(f"only {len(done)} of {SAMPLES} jobs were picked up in time", _advice(jobs))
        time.sleep(0.02)


def _advice(jobs: Rowcall) -> str:
    server = queue_of(jobs).config.server
    return f"Run: {command_for('doctor', None, None if server is None else server.url)}"


def _print(figures: Figures, place: str) -> None:
    out = console()
    shown = table("what", "measured", right=("measured",))
    shown.add_row("enqueue, one by one", f"{figures.enqueue_per_second:,.0f} /s")
    shown.add_row(f"enqueue_many, {BULK:,} at a time", f"{figures.enqueue_many_per_second:,.0f} /s")
    shown.add_row("drain, async handlers that do nothing", f"{figures.drain_async_per_second:,.0f} /s")
    shown.add_row("drain, sync handlers in threads", f"{figures.drain_threads_per_second:,.0f} /s")
    shown.add_row("pick-up by an idle worker process, median", f"{figures.pick_up_p50_ms:.1f} ms")
    shown.add_row("pick-up by an idle worker process, p99", f"{figures.pick_up_p99_ms:.1f} ms")
    out.print(shown)
    out.print(f"\none process, {place}; {figures.seconds:.1f} s", style="dim")
