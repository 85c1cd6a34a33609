"""`rowcall demo`: thousands of jobs, two worker processes, one of them killed half way, nothing lost."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import click

from rowcall.app import Rowcall
from rowcall.cli.child_workers import interruptible, working
from rowcall.cli.demo import report as demo_report
from rowcall.cli.demo.report import Report
from rowcall.cli.demo.tasks import Demo
from rowcall.cli.demo.view import Progress, Show, view
from rowcall.cli.present.output import print_json
from rowcall.cli.target import json_option, url_of
from rowcall.domain.job import FINISHED, Stats, WorkerInfo

PROCESSES, CONCURRENCY = 2, 20
GIVE_UP_SECONDS = 14.0
LOOK_SECONDS = 0.1


@click.command("demo", short_help="Watch thousands of jobs, a killed worker, and nothing lost.")
@json_option
def demo_command(as_json: bool) -> None:
    """Watch Rowcall work: thousands of jobs, two worker processes, one killed half way, nothing lost.

    Uses a temporary file, takes five to ten seconds, and leaves nothing behind. Exit code 1 if any job was lost.

    With --json: {"kinds": [{"kind", "enqueued", "succeeded", "attempts", "retried", "recovered", "lost"}, …],
    "enqueued", "lost", "killed_pid", "seconds"}.
    """
    with interruptible(), tempfile.TemporaryDirectory(prefix="rowcall-demo-") as folder:
        log_path = Path(folder, "workers.log")
        report = run(Path(folder, "demo.db"), log_path, quiet=as_json)
        log = log_path.read_text(errors="replace")
    if as_json:
        print_json(report.as_json())
    else:
        demo_report.show(report)
    if report.lost:
        click.echo(f"error: {report.lost} jobs did not succeed; the workers said:\n{log}", err=True)
        sys.exit(1)


def run(path: Path, log_path: Path, *, quiet: bool) -> Report:
    started_at = time.monotonic()
    url = url_of(path)
    demo = Demo(url)
    with demo.jobs, view(quiet=quiet) as show:
        enqueued = demo.enqueue()
        options = (f"--processes={PROCESSES}", f"--concurrency={CONCURRENCY}", "--grace=2")
        with log_path.open("wb") as log, working("rowcall.cli.demo.app:jobs", url, *options, output=log):
            killed_pid = _Watch(demo.jobs, enqueued, started_at).until_done(show)
        kinds = demo_report.count(demo.jobs, enqueued)
    return Report(kinds=kinds, killed_pid=killed_pid, seconds=round(time.monotonic() - started_at, 3))


class _Watch:
    def __init__(self, jobs: Rowcall, enqueued: Mapping[str, int], started_at: float) -> None:
        self._jobs = jobs
        self._enqueued = enqueued
        self._started_at = started_at
        self._killed: WorkerInfo | None = None
        self._replaced = False
        self._known: set[str] = set()
        self._news = [f"enqueued {sum(enqueued.values()):,} jobs; starting {PROCESSES} worker processes"]

    def until_done(self, show: Show) -> int | None:
        """Look until every job has finished, or time is up; gives the process that was killed."""
        while True:
            stats, workers = self._jobs.stats(), self._jobs.workers()
            self._kill_half_way(stats, workers)
            self._note_replacement(workers)
            done = {kind: _finished(stats, kind) for kind in self._enqueued}
            seconds = time.monotonic() - self._started_at
            show(
                Progress(
                    seconds=seconds,
                    enqueued=self._enqueued,
                    done=done,
                    running=stats.by_status["running"],
                    workers=len(workers),
                    news=self._news,
                )
            )
            if done == self._enqueued or seconds > GIVE_UP_SECONDS:
                return None if self._killed is None else self._killed.pid
            time.sleep(LOOK_SECONDS)

    def _kill_half_way(self, stats: Stats, workers: list[WorkerInfo]) -> None:
        half_way = _finished(stats, "slow") >= self._enqueued["slow"] * 0.4
        if self._killed is not None or not half_way or len(workers) < PROCESSES:
            return
        victim = max(workers, key=lambda worker: worker.running)
        os.kill(victim.pid, signal.SIGKILL)
        self._killed = victim
        self._known = {worker.name for worker in workers}
        self._say(f"killed worker process {victim.pid} (SIGKILL) while it held {victim.running} jobs, begun or not")

    def _note_replacement(self, workers: list[WorkerInfo]) -> None:
        if self._killed is None or self._replaced:
            return
        new = [worker for worker in workers if worker.name not in self._known]
        if new:
            self._replaced = True
            self._say(f"the supervisor has started worker process {new[0].pid} in its place")

    def _say(self, line: str) -> None:
        self._news.append(f"{time.monotonic() - self._started_at:5.1f} s  {line}")


def _finished(stats: Stats, queue: str) -> int:
    counts = stats.by_queue.get(queue, {})
    return sum(counts.get(status, 0) for status in FINISHED)
