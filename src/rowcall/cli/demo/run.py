"""Runs the demo: enqueue, start workers, kill one halfway, wait for the end, count.

While they run, it shows bars on a terminal, or one line per second in a pipe.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from rowcall.app import Rowcall
from rowcall.base.text import duration
from rowcall.cli.demo.demo_tasks import CLOCK, Demo
from rowcall.cli.demo.report import Report, report_of
from rowcall.cli.present.console import console
from rowcall.cli.present.text_tables import Table, bar, text
from rowcall.cli.processes import working
from rowcall.cli.target import url_of
from rowcall.domain.job import FINISHED, Stats
from rowcall.overview.formats import counted

if TYPE_CHECKING:
    from rich.console import Group

PROCESSES, CONCURRENCY = 2, 20
GIVE_UP_SECONDS = 14.0  # without progress
REFRESH_SECONDS = 0.1
LINE_SECONDS = 1.0
_STYLES = {"quick": "green", "slow": "yellow", "flaky": "magenta", "delayed": "cyan"}


def run(path: Path, log_path: Path, *, quiet: bool) -> Report:
    started_at = CLOCK.monotonic()
    url = url_of(path)
    demo = Demo(url)
    with demo.jobs, view(quiet=quiet) as show:
        enqueued = demo.enqueue()
        options = (f"--processes={PROCESSES}", f"--concurrency={CONCURRENCY}", "--grace=2")
        with log_path.open("wb") as log, working("rowcall.cli.demo.demo_tasks:jobs", url, *options, output=log):
            killed_pid = _watch(demo.jobs, enqueued, started_at, show)
        return report_of(demo.jobs, enqueued, killed_pid, round(CLOCK.monotonic() - started_at, 3))


def _watch(jobs: Rowcall, enqueued: Mapping[str, int], started_at: float, show: Show) -> int | None:
    """Kill a worker halfway, and show what happens until every job has finished, or none finishes for long.

    Return the id of the process that was killed.
    """
    killed_pid: int | None = None
    known: set[str] = set()  # the workers at the kill, until another one has started
    events = [f"enqueued {sum(enqueued.values()):,} jobs; starting {PROCESSES} worker processes"]
    last: dict[str, int] = {}
    progress_at = 0.0
    while True:
        stats, workers = jobs.stats(), jobs.workers()
        done = {task: _finished(stats, task) for task in enqueued}
        seconds = CLOCK.monotonic() - started_at
        if killed_pid is None and done["slow"] >= enqueued["slow"] * 0.4 and len(workers) >= PROCESSES:
            known = {worker.name for worker in workers}
            victim = max(workers, key=lambda worker: worker.running + worker.buffered)
            killed_pid = victim.pid
            os.kill(killed_pid, signal.SIGKILL)
            held = f"while it held {victim.running + victim.buffered} jobs"
            events.append(f"{duration(seconds):>6}  killed worker process {killed_pid} (SIGKILL) {held}")
        if known and (new := [worker.pid for worker in workers if worker.name not in known]):
            known = set()
            events.append(f"{duration(seconds):>6}  the supervisor started worker process {new[0]} instead")
        running = stats.by_status["running"]
        show(
            DemoProgress(
                seconds=seconds, enqueued=enqueued, done=done, running=running, workers=len(workers), events=events
            )
        )
        if done != last:
            last, progress_at = done, seconds
        if done == enqueued or seconds - progress_at > GIVE_UP_SECONDS:
            return killed_pid
        CLOCK.sleep(REFRESH_SECONDS)


def _finished(stats: Stats, queue: str) -> int:
    counts = stats.by_queue.get(queue, {})
    return sum(counts.get(status, 0) for status in FINISHED)


class DemoProgress(msgspec.Struct, kw_only=True, frozen=True):
    """What the demo has done so far."""

    seconds: float
    enqueued: Mapping[str, int]
    done: Mapping[str, int]
    running: int
    workers: int
    events: list[str]


Show = Callable[[DemoProgress], None]


@contextlib.contextmanager
def view(*, quiet: bool) -> Iterator[Show]:
    if quiet:
        yield lambda progress: None
    elif sys.stdout.isatty():
        with _live() as show:
            yield show
    else:
        yield _Lines()


class _Lines:
    """Prints one line per second, and one for each event."""

    def __init__(self) -> None:
        self._said = 0
        self._next_at = 0.0

    def __call__(self, progress: DemoProgress) -> None:
        for line in progress.events[self._said :]:
            click.echo(line)
        self._said = len(progress.events)
        if progress.seconds >= self._next_at or sum(progress.done.values()) == sum(progress.enqueued.values()):
            self._next_at = progress.seconds + LINE_SECONDS
            click.echo(_line(progress))


def _line(progress: DemoProgress) -> str:
    done, enqueued = sum(progress.done.values()), sum(progress.enqueued.values())
    return (
        f"{duration(progress.seconds):>6}  {done:6,} of {enqueued:,} done, {progress.running:3} running,"
        f" {counted(progress.workers, 'worker')}"
    )


@contextlib.contextmanager
def _live() -> Iterator[Show]:
    from rich.live import Live

    with Live(console=console(), refresh_per_second=10) as live:
        yield lambda progress: live.update(_picture(progress))


def _picture(progress: DemoProgress) -> Group:
    from rich.console import Group

    bars = Table("task", "done", "of", "", right=("done", "of"))
    for task, enqueued in progress.enqueued.items():
        done = progress.done.get(task, 0)
        bars.add_row(task, done, enqueued, text(f"{bar(done, enqueued, 40):40}", _STYLES.get(task, "")))
    return Group(bars, text(""), text(_line(progress)), *(text(line, "bold") for line in progress.events), text(""))
