"""A storm from its first job to the calm after it, and all that was found to be wrong."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.operations.blobs import collect_blobs
from rowcall.testing.deadline import eventually
from tests.crash.storm import checks, flow_checks, leftovers, terms
from tests.crash.storm.faults import Faults, Target
from tests.crash.storm.fleet import Fleet
from tests.crash.storm.journal import install
from tests.crash.storm.nursery import Child
from tests.crash.storm.records import records_in
from tests.observe.plain_sql import PlainDatabase

CALM_SECONDS = 60.0
PROBED = (
    *(
        (task, {}, queue)
        for task in ("plain", "plain_async", "once", "late", "isolated")
        for queue in ("default", "side")
    ),
    ("spot", {"spot": 0}, "hand"),
    ("spot", {"spot": 1}, "default"),
    ("paced", {"lane": 0}, "default"),
    ("paced", {"lane": 1}, "side"),
    ("weighed", {"lane": 0, "size": terms.MOST_UNITS}, "default"),
    ("guarded", {}, "side"),
    ("batch", {"item": 1}, "default"),
    ("effect", {}, "default"),
)


class Outcome(NamedTuple):
    problems: list[str]
    summary: str


class Storm:
    def __init__(self, target: Target, folder: Path, seed: int) -> None:
        self._target = target
        self._seed = seed
        self._fleet = Fleet(folder, seed, target.next_url)

    def run(self, faults_in_all: int) -> Outcome:
        with Rowcall(self._target.url, blob_threshold=terms.BLOB_THRESHOLD) as jobs:
            jobs.migrate()
            with closing(self._target.database()) as database:
                install(database)
            faults = Faults(self._target, self._fleet, self._seed)
            try:
                faults.run(faults_in_all)
                self._fleet.end()
                with closing(self._target.database()) as database:
                    self._calm_down(jobs, database)
            finally:
                self._fleet.close()
            with closing(self._target.database()) as database:
                return self._look(jobs, database, faults)

    def _calm_down(self, jobs: Rowcall, database: PlainDatabase) -> None:
        for paused in jobs.paused():
            jobs.resume(**{paused.kind: paused.name})
        for limit in jobs.limits():
            jobs.reset_limit(limit.name)
        worker = self._fleet.start("work", calm=True)
        self._wait_for_ticks(jobs)
        for ticking in terms.SCHEDULES:
            jobs.pause_schedule(ticking.task)
        self._drain(database, worker)
        jobs.prune()  # it also finishes batches whose last jobs ended where no one could look
        probes = [jobs.enqueue(task, payload, queue=queue, timeout=CALM_SECONDS) for task, payload, queue in PROBED]
        self._drain(database, worker)
        statuses = {jobs.get(job.id).status for job in probes}
        assert statuses == {"succeeded"}, f"probes ended as {statuses}\n{worker.output[-3000:]}"
        eventually(
            lambda: not database.ask("select 1 from rowcall_opening union all select 1 from rowcall_breaker"),
            within=CALM_SECONDS,
            message="no opening of a rate, and no open breaker",
        )
        self._fleet.end()
        jobs.prune()
        collect_blobs(queue_of(jobs), 0)

    def _drain(self, database: PlainDatabase, worker: Child) -> None:
        """However long it takes: it is stuck when no handler has begun or ended for long."""
        done, since = -1, time.monotonic()
        while left := database.ask(leftovers.UNFINISHED):
            if done != self._fleet.notes_written:
                done, since = self._fleet.notes_written, time.monotonic()
            if time.monotonic() - since > CALM_SECONDS:
                said = [*map(str, left[:20]), self._target.activity(), worker.output[-3000:], worker.stacks()]
                raise AssertionError("\n".join([f"seed {self._seed}: {len(left)} jobs are stuck:", *said]))
            threading.Event().wait(0.05)

    def _wait_for_ticks(self, jobs: Rowcall) -> None:
        before = {schedule.name: schedule.last_run_at for schedule in jobs.schedules()}
        assert before.keys() == {ticking.task for ticking in terms.SCHEDULES}
        eventually(
            lambda: all(schedule.last_run_at != before[schedule.name] for schedule in jobs.schedules()),
            within=CALM_SECONDS,
            message=f"a tick of each after {before}",
        )

    def _look(self, jobs: Rowcall, database: PlainDatabase, faults: Faults) -> Outcome:
        records = records_in(database, self._fleet.notes)
        problems = [f"process: {trouble}" for trouble in self._fleet.troubles]
        for check in (*checks.CHECKS, *flow_checks.CHECKS):
            problems += [f"{check.__name__}: {problem}" for problem in check(records)]
        problems += leftovers.rows_left(database)
        problems += leftovers.blobs_left(jobs, database, self._stored(jobs))
        problems += leftovers.wrong_answers(jobs, database)
        problems += leftovers.odd_timelines(jobs, jobs.list(limit=200).jobs)
        summary = (
            f"seed {self._seed}: {len(records.by_job)} jobs, {len(records.claims)} claims,"
            f" {sum(claim.was_lost for claim in records.claims.values())} lost, {len(records.effects)} effects,"
            f" {dict(faults.happened)}, started {dict(self._fleet.started)}"
        )
        return Outcome(problems, summary)

    def _stored(self, jobs: Rowcall) -> set[str]:
        return set(queue_of(jobs).blobs.store.digests(-1))
