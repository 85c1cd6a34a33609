"""Runs the demo: enqueue, start workers, kill one halfway, wait for the end, count."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

from rowcall.app import Rowcall
from rowcall.cli.child_workers import working
from rowcall.cli.demo.report import Report, count
from rowcall.cli.demo.tasks import CLOCK, Demo
from rowcall.cli.demo.view import Progress, Show, view
from rowcall.cli.target import url_of
from rowcall.domain.job import FINISHED, Stats, WorkerInfo

PROCESSES, CONCURRENCY = 2, 20
GIVE_UP_SECONDS = 14.0
REFRESH_SECONDS = 0.1


def run(path: Path, log_path: Path, *, quiet: bool) -> Report:
    started_at = CLOCK.monotonic()
    url = url_of(path)
    demo = Demo(url)
    with demo.jobs, view(quiet=quiet) as show:
        enqueued = demo.enqueue()
        options = (f"--processes={PROCESSES}", f"--concurrency={CONCURRENCY}", "--grace=2")
        with log_path.open("wb") as log, working("rowcall.cli.demo.app:jobs", url, *options, output=log):
            killed_pid = _Watch(demo.jobs, enqueued, started_at).until_done(show)
        kinds = count(demo.jobs, enqueued)
    return Report(kinds=kinds, killed_pid=killed_pid, seconds=round(CLOCK.monotonic() - started_at, 3))


class _Watch:
    """Kills a worker halfway, and shows what happens until every job has finished."""

    def __init__(self, jobs: Rowcall, enqueued: Mapping[str, int], started_at: float) -> None:
        self._jobs = jobs
        self._enqueued = enqueued
        self._started_at = started_at
        self._killed: WorkerInfo | None = None
        self._replaced = False
        self._known: set[str] = set()
        self._events = [f"enqueued {sum(enqueued.values()):,} jobs; starting {PROCESSES} worker processes"]

    def until_done(self, show: Show) -> int | None:
        """Return the id of the process that was killed, once every job has finished or time is up."""
        while True:
            stats, workers = self._jobs.stats(), self._jobs.workers()
            self._kill_halfway(stats, workers)
            self._note_replacement(workers)
            done = {kind: _finished(stats, kind) for kind in self._enqueued}
            seconds = CLOCK.monotonic() - self._started_at
            show(
                Progress(
                    seconds=seconds,
                    enqueued=self._enqueued,
                    done=done,
                    running=stats.by_status["running"],
                    workers=len(workers),
                    events=self._events,
                )
            )
            if done == self._enqueued or seconds > GIVE_UP_SECONDS:
                return None if self._killed is None else self._killed.pid
            CLOCK.sleep(REFRESH_SECONDS)

    def _kill_halfway(self, stats: Stats, workers: list[WorkerInfo]) -> None:
        halfway = _finished(stats, "slow") >= self._enqueued["slow"] * 0.4
        if self._killed is not None or not halfway or len(workers) < PROCESSES:
            return
        victim = max(workers, key=lambda worker: worker.running)
        os.kill(victim.pid, signal.SIGKILL)
        self._killed = victim
        self._known = {worker.name for worker in workers}
        self._note(f"killed worker process {victim.pid} (SIGKILL) while it held {victim.running} jobs")

    def _note_replacement(self, workers: list[WorkerInfo]) -> None:
        if self._killed is None or self._replaced:
            return
        new = [worker for worker in workers if worker.name not in self._known]
        if new:
            self._replaced = True
            self._note(f"the supervisor started worker process {new[0].pid} instead")

    def _note(self, line: str) -> None:
        self._events.append(f"{CLOCK.monotonic() - self._started_at:5.1f} s  {line}")


def _finished(stats: Stats, queue: str) -> int:
    counts = stats.by_queue.get(queue, {})
    return sum(counts.get(status, 0) for status in FINISHED)
